"""Takes of live trials: the voice of each slot, the rater's keystrokes, and storage of the speech.

The first voice (slot 0) speaks while the rater types. The second (slot 1) gets the same keystrokes at the same times,
so that both are rated on the same input. A vote requires a take of each voice for the same typing.
"""

import json
import math
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from typing import Any, Literal

import numpy as np
from sqlmodel import Session, col, func, select
from sqlmodel.sql.expression import SelectOfScalar

from studio.core.errors import BadMessage
from studio.mos.campaign.voices import SystemVoice, system_voice
from studio.mos.sessions.stages import NotThisStage
from studio.mos.store.access import Forbidden
from studio.mos.store.json_columns import write_json
from studio.mos.store.tables import Answer, Passage, Rater, Slot, Stimulus, System, Take, Trial, row_id

_MISSED = "live"  # stage of a passage that records a miss
TYPED, REPLAYED = 0, 1  # the slot that the rater types to, and the one with replayed keystrokes
MAX_LATE_MS = 100.0  # a longer delay of the second voice by a late keystroke makes the comparison unfair
MAX_STROKES, MAX_CHARS = 5000, 2000
MAX_TAKES = 20  # per slot of a trial
MISSES_TO_SKIP = 3  # failed plays of a trial before it may be skipped
Miss = Literal["late", "failed", "mute"]  # late keystrokes; failed while speaking; could not start


@dataclass(frozen=True)
class Keystroke:
    """A change of the text field: [at, at + remove) became ``insert``, ``at_ms`` after the first change.

    A change without effect is a pause: after some time without a keystroke the voice spoke the pending text.
    """

    at_ms: float
    at: int
    remove: int
    insert: str

    @property
    def is_pause(self) -> bool:
        """Whether the change has no effect."""
        return not self.remove and not self.insert


@dataclass(frozen=True)
class Typing:
    """Timed keystrokes; ``end_ms``: time at which the rater ended the text."""

    strokes: Sequence[Keystroke]
    end_ms: float

    def to_json(self) -> str:
        """The stored form; equal for two takes of the same typing."""
        return json.dumps(asdict(self), ensure_ascii=False, allow_nan=False)

    @staticmethod
    def from_json(text: str) -> "Typing":
        """Parse the output of ``to_json``."""
        data = json.loads(text)
        return Typing([Keystroke(**stroke) for stroke in data["strokes"]], data["end_ms"])

    def text(self) -> str:
        """The final text of the field."""
        field = ""
        for stroke in self.strokes:
            field = field[: stroke.at] + stroke.insert + field[stroke.at + stroke.remove :]
        return field


@dataclass(frozen=True)
class SlotVoice:
    """The voice of a slot of a live trial."""

    voice: SystemVoice
    gain_db: float  # brings the voice to the campaign's level
    typing: Typing | None = None  # keystrokes to replay; None for the slot that the rater types to
    trace: str = ""  # address of the first voice's trace, if ``typing`` is set
    max_chars: int = MAX_CHARS  # maximal length of the typed text


@dataclass(frozen=True)
class FinishedTake:
    """A completed take."""

    trial: str
    slot: int
    typing: Typing
    rate_hz: int
    samples: int
    latency_ms: float | None
    late_ms: float


def slot_voice(session: Session, rater: Rater, trial_id: str, slot: int) -> SlotVoice:
    """The voice of a slot of a rater's trial.

    Raises Forbidden: the trial is not this rater's, or not live; NotThisStage: it was answered, or the rater has left;
    BadMessage: there are no keystrokes to replay yet, or too many takes.
    """
    trial = _open_trial(session, rater, trial_id)
    system = session.exec(
        select(System)
        .join(Stimulus, col(Stimulus.system_id) == col(System.id))
        .join(Slot, col(Slot.stimulus_id) == col(Stimulus.id))
        .where(Slot.trial_id == trial.id, Slot.slot == slot)
    ).first()
    if system is None:
        raise Forbidden("there is no such voice in this trial", "reload the page")
    spoken = session.exec(select(func.count()).select_from(Take).where(Take.trial_id == trial.id, Take.slot == slot))
    if spoken.one() >= MAX_TAKES:
        raise BadMessage(f"this voice was heard {MAX_TAKES} times", "make your choice")
    first = latest_takes(session, [trial.id]).get((trial.id, TYPED))
    if slot == REPLAYED and first is None:
        raise BadMessage("nothing was typed yet", "type to the first voice, and let it finish")
    gains = session.exec(select(Stimulus.gain_db).where(Stimulus.system_id == system.id)).all()
    new = SlotVoice(system_voice(system), fmean(gains))
    if slot == TYPED or first is None:
        return new
    return replace(new, typing=Typing.from_json(first.typed), trace=first.trace)


def store_take(session: Session, rater: Rater, finished: FinishedTake, trace: str, script: str = "") -> None:
    """Store a take. Raises Forbidden, NotThisStage; BadMessage if it is empty or a keystroke came too late.

    ``script``: hash of the text in an arena, where typed texts are the scripts.
    """
    trial = _open_trial(session, rater, finished.trial)
    if finished.late_ms > MAX_LATE_MS or not finished.samples:
        raise BadMessage("the voice was not given what was typed", "listen to it again")
    most = select(func.max(Take.number)).where(Take.trial_id == trial.id, Take.slot == finished.slot)
    session.add(
        Take(
            trial_id=trial.id,
            slot=finished.slot,
            number=(session.exec(most).one() or 0) + 1,
            at=time.time(),
            typed=finished.typing.to_json(),
            trace=trace,
            rate_hz=finished.rate_hz,
            samples=finished.samples,
            latency_ms=finished.latency_ms,
            late_ms=finished.late_ms,
            script=script,
        )
    )


