"""What an engine is doing: places, queue, batches of each module, stalls; for metrics, the Engine page and benches."""

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
        runs: how often it ran for so many rows, by the number of rows.
        ms: how long these runs took together, by the number of rows.
        slow: how many of them took longer than a run should.
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
        """Rows of a run, on average."""
        return self.rows / max(1, sum(self.runs.values()))

    @property
    def mean_ms(self) -> float:
        """Time of a run, on average."""
        return sum(self.ms.values()) / max(1, sum(self.runs.values()))


@dataclass(frozen=True)
class EngineLoad:
    """An engine at one moment; counts are since it began.

    Attributes:
        places: utterances that it takes at once.
        speaking: utterances that have a place.
        queue: utterances that may wait for one.
        waiting: utterances that do.
        opened, failed: utterances that got a place, ended badly.
        refused: how often somebody heard ``busy``, at once or after a wait; who tries again counts again.
        queued_ms: how long those that got a place had waited for it together.
        audio_s: sound made.
        stalls, stalled_ms: pauses that were the computer's, and how long they were together.
        device_bytes: memory that tensors take on a GPU; 0 on a CPU.
    """

    places: int
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
class TellsLoad(Protocol):
    """An engine that says what it is doing."""

    def load(self) -> EngineLoad:
        """This moment; may be asked from any thread, and takes no time."""
        ...


def resident_bytes() -> int:
    """Memory that this process takes now, or took at most where the system tells no more; 0 where it tells nothing."""
    statm = Path("/proc/self/statm")
    if statm.is_file():
        return int(statm.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    try:
        import resource
    except ImportError:  # not on Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
