"""Durable writes: what is acknowledged is on disk, and a write that fails leaves the old content.

All stores write through this module: annotation journals, the library, assignments, the index, clips, uploads and
traces. All functions raise OSError if the disk fails; the caller adds what could not be saved.
"""

import errno
import os
import re
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

PART = ".part"  # suffix of incomplete files; a crash may leave one behind
_PART_NAME = re.compile(rf"\.[0-9a-f]{{16}}{re.escape(PART)}(-journal|-wal|-shm)?$")  # or SQLite's files next to it
_STALE_S = 86_400.0
_folder_lock = threading.Lock()
_NO_FOLDER_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EBADF)  # file systems that cannot sync a folder


def replace(path: Path, data: bytes) -> os.stat_result:
    """Write or replace a file completely or not at all; returns the status of the new file."""
    part = part_of(path)
    try:
        with part.open("xb", buffering=0) as file:
            _write_all(file, data)
            status = os.fstat(file.fileno())
        publish(part, path)
        return status
    finally:
        part.unlink(missing_ok=True)


def publish(part: Path, path: Path) -> None:
    """Sync a complete file and move it to its final name, atomically replacing a previous file."""
    _sync(part, os.O_RDONLY)
    part.replace(path)
    sync_folder(path.parent)


def part_of(path: Path) -> Path:
    """A unique temporary name in the folder of ``path``."""
    return path.with_name(f"{path.name}.{secrets.token_hex(8)}{PART}")


def is_part(name: str) -> bool:
    """Whether a name comes from ``part_of``."""
    return _PART_NAME.search(name) is not None


def append(file: BinaryIO, start: int, data: bytes) -> None:
    """Write ``data`` after the first ``start`` bytes; on any error the file is ``start`` bytes long again.

    Args:
        file: unbuffered and opened for appending. A buffer would write failed data again on close.
        start: length of the valid content; anything after it (from a crash) is cut off.
    """
    assert not hasattr(file, "raw"), "a buffered file writes after an error"
    try:
        os.ftruncate(file.fileno(), start)
        _write_all(file, data)
        os.fsync(file.fileno())
    except BaseException:
        with suppress(OSError):
            os.ftruncate(file.fileno(), start)
        raise


def make_folder(folder: Path) -> None:
    """Make a folder and its missing parents, accessible only to the owner."""
    with _folder_lock:  # other threads must see a folder only once its name is on disk
        for missing in reversed([one for one in (folder, *folder.parents) if not one.is_dir()]):
            missing.mkdir(mode=0o700, exist_ok=True)
            try:
                sync_folder(missing.parent)
            except OSError:
                with suppress(OSError):
                    missing.rmdir()
                raise


def remove(path: Path) -> None:
    """Delete a file durably; a missing file is no error."""
    with suppress(FileNotFoundError):
        path.unlink()
        sync_folder(path.parent)


def remove_stale_parts(folder: Path, pattern: str) -> None:
    """Delete incomplete files, and logs of incomplete databases, that a crash left behind more than a day ago."""
    for part in folder.glob(f"{pattern}{PART}*"):
        with suppress(OSError):
            if is_part(part.name) and part.stat().st_mtime < time.time() - _STALE_S:
                part.unlink()


def sync_folder(folder: Path) -> None:
    """Sync the names in a folder, so that new files in it survive a crash."""
    if os.name == "nt":
        return
    try:
        _sync(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        if error.errno not in _NO_FOLDER_SYNC:
            raise


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_all(file: BinaryIO, data: bytes) -> None:
    """Write all bytes; an unbuffered write may take fewer, for instance when the disk fills up."""
    left = memoryview(data)
    write: Callable[[memoryview], int | None] = file.write
    while left:
        left = left[write(left) or 0 :]
