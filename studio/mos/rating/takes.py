"""Live screens: which voice is to speak, what the rater typed to it, and what it said, kept until somebody asks.

The first voice (slot 0) speaks while the rater types. The second (slot 1) is given the same keys at the same times, so
that both are judged by the same typing. A vote needs a take of each, of one and the same typing.
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
from studio.mos.campaign.speaking_systems import SystemVoice, read_voice
from studio.mos.rating.sittings import NotThisStage
from studio.mos.store.access import Forbidden
from studio.mos.store.json_columns import write_json
from studio.mos.store.tables.answers import Answer
from studio.mos.store.tables.raters import Passage, Rater
from studio.mos.store.tables.stimuli import Stimulus, System
from studio.mos.store.tables.takes import Take
from studio.mos.store.tables.trials import Slot, Trial

_MISSED = "live"  # the stage of a passage that notes a miss
TYPED, AGAIN = 0, 1  # the slot that the rater types to, and the one that hears it again
MAX_LATE_MS = 100.0  # a late key that held the second voice up for longer would make the two unequal
MAX_STROKES, MAX_CHARS = 5000, 2000
MAX_TAKES = 20  # of one slot of one screen
MISSES_TO_SKIP = 3  # plays of a screen that came to nothing before a rater may leave it out
Miss = Literal["late", "failed", "mute"]  # its keys told on it; it broke off; it could not begin


@dataclass(frozen=True)
class Stroke:
    """A change of the text field: [at, at + remove) became ``insert``, so many ms after the first one.

    One that changes nothing is a pause: no key came for so long that the voice spoke what it had.
    """

    at_ms: float
    at: int
    remove: int
    insert: str

    @property
    def is_pause(self) -> bool:
        """Whether it changes nothing."""
        return not self.remove and not self.insert


@dataclass(frozen=True)
class Typing:
    """What was typed, and when; ``end_ms`` is when the rater said that it was all."""

    strokes: Sequence[Stroke]
    end_ms: float

    def to_json(self) -> str:
        """Kept so: two takes are of one typing where this is the same."""
        return json.dumps(asdict(self), ensure_ascii=False, allow_nan=False)

    @staticmethod
    def of_json(text: str) -> "Typing":
        """What ``to_json`` wrote."""
        data = json.loads(text)
        return Typing([Stroke(**stroke) for stroke in data["strokes"]], data["end_ms"])

    def text(self) -> str:
        """The field as it stood at the end."""
        field = ""
        for stroke in self.strokes:
            field = field[: stroke.at] + stroke.insert + field[stroke.at + stroke.remove :]
        return field


@dataclass(frozen=True)
class Part:
    """What one slot of a live screen is to be spoken by.

    Attributes:
        gain_db: brings the voice to the level of all.
        typing: what is to be typed to it again; None for the slot that the rater types to.
        trace: the address of the first voice's trace, beside ``typing``.
        max_chars: of what the rater types.
    """

    said_by: SystemVoice
    gain_db: float
    typing: Typing | None = None
    trace: str = ""
    max_chars: int = MAX_CHARS


@dataclass(frozen=True)
class Made:
    """A take that was spoken to its end."""

    trial: str
    slot: int
    typing: Typing
    rate_hz: int
    samples: int
    latency_ms: float | None
    late_ms: float


def part(session: Session, rater: Rater, trial_id: str, slot: int) -> Part:
    """What is to speak a slot of a rater's screen now.

    Raises:
        Forbidden: the screen is not this rater's, or no live one.
        NotThisStage: it was answered, or the rater has left.
        BadMessage: nothing was typed yet that the second voice could hear.
    """
    trial = _open_screen(session, rater, trial_id)
    system = session.exec(
        select(System)
        .join(Stimulus, col(Stimulus.system_id) == col(System.id))
        .join(Slot, col(Slot.stimulus_id) == col(Stimulus.id))
        .where(Slot.trial_id == trial.id, Slot.slot == slot)
    ).first()
    if system is None:
        raise Forbidden("there is no such voice on this screen", "reload the page")
    spoken = session.exec(select(func.count()).select_from(Take).where(Take.trial_id == trial.id, Take.slot == slot))
    if spoken.one() >= MAX_TAKES:
        raise BadMessage(f"this voice was heard {MAX_TAKES} times", "make your choice")
    first = latest(session, [trial.id]).get((trial.id, TYPED))
    if slot == AGAIN and first is None:
        raise BadMessage("nothing was typed yet", "type to the first voice, and let it finish")
    gains = session.exec(select(Stimulus.gain_db).where(Stimulus.system_id == system.id)).all()
    new = Part(read_voice(system), fmean(gains))
    if slot == TYPED or first is None:
        return new
    return replace(new, typing=Typing.of_json(first.typed), trace=first.trace)


def keep_take(session: Session, rater: Rater, made: Made, trace: str, script: str = "") -> None:
    """Keep what was said. Raises Forbidden, NotThisStage; BadMessage where it is empty, or a key came too late.

    Args:
        script: what stands for the text where raters' own texts are the scripts.
    """
    trial = _open_screen(session, rater, made.trial)
    if made.late_ms > MAX_LATE_MS or not made.samples:
        raise BadMessage("the voice was not given what was typed", "listen to it again")
    most = select(func.max(Take.number)).where(Take.trial_id == trial.id, Take.slot == made.slot)
    session.add(
        Take(
            trial_id=trial.id,
            slot=made.slot,
            number=(session.exec(most).one() or 0) + 1,
            at=time.time(),
            typed=made.typing.to_json(),
            trace=trace,
            rate_hz=made.rate_hz,
            samples=made.samples,
            latency_ms=made.latency_ms,
            late_ms=made.late_ms,
            script=script,
        )
    )


def note_miss(session: Session, rater: Rater, trial_id: str, slot: int, why: Miss, late_ms: float | None) -> bool:
    """Note that a voice of a screen was not heard as it should be; whether the rater may skip the screen now.

    Raises:
        Forbidden, NotThisStage: the screen is not the rater's to answer.
    """
    trial = _open_screen(session, rater, trial_id)
    before = misses(session, rater, trial.id)
    if len(before) < MAX_TAKES:
        assert rater.id is not None, "rows from the database have ids"
        known = late_ms if late_ms is None or math.isfinite(late_ms) else None
        data = {"trial": trial.id, "slot": slot, "why": why, "late_ms": known}
        session.add(Passage(rater_id=rater.id, stage=_MISSED, verdict="unknown", at=time.time(), data=write_json(data)))
    return len(before) + 1 >= MISSES_TO_SKIP


def misses(session: Session, rater: Rater, trial_id: str) -> list[Miss]:
    """Why voices of a screen were not heard as they should be, in order."""
    noted = select(Passage.data).where(Passage.rater_id == rater.id, Passage.stage == _MISSED).order_by(col(Passage.id))
    found = [json.loads(data) for data in session.exec(noted)]
    return [miss["why"] for miss in found if miss["trial"] == trial_id]


def latest(session: Session, trials: Sequence[str] | SelectOfScalar[str]) -> dict[tuple[str, int], Take]:
    """The last take of each (screen, slot); one of another typing than the first slot's is none.

    Args:
        trials: the screens, or what selects them where they may be more than a statement holds.
    """
    rows = session.exec(select(Take).where(col(Take.trial_id).in_(trials)).order_by(col(Take.number))).all()
    found = {(take.trial_id, take.slot): take for take in rows}
    first = {trial: take.typed for (trial, slot), take in found.items() if slot == TYPED}
    return {key: take for key, take in found.items() if first.get(key[0]) == take.typed}


def scripts(session: Session, campaign_id: int) -> dict[str, str]:
    """What stands for the text that was typed on each screen, where it stands for the script."""
    wanted = (
        select(Take.trial_id, Take.script)
        .join(Trial, col(Trial.id) == col(Take.trial_id))
        .where(Trial.campaign_id == campaign_id, Take.slot == TYPED, Take.script != "")
        .order_by(col(Take.number))
    )
    return dict(session.exec(wanted).all())


def lasting_ms(session: Session, trial_id: str) -> Mapping[int, float]:
    """How long each slot of a live screen spoke. Raises BadMessage where one did not yet."""
    found = latest(session, [trial_id])
    if len(found) < 2:
        raise BadMessage("both voices have to be heard first", "type to the first, then listen to the second")
    return {slot: 1000.0 * take.samples / take.rate_hz for (_, slot), take in found.items()}


def takes_of(session: Session, rater_id: int) -> list[Take]:
    """Every take of a rater."""
    wanted = select(Take).join(Trial, col(Trial.id) == col(Take.trial_id)).where(Trial.rater_id == rater_id)
    return list(session.exec(wanted))


def figures(session: Session, campaign_id: int) -> list[dict[str, Any]]:
    """What raters heard of each voice in the takes that they voted on: how many, and t5 - t0 in ms (median, p95)."""
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
    for key, take in latest(session, voted).items():
        by_system[names[key]].append(take)
    return [_figures(name, found) for name, found in sorted(by_system.items())]


def _figures(name: str, found: Sequence[Take]) -> dict[str, Any]:
    ms = [take.latency_ms for take in found if take.latency_ms is not None]
    median, p95 = (float(x) for x in np.percentile(ms, (50, 95))) if ms else (None, None)
    again = [take.late_ms for take in found if take.slot == AGAIN]
    return {
        "system": name,
        "takes": len(found),
        "latency_ms": median,
        "latency_p95_ms": p95,
        "late_ms": max(again, default=None),
    }


def _open_screen(session: Session, rater: Rater, trial_id: str) -> Trial:
    """The rater's screen, which waits for an answer. Raises Forbidden, NotThisStage."""
    trial = session.get(Trial, trial_id)
    if trial is None or trial.rater_id != rater.id:
        raise Forbidden("this screen is not yours", "reload the page")
    if rater.stage != "trials" or session.exec(select(Answer.id).where(Answer.trial_id == trial.id)).first():
        raise NotThisStage("this screen was answered", "go on with the next one")
    return trial
