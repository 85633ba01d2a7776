"""The engine step: schedule the rows, run batches of each module (paper 004, section 3), dispatch the results.

It does not import torch: it moves module inputs, slots and results. A batch that fails is retried row by row, so that
an error ends only the requests that cause it.
"""

import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeVar

from studio.core.errors import StudioError
from studio.core.time import Clock
from studio.engine.families.base import PENDING, Module, ModuleInput, SupportsManyFrames
from studio.engine.monitoring import LoadMeter, Watchdog
from studio.engine.request.request import EngineRequest

if TYPE_CHECKING:
    from studio.engine.voices import Voice

MAX_SHORT_STEPS = 2  # consecutive short steps
MAX_STEPS_WITHOUT_NEW = 4  # consecutive steps without a new request while one waits
LOW_BUFFER_MS = 150.0  # a row with at most this much buffered sound takes part in every step
STEP_MS = 10.0  # target duration of a step of well-buffered rows
MIN_BUFFERED_ROWS = 4  # rows of a step in which none is low, at least: a batch is cheaper than single rows
_ROW_COST_WEIGHT = 0.1  # weight of the newest step in the moving average

T = TypeVar("T")
_log = logging.getLogger(__name__)


class SchedulingPolicy:
    """Chooses the rows of the next step: early first audio for new requests, no underruns for the others.

    Paper 002 (appendix I) runs two short steps for rows without sound before each step for all. Here a short step also
    takes the rows whose buffer would underrun during the step; the other rows play from their buffers. Rows that have
    run dry, after a pause of the text or under overload, get short steps as well. The size of a step of well-buffered
    rows is limited, so that new requests wait briefly. The number of new requests admitted to a step is limited so that
    the step finishes before any listener's buffer runs out; otherwise a client that opens many utterances and abandons
    them could cause underruns for the others.
    """

    def __init__(self) -> None:
        self._short_steps = 0
        self._row_ms = self._new_row_ms = 0.0
        self._new_rows = 0  # new requests in the last step
        self._steps_without_new = 0  # consecutive steps without a new request while one waited

    def on_step(self, rows: int, duration_ms: float) -> None:
        """Update the estimated time for a row, and for a new request, whose text is prefilled."""
        if rows:
            self._row_ms += _ROW_COST_WEIGHT * (duration_ms / rows - self._row_ms)
        if self._new_rows:
            new_row_ms = duration_ms / self._new_rows
            before_ms = self._new_row_ms or new_row_ms
            self._new_row_ms = before_ms + _ROW_COST_WEIGHT * (new_row_ms - before_ms)

    def choose(self, ready: Sequence[T], buffered_ms: Callable[[T], float]) -> list[T]:
        """The rows that run now, the least buffered first.

        Args:
            buffered_ms: audio left in the listener's buffer; minus infinity before the first sound.
        """
        by_buffer = self._limit_new(sorted((buffered_ms(one), at) for at, one in enumerate(ready)))
        is_short = (
            bool(by_buffer)
            and by_buffer[0][0] <= 0.0 < by_buffer[-1][0] - LOW_BUFFER_MS
            and self._short_steps < MAX_SHORT_STEPS
        )
        self._short_steps = self._short_steps + 1 if is_short else 0
        low = sum(ms <= LOW_BUFFER_MS for ms, _ in by_buffer)
        affordable = int(STEP_MS / self._row_ms) if self._row_ms > 0.0 else len(by_buffer)
        if not low:
            affordable = max(MIN_BUFFERED_ROWS, affordable)
        count = low if is_short else max(low, affordable)
        return [ready[at] for _, at in by_buffer[:count]]

    def _limit_new(self, by_buffer: list[tuple[float, int]]) -> list[tuple[float, int]]:
        """The rows without the new requests that have to wait until the listeners have more audio buffered."""
        waiting = sum(ms == -math.inf for ms, _ in by_buffer)
        self._new_rows = waiting
        if waiting in (0, len(by_buffer)) or self._new_row_ms == 0.0:
            self._steps_without_new = 0
            return by_buffer
        affordable = max(0, int(by_buffer[waiting][0] / self._new_row_ms))
        self._new_rows = min(waiting, affordable or int(self._steps_without_new >= MAX_STEPS_WITHOUT_NEW))
        self._steps_without_new = 0 if self._new_rows else self._steps_without_new + 1
        return by_buffer[: self._new_rows] + by_buffer[waiting:]


