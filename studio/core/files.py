"""Read files that a user names, with a size limit and without blocking on pipes."""

import errno
import fnmatch
import os
import re
import stat
import tomllib
from pathlib import Path
from typing import Any, BinaryIO, cast

from studio.core.errors import BadFile

MAX_SETTINGS_BYTES = 1 << 20
MAX_TEXTS_BYTES = 16_000_000
MAX_KEY_PARTS = 32
_HEAD_BYTES = 4096
_KEY_PART = r"""(?:[\w-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')"""
_LONG_KEY = re.compile(rf"(?:^|[\[{{,])[ \t]*{_KEY_PART}(?:[ \t]*\.[ \t]*{_KEY_PART}){{{MAX_KEY_PARTS}}}", re.MULTILINE)
_MARKS = (
    (b"\xef\xbb\xbf", "utf-8-sig"),
    (b"\xff\xfe\0\0", "utf-32"),
    (b"\0\0\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)


def read_bounded(path: Path, max_bytes: int) -> bytes:
    """A file's bytes.

    Raises:
        OSError: it cannot be read, is longer than ``max_bytes``, or is a pipe or a device outside of /dev and /proc,
            on which a read could block. ``strerror`` is readable text.
    """
    with open(path, "rb", opener=_without_waiting) as file:
        if path.is_relative_to("/dev") or path.is_relative_to("/proc"):
            os.set_blocking(file.fileno(), True)
        else:
            _check_kind(file.fileno(), path)
        is_larger = os.fstat(file.fileno()).st_size > max_bytes  # a pipe has no size
        data = b"" if is_larger else file.read(max_bytes + 1)
    if is_larger or len(data) > max_bytes:
        raise OSError(errno.EFBIG, f"it is larger than {max_bytes:,} bytes", str(path))
    return data


def open_unbuffered(path: Path, mode: str = "rb") -> BinaryIO:
    """Open a file of a data folder, unbuffered. Raises OSError: it is a pipe or a device, on which calls can block."""
    file = cast("BinaryIO", open(path, mode, buffering=0, opener=_without_waiting))  # noqa: SIM115 - the caller closes it
    try:
        _check_kind(file.fileno(), path)
    except OSError:
        file.close()
        raise
    return file


def _check_kind(descriptor: int, path: Path) -> None:
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        kind = "pipe" if stat.S_ISFIFO(mode) else "device"
        raise OSError(errno.EINVAL, f"it is a {kind}, not a file", str(path))


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY, 0o666)  # never acquire a controlling terminal


def decode_text(data: bytes, name: str = "the file") -> str:
    """Text in UTF-8, in UTF-16 or UTF-32 with a byte order mark, in UTF-16 without one, or in Windows-1252.

    Windows-1252 (Latin-1 with printable characters) is used if the others do not fit, unless more characters
    are valid UTF-8 than not: then the text is damaged UTF-8.

    Raises:
        BadFile: it is damaged, or not text (it contains a NUL).
    """
    encoding = next((name for mark, name in _MARKS if data.startswith(mark)), None)
    if encoding is None and b"\0" in data[:_HEAD_BYTES]:  # UTF-16 without a mark: half the bytes of ASCII are zero
        even, odd = data[:_HEAD_BYTES:2].count(0), data[1:_HEAD_BYTES:2].count(0)
        if max(even, odd, 1) > max(1, len(data[:_HEAD_BYTES]) // 10) and 4 * min(even, odd) < max(even, odd):
            encoding = "utf-16-be" if even > odd else "utf-16-le"
    try:
        text = data.decode(encoding or "utf-8")
    except UnicodeDecodeError as error:
        if encoding is not None:
            raise BadFile(f"{name} is damaged: {error.reason} at byte {error.start}", "save it as UTF-8") from error
        text = _from_windows(data, name, error.start)
    if "\0" in text:
        raise BadFile(f"{name} holds NUL characters, so it is no text", "export it again as text")
    return text


def _from_windows(data: bytes, name: str, at: int) -> str:
    replaced = data.decode("utf-8", "replace")
    bad = replaced.count("\ufffd")
    if sum(not one.isascii() for one in replaced) > 2 * bad:
        raise BadFile(f"{name} is damaged: it is UTF-8, but not at byte {at}", "save it again as UTF-8")
    return data.decode("cp1252", "replace").replace("\ufffd", " ")


def list_folder(folder: Path, pattern: str = "*") -> list[Path]:
    """The sorted entries of a folder whose names match; none if it does not exist.

    Raises OSError: it cannot be read. ``Path.glob`` would return nothing, as for an empty folder.
    """
    try:
        names = os.listdir(folder)  # noqa: PTH208 - of names, whose order is that of their paths
    except FileNotFoundError:
        return []
    return [folder / name for name in sorted(fnmatch.filter(names, pattern))]


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
    """Parse a TOML file. Raises OSError; ValueError: it is not TOML, or nested too deeply."""
    text = read_bounded(path, MAX_SETTINGS_BYTES).decode("utf-8")
    if _LONG_KEY.search(text):  # tomllib's time is quadratic in the parts of a key
        raise ValueError(f"it has a key of more than {MAX_KEY_PARTS} parts")
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
