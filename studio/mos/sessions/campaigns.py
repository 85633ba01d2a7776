"""Campaigns: creation, lookup, state changes, and loading for raters."""

import json
import secrets
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from sqlmodel import Session, col, select

from studio.core.errors import BadFile, BadOption, StudioError
from studio.mos.campaign.config import CampaignConfig, campaign_config, check_language, to_json
from studio.mos.campaign.design import AssignmentCounts, Unit, UnitTable
from studio.mos.campaign.manifest import ItemSpec, SystemSpec
from studio.mos.campaign.names import LONGEST, check_name
from studio.mos.campaign.voices import check_voices
from studio.mos.kinds.base import StimulusStock
from studio.mos.kinds.registry import KINDS, Kind, kind_of
from studio.mos.sessions.pairing import BattleTally
from studio.mos.sessions.parts import check_parts
from studio.mos.store.clips import StoredClip
from studio.mos.store.json_columns import write_json
from studio.mos.store.tables import Campaign, Clip, Item, Stimulus, System, row_id


class NotOpen(StudioError):
    """The campaign accepts no raters now."""

    code = "not_open"


@dataclass
class AssignmentCache:
    """Assignment state kept between raters: unit columns, and counts valid for a mark in the database."""

    unit_table: UnitTable
    counts: AssignmentCounts = field(default_factory=AssignmentCounts)
    counts_mark: str | None = None  # the AssignmentMark for which ``counts`` is valid
    tally: BattleTally | None = None  # of an arena; recounted on expiry
    tally_until_s: float = 0.0
    # ids of raters to be replaced, whose answers do not count towards quotas; set by the service
    replaced: Callable[[Session], Collection[int]] = lambda _: ()


@dataclass(frozen=True)
class LoadedCampaign:
    """A campaign's settings and units; constant while the campaign is open. Its variables are named ``run``."""

    id: int
    name: str
    seed: int
    config: CampaignConfig
    kind: Kind
    units: Sequence[Unit]
    cache: AssignmentCache
    training: Sequence[Unit]
    traps: Sequence[Unit]
    golds: Sequence[Unit]
    texts: Mapping[int, str]
    rate_hz: int  # of the systems, before conversion to the common rate


def create_campaign(
    session: Session,
    name: str,
    config: CampaignConfig,
    systems: Sequence[SystemSpec],
    items: Sequence[ItemSpec],
    clips: Mapping[tuple[str, str], StoredClip],
    seed: int | None = None,
    whole: bool = True,
) -> int:
    """Create a draft campaign; returns its id.

    Raises BadOption: the name is taken or invalid, or the settings do not fit the kind; BadFile: required stimuli are
    missing.

    Args:
        clips: by (item, system); normalised and stored in the clip folder.
        whole: require all stimuli that the kind needs; else they may be added until the campaign is opened.
    """
    check_name(name)
    if session.exec(select(Campaign).where(Campaign.name == name)).first():
        raise BadOption(f"a campaign {name!r} exists already", "choose another name")
    if seed is not None and not 0 <= seed < 2**63:
        raise BadOption(f"the seed is {seed}", "it may be 0 to 2**63 - 1")
    kind_of(config.kind).check(config)
    check_language(config)
    campaign = Campaign(
        name=name,
        kind=config.kind,
        seed=secrets.randbelow(2**31) if seed is None else seed,
        config=json.dumps(to_json(config), allow_nan=False),
        created_at=time.time(),
    )
    session.add(campaign)
    session.flush()
    add_stimuli(session, row_id(campaign), systems, items, clips)
    if whole:
        check_gates(load_campaign(session, campaign))
    return row_id(campaign)


def tag_items(session: Session, campaign: Campaign, tags: Mapping[str, tuple[str, ...]]) -> int:
    """Replace the tags of scripts, in any state of the campaign (raters see no tags); returns how many changed.

    Raises BadOption: a script does not exist.
    """
    known = {i.name: i for i in session.exec(select(Item).where(Item.campaign_id == campaign.id))}
    if unknown := sorted(set(tags) - set(known)):
        raise BadOption(f"there is no script {unknown[0]!r}", f"there are {', '.join(sorted(known)[:20])}")
    changed = [known[name] for name, mine in tags.items() if known[name].tags != ";".join(mine)]
    for row in changed:
        row.tags = ";".join(tags[row.name])
        session.add(row)
    return len(changed)


