"""The interface of speech recognisers, and a process pool for running one over many recordings."""

import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any, Protocol, TypeVar

import numpy as np

T = TypeVar("T")
Sound = tuple[np.ndarray, int]  # int16 [T] and its rate in Hz


class Recogniser(Protocol):
    """Transcribes recordings; deterministic: independent of earlier calls and of the process."""

    @property
    def about(self) -> dict[str, str]:
        """Provenance for saved results: ``name``, ``version`` of the package, ``weights`` and their ``sha256``."""
        ...

    def transcribe(self, pcm: np.ndarray, rate_hz: int) -> str:
        """Words recognised in int16 [T] at any rate, as the recogniser writes them; may be empty."""
        ...


def map_processes(
    job: Callable[..., T], items: Sequence[tuple[Any, ...]], workers: int, on_done: Callable[[], object] | None = None
) -> list[T]:
    """Run ``job(*item)`` for each item; results in order, ``on_done`` after each. One worker runs in this process."""
    if workers <= 1 or len(items) <= 1:
        out: list[T] = []
        for item in items:
            out.append(job(*item))
            if on_done:
                on_done()
        return out
    # Spawn, not fork: the caller may run an engine's threads.
    with ProcessPoolExecutor(min(workers, len(items)), multiprocessing.get_context("spawn")) as pool:
        futures = [pool.submit(job, *item) for item in items]
        for future in as_completed(futures):
            future.result()
            if on_done:
                on_done()
        return [future.result() for future in futures]
