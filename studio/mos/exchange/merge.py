"""Another studio's campaigns brought into this database: raters, screens, answers, and clips by their content.

A campaign is the same in both when it asks the same of the same sounds from the same seed; then its raters join ours,
else it comes as one of its own. Rows get ids of ours. What makes a second merge add nothing: a campaign's content, a
rater's keyed identity (made by the other studio's key, so it is nobody's here), a screen's random id.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from sqlmodel import Session, SQLModel, col, select

from studio.core.errors import BadFile
from studio.mos.exchange.merge_raters import RaterMerge
from studio.mos.rating.campaigns import find, free_name, running
from studio.mos.store.clips import ClipFolder
from studio.mos.store.tables.campaigns import Campaign
from studio.mos.store.tables.looks import Look
from studio.mos.store.tables.predictions import Prediction
from studio.mos.store.tables.raters import Rater
from studio.mos.store.tables.stimuli import Clip, Item, Stimulus, System

Row = TypeVar("Row", System, Item, Stimulus, Look)


@dataclass
class Merged:
    """What came of one campaign: its name there and here, whether it was here before, and how much is new.

    Attributes:
        traces: of what its raters typed; they have to come too.
        dropped: the same of those who are forgotten here now.
        forgotten: how many removals are new here.
        removals: whoever was forgotten there and had answered here: answers that count, by pseudonym.
        is_accepted: whether these are forgotten here now, too; else they stay as they are.
    """

    name: str
    here: str
    joined: bool
    notes: list[str] = field(default_factory=list[str])
    systems: int = 0
    items: int = 0
    stimuli: int = 0
    raters: int = 0
    trials: int = 0
    answers: int = 0
    forgotten: int = 0
    removals: dict[str, int] = field(default_factory=dict[str, int])
    is_accepted: bool = False
    traces: list[str] = field(default_factory=list[str])
    dropped: list[str] = field(default_factory=list[str])

    def to_dict(self) -> dict[str, Any]:
        """The JSON form, without the traces."""
        return {name: value for name, value in asdict(self).items() if name not in ("traces", "dropped")}


def merge(theirs: Session, ours: Session, only: str | None = None, *, accept_removals: bool = False) -> list[Merged]:
    """Bring the campaigns of another database into this session's transaction; answers what is new of each.

    Args:
        only: the one campaign that is wanted.
        accept_removals: forget here who was forgotten there; nothing else of a merge takes anything away.

    Raises:
        BadOption: there is no such campaign.
        BadFile: the other database contradicts itself.
    """
    found = campaigns_of(theirs, only)
    known = {content_of(ours, c): c for c in ours.exec(select(Campaign).order_by(col(Campaign.id).desc()))}
    return [_merge_one(theirs, ours, campaign, known, accept_removals) for campaign in found]


def campaigns_of(theirs: Session, only: str | None = None) -> list[Campaign]:
    """The campaigns that are wanted. Raises BadOption where there is no such one."""
    return [find(theirs, only)] if only else list(theirs.exec(select(Campaign).order_by(col(Campaign.id))))


def clips_of(theirs: Session, only: str | None = None) -> list[tuple[str, str | None]]:
    """The clip and trace, by content, of every stimulus that would come."""
    wanted = select(Stimulus.clip_sha, Stimulus.trace).distinct()
    if only:
        wanted = wanted.where(Stimulus.campaign_id == find(theirs, only).id)
    return list(theirs.exec(wanted))


def copy_clips(wanted: list[tuple[str, str | None]], source: ClipFolder, folder: ClipFolder) -> int:
    """Bring clips and traces that are not here yet; answers how many clips. Raises BadFile where one is absent."""
    absent = [sha for sha, _ in wanted if not folder.path(sha).is_file() and not source.path(sha).is_file()]
    if absent:
        raise BadFile(
            f"{len(absent)} clips are not in {source.root}, the first is {absent[0][:12]}",
            "name the other studio's data folder with --from-data",
        )
    new = [sha for sha, _ in wanted if not folder.path(sha).is_file()]
    for sha in new:
        folder.add(*source.read(sha))
    copy_traces([trace for _, trace in wanted if trace], source, folder)
    return len(new)


def copy_traces(wanted: list[str], source: ClipFolder, folder: ClipFolder) -> None:
    """Bring the traces that are there and not here yet."""
    for trace in wanted:
        if not folder.trace_path(trace).is_file() and source.trace_path(trace).is_file():
            folder.add_trace(source.trace_path(trace).read_bytes())


def content_of(session: Session, campaign: Campaign) -> str:
    """What makes a campaign that campaign, as a digest: kind, seed, settings, and every sound in its place."""
    systems = _rows(session, System, campaign)
    items = _rows(session, Item, campaign)
    names = {("s", s.id): s.name for s in systems} | {("i", i.id): i.name for i in items}
    whole = {
        "kind": campaign.kind,
        "seed": campaign.seed,
        "config": json.loads(campaign.config),
        "systems": [[s.name, s.role, json.loads(s.voice)] for s in systems],
        "items": [[i.name, i.role, i.text, i.expected] for i in items],
        "stimuli": [
            [names["i", s.item_id], names["s", s.system_id], s.clip_sha] for s in _rows(session, Stimulus, campaign)
        ],
    }
    return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()


def _merge_one(
    theirs: Session, ours: Session, campaign: Campaign, known: dict[str, Campaign], accept_removals: bool
) -> Merged:
    content = content_of(theirs, campaign)
    here = known.get(content)
    if here is None:
        here, told, stimuli = _new(theirs, ours, campaign)
        known[content] = here
    else:
        told = Merged(campaign.name, here.name, joined=True)
        stimuli = _pair(_rows(theirs, Stimulus, campaign), _rows(ours, Stimulus, here))
    _bring_predictions(theirs, ours, campaign)
    raters = RaterMerge(theirs, ours, campaign, here, stimuli)
    if theirs.exec(select(Rater.id).where(Rater.campaign_id == campaign.id).limit(1)).first() is not None:
        raters.units = _units(theirs, ours, campaign, here)
        raters.items = _pair(_rows(theirs, Item, campaign), _rows(ours, Item, here))
    told.forgotten, told.is_accepted = raters.forget(accept_removals), accept_removals
    told.raters, told.trials, told.answers = raters.bring()
    told.notes += raters.notes
    told.traces, told.dropped, told.removals = raters.traces, raters.dropped, raters.removals
    return told


def _new(theirs: Session, ours: Session, campaign: Campaign) -> tuple[Campaign, Merged, dict[int, int]]:
    """A campaign that is not here: its row, systems, items and stimuli, in their order."""
    name = free_name(ours, campaign.name)
    state = "closed" if campaign.state == "open" else campaign.state
    here = Campaign(**_fields(campaign, name=name, state=state))
    ours.add(here)
    ours.flush()
    told = Merged(campaign.name, name, joined=False)
    if name != campaign.name:
        told.notes.append(f"another campaign is called {campaign.name!r}, so this one becomes {name!r}")
    if state != campaign.state:
        told.notes.append("it was open there, and comes closed")
    systems = _brought(ours, _rows(theirs, System, campaign), campaign_id=here.id)
    items = _brought(ours, _rows(theirs, Item, campaign), campaign_id=here.id)
    stimuli: dict[int, int] = {}
    for stimulus in _rows(theirs, Stimulus, campaign):
        _add_clip(theirs, ours, stimulus.clip_sha)
        moved = {"item_id": items[stimulus.item_id], "system_id": systems[stimulus.system_id]}
        stimuli |= _brought(ours, [stimulus], campaign_id=here.id, **moved)
    _brought(ours, _rows(theirs, Look, campaign), campaign_id=here.id)
    told.systems, told.items, told.stimuli = len(systems), len(items), len(stimuli)
    return here, told, stimuli


def _brought(session: Session, theirs: list[Row], **ours: Any) -> dict[int, int]:
    """Rows kept under ids of ours, one after another so that their order stays; answers our id of each."""
    kept: list[Row] = []
    for row in theirs:
        kept.append(type(row)(**_fields(row, **ours)))
        session.add(kept[-1])
        session.flush()
    return _pair(theirs, kept)


def _add_clip(theirs: Session, ours: Session, sha: str) -> None:
    clip = theirs.get(Clip, sha)
    assert clip is not None, "a foreign key holds it"
    if ours.get(Clip, sha) is None:
        ours.add(Clip(**clip.model_dump()))
        ours.flush()


def _bring_predictions(theirs: Session, ours: Session, campaign: Campaign) -> None:
    """What was predicted of the campaign's clips there; what is known here already stays."""
    clips = select(Stimulus.clip_sha).where(Stimulus.campaign_id == campaign.id)
    for one in theirs.exec(select(Prediction).where(col(Prediction.clip_sha).in_(clips))):
        if ours.get(Prediction, (one.clip_sha, one.weights)) is None:
            ours.add(Prediction(**one.model_dump()))


def _units(theirs: Session, ours: Session, campaign: Campaign, here: Campaign) -> Mapping[str, str]:
    """Our key of each of their units: a kind makes the same units of the same stock, in the same order."""
    there, now = running(theirs, campaign), running(ours, here)
    pairs = [
        *zip(there.units, now.units, strict=True),
        *zip(there.training, now.training, strict=True),
        *zip(there.traps, now.traps, strict=True),
        *zip(there.golds, now.golds, strict=True),
    ]
    return {a.key: b.key for a, b in pairs}


def _rows(session: Session, table: type[Row], campaign: Campaign) -> list[Row]:
    return list(session.exec(select(table).where(table.campaign_id == campaign.id).order_by(col(table.id))))


def _pair(theirs: list[Row], ours: list[Row]) -> dict[int, int]:
    """Our id of each of their rows, which stand in the same order."""
    return {a.id: b.id for a, b in zip(theirs, ours, strict=True) if a.id is not None and b.id is not None}


def _fields(row: SQLModel, **ours: Any) -> dict[str, Any]:
    """A row's columns without its id, some of them replaced."""
    return {**row.model_dump(exclude={"id"}), **ours}