def add_stimuli(
    session: Session,
    campaign_id: int,
    systems: Sequence[SystemSpec],
    items: Sequence[ItemSpec],
    clips: Mapping[tuple[str, str], StoredClip],
) -> None:
    """Add systems, scripts and clips, by (item, system), to a draft; existing names are reused."""
    system_ids = {s.name: s.id for s in session.exec(select(System).where(System.campaign_id == campaign_id))}
    known = {i.name: i for i in session.exec(select(Item).where(Item.campaign_id == campaign_id))}
    for new in systems:
        check_name(new.name)
        if new.name not in system_ids:
            row = System(campaign_id=campaign_id, name=new.name, role=new.role, voice=write_json(new.voice or {}))
            session.add(row)
            session.flush()
            system_ids[new.name] = row.id
    for new in items:
        check_name(new.name)
        row = known.setdefault(new.name, Item(campaign_id=campaign_id, name=new.name, role=new.role))
        row.text, row.expected = row.text or new.text, row.expected or new.expected
        row.tags = row.tags or ";".join(new.tags)
        session.add(row)
        session.flush()
    for (item, system), clip in clips.items():
        if session.get(Clip, clip.sha) is None:
            session.add(Clip(sha=clip.sha, rate_hz=clip.rate_hz, samples=clip.samples, derived_from=clip.source_sha))
            session.flush()
        session.add(
            Stimulus(
                campaign_id=campaign_id,
                item_id=known[item].id,  # type: ignore[arg-type]
                system_id=system_ids[system],  # type: ignore[arg-type]
                clip_sha=clip.sha,
                source_rate_hz=clip.source_rate_hz,
                gain_db=clip.gain_db,
                lufs_before=clip.lufs_before,
                lufs_after=clip.lufs_after,
                peak_dbfs=clip.peak_dbfs,
                trace=clip.trace,
            )
        )


def open_arenas(session: Session) -> Sequence[Campaign]:
    """The open arenas, newest first."""
    standing = [name for name, kind in KINDS.items() if kind.is_standing]
    arenas = select(Campaign).where(Campaign.state == "open", col(Campaign.kind).in_(standing))
    return session.exec(arenas.order_by(col(Campaign.created_at).desc(), col(Campaign.id).desc())).all()


def find_campaign(session: Session, name: str) -> Campaign:
    """A campaign by name, for its owner. Raises BadOption listing all campaigns."""
    check_name(name)
    campaign = session.exec(select(Campaign).where(Campaign.name == name)).first()
    if campaign is None:
        names = [c.name for c in session.exec(select(Campaign).order_by(col(Campaign.created_at)))]
        raise BadOption(f"no campaign is called {name!r}", f"there are: {', '.join(names) or 'none yet'}")
    return campaign


def free_name(session: Session, name: str) -> str:
    """The name, with a number appended if it is taken."""
    names = set(session.exec(select(Campaign.name)))
    free, number = name, 2
    while free in names:
        mark = f" ({number})"
        free, number = name[: LONGEST - len(mark)] + mark, number + 1
    return free


def set_state(session: Session, name: str, state: str) -> Campaign:
    """Open or close a campaign. A closed one may be reopened.

    Raises BadOption: the campaign or state does not exist, or a draft cannot be opened; BadFile: a draft lacks sounds.
    """
    if state not in ("open", "closed"):
        raise BadOption(f"a campaign cannot be made {state!r}", "it may be open or closed")
    campaign = find_campaign(session, name)
    if state == "open":
        load_campaign(session, campaign)
        if campaign.state == "draft" and (lacking := opening_problems(session, campaign)):
            raise lacking[0]
        check_parts(session, campaign, campaign_config(campaign))  # the next part may have changed
    campaign.state = state
    session.add(campaign)
    return campaign


def opening_problems(session: Session, campaign: Campaign) -> list[StudioError]:
    """All errors that prevent opening a draft, in the order to fix them."""
    problems: list[StudioError] = []

    def note(check: Callable[[], object]) -> None:
        try:
            check()
        except (BadFile, BadOption) as error:
            problems.append(error)

    config = campaign_config(campaign)
    note(lambda: kind_of(config.kind).check(config))
    note(lambda: check_language(config))
    note(lambda: _check_complete(session, campaign))
    note(lambda: check_gates(load_campaign(session, campaign)))
    note(lambda: check_parts(session, campaign, config))
    return problems


