"""Counters of an engine's load, and a watchdog over the runs of its thread."""

import logging
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from studio.core.ports import EngineLoad, ModuleLoad
from studio.core.time import Clock
from studio.engine.admission import Admission
from studio.engine.request.request import EngineRequest

_CHECKS_PER_LIMIT = 4

_log = logging.getLogger(__name__)


class Watchdog:
    """Detects a hung module run. A run cannot be interrupted, so ``on_hang`` ends every request.

    Args:
        limit_ms: a longer run counts as hung; infinity disables the watchdog.
        on_hang: called on the watchdog's thread with the name of the run, while the engine's thread is blocked.
    """

    def __init__(
        self, clock: Clock, limit_ms: float = math.inf, on_hang: Callable[[str], None] = lambda _: None
    ) -> None:
        self._clock, self._limit_ms, self._on_hang = clock, limit_ms, on_hang
        self._lock = threading.Lock()
        self._run, self._began_ms, self._checks = "", 0.0, 0
        self._hung_run = ""
        self._closed = threading.Event()
        if math.isfinite(limit_ms):
            threading.Thread(target=self._watch, name="engine-watch", daemon=True).start()

    @property
    def hung_run(self) -> str:
        """The name of the hung run; empty if none."""
        return self._hung_run

    def start_run(self, name: str) -> None:
        """A run begins."""
        with self._lock:
            self._run, self._began_ms, self._checks = name, self._clock.now_ms(), 0

    def end_run(self) -> None:
        """The run returned; requests that were ended meanwhile stay ended."""
        with self._lock:
            if self._hung_run:
                _log.warning("%s returned after %.0f s", self._run, (self._clock.now_ms() - self._began_ms) / 1000.0)
            self._run = self._hung_run = ""

    def close(self) -> None:
        """Stop the thread."""
        self._closed.set()

    def check(self) -> None:
        """Check the current run; called four times per limit."""
        with self._lock:  # the run cannot return meanwhile
            self._checks += 1  # few checks in a long time: the process was suspended, and the run did not hang
            is_long = self._clock.now_ms() - self._began_ms >= self._limit_ms and self._checks >= _CHECKS_PER_LIMIT - 1
            if not self._run or self._hung_run or not is_long:
                return
            self._hung_run = self._run
            _log.error("%s hangs; all utterances are ended", self._run)
            self._on_hang(self._run)

    def _watch(self) -> None:
        while not self._closed.wait(self._limit_ms / 1000.0 / _CHECKS_PER_LIMIT):
            self.check()


@dataclass
class _ModuleCounts:
    """One module's runs and their time by batch size."""

    runs: dict[int, int] = field(default_factory=dict[int, int])
    ms: dict[int, float] = field(default_factory=dict[int, float])
    slow: int = 0


class LoadMeter:
    """Counts runs and requests; written by the engine's thread, read by any."""

    def __init__(self) -> None:
        self._modules: dict[tuple[str, str], _ModuleCounts] = {}
        self._ended = EngineLoad(slots=0, speaking=0)
        self._opened, self._queued_ms = 0, 0.0

    def on_begin(self, request: EngineRequest) -> None:
        """A request got its slot."""
        self._opened += 1
        self._queued_ms += request.queued_ms

    def on_run(self, voice: str, module: str, rows: int, ms: float, *, is_slow: bool = False) -> None:
        """A module ran a batch."""
        counts = self._modules.setdefault((voice, module), _ModuleCounts())
        counts.runs[rows] = counts.runs.get(rows, 0) + 1
        counts.ms[rows] = counts.ms.get(rows, 0.0) + ms
        counts.slow += is_slow

    def on_end(self, request: EngineRequest) -> None:
        """A request is done."""
        self._ended = _add(self._ended, request)

    def load(self, admission: Admission) -> EngineLoad:
        """The load now: ended and running requests, slots, queue and modules."""
        load, running = self._ended, admission.running()
        for request in running:
            load = _add(load, request)
        modules = tuple(
            ModuleLoad(voice, name, dict(counts.runs), dict(counts.ms), counts.slow)
            for (voice, name), counts in [*self._modules.items()]
        )
        return replace(
            load,
            slots=admission.slots,
            speaking=sum(not one.done for one in running),
            waiting=admission.waiting,
            refused=admission.refused,
            opened=self._opened,
            queued_ms=self._queued_ms,
            modules=modules,
        )


def _add(load: EngineLoad, one: EngineRequest) -> EngineLoad:
    return replace(
        load,
        failed=load.failed + one.failed,
        audio_s=load.audio_s + one.samples / one.card.sample_rate_hz,
        stalls=load.stalls + one.stalls,
        stalled_ms=load.stalled_ms + one.stalled_ms,
    )
