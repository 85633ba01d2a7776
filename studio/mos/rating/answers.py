"""Taking an answer: checked, kept for good, acknowledged once; and what a later one for the same screen becomes."""

import hashlib
import json
import time
from collections.abc import Mapping

from sqlmodel import Session, col, func, select

from studio.mos.kinds.base import BadAnswer
from studio.mos.rating import battles, takes
from studio.mos.rating.campaigns import Running
from studio.mos.rating.sittings import NotThisStage, after_trials, open_screens
from studio.mos.store.access import Forbidden
from studio.mos.store.tables.answers import Answer, AnswerCreate, AnswerPublic, Choice, Play, Score
from studio.mos.store.tables.raters import Rater
from studio.mos.store.tables.stimuli import Clip, Stimulus
from studio.mos.store.tables.trials import Slot, Trial

MAX_ATTEMPTS = 10  # at one screen; what comes after is kept nowhere
_SLACK_MS = 250.0  # players report in steps, and the last one may be missing


def take_answer(session: Session, run: Running, rater: Rater, answer: AnswerCreate) -> AnswerPublic:
    """Keep an answer. The first for a screen counts; the same one sent again is acknowledged again and changes nothing;
    another one (a second tab) is kept as a further attempt that does not count, up to MAX_ATTEMPTS.

    Raises:
        Forbidden: the screen is not this rater's.
        BadAnswer: the answer does not fit the screen, or the sounds were not heard; nothing was stored.
        NotThisStage: the rater has left the test; nothing was stored.
    """
    trial = session.get(Trial, answer.trial)
    if trial is None or trial.rater_id != rater.id:
        raise Forbidden("this screen is not yours", "reload the page")
    digest = _digest(answer)
    before = session.exec(select(Answer).where(Answer.trial_id == trial.id).order_by(col(Answer.attempt))).all()
    for known in before:
        if known.digest == digest:
            return _told(session, run, known, repeated=True)
    if rater.stage == "withdrawn":
        raise NotThisStage("you have left this test", "nothing more is kept of you")
    if len(before) >= MAX_ATTEMPTS:
        return AnswerPublic(trial=trial.id, attempt=len(before), counted=False)
    slots = session.exec(select(Slot).where(Slot.trial_id == trial.id).order_by(col(Slot.slot))).all()
    judged = sum(s.place == "candidate" for s in slots)
    if answer.skipped:
        missing, marks = _why_missing(session, run, rater, answer), []
    else:
        missing, marks = "", run.kind.validate(run.config, judged, answer)
        _check_heard(session, run, list(slots), answer)
    row = Answer(
        trial_id=trial.id,
        attempt=len(before) + 1,
        counted=int(not before),
        received_at=time.time(),
        response_ms=answer.response_ms,
        comment=answer.comment.replace("\0", ""),  # PostgreSQL keeps no such character
        digest=digest,
        missing=missing,
    )
    session.add(row)
    session.flush()
    assert row.id is not None, "flushed rows have ids"
    for mark in marks:
        if mark.outcome is not None:
            session.add(Choice(answer_id=row.id, question=mark.question, outcome=mark.outcome))
        else:
            assert mark.slot is not None and mark.value is not None, "a mark is a score or a choice"
            session.add(
                Score(
                    answer_id=row.id,
                    question=mark.question,
                    slot=mark.slot,
                    value=mark.value,
                    low=mark.low,
                    high=mark.high,
                )
            )
    there = {s.slot for s in slots}
    for play in {p.slot: p for p in answer.plays if p.slot in there and not missing}.values():
        session.add(Play(answer_id=row.id, slot=play.slot, plays=play.plays, heard_ms=play.heard_ms))
    trial.released = int(answer.skipped)  # somebody else gets it; whoever came back in time is not replaced
    session.add(trial)
    rater.seen_at = row.received_at
    if run.kind.standing:
        rater.finished_at = rater.finished_at if missing else row.received_at  # nobody owes a battle more
    elif not before and not open_screens(session, rater)[0]:
        rater.stage = after_trials(session, run, rater)
        rater.finished_at = row.received_at  # whether or not they say anything more
    session.add(rater)
    return _told(session, run, row)


