"""The routes of the listening tests, ``/mos``: what a rater's page and the load bench call.

Whatever changes something is answered only after it is on disk. Every error is ``{"code", "message"}``.
"""

import asyncio

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool
from starlette.convertors import Convertor, register_url_convertor

from studio.mos.rating.codes import new_code, read_code
from studio.mos.service import Listening
from studio.mos.store.access import Visitor
from studio.mos.store.tables.answers import AnswerCreate
from studio.serve.mos.door import Door, JoinCreate, StageCreate, read_body, takes
from studio.serve.mos.owner import owner_routes
from studio.serve.ranges import ranged_file
from studio.serve.refusals import PRIVATE, private_json
from studio.serve.traces.shelf import TraceShelf

WAV = "audio/wav"


class _Small(Convertor[int]):
    """A number of a route: of a slot or a sound. Starlette's own takes as many digits as Python refuses to read."""

    regex = "[0-9]{1,4}"

    def convert(self, value: str) -> int:
        return int(value)

    def to_string(self, value: int) -> str:
        return str(value)


register_url_convertor("small", _Small())


def add_listening(app: FastAPI, listening: Listening, shelf: TraceShelf | None = None) -> Door:
    """Put the listening tests into an app that answers errors; the caller owns ``listening`` and closes it.

    Args:
        shelf: the traces of what was spoken, which the owner may add to a draft.
    """
    door = Door(listening)
    app.include_router(_way_in(listening, door))
    app.include_router(_sitting(listening, door))
    app.include_router(_sounds(listening, door))
    app.include_router(owner_routes(listening, door, shelf))
    return door


def _way_in(listening: Listening, door: Door) -> APIRouter:
    routes = APIRouter(prefix="/mos")

    @routes.get("/greet")
    async def greet(request: Request, campaign: str = "", key: str = "") -> Response:
        return private_json(await door.greet(request, campaign, key))

    @routes.post("/join", openapi_extra=takes(JoinCreate))
    async def join(request: Request) -> Response:
        wanted = await read_body(request, JoinCreate)
        await door.greet(request, wanted.campaign, wanted.key)  # a forged link never reaches the writer
        door.join(request)
        panel = wanted.panel.model_dump(exclude_none=True)
        code = None
        if "PROLIFIC_PID" in panel:
            who = f"panel|{panel.get('STUDY_ID', '')}|{panel['PROLIFIC_PID']}"
        else:
            code = read_code(wanted.code) if wanted.code else new_code()
            who = f"code|{code}"
        device = dict(wanted.device)
        joined = await run_in_threadpool(listening.join, wanted.campaign, wanted.key, who, panel, device)
        return private_json({**joined, "code": code})

    return routes


def _sitting(listening: Listening, door: Door) -> APIRouter:
    routes = APIRouter(prefix="/mos")

    @routes.get("/next")
    async def next_screen(request: Request) -> Response:
        caller = door.caller(request)
        if isinstance(caller, Visitor):
            return private_json(await run_in_threadpool(listening.door, caller))
        return private_json(await asyncio.wrap_future(listening.next(caller)))

    @routes.post("/stage", openapi_extra=takes(StageCreate))
    async def stage(request: Request) -> Response:
        caller = door.caller(request)
        done = await read_body(request, StageCreate)
        if isinstance(caller, Visitor):
            return private_json(await asyncio.wrap_future(listening.consent(caller, done.stage, done.data)))
        return private_json(await asyncio.wrap_future(listening.stage(caller, done.stage, done.data)))

    @routes.post("/answer", openapi_extra=takes(AnswerCreate))
    async def answer(request: Request) -> Response:
        rater = door.rater(request)
        given = await read_body(request, AnswerCreate)
        kept = await asyncio.wrap_future(listening.answer(rater, given))
        if kept.counted:
            return private_json(kept.model_dump(exclude_none=True))
        message = "this screen was answered before, and that answer counts; go on with the next one"
        return private_json({**kept.model_dump(exclude_none=True), "code": "answered", "message": message}, 409)

    @routes.post("/withdraw")
    async def withdraw(request: Request) -> Response:
        await asyncio.wrap_future(listening.withdraw(door.rater(request)))
        return private_json({})

    return routes


def _sounds(listening: Listening, door: Door) -> APIRouter:
    routes = APIRouter(prefix="/mos")

    @routes.get("/clip/{trial}/{slot:small}/{key}")
    @routes.head("/clip/{trial}/{slot:small}/{key}")
    async def clip(request: Request, trial: str, slot: int, key: str) -> Response:
        rater = door.rater(request)
        with door.watched(request):
            sound = await run_in_threadpool(listening.sounds.clip, rater, trial, slot, key)
        return await ranged_file(request, sound, WAV)

    @routes.get("/headphones/{index:small}")
    async def headphones(request: Request, index: int) -> Response:
        rater = door.rater(request)
        sound = await run_in_threadpool(listening.sounds.headphone, rater, index)
        return Response(sound, media_type=WAV, headers=PRIVATE)

    @routes.get("/environment/{index:small}")
    async def environment(request: Request, index: int) -> Response:
        rater = door.rater(request)
        sound = await run_in_threadpool(listening.sounds.environment, rater, index)
        return Response(sound, media_type=WAV, headers=PRIVATE)

    return routes
