"""The owner's routes of listening tests, below ``/mos/owner``; all but signing in need the owner's token or cookie."""

import asyncio
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Query, Request
from fastapi.responses import Response
from sqlmodel import Session, col, select
from starlette.concurrency import run_in_threadpool

from studio.core.clips import mixed_to_mono
from studio.core.traces.trace import open_trace
from studio.inspection.opening import recording_trace
from studio.mos.analysis.clips import find_sound, rated_sound
from studio.mos.analysis.results import funnel, overview
from studio.mos.kinds.registry import template_titles
from studio.mos.service import ListeningTests
from studio.mos.sessions.campaigns import find_campaign, set_state
from studio.mos.stimuli.building import remove_sounds
from studio.mos.stimuli.speech import add_utterance
from studio.mos.store.tables import Campaign
from studio.serve.auth import TokenAuth, session_cookie
from studio.serve.mos.schemas import SessionCreate, SoundRemove, StateCreate, UtteranceCreate
from studio.serve.responses import private_json, read_body, takes
from studio.serve.trace_store import TraceStore
from studio.serve.trace_views import LoadTrace, Recomputation, TraceViews, sound_of

_OVERVIEW_KEYS = ("name", "kind", "state", "raters", "finished", "answers", "counted", "wanted", "lacking")


def session_routes(auth: TokenAuth) -> APIRouter:
    """Sign a browser in and out; the only routes here that need no token before."""
    routes = APIRouter(prefix="/mos/owner")

    @routes.post("/session", openapi_extra=takes(SessionCreate))
    async def sign_in(request: Request) -> Response:
        token = (await read_body(request, SessionCreate)).token
        answer = private_json({"signed_in": True})
        answer.headers["set-cookie"] = await auth.sign_in(request, token)
        return answer

    @routes.delete("/session")
    async def sign_out(request: Request) -> Response:
        answer = private_json({"signed_in": False})
        answer.headers["set-cookie"] = session_cookie(request, "")
        return answer

    return routes


def owner_routes(listening: ListeningTests, auth: TokenAuth, trace_store: TraceStore | None) -> APIRouter:
    """The routes of campaigns; utterances can be added where there is a trace store."""
    routes = APIRouter(prefix="/mos/owner", dependencies=[Depends(auth.owner)])

    @routes.get("/campaigns")
    def campaigns() -> Response:
        with listening.store.read() as session:
            rows = session.exec(select(Campaign).order_by(col(Campaign.created_at))).all()
            return private_json([_counts(session, row) for row in rows])

    @routes.get("/campaigns/{name}")
    def campaign(name: str) -> Response:
        with listening.store.read() as session:
            row = find_campaign(session, name)
            more = {"links": listening.links(name), "funnel": funnel(session, row)}
            return private_json(_counts(session, row) | more)

    @routes.post("/campaigns/{name}/state", openapi_extra=takes(StateCreate))
    async def state(request: Request, name: str) -> Response:
        new_state = (await read_body(request, StateCreate)).state

        def work(session: Session) -> str:
            return set_state(session, name, new_state).state

        now = await asyncio.wrap_future(listening.store.write(work))
        listening.clear_campaign_cache()
        return private_json({"name": name, "state": now})

    @routes.post("/campaigns/{name}/remove", openapi_extra=takes(SoundRemove))
    async def remove(request: Request, name: str) -> Response:
        body = await read_body(request, SoundRemove)
        removed = await run_in_threadpool(remove_sounds, listening, name, body.item, body.system)
        return private_json({"campaign": name, "sounds": removed.sounds, "left": removed.left})

    if trace_store is not None:
        _add_drafts(routes, listening, trace_store)

    @routes.get("/settings")
    def settings() -> Response:
        return private_json(listening.store.settings)

    return routes


def _add_drafts(routes: APIRouter, listening: ListeningTests, trace_store: TraceStore) -> None:
    @routes.get("/drafts")
    def drafts() -> Response:
        # Drafts to which an utterance can be added, the newest first, and templates for a new one with their titles.
        names = select(Campaign.name).where(Campaign.state == "draft").order_by(col(Campaign.created_at).desc())
        with listening.store.read() as session:
            return private_json({"drafts": list(session.exec(names)), "templates": template_titles()})

    @routes.post("/campaigns/{name}/utterances", openapi_extra=takes(UtteranceCreate))
    async def utterance(request: Request, name: str) -> Response:
        body = await read_body(request, UtteranceCreate)
        trace = await run_in_threadpool(trace_store.path, body.trace)
        added = await run_in_threadpool(add_utterance, listening, name, trace, body.template, body.sure)
        return private_json(added)


def _counts(session: Session, campaign: Campaign) -> dict[str, Any]:
    counts = overview(session, campaign)
    return {key: counts[key] for key in _OVERVIEW_KEYS}


_Name = Annotated[str, Query(max_length=400)]


def add_rated(
    app: FastAPI, listening: ListeningTests, auth: TokenAuth, views: TraceViews, recomputation: Recomputation
) -> None:
    """Add the routes of one rated sound, named by a script and a system; the token is checked before the names."""
    routes = APIRouter(prefix="/mos/owner/campaigns/{name}/sound", dependencies=[Depends(auth.owner)])

    async def loader(name: str, script: str, system: str) -> LoadTrace:
        """What opens the sound's trace, or makes one of its clip and text."""

        def find() -> LoadTrace:
            with listening.store.read() as session:
                sound = find_sound(session, name, script, system)
            if sound.trace is not None and (path := listening.clips.trace_path(sound.trace)).is_file():
                return partial(open_trace, path)
            pcm, rate_hz = listening.clips.read(sound.clip_sha)
            return partial(recording_trace, mixed_to_mono(pcm), rate_hz, sound.text)

        return await run_in_threadpool(find)

    @routes.get("/view")
    async def view(request: Request, name: str, script: _Name = "", system: _Name = "") -> Response:
        return await views.view(request, await loader(name, script, system))

    @routes.get("/prosody")
    async def prosody(request: Request, name: str, script: _Name = "", system: _Name = "") -> Response:
        return await views.prosody(request, partial(sound_of, await loader(name, script, system)))

    @routes.get("/attention")
    async def sound_attention(request: Request, name: str, script: _Name = "", system: _Name = "") -> Response:
        return await recomputation.attention(request, await loader(name, script, system))

    @routes.get("/ratings")
    def ratings(name: str, script: _Name = "", system: _Name = "") -> Response:
        with listening.store.read() as session:
            return private_json(rated_sound(session, name, script, system))

    app.include_router(routes)
