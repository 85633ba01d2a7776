"""Work on many sounds by several processes, in order."""

import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any, TypeVar

T = TypeVar("T")


def map_processes(
    job: Callable[..., T],
    items: Sequence[tuple[Any, ...]],
    workers: int,
    on_done: Callable[[], object] | None = None,
) -> list[T]:
    """``job(*item)`` of each item, in order; ``on_done`` is called after each. One worker is this very process."""
    if workers <= 1 or len(items) <= 1:
        out: list[T] = []
        for item in items:
            out.append(job(*item))
            if on_done:
                on_done()
        return out
    # A fresh process, not a fork: the caller may hold an engine's threads.
    with ProcessPoolExecutor(min(workers, len(items)), multiprocessing.get_context("spawn")) as pool:
        futures = [pool.submit(job, *item) for item in items]
        for future in as_completed(futures):
            future.result()
            if on_done:
                on_done()
        return [future.result() for future in futures]
