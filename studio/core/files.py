"""Read files that a user names, with a size limit and without blocking on pipes."""

import errno
import os
import stat
import tomllib
from pathlib import Path
from typing import Any

MAX_SETTINGS_BYTES = 1 << 20
MAX_TEXTS_BYTES = 16_000_000


def read_bounded(path: Path, max_bytes: int) -> bytes:
    """A file's bytes.

    Raises:
        OSError: it cannot be read, is longer than ``max_bytes``, or is a pipe or a device outside of /dev and /proc,
            on which a read could block. ``strerror`` is readable text.
    """
    with open(path, "rb", opener=_without_waiting) as file:
        mode = os.fstat(file.fileno()).st_mode
        if not stat.S_ISREG(mode):
            if not (path.is_relative_to("/dev") or path.is_relative_to("/proc")):
                kind = "pipe" if stat.S_ISFIFO(mode) else "device"
                raise OSError(errno.EINVAL, f"it is a {kind}, not a file", str(path))
            os.set_blocking(file.fileno(), True)
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise OSError(errno.EFBIG, f"it is larger than {max_bytes:,} bytes", str(path))
    return data


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)  # never acquire a controlling terminal


def read_lines(path: Path, max_bytes: int = MAX_TEXTS_BYTES) -> list[str]:
    """The stripped non-empty lines of a text file.

    Raises:
        OSError: as ``read_bounded``; or it is not UTF-8, or holds a NUL.
    """
    data = read_bounded(path, max_bytes)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise OSError(errno.EILSEQ, f"it is no UTF-8, at byte {error.start}", str(path)) from error
    if "\0" in text:
        raise OSError(errno.EILSEQ, "it holds a NUL: it is no text", str(path))
    return [line.strip() for line in text.splitlines() if line.strip()]


def read_toml(path: Path) -> dict[str, Any]:
    """Parse a TOML file. Raises OSError, ValueError."""
    try:
        return tomllib.loads(read_bounded(path, MAX_SETTINGS_BYTES).decode("utf-8"))
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
