"""Forgetting a rater: everything they answered, did and were known by; what stays is that somebody was forgotten."""

import shutil
import time
from pathlib import Path

from sqlmodel import Session, col, delete, func, select

from studio.core.errors import BadOption
from studio.mos.rating.campaigns import find
from studio.mos.rating.takes import takes_of
from studio.mos.store.clips import ClipFolder
from studio.mos.store.database import Store
from studio.mos.store.tables.answers import Answer, Choice, Play, Score
from studio.mos.store.tables.campaigns import Campaign
from studio.mos.store.tables.raters import Passage, Rater, Removal
from studio.mos.store.tables.takes import Take
from studio.mos.store.tables.trials import Slot, Trial

_RUNNING_S = 120.0  # a take that is being spoken was written to since


def takes_folder(clips: ClipFolder) -> Path:
    """Where the traces of takes are written while raters type."""
    return clips.root.parent / "takes"


def sweep_takes(clips: ClipFolder) -> None:
    """Remove what a crash left of takes: it holds what raters typed, and belongs to nobody that could be told."""
    folder = takes_folder(clips)
    for left in folder.iterdir() if folder.is_dir() else ():
        if max(path.stat().st_mtime for path in (left, *left.rglob("*"))) < time.time() - _RUNNING_S:
            shutil.rmtree(left) if left.is_dir() else left.unlink()


def delete_rater(session: Session, campaign: Campaign, pseudonym: str) -> tuple[int, list[str]]:
    """Forget a rater: everything they answered, did and were known by; answers how many counted answers went, and the
    traces of what they typed, which are to be dropped when this is on disk.

    Their screens become open to others again. What stays is a ``Removal``, so that counts stay honest.

    Raises:
        BadOption: nobody has this pseudonym.
    """
    rater = session.exec(
        select(Rater.id, Rater.role).where(Rater.campaign_id == campaign.id, Rater.pseudonym == pseudonym)
    ).first()
    if rater is None or campaign.id is None:
        raise BadOption(f"nobody in {campaign.name!r} is called {pseudonym[:80]!r}", "pseudonyms stand in the export")
    who, role = rater
    trials = select(Trial.id).where(Trial.rater_id == who)
    answers = select(Answer.id).where(col(Answer.trial_id).in_(trials))
    counted = session.exec(
        select(func.count()).select_from(Answer).where(col(Answer.trial_id).in_(trials), Answer.counted == 1)
    ).one()
    typed = [take.trace for take in takes_of(session, who)] if who is not None else []
    for marks in (Score, Choice, Play):
        session.exec(delete(marks).where(col(marks.answer_id).in_(answers)))
    for rows in (Answer, Take, Slot):
        session.exec(delete(rows).where(col(rows.trial_id).in_(trials)))
    for rows in (Trial, Passage):
        session.exec(delete(rows).where(col(rows.rater_id) == who))
    session.exec(delete(Rater).where(col(Rater.id) == who))
    if role == "panel":
        session.add(Removal(campaign_id=campaign.id, pseudonym=pseudonym, answers=counted, at=time.time()))
    return counted, typed


def forget_rater(store: Store, clips: ClipFolder, campaign: str, pseudonym: str) -> tuple[int, bool]:
    """``delete_rater`` for good: how many counted answers went, and whether nothing of them is left in SQLite's files.

    Raises:
        BadOption: there is no such campaign, or nobody in it has this pseudonym.
    """
    gone, typed = store.write_now(lambda session: delete_rater(session, find(session, campaign), pseudonym))
    for trace in typed:
        clips.drop_trace(trace)
    sweep_takes(clips)
    return gone, store.empty_log()
