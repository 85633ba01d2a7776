"""Storage of answers: validation, idempotent acknowledgement, and further attempts at the same trial."""

import hashlib
import json
import time
from collections.abc import Collection, Mapping

from sqlmodel import Session, col, func, select, true

from studio.mos.kinds.base import BadAnswer
from studio.mos.sessions import takes
from studio.mos.sessions.assignment import system_names
from studio.mos.sessions.campaigns import LoadedCampaign
from studio.mos.sessions.stages import NotThisStage, open_trials, stage_after_trials
from studio.mos.store.access import Forbidden
from studio.mos.store.tables import (
    Answer,
    AnswerCreate,
    AnswerPublic,
    Choice,
    Clip,
    Play,
    Rater,
    Score,
    Slot,
    Stimulus,
    Trial,
    row_id,
)

MAX_ATTEMPTS = 10  # per trial; later ones are not stored
_SLACK_MS = 250.0  # players report in steps, and the last report may be missing


def store_answer(session: Session, run: LoadedCampaign, rater: Rater, answer: AnswerCreate) -> AnswerPublic:
    """Store an answer. The first answer to a trial counts; a repeated one is acknowledged again without a change; a
    different one (from a second tab) is stored as an attempt that does not count, up to MAX_ATTEMPTS.

    Raises:
        Forbidden: the trial is not this rater's.
        BadAnswer: the answer does not fit the trial, or sounds were not played; nothing was stored.
        NotThisStage: the rater has left the test; nothing was stored.
    """
    trial = session.get(Trial, answer.trial)
    if trial is None or trial.rater_id != rater.id:
        raise Forbidden("this trial is not yours", "reload the page")
    digest = _digest(answer)
    before = session.exec(select(Answer).where(Answer.trial_id == trial.id).order_by(col(Answer.attempt))).all()
    for known in before:
        if known.digest == digest:
            return _acknowledgement(session, run, known, repeated=True)
    if rater.stage == "withdrawn":
        raise NotThisStage("you have left this test", "no further data is stored")
    if len(before) >= MAX_ATTEMPTS:
        return AnswerPublic(trial=trial.id, attempt=len(before), counted=False)
    slots = session.exec(select(Slot).where(Slot.trial_id == trial.id).order_by(col(Slot.slot))).all()
    rated_slots = sum(s.place == "candidate" for s in slots)
    if answer.skipped:
        missing, marks = _skip_reason(session, run, rater, answer), []
    else:
        missing, marks = "", run.kind.validate(run.config, rated_slots, answer)
        _check_played(session, run, list(slots), answer)
    row = Answer(
        trial_id=trial.id,
        attempt=len(before) + 1,
        counted=int(not before),
        received_at=time.time(),
        response_ms=answer.response_ms,
        comment=answer.comment.replace("\0", ""),  # PostgreSQL cannot store NUL
        digest=digest,
        missing=missing,
    )
    session.add(row)
    session.flush()
    for mark in marks:
        if mark.outcome is not None:
            session.add(Choice(answer_id=row_id(row), question=mark.question, outcome=mark.outcome))
        else:
            assert mark.slot is not None and mark.value is not None, "a mark is a score or a choice"
            session.add(
                Score(
                    answer_id=row_id(row),
                    question=mark.question,
                    slot=mark.slot,
                    value=mark.value,
                    low=mark.low,
                    high=mark.high,
                )
            )
    there = {s.slot for s in slots}
    for play in {p.slot: p for p in answer.plays if p.slot in there and not missing}.values():
        session.add(Play(answer_id=row_id(row), slot=play.slot, plays=play.plays, heard_ms=play.heard_ms))
    trial.released = int(answer.skipped)  # a skipped trial is assigned again
    session.add(trial)
    rater.seen_at = row.received_at
    if run.kind.is_standing:
        rater.finished_at = rater.finished_at if missing else row.received_at  # an arena has no last battle
    elif not before and not open_trials(session, rater)[0]:
        rater.stage = stage_after_trials(session, run, rater)
        rater.finished_at = row.received_at  # before the comments, which are optional
    session.add(rater)
    return _acknowledgement(session, run, row)


