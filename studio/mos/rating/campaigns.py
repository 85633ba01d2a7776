"""Campaigns: made, found, opened, closed; and what an open one has to show."""

import json
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sqlmodel import Session, col, select

from studio.core.errors import BadFile, BadOption, StudioError
from studio.mos.campaign.config import CampaignConfig, from_json, to_json
from studio.mos.campaign.design import Deck, Load, Unit
from studio.mos.campaign.draft import ItemSpec, SystemSpec
from studio.mos.campaign.names import LONGEST, check_name
from studio.mos.campaign.speaking_systems import check_voices
from studio.mos.campaign.templates import check_language
from studio.mos.kinds.base import Kind, Stock
from studio.mos.kinds.registry import kind_of
from studio.mos.rating.pairing import Tally
from studio.mos.rating.parts import check_parts
from studio.mos.store.clips import StoredClip
from studio.mos.store.json_columns import write_json
from studio.mos.store.tables.campaigns import Campaign
from studio.mos.store.tables.stimuli import Clip, Item, Stimulus, System


class NotOpen(StudioError):
    """The campaign takes no raters now."""

    code = "not_open"


@dataclass
class Desk:
    """What dealing keeps between two raters: the units as columns, and what was given as of a mark in the database."""

    deck: Deck
    load: Load = field(default_factory=Load)
    mark: str | None = None
    tally: Tally | None = None  # of an arena; counted anew when its time is up
    tally_until_s: float = 0.0


@dataclass(frozen=True)
class Running:
    """An open campaign as the rater's side needs it; it does not change while the campaign is open."""

    id: int
    name: str
    seed: int
    config: CampaignConfig
    kind: Kind
    units: Sequence[Unit]
    desk: Desk
    training: Sequence[Unit]
    traps: Sequence[Unit]
    golds: Sequence[Unit]
    texts: Mapping[int, str]
    rate_hz: int  # of what the systems say, before it was brought to one rate


def create(
    session: Session,
    name: str,
    config: CampaignConfig,
    systems: Sequence[SystemSpec],
    items: Sequence[ItemSpec],
    clips: Mapping[tuple[str, str], StoredClip],
    seed: int | None = None,
    whole: bool = True,
) -> int:
    """Make a draft campaign; answers its id.

    Args:
        clips: by (item, system); already normalised and in the clip folder.
        whole: what the kind needs must be there; else it may come until the campaign is opened.

    Raises:
        BadOption: the name is taken or has characters that are not allowed, or the settings do not fit the kind.
        BadFile: something that the kind needs is missing.
    """
    check_name(name)
    if session.exec(select(Campaign).where(Campaign.name == name)).first():
        raise BadOption(f"a campaign {name!r} is there already", "choose another name")
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
    assert campaign.id is not None
    add_stimuli(session, campaign.id, systems, items, clips)
    if whole:
        check_gates(running(session, campaign))
    return campaign.id


