"""A batch's rows on two cores: compiled work holds no lock of the interpreter, so that halves run beside each other."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

LEAST_PRODUCTS = 12_000_000  # of all rows, two milliseconds or so: to wake who does the half takes a tenth of that

_HAS_TWO_CORES = (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1) > 1
_second = ThreadPoolExecutor(1, thread_name_prefix="second half")


def in_halves(count: int, products: int, run: Callable[[int, int], None]) -> None:
    """Run ``run(first, last)`` over rows [0, count): where it pays in two halves, the second one by another thread.

    Each row must come out as if it were alone. Where the other core has more urgent things to do, the caller does it
    all.

    Args:
        products: that a row takes.
    """
    if not _HAS_TWO_CORES or count < 2 or count * products < LEAST_PRODUCTS:
        run(0, count)
        return
    middle = (count + 1) // 2
    try:
        rest = _second.submit(run, middle, count)
    except RuntimeError:  # the interpreter is about to end, and begins nothing new
        run(0, count)
        return
    try:
        run(0, middle)
    finally:  # whatever comes, nobody goes on while the arrays are being written
        is_left = rest.cancel()
        if not is_left:
            rest.result()
    if is_left:
        run(middle, count)