def _told(session: Session, run: Running, row: Answer, repeated: bool = False) -> AnswerPublic:
    """The acknowledgement of an answer: a vote of an arena that counts tells who spoke."""
    is_vote = run.kind.standing and row.counted and not row.missing
    voices = battles.names_of(session, row.trial_id) if is_vote else None
    counted = bool(row.counted)
    return AnswerPublic(trial=row.trial_id, attempt=row.attempt, counted=counted, repeated=repeated, voices=voices)


def counted_answers(session: Session, campaign_id: int) -> dict[str, int]:
    """How many answers of raters who are no previews count, by the role of their screen."""
    found = session.exec(
        select(Trial.role, func.count())
        .select_from(Answer)
        .join(Trial, col(Trial.id) == col(Answer.trial_id))
        .join(Rater, col(Rater.id) == col(Trial.rater_id))
        .where(Trial.campaign_id == campaign_id, Answer.counted == 1, Answer.missing == "", Rater.role == "panel")
        .group_by(Trial.role)
    )
    return dict(found.all())


def skipped_screens(session: Session, campaign_id: int) -> int:
    """How many screens raters who are no previews had to leave out."""
    found = session.exec(
        select(func.count())
        .select_from(Answer)
        .join(Trial, col(Trial.id) == col(Answer.trial_id))
        .join(Rater, col(Rater.id) == col(Trial.rater_id))
        .where(Trial.campaign_id == campaign_id, Answer.counted == 1, Answer.missing != "", Rater.role == "panel")
    )
    return int(found.one())


def _why_missing(session: Session, run: Running, rater: Rater, answer: AnswerCreate) -> str:
    """Why a screen may be left out. Raises BadAnswer where it may not, or is answered all the same."""
    if answer.scores or answer.choices:
        raise BadAnswer("a screen is answered or skipped, not both", "reload the page")
    missed = takes.misses(session, rater, answer.trial) if run.kind.spoken else []
    if len(missed) < takes.MISSES_TO_SKIP:
        raise BadAnswer("this screen can be heard and answered", "listen, then answer")
    return missed[-1]


def _check_heard(session: Session, run: Running, slots: list[Slot], answer: AnswerCreate) -> None:
    lasting_ms = takes.lasting_ms(session, slots[0].trial_id) if run.kind.spoken else None
    if run.config.must_listen <= 0:
        return
    heard = {p.slot: p.heard_ms for p in answer.plays}
    for slot, whole_ms in (lasting_ms or _lasting_ms(session, run, slots[0].trial_id)).items():
        if heard.get(slot, 0.0) < run.config.must_listen * run.kind.hearings * whole_ms - _SLACK_MS:
            often = f" {run.kind.hearings} times" if run.kind.hearings > 1 else ""
            raise BadAnswer(f"sound {slot + 1} was not heard to its end{often}", "listen to every sound, then answer")


def _lasting_ms(session: Session, run: Running, trial_id: str) -> Mapping[int, float]:
    """How long the sound of each slot is."""
    lengths = session.exec(
        select(Slot.slot, Clip.samples, Clip.rate_hz)
        .join(Stimulus, col(Stimulus.id) == col(Slot.stimulus_id))
        .join(Clip, col(Clip.sha) == col(Stimulus.clip_sha))
        .where(Slot.trial_id == trial_id)
    )
    lasting_ms = {slot: 1000.0 * samples / rate_hz for slot, samples, rate_hz in lengths}
    if run.kind.same_sound_twice:  # they are sent at one length, and no refusal may tell which of them was shorter
        lasting_ms = dict.fromkeys(lasting_ms, max(lasting_ms.values()))
    return lasting_ms


def _digest(answer: AnswerCreate) -> str:
    """What makes two answers the same: the marks, not the times around them."""
    marks = answer.model_dump(include={"scores", "choices", "comment"})
    if answer.skipped:
        marks["skipped"] = True
    return hashlib.sha256(json.dumps(marks, sort_keys=True).encode()).hexdigest()
