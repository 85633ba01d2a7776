"""Merge of another studio's campaigns into this database: raters, trials, answers, and clips by content.

Campaigns with the same settings, sounds and seed are joined, others are added. Rows get new ids. Merging is idempotent:
it matches campaigns by content, raters by keyed identity (made with the other studio's key, so it cannot match
another rater), and trials by random id.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from sqlmodel import Session, col, select

from studio.core.errors import BadFile
from studio.mos.import_export.foreign_database import open_other_database
from studio.mos.import_export.foreign_rows import check_campaigns
from studio.mos.import_export.merge_raters import RaterMerge, moved_row
from studio.mos.service import ListeningTests
from studio.mos.sessions.campaigns import find_campaign, free_name, load_campaign
from studio.mos.store.clips import ClipFolder
from studio.mos.store.tables import Campaign, Clip, Item, Look, Prediction, Rater, Stimulus, System, row_id

Row = TypeVar("Row", System, Item, Stimulus, Look)


@dataclass
class MergeReport:
    """Result of merging a campaign: names there and here, whether it was joined, and numbers of new rows."""

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
    forgotten: int = 0  # number of new removals
    # counted answers, by pseudonym, of raters erased there who have answers here
    removals: dict[str, int] = field(default_factory=dict[str, int])
    is_accepted: bool = False  # whether these raters were erased here, too
    traces: list[str] = field(default_factory=list[str])  # traces of new takes, which must be copied
    dropped: list[str] = field(default_factory=list[str])  # traces of raters that were erased here

    def to_dict(self) -> dict[str, Any]:
        """The JSON form, without the traces."""
        return {name: value for name, value in asdict(self).items() if name not in ("traces", "dropped")}


def merge_from(
    listening: ListeningTests,
    other: str,
    clips: Path | None = None,
    *,
    only: str | None = None,
    dry: bool = False,
    accept_removals: bool = False,
) -> list[MergeReport]:
    """Merge another database's campaigns in one transaction; idempotent.

    Args:
        other: a SQLite file or a database URL.
        clips: the other studio's clip folder; by default next to its file.
        only: name of a single campaign to merge.
        dry: change nothing, only return the report.
        accept_removals: erase here the raters who were erased there.

    Raises:
        BadFile: the database or a clip cannot be read, or the databases are inconsistent; nothing was changed.
        BadOption: the URL is invalid, or the campaign does not exist.
    """
    with open_other_database(other) as (store, their_clips), store.read() as theirs:
        folder = ClipFolder(clips or their_clips or listening.clips.root)
        check_campaigns(theirs, campaigns_of(theirs, only))

        def work(ours: Session) -> list[MergeReport]:
            reports = merge_campaigns(theirs, ours, only, accept_removals=accept_removals)
            if dry:
                raise _DryRun(reports)
            copy_traces([trace for one in reports for trace in one.traces], folder, listening.clips)
            return reports

        if not dry:
            copy_clips(clips_of(theirs, only), folder, listening.clips)
        try:
            merged = listening.store.write(work).result()
        except _DryRun as dry_run:
            return dry_run.reports
        for trace in (trace for one in merged for trace in one.dropped):
            listening.clips.drop_trace(trace)
        if accept_removals and any(one.removals for one in merged):
            listening.store.truncate_log()
        return merged


class _DryRun(Exception):
    """Raised at the end of a dry run, so that the store rolls back."""

    def __init__(self, reports: list[MergeReport]) -> None:
        super().__init__()
        self.reports = reports


def merge_campaigns(
    theirs: Session, ours: Session, only: str | None = None, *, accept_removals: bool = False
) -> list[MergeReport]:
    """Merge the campaigns of another database in this session's transaction.

    Raises BadOption: the campaign does not exist; BadFile: the other database is inconsistent.

    Args:
        only: name of a single campaign to merge.
        accept_removals: erase here the raters who were erased there; a merge deletes nothing else.
    """
    known = {content_digest(ours, c): row_id(c) for c in ours.exec(select(Campaign).order_by(col(Campaign.id).desc()))}
    return [_merge_one(theirs, ours, campaign, known, accept_removals) for campaign in campaigns_of(theirs, only)]


def campaigns_of(theirs: Session, only: str | None = None) -> Iterator[Campaign]:
    """All campaigns, read one at a time, or the one named ``only``. Raises BadOption."""
    if only:
        yield find_campaign(theirs, only)
        return
    for number in theirs.exec(select(Campaign.id).order_by(col(Campaign.id))).all():
        yield theirs.get_one(Campaign, number)


def clips_of(theirs: Session, only: str | None = None) -> list[tuple[str, str | None]]:
    """The clip and trace of every stimulus to merge."""
    wanted = select(Stimulus.clip_sha, Stimulus.trace).distinct()
    if only:
        wanted = wanted.where(Stimulus.campaign_id == find_campaign(theirs, only).id)
    return list(theirs.exec(wanted))


def copy_clips(wanted: list[tuple[str, str | None]], source: ClipFolder, folder: ClipFolder) -> int:
    """Copy missing clips and traces; returns the number of clips. Raises BadFile if one is absent."""
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
    """Copy missing traces that exist in the source."""
    for trace in wanted:
        folder.copy_trace(trace, source)


def content_digest(session: Session, campaign: Campaign) -> str:
    """Digest that identifies a campaign: kind, seed, settings and all stimuli."""
    systems = _rows(session, System, campaign)
    items = _rows(session, Item, campaign)
    names = {("s", s.id): s.name for s in systems} | {("i", i.id): i.name for i in items}
    whole = {
        "kind": campaign.kind,
        "seed": campaign.seed,
        "config": _parsed(campaign.config),
        "systems": [[s.name, s.role, _parsed(s.voice)] for s in systems],
        "items": [[i.name, i.role, i.text, i.expected] for i in items],
        "stimuli": [
            [names["i", s.item_id], names["s", s.system_id], s.clip_sha] for s in _rows(session, Stimulus, campaign)
        ],
    }
    return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()


def _parsed(text: str) -> Any:
    """JSON as a value; a damaged column of our own database is compared as text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _merge_one(
    theirs: Session, ours: Session, campaign: Campaign, known: dict[str, int], accept_removals: bool
) -> MergeReport:
    content = content_digest(theirs, campaign)
    if content not in known:
        here, report, stimuli = _add_campaign(theirs, ours, campaign)
        known[content] = row_id(here)
    else:
        here = ours.get_one(Campaign, known[content])
        report = MergeReport(campaign.name, here.name, joined=True)
        stimuli = _pair(_rows(theirs, Stimulus, campaign), _rows(ours, Stimulus, here))
    _copy_predictions(theirs, ours, campaign)
    raters = RaterMerge(theirs, ours, campaign, here, stimuli)
    if theirs.exec(select(Rater.id).where(Rater.campaign_id == campaign.id).limit(1)).first() is not None:
        raters.units = _units(theirs, ours, campaign, here)
        raters.items = _pair(_rows(theirs, Item, campaign), _rows(ours, Item, here))
    report.forgotten, report.is_accepted = raters.apply_removals(accept_removals), accept_removals
    report.raters, report.trials, report.answers = raters.merge()
    report.notes += raters.notes
    report.traces, report.dropped, report.removals = raters.traces, raters.dropped, raters.removals
    return report


