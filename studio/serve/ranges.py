"""A file, or bytes, by ranges (RFC 9110, section 14), with nothing in the answer that tells which file it is.

No ETag, no Last-Modified, no name: an answer differs from another one's by its lengths and its bytes alone.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fastapi import Request
from fastapi.responses import Response, StreamingResponse
from starlette.concurrency import run_in_threadpool

from studio.core.errors import BadFile
from studio.serve.refusals import PRIVATE

BLOCK_BYTES = 256 * 1024
_RANGE = re.compile(r"\s*bytes\s*=\s*([0-9]{0,18})\s*-\s*([0-9]{0,18})\s*", re.IGNORECASE)


@dataclass(frozen=True)
class Span:
    """Bytes [start, stop) of a file."""

    start: int
    stop: int


class Unsatisfiable(Exception):
    """The range begins behind the file's end."""


def span_of(header: str | None, size: int) -> Span | None:
    """What a Range header asks for; None for the whole file.

    What is malformed, of another unit, or several ranges at once is as if it was not there (RFC 9110, 14.2).

    Raises:
        Unsatisfiable: no byte of the file is in the range.
    """
    found = _RANGE.fullmatch(header or "")
    if found is None or found.groups() == ("", ""):
        return None
    first, last = found.groups()
    if not first:  # the last so many bytes
        start, stop = max(0, size - int(last)), size
    else:
        start, stop = int(first), min(size, int(last) + 1) if last else size
        if last and int(last) < start:
            return None
    if start >= size:
        raise Unsatisfiable
    return Span(start, stop)


async def ranged_file(request: Request, content: Path | bytes, media_type: str) -> Response:
    """The answer to GET or HEAD of a file or of bytes: 200, 206 or 416.

    Raises:
        BadFile: the file is not there.
    """
    try:
        size = len(content) if isinstance(content, bytes) else (await run_in_threadpool(content.stat)).st_size
    except OSError as error:
        raise BadFile("this file is missing", "tell the people who run this server") from error
    headers = PRIVATE | {"Accept-Ranges": "bytes", "Content-Type": media_type}
    asked = None if "if-range" in request.headers else request.headers.get("range")  # there is no validator to match
    try:
        span = span_of(asked, size)
    except Unsatisfiable:
        return Response(status_code=416, headers=headers | {"Content-Range": f"bytes */{size}"})
    status = 200 if span is None else 206
    if span is not None:
        headers["Content-Range"] = f"bytes {span.start}-{span.stop - 1}/{size}"
    else:
        span = Span(0, size)
    headers["Content-Length"] = str(span.stop - span.start)
    if request.method == "HEAD":
        return Response(status_code=status, headers=headers)
    if isinstance(content, bytes):
        return Response(content[span.start : span.stop], status_code=status, headers=headers)
    return StreamingResponse(_blocks(content, span), status_code=status, headers=headers)


def _blocks(path: Path, span: Span) -> Iterator[bytes]:
    with path.open("rb") as file:
        file.seek(span.start)
        left = span.stop - span.start
        while left > 0 and (block := file.read(min(BLOCK_BYTES, left))):
            left -= len(block)
            yield block
