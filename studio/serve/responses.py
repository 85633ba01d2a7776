"""Error responses: a status and a body ``{"code", "message"}`` for each StudioError."""

import logging
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from sqlalchemy.exc import DBAPIError

from studio.annotation.edits import AnnotationConflict
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
)
from studio.core.traces.teacher_forcing import NotSupported
from studio.mos.kinds.base import BadAnswer
from studio.mos.sessions.campaigns import NotOpen
from studio.mos.sessions.stages import NotThisStage
from studio.mos.stimuli.editing import DraftConflict, LosesSounds
from studio.mos.stimuli.speech import LeavesHoles
from studio.mos.store.access import Forbidden, TooMany

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
    BadOption: 422,
    BadText: 422,
    TooMany: 429,
    NeedsPackage: 501,
    NotSupported: 501,
    Busy: 503,
    Closed: 503,
    Unavailable: 503,
}
STORE_RETRY_S = 2

log = logging.getLogger("studio.serve")


def status_of(error: StudioError) -> int:
    """The HTTP status of an error, by its nearest class in ``STATUS``."""
    return next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)


def private_json(content: Any, status: int = 200, **headers: str) -> JSONResponse:
    """A JSON response that is not cached."""
    return JSONResponse(content, status_code=status, headers=PRIVATE | headers)


def add_error_handlers(app: FastAPI) -> None:
    """Add handlers for the errors of Studio, the database, the file system and request validation."""
    app.add_exception_handler(StudioError, _on_studio_error)
    app.add_exception_handler(DBAPIError, _on_database_error)
    app.add_exception_handler(OSError, _on_os_error)
    app.add_exception_handler(RequestValidationError, _on_invalid_request)


async def _on_studio_error(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, StudioError), "registered for these alone"
    status = status_of(error)
    retry = {"Retry-After": str(error.retry_s)} if isinstance(error, TooMany) else {}
    if status == 503:
        retry = {"Retry-After": str(STORE_RETRY_S)}
    return private_json({"code": error.code, "message": str(error)}, status, **retry)


async def _on_invalid_request(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError), "registered for these alone"
    names = ", ".join(sorted({str(one["loc"][-1]) for one in error.errors()}))
    return private_json({"code": "bad_message", "message": f"{names}: not allowed"}, 422)


async def _on_database_error(_: Request, error: Exception) -> JSONResponse:
    """A full disk or a lost connection. The error's message is not logged: it may hold what a rater typed."""
    log.error("a database write failed: %s", type(error).__name__)
    body = {"code": "not_stored", "message": "this could not be saved just now; it may be sent again"}
    return private_json(body, 503, **{"Retry-After": str(STORE_RETRY_S)})


async def _on_os_error(_: Request, error: Exception) -> JSONResponse:
    """The disk failed, or no file can be opened. The response names no path of the server."""
    log.error("storage error: %r", error)
    body = {"code": "unavailable", "message": "the server's storage cannot be used just now; try again"}
    return private_json(body, 503, **{"Retry-After": str(STORE_RETRY_S)})
