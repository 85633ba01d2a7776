"""Threads of arithmetic: numbers that a whole process shares, given back when its last engine closes."""

import threading

import numba.np.arraymath  # noqa: F401 - brings scipy's BLAS where that is installed: all there are must be counted
import torch
from threadpoolctl import threadpool_limits


class SharedThreads:
    """What torch and numpy's BLAS had before the first of a process's engines began.

    While one lives the numbers stay as engines set them: with others its samples would be rounded otherwise.
    """

    def __init__(self) -> None:
        self._lock, self._engines = threading.Lock(), 0
        self._before: tuple[int, threadpool_limits] | None = None

    def begin(self) -> None:
        """Another engine, before it loads a voice: voices hold BLAS to one thread."""
        with self._lock:
            if not self._engines:
                self._before = torch.get_num_threads(), threadpool_limits(None, user_api="blas")
            self._engines += 1

    def end(self) -> None:
        """An engine less; by a thread that began one, since BLAS listens to no other."""
        with self._lock:
            self._engines -= 1
            if not self._engines and self._before is not None:
                torch.set_num_threads(self._before[0])
                self._before[1].restore_original_limits()


THREADS = SharedThreads()
