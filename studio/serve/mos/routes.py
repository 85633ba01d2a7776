"""The routes of listening tests: ``/mos`` for raters.

A change is answered only after it is on disk. Every error is ``{"code", "message"}``.
"""

import asyncio
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool
from starlette.convertors import Convertor, register_url_convertor

from studio.mos.service import ListeningTests
from studio.mos.sessions.panels import identity_text
from studio.mos.store.access import Visitor, new_resume_code, parse_resume_code
from studio.mos.store.tables import AnswerCreate
from studio.serve.auth import TokenAuth
from studio.serve.mos.owner import owner_routes, session_routes
from studio.serve.mos.schemas import JoinCreate, StageCreate
from studio.serve.responses import PRIVATE, private_json, ranged_file, read_body, takes
from studio.serve.trace_store import TraceStore

WAV = "audio/wav"


class _Small(Convertor[int]):
    """A small number in a path. Starlette's ``int`` accepts more digits than Python parses."""

    regex = "[0-9]{1,4}"

    def convert(self, value: str) -> int:
        return int(value)

    def to_string(self, value: int) -> str:
        return str(value)


register_url_convertor("small", _Small())


def add_listening(app: FastAPI, listening: ListeningTests, trace_store: TraceStore | None = None) -> TokenAuth:
    """Add the listening tests; the caller owns ``listening`` and closes it.

    ``trace_store``: traces that the owner may add to a draft.
    """
    auth = TokenAuth(listening)
    app.include_router(_join_routes(listening, auth))
    app.include_router(_session_routes(listening, auth))
    app.include_router(_sound_routes(listening, auth))
    app.include_router(session_routes(auth))
    app.include_router(owner_routes(listening, auth, trace_store))
    return auth


def _join_routes(listening: ListeningTests, auth: TokenAuth) -> APIRouter:
    routes = APIRouter(prefix="/mos")

    @routes.get("/greet")
    async def greet(request: Request, campaign: str = "", key: str = "") -> Response:
        return private_json(await auth.greet(request, campaign, key))

    @routes.post("/join", openapi_extra=takes(JoinCreate))
    async def join(request: Request) -> Response:
        body = await read_body(request, JoinCreate)
        await auth.greet(request, body.campaign, body.key)  # forged links never reach the database writer
        auth.join(request)
        panel: dict[str, str] = {name: value for name, value in body.panel.items() if value is not None}
        code, who = None, identity_text(panel)
        if who is None:
            code = parse_resume_code(body.code) if body.code else new_resume_code()
            who = f"code|{code}"
        device = dict(body.device)
        joined = await run_in_threadpool(listening.join, body.campaign, body.key, who, panel, device)
        return private_json({**joined, "code": code})

    return routes


def _session_routes(listening: ListeningTests, auth: TokenAuth) -> APIRouter:
    routes = APIRouter(prefix="/mos")

    async def next_view(rater: int, *, is_new: bool = False) -> dict[str, Any]:
        return await asyncio.wrap_future(await run_in_threadpool(listening.next, rater, is_new=is_new))

    @routes.get("/next")
    async def next_screen(request: Request) -> Response:
        caller = auth.caller(request)
        if isinstance(caller, Visitor):
            return private_json(await run_in_threadpool(listening.visitor_view, caller))
        return private_json(await next_view(caller))

    @routes.post("/stage", openapi_extra=takes(StageCreate))
    async def stage(request: Request) -> Response:
        caller = auth.caller(request)
        body = await read_body(request, StageCreate)
        if not isinstance(caller, Visitor):
            await asyncio.wrap_future(listening.stage(caller, body.stage, body.data))
            return private_json(await next_view(caller))
        agreed = await asyncio.wrap_future(listening.consent(caller, body.stage, body.data))
        return private_json(await next_view(agreed, is_new=True) if isinstance(agreed, int) else agreed)

    @routes.post("/answer", openapi_extra=takes(AnswerCreate))
    async def add_answer(request: Request) -> Response:
        rater = auth.rater(request)
        body = await read_body(request, AnswerCreate)
        answer = await asyncio.wrap_future(listening.answer(rater, body))
        if answer.counted:
            return private_json(answer.model_dump(exclude_none=True))
        message = "this screen was answered before, and that answer counts; go on with the next one"
        return private_json({**answer.model_dump(exclude_none=True), "code": "answered", "message": message}, 409)

    @routes.post("/withdraw")
    async def withdraw(request: Request) -> Response:
        await asyncio.wrap_future(listening.withdraw(auth.rater(request)))
        return private_json({})

    return routes


def _sound_routes(listening: ListeningTests, auth: TokenAuth) -> APIRouter:
    routes = APIRouter(prefix="/mos")

    @routes.get("/clip/{trial}/{slot:small}/{key}")
    @routes.head("/clip/{trial}/{slot:small}/{key}")
    async def clip(request: Request, trial: str, slot: int, key: str) -> Response:
        rater = auth.rater(request)
        with auth.watched(request):
            sound = await run_in_threadpool(listening.sounds.clip, rater, trial, slot, key)
        return await ranged_file(request, sound, WAV)

    @routes.get("/headphones/{index:small}")
    async def headphones(request: Request, index: int) -> Response:
        rater = auth.rater(request)
        sound = await run_in_threadpool(listening.sounds.headphone, rater, index)
        return Response(sound, media_type=WAV, headers=PRIVATE)

    @routes.get("/environment/{index:small}")
    async def environment(request: Request, index: int) -> Response:
        rater = auth.rater(request)
        sound = await run_in_threadpool(listening.sounds.environment, rater, index)
        return Response(sound, media_type=WAV, headers=PRIVATE)

    return routes
