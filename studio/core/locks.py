"""Locks of files, across the threads of a process and across processes, with a time-out."""

import errno
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from studio.core import durable
from studio.core.files import open_unbuffered

try:
    import fcntl
except ImportError:  # Windows: locks work within one process only
    fcntl = None

LOCK_WAIT_S, _LOCK_POLL_S = 4.0, 0.02  # time-out for another thread, then for another process; polling interval
_changes = threading.Lock()


def lock_file(file: BinaryIO, *, is_shared: bool = False) -> None:
    """Lock an open file across processes, until it is closed.

    Raises OSError: another process holds the lock for longer than ``LOCK_WAIT_S``.
    """
    if fcntl is None:
        return None
    wanted, until_s = fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX, time.monotonic() + LOCK_WAIT_S
    while True:
        try:
            return fcntl.flock(file, wanted | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() > until_s:
                raise OSError(errno.ETIMEDOUT, "another process holds its lock") from error
        time.sleep(_LOCK_POLL_S)


def mark_used(file: BinaryIO) -> None:
    """Let ``is_used`` find an open file until it is closed. Does nothing if the file system has no locks."""
    if fcntl is not None:
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def is_used(path: Path) -> bool:
    """Whether some process has marked a file; False if it cannot be read."""
    if fcntl is None:
        return False
    try:
        with open_unbuffered(path) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


@contextmanager
def within_lock(lock: threading.Lock) -> Generator[None]:
    """Hold a lock of this process. Raises OSError: another thread holds it for longer than ``LOCK_WAIT_S``."""
    if not lock.acquire(timeout=LOCK_WAIT_S):
        raise OSError(errno.ETIMEDOUT, "another request holds its lock")
    try:
        yield
    finally:
        lock.release()


@contextmanager
def changing(path: Path) -> Generator[None]:
    """Hold the lock of a file while it is read, changed and replaced; its folder is made if it is missing.

    The lock is another file next to it, since the file itself is replaced.

    Raises OSError: it is held for longer than ``LOCK_WAIT_S``, or the disk fails.
    """
    with within_lock(_changes):
        durable.make_folder(path.parent)
        with open_unbuffered(path.with_name(f".{path.name}.lock"), "ab") as file:
            lock_file(file)
            yield
