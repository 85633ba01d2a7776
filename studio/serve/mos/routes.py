"""The routes of listening tests: ``/mos`` for raters, and ``/arena``, the public ladder.

A change is answered only after it is on disk. Every error is ``{"code", "message"}``.
"""

import asyncio
import time
from collections.abc import Callable

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import Response
from sqlmodel import col, select
from starlette.concurrency import run_in_threadpool
from starlette.convertors import Convertor, register_url_convertor

from studio.core.errors import BadFile
from studio.mos.kinds.registry import KINDS
from studio.mos.report.arena import arena_ladder, ladder_page
from studio.mos.service import LADDER, ListeningTests
from studio.mos.sessions.panels import identity_text
from studio.mos.store.access import Visitor, new_resume_code, parse_resume_code
from studio.mos.store.tables import AnswerCreate, Campaign
from studio.serve.auth import TokenAuth
from studio.serve.mos.owner import owner_routes, session_routes
from studio.serve.mos.schemas import JoinCreate, StageCreate
from studio.serve.responses import PRIVATE, private_json, ranged_file, read_body, takes
from studio.serve.trace_store import TraceStore

WAV = "audio/wav"
CACHE_S = 30.0  # the ladder is computed at most so often
CACHE_FACTOR = 50.0  # and at most every so many times its computing time


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

    @routes.get("/next")
    async def next_screen(request: Request) -> Response:
        caller = auth.caller(request)
        if isinstance(caller, Visitor):
            return private_json(await run_in_threadpool(listening.visitor_view, caller))
        return private_json(await asyncio.wrap_future(listening.next(caller)))

    @routes.post("/stage", openapi_extra=takes(StageCreate))
    async def stage(request: Request) -> Response:
        caller = auth.caller(request)
        body = await read_body(request, StageCreate)
        if isinstance(caller, Visitor):
            return private_json(await asyncio.wrap_future(listening.consent(caller, body.stage, body.data)))
        return private_json(await asyncio.wrap_future(listening.stage(caller, body.stage, body.data)))

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


def add_arena(app: FastAPI, listening: ListeningTests, now_s: Callable[[], float] = time.monotonic) -> None:
    """Add the ladder of every open arena; 404 while none is open."""
    cache: list[tuple[float, bytes | None]] = []  # when it expires, and the page
    computing = asyncio.Lock()

    def is_fresh() -> bool:
        return bool(cache) and now_s() < cache[-1][0]

    async def page() -> bytes | None:
        if is_fresh() or (cache and computing.locked()):  # serve the old page while the new one is computed
            return cache[-1][1]
        async with computing:
            if not is_fresh():
                began_s = now_s()
                body = await run_in_threadpool(_ladder_page, listening)
                cache[:] = [(now_s() + max(CACHE_S, CACHE_FACTOR * (now_s() - began_s)), body)]
        return cache[-1][1]

    @app.get(LADDER)
    @app.head(LADDER)
    async def arena() -> Response:
        body = await page()
        if body is None:
            raise BadFile("no arena is open", "ask the people who run this studio")
        headers = {"Cache-Control": f"public, max-age={CACHE_S:.0f}"}
        return Response(body, media_type="text/html; charset=utf-8", headers=headers)


def _ladder_page(listening: ListeningTests) -> bytes | None:
    standing = [name for name, kind in KINDS.items() if kind.is_standing]
    arenas = select(Campaign).where(Campaign.state == "open", col(Campaign.kind).in_(standing))
    with listening.store.read() as session:
        rows = session.exec(arenas.order_by(col(Campaign.created_at).desc(), col(Campaign.id).desc())).all()
        ladders = [
            (arena_ladder(session, row, run), listening.links(row.name)["rater"], listening.titles(session, run.id))
            for row in rows
            if (run := listening.run_of(session, row))
        ]
    return ladder_page(ladders).encode() if ladders else None
