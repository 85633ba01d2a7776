"""The pool: every turn, each module runs one batch after another of whoever needs it (paper 004, section 3).

It knows no torch: what it moves are wants, slots and results. Whatever goes wrong in a batch is tried again row by row,
and ends only the utterances it is about.
"""

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from studio.core.errors import StudioError
from studio.core.time import Clock
from studio.engine.families.base import Module, Want
from studio.engine.hosting.meter import Meter
from studio.engine.hosting.scheduling import Schedule
from studio.engine.hosting.watch import Watch
from studio.engine.utterances.local import LocalUtterance

if TYPE_CHECKING:
    from studio.engine.voices import Voice

T = TypeVar("T")
_log = logging.getLogger(__name__)


class Pool:
    """Gives every utterance that can go on its next frame, newcomers first (``studio.engine.hosting.scheduling``)."""

    def __init__(
        self, clock: Clock, meter: Meter | None = None, slow_run_ms: float = math.inf, watch: Watch | None = None
    ) -> None:
        self._clock, self._meter, self._slow_run_ms = clock, meter or Meter(), slow_run_ms
        self._watch = watch or Watch(clock)
        self._schedule = Schedule()

    def turn(self, utterances: Sequence[LocalUtterance]) -> bool:
        """One turn for all; answers whether anything was done."""
        did, wants = False, list[tuple[LocalUtterance, Want]]()
        for one in utterances:
            did |= bool(_guarded(one, one.read))
            want = _guarded(one, one.want)
            if want is not None:
                wants.append((one, want))
            did |= one.done
        now_ms = self._clock.now_ms()
        wants = self._schedule.choose(wants, lambda one: one[0].left_ms(now_ms))
        for voice in {id(one.voice): one.voice for one, _ in wants}.values():
            mine = [(one, want) for one, want in wants if one.voice is voice]
            self._turn_of(voice, mine)
        self._schedule.took(len(wants), self._clock.now_ms() - now_ms)
        return did or bool(wants)

    def _turn_of(self, voice: "Voice", wants: list[tuple[LocalUtterance, Want]]) -> None:
        """Run each of a voice's modules for those who want it, then the vocoder for those who got frames."""
        for name, module in voice.family.modules.items():
            here = [(one, want.inputs) for one, want in wants if want.module == name]
            for batch in _batches(here, module.most_rows):
                for one, outputs, ms in self._run(name, module, voice.family.slots, batch):
                    _guarded(one, lambda one=one, outputs=outputs, ms=ms: one.took(outputs, ms))
        made = [(one, one.unvoiced) for one, _ in wants if not one.done and len(one.unvoiced)]
        for count in sorted({len(frames) for _, frames in made}):  # a batch is of chunks of one length
            for batch in _batches([each for each in made if len(each[1]) == count], voice.vocode.most_rows):
                for one, samples, ms in self._run("vocode", voice.vocode, voice.vocode.slots, batch):
                    _guarded(one, lambda one=one, samples=samples, ms=ms: one.sounded(samples, ms))
        for one, _ in wants:
            _guarded(one, one.turned)

    def _run(
        self, name: str, module: Module, slots: Any, batch: list[tuple[LocalUtterance, Any]]
    ) -> Iterator[tuple[LocalUtterance, Any, float]]:
        """Run one batch; each row's result with its share of the time."""
        began_ms = self._clock.now_ms()
        try:
            found = self._watched(name, module, slots, batch)
        except Exception as error:  # noqa: BLE001 - the engine must go on for the others
            if len(batch) == 1:
                _fail(batch[0][0], error)
                return
            for alone in batch:  # somebody else's mistake must not end this one
                yield from self._run(name, module, slots, [alone])
            return
        took_ms = self._clock.now_ms() - began_ms
        self._ran(batch[0][0].card.name, name, len(batch), took_ms)
        share_ms = took_ms / len(batch)
        for (one, _), outputs in zip(batch, found, strict=True):
            yield one, outputs, share_ms

    def _watched(self, name: str, module: Module, slots: Any, batch: list[tuple[LocalUtterance, Any]]) -> Sequence[Any]:
        self._watch.began(f"{name} of {batch[0][0].card.name}")
        try:
            return module.run(slots, [one.slots for one, _ in batch], [inputs for _, inputs in batch])
        finally:
            self._watch.ended()

    def _ran(self, voice: str, module: str, rows: int, took_ms: float) -> None:
        is_slow = took_ms > self._slow_run_ms
        self._meter.ran(voice, module, rows, took_ms, is_slow=is_slow)
        if is_slow:
            _log.warning("%s of %s took %.0f ms for %d rows; everybody waited for it", module, voice, took_ms, rows)


def _batches(items: list[T], most: int) -> Iterator[list[T]]:
    return (items[first : first + most] for first in range(0, len(items), most))


def _guarded(utterance: LocalUtterance, work: Callable[[], T]) -> T | None:
    """Do something for an utterance that is not over; what goes wrong ends that utterance alone."""
    if utterance.done:
        return None
    try:
        return work()
    except Exception as error:  # noqa: BLE001 - the engine must go on for the others
        _fail(utterance, error)
        return None


def _fail(utterance: LocalUtterance, error: Exception) -> None:
    if isinstance(error, StudioError):
        utterance.fail(error.code, str(error))
        return
    _log.error("an utterance failed", exc_info=error)
    utterance.fail("internal", f"{type(error).__name__} in the engine; the log has the details")
