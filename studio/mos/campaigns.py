"""Campaigns: made, found, opened, closed; and what an open one has to show."""

import json
import re
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlmodel import Session, col, select

from studio.core.errors import BadFile, BadOption, StudioError
from studio.mos.config import CampaignConfig, from_json, to_json
from studio.mos.design import Unit
from studio.mos.kinds.base import Kind, Stock
from studio.mos.kinds.registry import kind_of
from studio.mos.tables import NAME_PATTERN, Campaign, Clip, Item, Stimulus, System

_NAME = re.compile(NAME_PATTERN)


class NotOpen(StudioError):
    """The campaign takes no raters now."""

    code = "not_open"


@dataclass(frozen=True)
class NewSystem:
    """A system of a campaign to be made."""

    name: str
    role: str = "test"
    voice: Mapping[str, object] | None = None


@dataclass(frozen=True)
class NewItem:
    """A script of a campaign to be made."""

    name: str
    text: str = ""
    role: str = "test"
    expected: str | None = None


@dataclass(frozen=True)
class NewStimulus:
    """A clip of a campaign to be made: already normalised and in the clip folder."""

    item: str
    system: str
    sha: str
    rate_hz: int
    samples: int
    source_sha: str
    source_rate_hz: int
    gain_db: float
    lufs_before: float
    lufs_after: float
    peak_dbfs: float
    trace: str | None = None


@dataclass(frozen=True)
class Running:
    """An open campaign as the rater's side needs it; it does not change while the campaign is open."""

    id: int
    name: str
    seed: int
    config: CampaignConfig
    kind: Kind
    units: Sequence[Unit]
    training: Sequence[Unit]
    traps: Sequence[Unit]
    golds: Sequence[Unit]
    texts: Mapping[int, str]


def create(
    session: Session,
    name: str,
    config: CampaignConfig,
    systems: Sequence[NewSystem],
    items: Sequence[NewItem],
    stimuli: Sequence[NewStimulus],
    seed: int | None = None,
) -> int:
    """Make a draft campaign; answers its id.

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
    campaign = Campaign(
        name=name,
        kind=config.kind,
        seed=secrets.randbelow(2**31) if seed is None else seed,
        config=json.dumps(to_json(config)),
        created_at=time.time(),
    )
    session.add(campaign)
    session.flush()
    assert campaign.id is not None
    add_stimuli(session, campaign.id, systems, items, stimuli)
    running(session, campaign)  # what the kind needs must be there
    return campaign.id


def add_stimuli(
    session: Session,
    campaign_id: int,
    systems: Sequence[NewSystem],
    items: Sequence[NewItem],
    stimuli: Sequence[NewStimulus],
) -> None:
    """Add systems, scripts and clips to a draft; those of the same name are the same."""
    system_ids = {s.name: s.id for s in session.exec(select(System).where(System.campaign_id == campaign_id))}
    item_ids = {i.name: i.id for i in session.exec(select(Item).where(Item.campaign_id == campaign_id))}
    for new in systems:
        check_name(new.name)
        if new.name not in system_ids:
            row = System(campaign_id=campaign_id, name=new.name, role=new.role, voice=json.dumps(dict(new.voice or {})))
            session.add(row)
            session.flush()
            system_ids[new.name] = row.id
    for new in items:
        check_name(new.name)
        if new.name not in item_ids:
            row = Item(campaign_id=campaign_id, name=new.name, text=new.text, role=new.role, expected=new.expected)
            session.add(row)
            session.flush()
            item_ids[new.name] = row.id
    for new in stimuli:
        if session.get(Clip, new.sha) is None:
            session.add(Clip(sha=new.sha, rate_hz=new.rate_hz, samples=new.samples, derived_from=new.source_sha))
            session.flush()
        session.add(
            Stimulus(
                campaign_id=campaign_id,
                item_id=item_ids[new.item],  # type: ignore[arg-type]
                system_id=system_ids[new.system],  # type: ignore[arg-type]
                clip_sha=new.sha,
                source_rate_hz=new.source_rate_hz,
                gain_db=new.gain_db,
                lufs_before=new.lufs_before,
                lufs_after=new.lufs_after,
                peak_dbfs=new.peak_dbfs,
                trace=new.trace,
            )
        )


def check_name(name: str) -> None:
    """Raises BadOption for a name that a spreadsheet or a page could take for something else."""
    if not _NAME.fullmatch(name) or len(name) > 80:
        raise BadOption(
            f"the name {name[:80]!r} is not allowed",
            "begin with a letter or digit; then letters, digits, spaces and ._,=+?()- ; 80 characters at most",
        )


def find(session: Session, name: str) -> Campaign:
    """A campaign by its name, for its owner. Raises BadOption naming those there are."""
    check_name(name)
    campaign = session.exec(select(Campaign).where(Campaign.name == name)).first()
    if campaign is None:
        names = [c.name for c in session.exec(select(Campaign).order_by(col(Campaign.created_at)))]
        raise BadOption(f"no campaign is called {name!r}", f"there are: {', '.join(names) or 'none yet'}")
    return campaign


def set_state(session: Session, name: str, state: str) -> Campaign:
    """Open or close a campaign. A closed one may be opened again. Raises BadOption."""
    if state not in ("open", "closed"):
        raise BadOption(f"a campaign cannot be made {state!r}", "it may be open or closed")
    campaign = find(session, name)
    campaign.state = state
    session.add(campaign)
    return campaign


def running(session: Session, campaign: Campaign) -> Running:
    """What a campaign has to show. Raises BadFile or BadOption when the kind cannot run on it."""
    assert campaign.id is not None
    config = from_json(json.loads(campaign.config))
    kind = kind_of(config.kind)
    items = session.exec(select(Item).where(Item.campaign_id == campaign.id).order_by(col(Item.id))).all()
    systems = session.exec(select(System).where(System.campaign_id == campaign.id).order_by(col(System.id))).all()
    rows = session.exec(select(Stimulus).where(Stimulus.campaign_id == campaign.id)).all()
    stimuli: dict[tuple[int, int], int] = {(s.item_id, s.system_id): _id(s) for s in rows}

    def stock(mine: list[int], among: Sequence[System], judged: tuple[str, ...]) -> Stock:
        return Stock(
            items=mine,
            systems=[_id(s) for s in among if s.role in judged],
            references=[_id(s) for s in among if s.role == "reference"],
            baseline=next((_id(s) for s in among if s.name == config.baseline), None),
            stimuli=stimuli,
        )

    def aside(role: str) -> list[Unit]:
        """Screens that enter no mean: each script is a stock of its own, for not every system need say it."""
        found: list[Unit] = []
        for item in (_id(i) for i in items if i.role == role):
            among = [s for s in systems if (item, _id(s)) in stimuli]
            found += kind.assign(stock([item], among, ("test", "anchor")), config)
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
        training=aside("training"),
        traps=aside("trap"),
        golds=aside("gold"),
        texts={_id(i): i.text for i in items},
    )


def _id(row: Item | System | Stimulus) -> int:
    assert row.id is not None, "rows from the database have ids"
    return row.id