def tag_items(session: Session, campaign: Campaign, tags: Mapping[str, tuple[str, ...]]) -> int:
    """Say anew which tags scripts have, in whatever state the campaign is: raters see none; answers how many changed.

    Raises:
        BadOption: there is no such script.
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
    """Add systems, scripts and clips, by (item, system), to a draft; those of the same name are the same."""
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


def find(session: Session, name: str) -> Campaign:
    """A campaign by its name, for its owner. Raises BadOption naming those there are."""
    check_name(name)
    campaign = session.exec(select(Campaign).where(Campaign.name == name)).first()
    if campaign is None:
        names = [c.name for c in session.exec(select(Campaign).order_by(col(Campaign.created_at)))]
        raise BadOption(f"no campaign is called {name!r}", f"there are: {', '.join(names) or 'none yet'}")
    return campaign


def free_name(session: Session, name: str) -> str:
    """The name, with a number behind it where another campaign has it."""
    taken = set(session.exec(select(Campaign.name)))
    free, number = name, 2
    while free in taken:
        mark = f" ({number})"
        free, number = name[: LONGEST - len(mark)] + mark, number + 1
    return free


def set_state(session: Session, name: str, state: str) -> Campaign:
    """Open or close a campaign. A closed one may be opened again.

    Raises:
        BadOption: there is no such campaign or state, or a draft is not what its kind can run on.
        BadFile: the same, of a draft that lacks sounds.
    """
    if state not in ("open", "closed"):
        raise BadOption(f"a campaign cannot be made {state!r}", "it may be open or closed")
    campaign = find(session, name)
    if state == "open":
        running(session, campaign)
        if campaign.state == "draft" and (lacking := problems(session, campaign)):
            raise lacking[0]
        check_parts(session, campaign, from_json(json.loads(campaign.config)))  # what comes then may be another now
    campaign.state = state
    session.add(campaign)
    return campaign


def problems(session: Session, campaign: Campaign) -> list[StudioError]:
    """All that keeps a draft from being opened, in the order in which one would see to it; empty when it can be."""
    found: list[StudioError] = []

    def note(check: Callable[[], object]) -> None:
        try:
            check()
        except (BadFile, BadOption) as error:
            found.append(error)

    config = from_json(json.loads(campaign.config))
    note(lambda: kind_of(config.kind).check(config))
    note(lambda: check_language(config))
    note(lambda: _check_heard(session, campaign))
    note(lambda: check_gates(running(session, campaign)))
    note(lambda: check_parts(session, campaign, config))
    return found


def _check_heard(session: Session, campaign: Campaign) -> None:
    """Raises BadFile where a system or a script has no sound at all: it was planned, and nobody has spoken it yet."""
    for table, column, what in ((System, Stimulus.system_id, "system"), (Item, Stimulus.item_id, "script")):
        heard = select(column).where(Stimulus.campaign_id == campaign.id)
        silent = session.exec(
            select(table.name)
            .where(table.campaign_id == campaign.id, ~col(table.id).in_(heard))
            .order_by(col(table.id))
        ).all()
        if silent:
            shown = ", ".join(silent[:5]) + (f" and {len(silent) - 5} more" if len(silent) > 5 else "")
            raise BadFile(
                f"{len(silent)} {what}{'' if len(silent) == 1 else 's'} without a sound: {shown}",
                "have the texts spoken, add sounds, or take out what is not to be heard",
            )


def check_gates(run: Running) -> None:
    """Raises BadFile where a sitting is to have more practice clips, traps or golds than the campaign has."""
    gates = run.config.gates
    for folder, setting, asked, there in (
        ("training", "training", gates.training, len(run.training)),
        ("trap", "traps", gates.traps, len(run.traps)),
        ("gold", "golds", gates.golds, len(run.golds)),
    ):
        if asked > there:
            raise BadFile(
                f"every sitting is to have {asked} {folder} screens, the campaign has {there}",
                f"add sounds to {folder}/, or set gates.{setting} to {there}",
            )


def running(session: Session, campaign: Campaign) -> Running:
    """What a campaign has to show. Raises BadFile or BadOption when the kind cannot run on it."""
    assert campaign.id is not None
    config = from_json(json.loads(campaign.config))
    kind = kind_of(config.kind)
    items = session.exec(select(Item).where(Item.campaign_id == campaign.id).order_by(col(Item.id))).all()
    systems = session.exec(select(System).where(System.campaign_id == campaign.id).order_by(col(System.id))).all()
    rows = session.exec(select(Stimulus).where(Stimulus.campaign_id == campaign.id)).all()
    if kind.spoken:
        check_voices(systems, (s.source_rate_hz for s in rows))
    stimuli: dict[tuple[int, int], int] = {(s.item_id, s.system_id): _id(s) for s in rows}

    def stock(mine: list[int], among: Sequence[System], judged: tuple[str, ...], aside: bool = False) -> Stock:
        anchors = [_id(s) for s in among if s.role == "anchor" and s.role not in judged]
        return Stock(
            items=mine,
            systems=[_id(s) for s in among if s.role in judged],
            references=[_id(s) for s in among if s.role == "reference"],
            baseline=next((_id(s) for s in among if s.name == config.baseline), None),
            stimuli=stimuli,
            # one that says nothing of these (the system of training clips) is no anchor of theirs
            anchors=[a for a in anchors if any((item, a) in stimuli for item in mine)],
            names={_id(i): i.name for i in items},
            system_names={_id(s): s.name for s in systems},
            aside=aside,
        )

    def aside(role: str) -> list[Unit]:
        """Screens that enter no mean: each script is a stock of its own, for not every system need say it."""
        found: list[Unit] = []
        for item in (_id(i) for i in items if i.role == role):
            among = [s for s in systems if (item, _id(s)) in stimuli]
            found += kind.assign(stock([item], among, ("test", "anchor"), aside=True), config)
        return found

    tests = kind.assign(stock([_id(i) for i in items if i.role == "test"], systems, ("test",)), config)
    if not tests:
        raise BadFile("the campaign has nothing to rate", "add at least one script with its sounds")
    return Running(
        id=campaign.id,
        name=campaign.name,
        seed=campaign.seed,
        config=config,
        kind=kind,
        units=tests,
        desk=Desk(Deck(tests)),
        training=aside("training"),
        traps=aside("trap"),
        golds=aside("gold"),
        texts={_id(i): i.text for i in items},
        rate_hz=max(s.source_rate_hz for s in rows),
    )


def _id(row: Item | System | Stimulus) -> int:
    assert row.id is not None, "rows from the database have ids"
    return row.id
