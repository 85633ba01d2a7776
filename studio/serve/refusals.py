"""Errors as answers: every StudioError has a status, and a body ``{"code", "message"}``."""

import logging
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from sqlalchemy.exc import DBAPIError

from studio.annotation import edits as annotating
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
from studio.core.traces.forced import Unable
from studio.mos.kinds.base import BadAnswer
from studio.mos.making.editing import ChangedMeanwhile, LosesSounds
from studio.mos.making.heard_utterance import LeavesHoles
from studio.mos.rating.campaigns import NotOpen
from studio.mos.rating.sittings import NotThisStage
from studio.mos.store.access import Forbidden, TooMany

PRIVATE = {"Cache-Control": "private, no-store"}
STATUS: Mapping[type[StudioError], int] = {
    StudioError: 400,
    Forbidden: 403,
    BadFile: 404,
    BadVoice: 404,
    ChangedMeanwhile: 409,
    annotating.ChangedMeanwhile: 409,
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
    Unable: 501,
    Busy: 503,
    Closed: 503,
    Unavailable: 503,
}
STORE_RETRY_S = 2

log = logging.getLogger("studio.serve")


def status_of(error: StudioError) -> int:
    """The status of an error: its own, or that of the nearest kind that has one."""
    return next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)


def private_json(content: Any, status: int = 200, **headers: str) -> JSONResponse:
    """An answer that no cache keeps."""
    return JSONResponse(content, status_code=status, headers=PRIVATE | headers)


def add_refusals(app: FastAPI) -> None:
    """Answer errors instead of failing with them."""
    app.add_exception_handler(StudioError, _refused)
    app.add_exception_handler(DBAPIError, _not_stored)
    app.add_exception_handler(OSError, _no_storage)
    app.add_exception_handler(RequestValidationError, _misread)


async def _refused(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, StudioError), "registered for these alone"
    status = status_of(error)
    retry = {"Retry-After": str(error.retry_s)} if isinstance(error, TooMany) else {}
    if status == 503:
        retry = {"Retry-After": str(STORE_RETRY_S)}
    return private_json({"code": error.code, "message": str(error)}, status, **retry)


async def _misread(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError), "registered for these alone"
    places = ", ".join(sorted({str(wrong["loc"][-1]) for wrong in error.errors()}))
    return private_json({"code": "bad_message", "message": f"{places} is not what it should be"}, 422)


async def _not_stored(_: Request, error: Exception) -> JSONResponse:
    """The database did not take it (a full disk, a lost connection). Its message may hold what a rater typed."""
    log.error("the database refused a change: %s", type(error).__name__)
    body = {"code": "not_stored", "message": "this could not be saved just now; it may be sent again"}
    return private_json(body, 503, **{"Retry-After": str(STORE_RETRY_S)})


async def _no_storage(_: Request, error: Exception) -> JSONResponse:
    """The disk failed, or no file can be opened: the client tries again. Paths of the server are not told."""
    log.error("the storage failed: %r", error)
    body = {"code": "unavailable", "message": "the server's storage cannot be used just now; try again"}
    return private_json(body, 503, **{"Retry-After": str(STORE_RETRY_S)})
