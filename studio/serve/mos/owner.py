"""What the owner of a studio asks of its listening tests; every call carries the owner's token."""

import asyncio
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from sqlmodel import Session, col, select
from starlette.concurrency import run_in_threadpool

from studio.mos.analysis.results import funnel, overview
from studio.mos.campaign.templates import template_names
from studio.mos.making.heard_utterance import add_utterance
from studio.mos.making.removing import remove_sounds
from studio.mos.rating.campaigns import find, set_state
from studio.mos.service import Listening
from studio.mos.store.tables.campaigns import Campaign
from studio.serve.mos.door import Door, SoundRemove, StateCreate, UtteranceCreate, read_body, takes
from studio.serve.refusals import private_json
from studio.serve.traces.shelf import TraceShelf

_SHOWN = ("name", "kind", "state", "raters", "finished", "answers", "wanted", "lacking")


def owner_routes(listening: Listening, door: Door, shelf: TraceShelf | None) -> APIRouter:
    """The routes under ``/mos/owner``; utterances can be added where there is a shelf that keeps their traces."""
    routes = APIRouter(prefix="/mos/owner")

    @routes.get("/campaigns")
    async def campaigns(request: Request) -> Response:
        await door.owner(request)
        return private_json(await run_in_threadpool(_all, listening))

    @routes.get("/campaigns/{name}")
    async def campaign(request: Request, name: str) -> Response:
        await door.owner(request)
        return private_json(await run_in_threadpool(_one, listening, name))

    @routes.post("/campaigns/{name}/state", openapi_extra=takes(StateCreate))
    async def state(request: Request, name: str) -> Response:
        await door.owner(request)
        wanted = (await read_body(request, StateCreate)).state

        def work(session: Session) -> str:
            return set_state(session, name, wanted).state

        now = await asyncio.wrap_future(listening.store.write(work))
        listening.forget_running()
        return private_json({"name": name, "state": now})

    @routes.post("/campaigns/{name}/remove", openapi_extra=takes(SoundRemove))
    async def remove(request: Request, name: str) -> Response:
        await door.owner(request)
        wanted = await read_body(request, SoundRemove)
        gone = await run_in_threadpool(remove_sounds, listening, name, wanted.item, wanted.system)
        return private_json({"campaign": name, "sounds": gone.sounds, "left": gone.left})

    if shelf is not None:
        _add_drafts(routes, listening, door, shelf)

    @routes.get("/settings")
    async def settings(request: Request) -> Response:
        await door.owner(request)
        return private_json(await run_in_threadpool(lambda: listening.store.settings))

    return routes


def _add_drafts(routes: APIRouter, listening: Listening, door: Door, shelf: TraceShelf) -> None:
    @routes.get("/drafts")
    async def drafts(request: Request) -> Response:
        await door.owner(request)
        return private_json(await run_in_threadpool(_drafts, listening))

    @routes.post("/campaigns/{name}/utterances", openapi_extra=takes(UtteranceCreate))
    async def utterance(request: Request, name: str) -> Response:
        await door.owner(request)
        wanted = await read_body(request, UtteranceCreate)

        def add() -> dict[str, str]:
            return add_utterance(listening, name, shelf.path(wanted.trace), wanted.template, wanted.sure)

        return private_json(await run_in_threadpool(add))


def _drafts(listening: Listening) -> dict[str, list[str]]:
    """What an utterance can be added to: drafts by name, newest first, and templates for a new one."""
    with listening.store.read() as session:
        rows = session.exec(
            select(Campaign.name).where(Campaign.state == "draft").order_by(col(Campaign.created_at).desc())
        )
        return {"drafts": list(rows), "templates": template_names()}


def _all(listening: Listening) -> list[dict[str, Any]]:
    with listening.store.read() as session:
        rows = session.exec(select(Campaign).order_by(col(Campaign.created_at))).all()
        return [_counts(session, row) for row in rows]


def _one(listening: Listening, name: str) -> dict[str, Any]:
    with listening.store.read() as session:
        row = find(session, name)
        return {**_counts(session, row), "links": listening.links(name), "funnel": funnel(session, row)}


def _counts(session: Session, campaign: Campaign) -> dict[str, Any]:
    found = overview(session, campaign)
    return {key: found[key] for key in _SHOWN}
