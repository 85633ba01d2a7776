"""Converts WAV headers of other programs to a plain form for libsndfile.

libsndfile treats a data chunk of size 0 as empty, does not read BW64 and gives few reasons. ``plain_wav`` reads the
chunks of a RIFF, RIFX, RF64 or BW64 file, and returns a file of ``fmt``, ``fact`` and ``data`` with true sizes.
EBU Tech 3306 (RF64), ITU-R BS.2088 (BW64).
"""

import struct
from collections.abc import Iterator

from studio.core.errors import BadFile

_ORDERS = {b"RIFF": "<", b"RIFX": ">", b"RF64": "<", b"BW64": "<"}
_UNKNOWN = 0xFFFFFFFF  # RF64: the size is in ds64
_STREAMED = 0x7FFF0000  # sizes from here on come from programs that do not know the size yet
_EXTENSIBLE = 0xFFFE
_MOST_CHUNKS = 10_000


def is_wav(data: bytes) -> bool:
    """Whether the bytes begin like a WAV file of one of the four kinds."""
    return data[:4] in _ORDERS and data[8:12] == b"WAVE"


def plain_wav(data: bytes, name: str) -> tuple[bytes, int | None]:
    """The file with true sizes and without other chunks, and its mask of loudspeakers (None if it has none).

    Sizes of 0, 7FFFxxxx and above that cannot be true mean that the sound was streamed: it lasts to the end of the
    file. Raises BadFile: there is no ``fmt`` or no ``data``, or the data is shorter than its size.
    """
    order = _ORDERS[data[:4]]
    fmt, fact, size_64 = None, b"", None
    for key, start, size in _chunks(data, order):
        body = data[start : start + size]
        if key == b"ds64" and len(body) >= 16:
            size_64 = struct.unpack_from("<Q", body, 8)[0]
        elif key == b"fmt " and fmt is None:
            if not 14 <= len(body) == size:
                raise BadFile(f"{name} is damaged: its fmt chunk is cut short", "write it again")
            fmt = body
        elif key == b"fact":
            fact = struct.pack(f"{order}4sI", key, len(body)) + body + b"\0" * (len(body) % 2)
        elif key == b"data":
            if fmt is None:
                raise BadFile(
                    f"{name} has no fmt chunk before its data, so that its coding is unknown", "write it again"
                )
            size = size_64 if size == _UNKNOWN and size_64 is not None else size
            content = data[start : start + _true_size(data, start, size, order, fmt, name)]
            head = struct.pack(f"{order}4sI", b"fmt ", len(fmt)) + fmt + b"\0" * (len(fmt) % 2) + fact
            riff = b"RIFX" if order == ">" else b"RIFF"
            chunks = head + struct.pack(f"{order}4sI", b"data", len(content)) + content + b"\0" * (len(content) % 2)
            return struct.pack(f"{order}4sI4s", riff, len(chunks) + 4, b"WAVE") + chunks, _mask(fmt, order)
    raise BadFile(f"{name} has no data chunk, so it holds no sound", "record or export it again")


def _chunks(data: bytes, order: str) -> Iterator[tuple[bytes, int, int]]:
    """Name, start and announced size of each chunk; the padding after an odd size may be missing."""
    at = 12
    for _ in range(_MOST_CHUNKS):
        if at + 8 > len(data):
            return
        key, size = struct.unpack_from(f"{order}4sI", data, at)
        yield key, at + 8, size
        at += 8 + size
        if size % 2 and not (data[at : at + 1].isalpha() and data[at : at + 4].isascii()):
            at += 1


def _true_size(data: bytes, start: int, size: int, order: str, fmt: bytes, name: str) -> int:
    left = len(data) - start
    if size == 0 and left and not _ends_in_chunks(data, start, order):
        return left
    if size <= left:
        return size
    if size >= _STREAMED:
        return left
    frame = max(1, int.from_bytes(fmt[12:14], "little" if order == "<" else "big"))
    raise BadFile(
        f"{name} is damaged: its header announces {size // frame} samples, it has fewer ({left // frame})",
        "write or copy it again",
    )


def _ends_in_chunks(data: bytes, at: int, order: str) -> bool:
    """Whether chunks with names of printable characters fill the rest of the file."""
    while at + 8 <= len(data) and data[at : at + 4].isascii() and data[at : at + 4].decode("ascii").isprintable():
        size = struct.unpack_from(f"{order}I", data, at + 4)[0]
        at += 8 + size + size % 2
    return len(data) <= at <= len(data) + 1


def _mask(fmt: bytes, order: str) -> int | None:
    tag = struct.unpack_from(f"{order}H", fmt)[0]
    return struct.unpack_from(f"{order}I", fmt, 20)[0] or None if tag == _EXTENSIBLE and len(fmt) >= 24 else None
