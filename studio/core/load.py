"""Load of an engine: slots, queue, batches of each module, stalls; for metrics, the Engine page and benchmarks."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable


@dataclass(frozen=True)
class ModuleLoad:
    """One module of one voice since the engine began.

    Attributes:
        runs: number of runs, by batch size (rows).
        ms: total time of these runs, by batch size.
        slow: runs that took longer than the limit.
    """

    voice: str
    name: str
    runs: Mapping[int, int]
    ms: Mapping[int, float]
    slow: int = 0

    @property
    def rows(self) -> int:
        """Rows of all runs."""
        return sum(size * count for size, count in self.runs.items())

    @property
    def mean_rows(self) -> float:
        """Mean batch size."""
        return self.rows / max(1, sum(self.runs.values()))

    @property
    def mean_ms(self) -> float:
        """Mean time of a run."""
        return sum(self.ms.values()) / max(1, sum(self.runs.values()))


@dataclass(frozen=True)
class EngineLoad:
    """An engine at one moment; counts are since it began.

    Attributes:
        slots, speaking: concurrency slots, and how many are in use.
        queue, waiting: length of the queue, and how many utterances wait in it.
        opened, failed: utterances that got a slot, that ended with an error.
        refused: ``busy`` answers, at once or after a wait; every retry counts.
        queued_ms: total waiting time of the utterances that got a slot.
        audio_s: sound made.
        stalls, stalled_ms: pauses caused by compute, and their total length.
        device_bytes: GPU memory of tensors; 0 on a CPU.
    """

    slots: int
    speaking: int
    queue: int = 0
    waiting: int = 0
    opened: int = 0
    refused: int = 0
    failed: int = 0
    queued_ms: float = 0.0
    audio_s: float = 0.0
    stalls: int = 0
    stalled_ms: float = 0.0
    device_bytes: int = 0
    modules: tuple[ModuleLoad, ...] = field(default=())


@runtime_checkable
class SupportsLoad(Protocol):
    """An engine that reports its load."""

    def load(self) -> EngineLoad:
        """A snapshot; callable from any thread, without blocking."""
        ...


def resident_bytes() -> int:
    """Resident memory of this process; its peak where the system reports no current value, 0 where it reports none."""
    statm = Path("/proc/self/statm")
    if statm.is_file():
        return int(statm.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    try:
        import resource
    except ImportError:  # Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
