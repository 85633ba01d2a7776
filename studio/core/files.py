"""Reading a file that somebody names: never more of it than it may hold, and never for ever."""

import errno
import os
import stat
from pathlib import Path

MAX_SETTINGS_BYTES = 1 << 20
MAX_TEXTS_BYTES = 16_000_000


def read_bounded(path: Path, most_bytes: int) -> bytes:
    """A file's bytes.

    Raises:
        OSError: it cannot be read, is longer than ``most_bytes``, or is no file: a pipe or a device would wait until
            somebody writes into it, and is read only where it is named in /dev or /proc itself. ``strerror`` says so
            in words.
    """
    with open(path, "rb", opener=_without_waiting) as file:
        mode = os.fstat(file.fileno()).st_mode
        if not stat.S_ISREG(mode):
            if not (path.is_relative_to("/dev") or path.is_relative_to("/proc")):
                kind = "pipe" if stat.S_ISFIFO(mode) else "device"
                raise OSError(errno.EINVAL, f"it is a {kind}, not a file", str(path))
            os.set_blocking(file.fileno(), True)
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise OSError(errno.EFBIG, f"it is larger than {most_bytes:,} bytes", str(path))
    return data


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)  # no terminal becomes ours either


def read_lines(path: Path, most_bytes: int = MAX_TEXTS_BYTES) -> list[str]:
    """Lines of a text file that hold more than white space, without what stands around.

    Raises:
        OSError: as ``read_bounded``; or it is not UTF-8, or holds a NUL, as no text does.
    """
    data = read_bounded(path, most_bytes)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise OSError(errno.EILSEQ, f"it is no UTF-8, at byte {error.start}", str(path)) from error
    if "\0" in text:
        raise OSError(errno.EILSEQ, "it holds a NUL: it is no text", str(path))
    return [line.strip() for line in text.splitlines() if line.strip()]
