"""Request bodies as strict models; JSON responses, errors as ``{"code", "message"}``, and ranged files without names.

Range requests (RFC 9110, section 14) get no ETag, Last-Modified or name: responses differ only in their lengths and
bytes, so they do not identify the file."""

import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import BaseModel, ConfigDict, ValidationError
from sqlalchemy.exc import SQLAlchemyError
from starlette.concurrency import run_in_threadpool

from studio.annotation.edits import AnnotationConflict
from studio.core.checks import escape_unprintable
from studio.core.errors import (
    BadFile,
    BadMessage,
    BadOption,
    BadText,
    BadVoice,
    Busy,
    Closed,
    NeedsPackage,
    StudioError,
    Unavailable,
    unreadable,
)
from studio.core.folders import without_folders
from studio.core.speakers import BadRecording, NoConsent
from studio.core.traces.teacher_forcing import NotSupported
from studio.hub.client import HubBusy
from studio.mos.kinds.base import BadAnswer
from studio.mos.sessions.campaigns import NotOpen
from studio.mos.sessions.stages import NotThisStage
from studio.mos.stimuli.building import DraftConflict
from studio.mos.stimuli.editing import LosesSounds
from studio.mos.stimuli.speech import LeavesHoles
from studio.mos.store.access import Forbidden, TooMany
from studio.mos.store.problems import database_problem

PRIVATE = {"Cache-Control": "private, no-store"}
STATUS: Mapping[type[StudioError], int] = {
    StudioError: 400,
    Forbidden: 403,
    BadFile: 404,
    BadVoice: 404,
    DraftConflict: 409,
    AnnotationConflict: 409,
    LeavesHoles: 409,
    LosesSounds: 409,
    NotOpen: 409,
    NotThisStage: 409,
    BadAnswer: 422,
    BadMessage: 422,
    BadRecording: 422,
    NoConsent: 422,
    BadOption: 422,
    BadText: 422,
    TooMany: 429,
    NeedsPackage: 501,
    NotSupported: 501,
    Busy: 503,
    Closed: 503,
    HubBusy: 503,
    Unavailable: 503,
}
STORE_RETRY_S = 2
log = logging.getLogger("studio.serve")
Model = TypeVar("Model", bound=BaseModel)
BLOCK_BYTES = 256 * 1024
_RANGE = re.compile(r"\s*bytes\s*=\s*([0-9]{0,18})\s*-\s*([0-9]{0,18})\s*", re.IGNORECASE)


def status_of(error: StudioError) -> int:
    """The HTTP status of an error, by its nearest class in ``STATUS``."""
    return next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)


def private_json(content: Any, status: int = 200, **headers: str) -> JSONResponse:
    """A JSON response that is not cached."""
    return JSONResponse(content, status_code=status, headers=PRIVATE | headers)


def add_error_handlers(app: FastAPI) -> None:
    """Add handlers for the errors of Studio, the database, the file system and request validation."""
    app.add_exception_handler(StudioError, _on_studio_error)
    app.add_exception_handler(SQLAlchemyError, _on_database_error)
    app.add_exception_handler(OSError, _on_os_error)
    app.add_exception_handler(RequestValidationError, _on_invalid_request)


async def _on_studio_error(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, StudioError), "registered for these alone"
    status = status_of(error)
    retry = {"Retry-After": str(error.retry_s)} if isinstance(error, TooMany) else {}
    if status == 503:
        retry = {"Retry-After": str(STORE_RETRY_S)}
    if (message := without_folders(str(error))) != str(error):
        log.warning("%s", escape_unprintable(str(error)))  # with the folders
    return private_json({"code": error.code, "message": message}, status, **retry)


async def _on_invalid_request(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError), "registered for these alone"
    names = ", ".join(sorted({str(one["loc"][-1]) for one in error.errors()}))
    return private_json({"code": "bad_message", "message": f"{names}: not allowed"}, 422)


async def _on_database_error(request: Request, error: Exception) -> JSONResponse:
    """A full disk, a lock, damage. The error's message is not logged: it may hold what a rater typed."""
    assert isinstance(error, SQLAlchemyError), "registered for these alone"
    problem = database_problem(error)
    log.error("the database failed: %s (%s)", problem.what, type(error).__name__)
    return await _on_studio_error(request, problem)


async def _on_os_error(_: Request, error: Exception) -> JSONResponse:
    """The disk failed, or no file can be opened. The response names no path of the server."""
    log.error("storage error: %r", error)
    body = {"code": "unavailable", "message": "the server's storage cannot be used just now; try again"}
    return private_json(body, 503, **{"Retry-After": str(STORE_RETRY_S)})


class StrictModel(BaseModel):
    """A body without coercion and without unknown fields."""

    model_config = ConfigDict(strict=True, extra="forbid")


def takes(model: type[BaseModel]) -> dict[str, Any]:
    """The ``openapi_extra`` of a route that reads its body with ``read_body``."""
    schema = model.model_json_schema()
    return {
        "requestBody": {"required": True, "content": {"application/json": {"schema": _inline_refs(schema, schema)}}}
    }


def _inline_refs(part: Any, schema: dict[str, Any]) -> Any:
    """The schema with its references resolved."""
    if isinstance(part, list):
        return [_inline_refs(one, schema) for one in part]
    if not isinstance(part, dict):
        return part
    if "$ref" in part:
        return _inline_refs(schema["$defs"][part["$ref"].rpartition("/")[2]], schema)
    return {name: _inline_refs(one, schema) for name, one in part.items() if name != "$defs"}


async def read_body(request: Request, model: type[Model]) -> Model:
    """The body of a request as a model; middleware has bounded its length.

    Raises BadMessage: not JSON, or a field is missing, unknown or not allowed.
    """
    try:
        return model.model_validate_json(await request.body())
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "the message"
        raise BadMessage(f"{where[:100]}: {first['msg'][:200]}", "reload the page and try again") from error


@dataclass(frozen=True)
class ByteRange:
    """Bytes [start, stop) of a file."""

    start: int
    stop: int


class RangeNotSatisfiable(Exception):
    """The range begins after the end of the file."""


def span_of(header: str | None, size: int) -> ByteRange | None:
    """The bytes of a Range header; None for the whole file.

    A malformed header, another unit and several ranges are ignored (RFC 9110, 14.2). Raises RangeNotSatisfiable: no
    byte of the file is in the range.
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
    """The response to GET or HEAD: 200, 206 or 416. Raises BadFile: the file is missing."""
    try:
        size = len(content) if isinstance(content, bytes) else (await run_in_threadpool(content.stat)).st_size
    except OSError as error:
        raise unreadable(error, "this file cannot be read", "report it to the people who run this server") from error
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
