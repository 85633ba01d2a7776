"""Erasure of raters (GDPR): answers, trials, identifiers and takes; only a removal count remains."""

import hashlib
import json
import shutil
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from sqlmodel import Session, col, delete, func, select

from studio.core.errors import BadOption
from studio.core.traces.trace_writer import is_written
from studio.mos.sessions.campaigns import find_campaign
from studio.mos.sessions.panels import person_id
from studio.mos.sessions.takes import rater_takes
from studio.mos.store.access import Access, parse_resume_code
from studio.mos.store.clips import ClipFolder
from studio.mos.store.database import Store
from studio.mos.store.tables import Answer, Campaign, Choice, Passage, Play, Rater, Removal, Score, Slot, Take, Trial

_RUNNING_S = 120.0  # a running take was written to within this time


def takes_folder(clips: ClipFolder) -> Path:
    """Folder of the traces of running takes."""
    return clips.root.parent / "takes"


def sweep_takes(clips: ClipFolder) -> None:
    """Delete takes left over by a crash: they contain typed text and belong to no rater."""
    folder = takes_folder(clips)
    for left in folder.iterdir() if folder.is_dir() else ():
        with suppress(FileNotFoundError):  # the take has just ended
            changed_s = max(path.stat().st_mtime for path in (left, *left.rglob("*")))
            if changed_s < time.time() - _RUNNING_S and not is_written(left):  # the clock may have been set
                shutil.rmtree(left) if left.is_dir() else left.unlink()


def person_of(identity: str) -> str:
    """The digest of an identity that remains after an erasure; exports do not contain it.

    Only a database with the identity can match it. After a merge of copied databases one person may have two identities
    (the second with a +); both give the same digest.
    """
    return hashlib.sha256(f"forgotten|{identity.partition('+')[0]}".encode()).hexdigest()


def delete_rater(
    session: Session, campaign: Campaign, pseudonym: str, at: float | None = None
) -> tuple[int, list[str]]:
    """Delete all data of a rater; returns the number of counted answers, and the traces of their takes, which the
    caller must delete after the commit.

    Their units become available again. A ``Removal`` row remains, so that counts stay correct. ``at``: time of the
    erasure, if it happened earlier in another database. Raises BadOption: the pseudonym does not exist.
    """
    rater = session.exec(
        select(Rater.id, Rater.role, Rater.identity).where(
            Rater.campaign_id == campaign.id, Rater.pseudonym == pseudonym
        )
    ).first()
    if rater is None or campaign.id is None:
        raise BadOption(f"{campaign.name!r} has no rater {pseudonym[:80]!r}", "pseudonyms are in the export")
    who, role, identity = rater
    trials = select(Trial.id).where(Trial.rater_id == who)
    answers = select(Answer.id).where(col(Answer.trial_id).in_(trials))
    counted = session.exec(
        select(func.count()).select_from(Answer).where(col(Answer.trial_id).in_(trials), Answer.counted == 1)
    ).one()
    typed = [take.trace for take in rater_takes(session, who)] if who is not None else []
    for marks in (Score, Choice, Play):
        session.exec(delete(marks).where(col(marks.answer_id).in_(answers)))
    for rows in (Answer, Take, Slot):
        session.exec(delete(rows).where(col(rows.trial_id).in_(trials)))
    for rows in (Trial, Passage):
        session.exec(delete(rows).where(col(rows.rater_id) == who))
    session.exec(delete(Rater).where(col(Rater.id) == who))
    if role == "panel":
        when, person = time.time() if at is None else at, person_of(identity)
        session.add(Removal(campaign_id=campaign.id, pseudonym=pseudonym, answers=counted, at=when, person=person))
    return counted, typed


@dataclass(frozen=True)
class ErasureReport:
    """Erased pseudonyms, number of counted answers, and whether SQLite's files are free of their data."""

    pseudonyms: list[str]
    answers: int
    is_gone_from_files: bool


def find_pseudonyms(session: Session, campaign: Campaign, access: Access, who: str) -> list[str]:
    """The pseudonyms of a person by pseudonym, panel id or resume code.

    A panel id may occur more than once (one person in two studies), and a code also as a preview. Raises BadOption: no
    rater of the campaign matches.
    """
    raters = session.exec(select(Rater).where(Rater.campaign_id == campaign.id).order_by(col(Rater.id))).all()
    identifier = who.strip()
    matches = [r for r in raters if r.pseudonym == identifier]
    matches = matches or [r for r in raters if identifier and person_id(json.loads(r.panel)) == identifier]
    if not matches:
        identities = _identities(session, access, identifier)
        matches = [r for r in raters if r.identity.partition("+")[0] in identities]
    if not matches:
        raise BadOption(
            f"{campaign.name!r} has no rater with {identifier[:80]!r}",
            "give a pseudonym as the export has it, a panel's id, or the code that the rater was given",
        )
    return [r.pseudonym for r in matches]


def _identities(session: Session, access: Access, code: str) -> set[str]:
    """The identities of a resume code over all campaigns, since later parts keep the identity of the first."""
    try:
        who = f"code|{parse_resume_code(code)}"
    except BadOption:
        return set()
    ids = [row for row in session.exec(select(Campaign.id)) if row is not None]
    return {access.identity(number, role, who) for number in ids for role in ("panel", "preview")}


def _in_all_parts(session: Session, campaign: Campaign, pseudonym: str) -> list[tuple[Campaign, str]]:
    """The campaign and pseudonym of a rater in every part of their session."""
    identity = session.exec(
        select(Rater.identity).where(Rater.campaign_id == campaign.id, Rater.pseudonym == pseudonym)
    ).one()
    person = identity.partition("+")[0]
    rows = session.exec(
        select(Campaign, Rater)
        .join(Rater, col(Rater.campaign_id) == col(Campaign.id))
        .where(col(Rater.identity).startswith(person, autoescape=True))
    ).all()
    return [(part, rater.pseudonym) for part, rater in rows if rater.identity.partition("+")[0] == person]


def erase_rater(store: Store, clips: ClipFolder, access: Access, campaign: str, who: str) -> ErasureReport:
    """Erase all raters matched by ``find_pseudonyms``, in all parts of their sessions, from database and files.

    Raises BadOption: the campaign does not exist, or no rater matches.
    """

    def work(session: Session) -> tuple[list[str], int, list[str]]:
        row = find_campaign(session, campaign)
        names, gone, typed = find_pseudonyms(session, row, access, who), 0, list[str]()
        rows = {(part.id, mine): part for name in names for part, mine in _in_all_parts(session, row, name)}
        for (_, mine), part in rows.items():
            answers, traces = delete_rater(session, part, mine)
            gone, typed = gone + answers, typed + traces
        return names, gone, typed

    names, gone, typed = store.write_now(work)
    is_gone = False

    def truncate_log() -> None:
        nonlocal is_gone
        is_gone = store.truncate_log()

    with ExitStack() as cleanup:  # an error for one file must not prevent deletion of the others
        cleanup.callback(truncate_log)
        cleanup.callback(sweep_takes, clips)
        for trace in typed:
            cleanup.callback(clips.drop_trace, trace)
    return ErasureReport(names, gone, is_gone)
