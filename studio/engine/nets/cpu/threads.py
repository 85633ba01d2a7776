"""Threads of CPU arithmetic: limits that a process shares, and batches split over two cores."""

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numba.np.arraymath  # noqa: F401 - loads scipy's BLAS where installed: threadpoolctl must see every library
import torch
from threadpoolctl import threadpool_limits

MIN_PRODUCTS = 12_000_000  # of all rows, about two milliseconds: waking the other thread takes a tenth of that

_HAS_TWO_CORES = (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1) > 1
_second = ThreadPoolExecutor(1, thread_name_prefix="second half")


def limit_blas_to_one_thread() -> None:
    """Run numpy's products on one thread: one row is too small to share, and sharing changes roundings."""
    threadpool_limits(1, user_api="blas")


class SharedThreads:
    """Restores torch's and BLAS's thread counts when the last engine of the process closes.

    While any engine runs they stay as engines set them: other counts would change the rounding of samples.
    """

    def __init__(self) -> None:
        self._lock, self._engines = threading.Lock(), 0
        self._before: tuple[int, threadpool_limits] | None = None

    def begin(self) -> None:
        """Call before an engine loads a voice, which limits BLAS to one thread."""
        with self._lock:
            if not self._engines:
                self._before = torch.get_num_threads(), threadpool_limits(None, user_api="blas")
            self._engines += 1

    def end(self) -> None:
        """Call when an engine closes, on a thread that called ``begin``: BLAS limits are per thread."""
        with self._lock:
            self._engines -= 1
            if not self._engines and self._before is not None:
                torch.set_num_threads(self._before[0])
                self._before[1].restore_original_limits()


THREADS = SharedThreads()


def run_in_halves(count: int, products: int, run: Callable[[int, int], None]) -> None:
    """Call ``run(first, last)`` over rows [0, count), in two halves on two threads where that is faster.

    ``run`` releases the GIL, and a row's result does not depend on the others. If the second thread has not started
    when the first half is done, the caller runs both halves.

    Args:
        products: multiplications per row.
    """
    if not _HAS_TWO_CORES or count < 2 or count * products < MIN_PRODUCTS:
        run(0, count)
        return
    middle = (count + 1) // 2
    try:
        rest = _second.submit(run, middle, count)
    except RuntimeError:  # the interpreter is shutting down
        run(0, count)
        return
    try:
        run(0, middle)
    finally:  # the arrays are written until the second half is done
        is_left = rest.cancel()
        if not is_left:
            rest.result()
    if is_left:
        run(middle, count)