def _acknowledgement(session: Session, run: LoadedCampaign, row: Answer, repeated: bool = False) -> AnswerPublic:
    """The acknowledgement of an answer; for a counted arena vote it names the systems."""
    is_vote = run.kind.is_standing and row.counted and not row.missing
    voices = system_names(session, row.trial_id) if is_vote else None
    counted = bool(row.counted)
    return AnswerPublic(trial=row.trial_id, attempt=row.attempt, counted=counted, repeated=repeated, voices=voices)


def count_answers(
    session: Session, campaign_id: int, *, skipped: bool = False, only: Collection[str] | None = None
) -> dict[str, int]:
    """Number of counted answers (or of skipped trials) by trial role, without previews; ``only``: of these raters."""
    counts = session.exec(
        select(Trial.role, func.count())
        .select_from(Answer)
        .join(Trial, col(Trial.id) == col(Answer.trial_id))
        .join(Rater, col(Rater.id) == col(Trial.rater_id))
        .where(Trial.campaign_id == campaign_id, Answer.counted == 1, Rater.role == "panel")
        .where((Answer.missing != "") if skipped else (Answer.missing == ""))
        .where(true() if only is None else col(Rater.pseudonym).in_(only))
        .group_by(Trial.role)
    )
    return dict(counts.all())


def _skip_reason(session: Session, run: LoadedCampaign, rater: Rater, answer: AnswerCreate) -> str:
    """The reason for skipping a trial. Raises BadAnswer if it may not be skipped, or is answered as well."""
    if answer.scores or answer.choices:
        raise BadAnswer("a trial is answered or skipped, not both", "reload the page")
    missed = takes.misses(session, rater, answer.trial) if run.kind.is_live else []
    if len(missed) < takes.MISSES_TO_SKIP:
        raise BadAnswer("this trial can be heard and answered", "listen, then answer")
    return missed[-1]


def _check_played(session: Session, run: LoadedCampaign, slots: list[Slot], answer: AnswerCreate) -> None:
    lasting_ms = takes.take_durations_ms(session, slots[0].trial_id) if run.kind.is_live else None
    if run.config.must_listen <= 0:
        return
    played_ms = {p.slot: p.heard_ms for p in answer.plays}
    for slot, whole_ms in (lasting_ms or _clip_durations_ms(session, run, slots[0].trial_id)).items():
        if played_ms.get(slot, 0.0) < run.config.must_listen * run.kind.required_plays * whole_ms - _SLACK_MS:
            often = f" {run.kind.required_plays} times" if run.kind.required_plays > 1 else ""
            raise BadAnswer(f"sound {slot + 1} was not heard to its end{often}", "listen to every sound, then answer")


def _clip_durations_ms(session: Session, run: LoadedCampaign, trial_id: str) -> Mapping[int, float]:
    """Duration of the sound of each slot."""
    lengths = session.exec(
        select(Slot.slot, Clip.samples, Clip.rate_hz)
        .join(Stimulus, col(Stimulus.id) == col(Slot.stimulus_id))
        .join(Clip, col(Clip.sha) == col(Stimulus.clip_sha))
        .where(Slot.trial_id == trial_id)
    )
    lasting_ms = {slot: 1000.0 * samples / rate_hz for slot, samples, rate_hz in lengths}
    if run.kind.has_duplicates:  # blinded clips have one length, and an error must not reveal the original one
        lasting_ms = dict.fromkeys(lasting_ms, max(lasting_ms.values()))
    return lasting_ms


def _digest(answer: AnswerCreate) -> str:
    """Digest of an answer's marks, without times, to detect repeats."""
    marks = answer.model_dump(include={"scores", "choices", "comment"})
    if answer.skipped:
        marks["skipped"] = True
    return hashlib.sha256(json.dumps(marks, sort_keys=True).encode()).hexdigest()