def _check_complete(session: Session, campaign: Campaign) -> None:
    """Raises BadFile if a system or script has no sound."""
    for table, column, what in ((System, Stimulus.system_id, "system"), (Item, Stimulus.item_id, "script")):
        with_sound = select(column).where(Stimulus.campaign_id == campaign.id)
        silent = session.exec(
            select(table.name)
            .where(table.campaign_id == campaign.id, ~col(table.id).in_(with_sound))
            .order_by(col(table.id))
        ).all()
        if silent:
            names = ", ".join(silent[:5]) + (f" and {len(silent) - 5} more" if len(silent) > 5 else "")
            raise BadFile(
                f"{len(silent)} {what}{'' if len(silent) == 1 else 's'} without a sound: {names}",
                "have the texts spoken, add sounds, or take out what is not to be heard",
            )


def check_gates(run: LoadedCampaign) -> None:
    """Raises BadFile if a session needs more practice clips, traps or golds than the campaign has."""
    gates = run.config.gates
    for folder, setting, required, available in (
        ("training", "training", gates.training, len(run.training)),
        ("trap", "traps", gates.traps, len(run.traps)),
        ("gold", "golds", gates.golds, len(run.golds)),
    ):
        if required > available:
            raise BadFile(
                f"every session is to have {required} {folder} trials, the campaign has {available}",
                f"add sounds to {folder}/, or set gates.{setting} to {available}",
            )


def load_campaign(session: Session, campaign: Campaign) -> LoadedCampaign:
    """Load a campaign's settings and units. Raises BadFile or BadOption if its kind cannot run on them."""
    config = campaign_config(campaign)
    kind = kind_of(config.kind)
    items = session.exec(select(Item).where(Item.campaign_id == campaign.id).order_by(col(Item.id))).all()
    systems = session.exec(select(System).where(System.campaign_id == campaign.id).order_by(col(System.id))).all()
    rows = session.exec(select(Stimulus).where(Stimulus.campaign_id == campaign.id)).all()
    if kind.is_live:
        check_voices(systems, (s.source_rate_hz for s in rows))
    stimuli: dict[tuple[int, int], int] = {(s.item_id, s.system_id): row_id(s) for s in rows}

    def stock(
        mine: list[int], among: Sequence[System], rated_roles: tuple[str, ...], is_unscored: bool = False
    ) -> StimulusStock:
        anchors = [row_id(s) for s in among if s.role == "anchor" and s.role not in rated_roles]
        return StimulusStock(
            items=mine,
            systems=[row_id(s) for s in among if s.role in rated_roles],
            references=[row_id(s) for s in among if s.role == "reference"],
            baseline=next((row_id(s) for s in among if s.name == config.baseline), None),
            stimuli=stimuli,
            # without anchors that have no sound of these scripts (such as systems of training clips)
            anchors=[a for a in anchors if any((item, a) in stimuli for item in mine)],
            names={row_id(i): i.name for i in items},
            system_names={row_id(s): s.name for s in systems},
            is_unscored=is_unscored,
        )

    def unscored_units(role: str) -> list[Unit]:
        """Units of training, traps or golds: one stock per script, since systems may lack a script."""
        units: list[Unit] = []
        for item in (row_id(i) for i in items if i.role == role):
            among = [s for s in systems if (item, row_id(s)) in stimuli]
            units += kind.assign(stock([item], among, ("test", "anchor"), is_unscored=True), config)
        return units

    tests = kind.assign(stock([row_id(i) for i in items if i.role == "test"], systems, ("test",)), config)
    if not tests:
        raise BadFile("the campaign has nothing to rate", "add at least one script with its sounds")
    return LoadedCampaign(
        id=row_id(campaign),
        name=campaign.name,
        seed=campaign.seed,
        config=config,
        kind=kind,
        units=tests,
        cache=AssignmentCache(UnitTable(tests)),
        training=unscored_units("training"),
        traps=unscored_units("trap"),
        golds=unscored_units("gold"),
        texts={row_id(i): i.text for i in items},
        rate_hz=max(s.source_rate_hz for s in rows),
    )