def record_miss(session: Session, rater: Rater, trial_id: str, slot: int, why: Miss, late_ms: float | None) -> bool:
    """Record a failed play; returns whether the trial may be skipped now. Raises Forbidden, NotThisStage."""
    trial = _open_trial(session, rater, trial_id)
    before = misses(session, rater, trial.id)
    if len(before) < MAX_TAKES:
        known = late_ms if late_ms is None or math.isfinite(late_ms) else None
        data = {"trial": trial.id, "slot": slot, "why": why, "late_ms": known}
        session.add(
            Passage(rater_id=row_id(rater), stage=_MISSED, verdict="unknown", at=time.time(), data=write_json(data))
        )
    return len(before) + 1 >= MISSES_TO_SKIP


def misses(session: Session, rater: Rater, trial_id: str) -> list[Miss]:
    """Reasons of the failed plays of a trial, in order."""
    noted = select(Passage.data).where(Passage.rater_id == rater.id, Passage.stage == _MISSED).order_by(col(Passage.id))
    failures = [json.loads(data) for data in session.exec(noted)]
    return [miss["why"] for miss in failures if miss["trial"] == trial_id]


def latest_takes(session: Session, trials: Sequence[str] | SelectOfScalar[str]) -> dict[tuple[str, int], Take]:
    """The last take of each (trial, slot), without takes whose typing differs from the first slot's.

    ``trials``: trial ids, or a subquery if they may exceed a statement's parameters.
    """
    rows = session.exec(select(Take).where(col(Take.trial_id).in_(trials)).order_by(col(Take.number))).all()
    takes = {(take.trial_id, take.slot): take for take in rows}
    first = {trial: take.typed for (trial, slot), take in takes.items() if slot == TYPED}
    return {key: take for key, take in takes.items() if first.get(key[0]) == take.typed}


def script_ids(session: Session, campaign_id: int) -> dict[str, str]:
    """Script hash of the typed text by trial, in arenas."""
    wanted = (
        select(Take.trial_id, Take.script)
        .join(Trial, col(Trial.id) == col(Take.trial_id))
        .where(Trial.campaign_id == campaign_id, Take.slot == TYPED, Take.script != "")
        .order_by(col(Take.number))
    )
    return dict(session.exec(wanted).all())


def take_durations_ms(session: Session, trial_id: str) -> Mapping[int, float]:
    """Duration of each slot's speech. Raises BadMessage if a slot has no take yet."""
    takes = latest_takes(session, [trial_id])
    if len(takes) < 2:
        raise BadMessage("both voices have to be heard first", "type to the first, then listen to the second")
    return {slot: 1000.0 * take.samples / take.rate_hz for (_, slot), take in takes.items()}


def rater_takes(session: Session, rater_id: int) -> list[Take]:
    """Every take of a rater."""
    wanted = select(Take).join(Trial, col(Trial.id) == col(Take.trial_id)).where(Trial.rater_id == rater_id)
    return list(session.exec(wanted))


def latency_figures(session: Session, campaign_id: int) -> list[dict[str, Any]]:
    """Number and latency (t5 - t0 in ms; median, p95) of each voice's rated takes."""
    voted = (
        select(Answer.trial_id)
        .join(Trial, col(Trial.id) == col(Answer.trial_id))
        .join(Rater, col(Rater.id) == col(Trial.rater_id))
        .where(Trial.campaign_id == campaign_id, Answer.counted == 1, Rater.role == "panel", Trial.role == "test")
        .where(Answer.missing == "")
    )
    names = {
        (trial, slot): name
        for trial, slot, name in session.exec(
            select(Slot.trial_id, Slot.slot, System.name)
            .join(Stimulus, col(Stimulus.id) == col(Slot.stimulus_id))
            .join(System, col(System.id) == col(Stimulus.system_id))
            .where(Stimulus.campaign_id == campaign_id)
        )
    }
    by_system: defaultdict[str, list[Take]] = defaultdict(list)
    for key, take in latest_takes(session, voted).items():
        by_system[names[key]].append(take)
    return [_figures(name, takes) for name, takes in sorted(by_system.items())]


def _figures(name: str, takes: Sequence[Take]) -> dict[str, Any]:
    ms = [take.latency_ms for take in takes if take.latency_ms is not None]
    median, p95 = (float(x) for x in np.percentile(ms, (50, 95))) if ms else (None, None)
    again = [take.late_ms for take in takes if take.slot == REPLAYED]
    return {
        "system": name,
        "takes": len(takes),
        "latency_ms": median,
        "latency_p95_ms": p95,
        "late_ms": max(again, default=None),
    }


def _open_trial(session: Session, rater: Rater, trial_id: str) -> Trial:
    """The rater's open trial. Raises Forbidden, NotThisStage."""
    trial = session.get(Trial, trial_id)
    if trial is None or trial.rater_id != rater.id:
        raise Forbidden("this trial is not yours", "reload the page")
    if rater.stage != "trials" or session.exec(select(Answer.id).where(Answer.trial_id == trial.id)).first():
        raise NotThisStage("this trial was answered", "go on with the next one")
    return trial
