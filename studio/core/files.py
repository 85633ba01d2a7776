"""Reading a file that somebody names: never more of it than it may hold, and never for ever."""

import errno
from pathlib import Path

MAX_SETTINGS_BYTES = 1 << 20
MAX_TEXTS_BYTES = 16_000_000


def read_bounded(path: Path, most_bytes: int) -> bytes:
    """A file's bytes.

    Raises:
        OSError: it cannot be read, is longer than ``most_bytes`` (a device never ends), or is a pipe with a name, which
            would wait until somebody writes into it; ``strerror`` says so in words.
    """
    if path.is_fifo() and not path.is_relative_to("/dev") and not path.is_relative_to("/proc"):
        raise OSError(errno.EINVAL, "it is a pipe, not a file", str(path))
    with path.open("rb") as file:
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise OSError(errno.EFBIG, f"it is larger than {most_bytes:,} bytes", str(path))
    return data