class Scheduler:
    """Runs engine steps: every chosen request gets its next frame."""

    def __init__(
        self,
        clock: Clock,
        meter: LoadMeter | None = None,
        slow_run_ms: float = math.inf,
        watchdog: Watchdog | None = None,
    ) -> None:
        self._clock, self._meter, self._slow_run_ms = clock, meter or LoadMeter(), slow_run_ms
        self._watchdog = watchdog or Watchdog(clock)
        self._policy = SchedulingPolicy()
        self._step_ms = self._module_ms = 0.0  # duration of the last step, and of its module runs
        self._step_frames = 1  # most frames of a row in the last step

    def step(self, requests: Sequence[EngineRequest]) -> bool:
        """One step: schedule, run, dispatch. Returns whether anything was done."""
        step_began_ms = self._clock.now_ms()
        scheduled, progressed = self._schedule(requests)
        began_ms = self._clock.now_ms()
        for voice in {id(request.voice): request.voice for request, _ in scheduled}.values():
            batch = [(request, wanted) for request, wanted in scheduled if request.voice is voice]
            self._run(voice, batch)
            self._dispatch(batch)
        now_ms = self._clock.now_ms()
        self._policy.on_step(len(scheduled), now_ms - began_ms)
        self._step_ms = now_ms - step_began_ms
        return progressed or bool(scheduled)

    def _schedule(self, requests: Sequence[EngineRequest]) -> tuple[list[tuple[EngineRequest, ModuleInput]], bool]:
        """The requests that run now, each with its next input; and whether any read text or ended."""
        ready, progressed = list[tuple[EngineRequest, ModuleInput]](), False
        for request in requests:
            progressed |= bool(_fail_on_error(request, request.read_input))
            module_input = _fail_on_error(request, request.next_input)
            if module_input is not None:
                ready.append((request, module_input))
            progressed |= request.done
        now_ms = self._clock.now_ms()
        return self._policy.choose(ready, lambda one: one[0].buffered_ms(now_ms)), progressed

    def _run(self, voice: "Voice", batch: Sequence[tuple[EngineRequest, ModuleInput]]) -> None:
        """Run a voice's modules, then its vocoder; each request gets its result at once."""
        modules = voice.family.modules
        least = {pace: self._least_frames(voice, pace) for pace in {request.pace for request, _ in batch}}
        self._module_ms, self._step_frames = 0.0, 1
        for name, module in {id(module): (name, module) for name, module in modules.items()}.values():
            rows = [(request, wanted.inputs) for request, wanted in batch if modules[wanted.module] is module]
            for frames, group in self._by_frames(voice, module, rows, least):
                for part in _batches(group, module.max_rows):
                    for request, outputs, ms in self._run_batch(name, module, voice.family.slots, part, frames):
                        if frames > 1:
                            _fail_on_error(request, request.on_outputs, outputs, ms)
                        elif outputs is not PENDING:
                            _fail_on_error(request, request.on_output, outputs, ms)
        chunks = [(one, one.pending_frames) for one, _ in batch if not one.done and len(one.pending_frames)]
        for count in sorted({len(frames) for _, frames in chunks}):  # a batch holds chunks of one length
            for part in _batches([chunk for chunk in chunks if len(chunk[1]) == count], voice.vocode.max_rows):
                for request, samples, ms in self._run_batch("vocode", voice.vocode, voice.vocode.slots, part):
                    _fail_on_error(request, request.on_samples, samples, ms)

    def _by_frames(
        self, voice: "Voice", module: Module, rows: list[tuple[EngineRequest, Any]], least: Mapping[float, int]
    ) -> Iterator[tuple[int, list[tuple[EngineRequest, Any]]]]:
        """The rows of a run, by number of frames: several for rows with enough buffered audio, to save host time."""
        # The samples of a vocoder with look-ahead depend on the chunks.
        if not isinstance(module, SupportsManyFrames) or voice.vocode.look_ahead_frames:
            yield 1, rows
            return
        now_ms, groups = self._clock.now_ms(), dict[int, list[tuple[EngineRequest, Any]]]()
        for request, inputs in rows:
            count = 1
            if inputs is None:
                count = request.frames_ahead(now_ms, LOW_BUFFER_MS, module.max_frames, least.get(request.pace, 1))
            self._step_frames = max(self._step_frames, count)
            groups.setdefault(1 << (count.bit_length() - 1), []).append((request, inputs))
        yield from sorted(groups.items(), key=itemgetter(0))

    def _least_frames(self, voice: "Voice", pace: float) -> int:
        """Frames that each row of a pace must make in a step to keep up with its listener, a power of two.

        Most host time is spent per step, not per frame. 1 if single frames keep up, or if the modules alone take longer
        than their frames last.
        """
        frame_ms = 1000.0 * voice.card.frame_samples / (voice.card.sample_rate_hz * pace)
        host_ms, left_ms = self._step_ms - self._module_ms, frame_ms - self._module_ms / self._step_frames
        return 1 if left_ms <= 0.0 else 1 << max(0, math.ceil(host_ms / left_ms) - 1).bit_length()

    def _dispatch(self, batch: Sequence[tuple[EngineRequest, ModuleInput]]) -> None:
        """Send the events that follow the audio of this step."""
        for request, _ in batch:
            _fail_on_error(request, request.on_step_end)

    def _run_batch(
        self, name: str, module: Any, slots: Any, batch: list[tuple[EngineRequest, Any]], frames: int = 1
    ) -> Iterator[tuple[EngineRequest, Any, float]]:
        """Run one batch of a module; yields each row's result with its share of the time."""
        voice, began_ms = batch[0][0].card.name, self._clock.now_ms()
        self._watchdog.start_run(f"{name} of {voice}")
        try:
            arguments = slots, [request.slots for request, _ in batch], [inputs for _, inputs in batch]
            outputs = module.run(*arguments) if frames == 1 else module.run(*arguments, frames)
        except Exception as error:  # noqa: BLE001 - the other requests must continue
            outputs = error
        finally:
            self._watchdog.end_run()
        if isinstance(outputs, Exception):
            if len(batch) == 1:
                _fail(batch[0][0], outputs)
                return
            for row in batch:  # find the row that fails
                yield from self._run_batch(name, module, slots, [row], frames)
            return
        duration_ms = self._clock.now_ms() - began_ms
        self._module_ms += duration_ms
        is_slow = duration_ms > self._slow_run_ms
        self._meter.on_run(voice, name, len(batch), duration_ms, is_slow=is_slow)
        if is_slow:
            _log.warning("%s of %s took %.0f ms for %d rows; all rows waited", name, voice, duration_ms, len(batch))
        for (request, _), output in zip(batch, outputs, strict=True):
            yield request, output, duration_ms / len(batch)


def _batches(rows: list[T], max_rows: int) -> Iterator[list[T]]:
    return (rows[first : first + max_rows] for first in range(0, len(rows), max_rows))


def _fail_on_error(request: EngineRequest, work: Callable[..., T], *args: Any) -> T | None:
    """Call ``work`` for a request that is not done; an error ends that request alone."""
    if request.done:
        return None
    try:
        return work(*args)
    except Exception as error:  # noqa: BLE001 - the other requests must continue
        _fail(request, error)
        return None


def _fail(request: EngineRequest, error: Exception) -> None:
    if isinstance(error, StudioError):
        request.fail(error.code, str(error))
        return
    _log.error("an utterance failed", exc_info=error)
    request.fail("internal", f"{type(error).__name__} in the engine; the log has the details")
