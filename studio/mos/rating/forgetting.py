"""Forgetting a rater: everything they answered, did and were known by; what stays is that somebody was forgotten."""

import hashlib
import json
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from sqlmodel import Session, col, delete, func, select

from studio.core.errors import BadOption
from studio.mos.rating.campaigns import find
from studio.mos.rating.codes import read_code
from studio.mos.rating.takes import takes_of
from studio.mos.store.access import Access
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


def person_of(identity: str) -> str:
    """What stays of somebody who is forgotten: a digest of their identity, which no export holds.

    Who they were cannot be told from it; whoever has their identity, as another database that they are in has, knows
    that it is they. Where a copied database made two sittings of one (the second's identity has a +), both are theirs.
    """
    return hashlib.sha256(f"forgotten|{identity.partition('+')[0]}".encode()).hexdigest()


def delete_rater(
    session: Session, campaign: Campaign, pseudonym: str, at: float | None = None
) -> tuple[int, list[str]]:
    """Forget a rater: everything they answered, did and were known by; answers how many counted answers went, and the
    traces of what they typed, which are to be dropped when this is on disk.

    Their screens become open to others again. What stays is a ``Removal``, so that counts stay honest.

    Args:
        at: when they were forgotten, where that was in another database before.

    Raises:
        BadOption: nobody has this pseudonym.
    """
    rater = session.exec(
        select(Rater.id, Rater.role, Rater.identity).where(
            Rater.campaign_id == campaign.id, Rater.pseudonym == pseudonym
        )
    ).first()
    if rater is None or campaign.id is None:
        raise BadOption(f"nobody in {campaign.name!r} is called {pseudonym[:80]!r}", "pseudonyms stand in the export")
    who, role, identity = rater
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
        when, person = time.time() if at is None else at, person_of(identity)
        session.add(Removal(campaign_id=campaign.id, pseudonym=pseudonym, answers=counted, at=when, person=person))
    return counted, typed


@dataclass(frozen=True)
class Forgotten:
    """Who was forgotten: their pseudonyms, how many counted answers went, whether SQLite's files hold nothing of it."""

    pseudonyms: list[str]
    answers: int
    is_gone_from_files: bool


def known_as(session: Session, campaign: Campaign, access: Access, who: str) -> list[str]:
    """The pseudonyms behind what somebody gives who asks to be forgotten: a pseudonym, the panel's id, or their code.

    A panel's id may be there more than once (one person in two studies), and a code once as a preview's.

    Raises:
        BadOption: nobody in the campaign is known by it.
    """
    raters = session.exec(select(Rater).where(Rater.campaign_id == campaign.id).order_by(col(Rater.id))).all()
    given = who.strip()
    found = [r for r in raters if r.pseudonym == given]
    found = found or [r for r in raters if given and json.loads(r.panel).get("PROLIFIC_PID") == given]
    if not found:
        identities = _identities(session, access, given)
        found = [r for r in raters if r.identity.partition("+")[0] in identities]
    if not found:
        raise BadOption(
            f"nobody in {campaign.name!r} is known by {given[:80]!r}",
            "give a pseudonym as the export has it, a panel's id, or the code that the rater was given",
        )
    return [r.pseudonym for r in found]


def _identities(session: Session, access: Access, code: str) -> set[str]:
    """What somebody with a code is called, in whichever campaign they came in: later parts of a sitting keep that."""
    try:
        who = f"code|{read_code(code)}"
    except BadOption:
        return set()
    numbers = [found for found in session.exec(select(Campaign.id)) if found is not None]
    return {access.identity(number, role, who) for number in numbers for role in ("panel", "preview")}


def _everywhere(session: Session, campaign: Campaign, pseudonym: str) -> list[tuple[Campaign, str]]:
    """A rater's campaigns, and their name in each: all parts of the sitting that one of them was."""
    identity = session.exec(
        select(Rater.identity).where(Rater.campaign_id == campaign.id, Rater.pseudonym == pseudonym)
    ).one()
    person = identity.partition("+")[0]
    rows = session.exec(
        select(Campaign, Rater)
        .join(Rater, col(Rater.campaign_id) == col(Campaign.id))
        .where(col(Rater.identity).startswith(person, autoescape=True))
    ).all()
    return [(found, rater.pseudonym) for found, rater in rows if rater.identity.partition("+")[0] == person]


def forget_rater(store: Store, clips: ClipFolder, access: Access, campaign: str, who: str) -> Forgotten:
    """``delete_rater`` for good, of everybody who is ``known_as`` what was given, in all parts of their sitting.

    Raises:
        BadOption: there is no such campaign, or nobody in it is known by it.
    """

    def work(session: Session) -> tuple[list[str], int, list[str]]:
        found = find(session, campaign)
        names, gone, typed = known_as(session, found, access, who), 0, list[str]()
        rows = {(part.id, mine): part for name in names for part, mine in _everywhere(session, found, name)}
        for (_, mine), part in rows.items():
            answers, traces = delete_rater(session, part, mine)
            gone, typed = gone + answers, typed + traces
        return names, gone, typed

    names, gone, typed = store.write_now(work)
    for trace in typed:
        clips.drop_trace(trace)
    sweep_takes(clips)
    return Forgotten(names, gone, store.empty_log())
