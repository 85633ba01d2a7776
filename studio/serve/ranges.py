"""Range requests for a file or bytes (RFC 9110, section 14), with responses that do not identify the file.

There is no ETag, Last-Modified or name: responses differ only in their lengths and bytes.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fastapi import Request
from fastapi.responses import Response, StreamingResponse
from starlette.concurrency import run_in_threadpool

from studio.core.errors import BadFile
from studio.serve.errors import PRIVATE

BLOCK_BYTES = 256 * 1024
_RANGE = re.compile(r"\s*bytes\s*=\s*([0-9]{0,18})\s*-\s*([0-9]{0,18})\s*", re.IGNORECASE)


@dataclass(frozen=True)
class ByteRange:
    """Bytes [start, stop) of a file."""

    start: int
    stop: int


class RangeNotSatisfiable(Exception):
    """The range begins after the end of the file."""


def span_of(header: str | None, size: int) -> ByteRange | None:
    """The bytes of a Range header; None for the whole file.

    A malformed header, another unit and several ranges are ignored (RFC 9110, 14.2).

    Raises:
        Unsatisfiable: no byte of the file is in the range.
    """
    match = _RANGE.fullmatch(header or "")
    if match is None or match.groups() == ("", ""):
        return None
    first, last = match.groups()
    if not first:  # a suffix range: the last bytes
        start, stop = max(0, size - int(last)), size
    else:
        start, stop = int(first), min(size, int(last) + 1) if last else size
        if last and int(last) < start:
            return None
    if start >= size:
        raise RangeNotSatisfiable
    return ByteRange(start, stop)


async def ranged_file(request: Request, content: Path | bytes, media_type: str) -> Response:
    """The response to GET or HEAD: 200, 206 or 416.

    Raises:
        BadFile: the file is missing.
    """
    try:
        size = len(content) if isinstance(content, bytes) else (await run_in_threadpool(content.stat)).st_size
    except OSError as error:
        raise BadFile("this file is missing", "tell the people who run this server") from error
    headers = PRIVATE | {"Accept-Ranges": "bytes", "Content-Type": media_type}
    header = None if "if-range" in request.headers else request.headers.get("range")  # no validator can match
    try:
        span = span_of(header, size)
    except RangeNotSatisfiable:
        return Response(status_code=416, headers=headers | {"Content-Range": f"bytes */{size}"})
    status = 200 if span is None else 206
    if span is not None:
        headers["Content-Range"] = f"bytes {span.start}-{span.stop - 1}/{size}"
    else:
        span = ByteRange(0, size)
    headers["Content-Length"] = str(span.stop - span.start)
    if request.method == "HEAD":
        return Response(status_code=status, headers=headers)
    if isinstance(content, bytes):
        return Response(content[span.start : span.stop], status_code=status, headers=headers)
    return StreamingResponse(_blocks(content, span), status_code=status, headers=headers)


def _blocks(path: Path, span: ByteRange) -> Iterator[bytes]:
    with path.open("rb") as file:
        file.seek(span.start)
        left = span.stop - span.start
        while left > 0 and (block := file.read(min(BLOCK_BYTES, left))):
            left -= len(block)
            yield block