def _add_campaign(theirs: Session, ours: Session, campaign: Campaign) -> tuple[Campaign, MergeReport, dict[int, int]]:
    """Add a campaign with its systems, items and stimuli."""
    name = free_name(ours, campaign.name)
    state = "closed" if campaign.state == "open" else campaign.state
    here = Campaign(**moved_row(campaign, name=name, state=state))
    ours.add(here)
    ours.flush()
    report = MergeReport(campaign.name, name, joined=False)
    if name != campaign.name:
        report.notes.append(f"the name {campaign.name!r} is taken, so this campaign becomes {name!r}")
    if state != campaign.state:
        report.notes.append("it was open there and is closed here")
    systems = _copy_rows(ours, _rows(theirs, System, campaign), campaign_id=here.id)
    items = _copy_rows(ours, _rows(theirs, Item, campaign), campaign_id=here.id)
    stimuli: dict[int, int] = {}
    for stimulus in _rows(theirs, Stimulus, campaign):
        _add_clip(theirs, ours, stimulus.clip_sha)
        moved = {"item_id": items[stimulus.item_id], "system_id": systems[stimulus.system_id]}
        stimuli |= _copy_rows(ours, [stimulus], campaign_id=here.id, **moved)
    _copy_rows(ours, _rows(theirs, Look, campaign), campaign_id=here.id)
    report.systems, report.items, report.stimuli = len(systems), len(items), len(stimuli)
    return here, report, stimuli


def _copy_rows(session: Session, theirs: list[Row], **ours: Any) -> dict[int, int]:
    """Add copies of rows in their order; returns the new id of each."""
    copies: list[Row] = []
    for row in theirs:
        copies.append(type(row)(**moved_row(row, **ours)))
        session.add(copies[-1])
        session.flush()
    return _pair(theirs, copies)


def _add_clip(theirs: Session, ours: Session, sha: str) -> None:
    clip = theirs.get(Clip, sha)
    assert clip is not None, "a foreign key holds it"
    if ours.get(Clip, sha) is None:
        ours.add(Clip(**clip.model_dump()))
        ours.flush()


def _copy_predictions(theirs: Session, ours: Session, campaign: Campaign) -> None:
    """Copy missing predictions of the campaign's clips."""
    clips = select(Stimulus.clip_sha).where(Stimulus.campaign_id == campaign.id)
    for one in theirs.exec(select(Prediction).where(col(Prediction.clip_sha).in_(clips))):
        if ours.get(Prediction, (one.clip_sha, one.weights)) is None:
            ours.add(Prediction(**one.model_dump()))


def _units(theirs: Session, ours: Session, campaign: Campaign, here: Campaign) -> Mapping[str, str]:
    """Our key of each of their units; a kind creates the same units in the same order from the same stimuli."""
    there, now = load_campaign(theirs, campaign), load_campaign(ours, here)
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
    """Our id of each of their rows, given in the same order."""
    return {a.id: b.id for a, b in zip(theirs, ours, strict=True) if a.id is not None and b.id is not None}
