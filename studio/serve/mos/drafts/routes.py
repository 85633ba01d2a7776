"""What the owner's Edit page asks: a draft as it stands, and every change of it; each call carries the owner's token.

All of it is what the command line does, too: settings, systems and texts are read and checked by the same functions.
"""

import json
import threading
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any, TypeVar

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import Response
from sqlmodel import Session, col, select
from starlette.concurrency import run_in_threadpool

from studio.core.cards import parse_voice, voice_address
from studio.core.errors import BadFile, BadOption, Busy
from studio.core.options import merge_options
from studio.core.ports import MAX_TEMPERATURE, Engine
from studio.mos.analysis.advice import advice
from studio.mos.analysis.planned import plan_of, sittings_needed, test_of
from studio.mos.campaign.config import from_json, to_json
from studio.mos.campaign.settings_file import to_toml
from studio.mos.campaign.speaking_systems import TEACHER, read_spec
from studio.mos.campaign.templates import template, template_names
from studio.mos.kinds.registry import KINDS, kind_of
from studio.mos.making import editing
from studio.mos.making.preview import preview
from studio.mos.rating.campaigns import find, problems, running
from studio.mos.rating.parts import may_follow
from studio.mos.service import Listening
from studio.mos.store.tables.campaigns import Campaign
from studio.mos.store.tables.stimuli import Item, Stimulus, System
from studio.serve.door.bodies import FileRoute
from studio.serve.mos.door import Door, read_body, takes
from studio.serve.mos.drafts.messages import (
    DraftCreate,
    PlanAsk,
    SettingsChange,
    SoundsTake,
    SystemDrop,
    SystemPut,
    TextsPut,
)
from studio.serve.mos.drafts.sounds import MAX_FILE_BYTES, UPLOAD, DraftSounds
from studio.serve.mos.drafts.speaking import DraftSpeaking
from studio.serve.ranges import ranged_file
from studio.serve.refusals import PRIVATE, private_json

UPLOADS = {UPLOAD: FileRoute(MAX_FILE_BYTES, "owner")}  # the paths that take a file
T = TypeVar("T")


class _Drafts:
    """What the routes share."""

    def __init__(self, listening: Listening, door: Door, engine: Engine) -> None:
        self.listening, self.door, self.engine = listening, door, engine
        self.speaking = DraftSpeaking(listening, engine)
        self.sounds = DraftSounds(listening)
        self.planning = threading.BoundedSemaphore(1)

    def read(self, name: str, work: Callable[[Session, Campaign], T]) -> T:
        with self.listening.store.read() as session:
            return work(session, find(session, name))

    async def owner(self, request: Request, work: Callable[[], Any]) -> Response:
        """Do something for the owner alone, beside the loop."""
        await self.door.owner(request)
        return private_json(await run_in_threadpool(work))

    def shown(self, name: str) -> dict[str, Any]:
        """A draft as its page draws it."""
        speaking = self.speaking.told(name)  # before the draft is read: when that is over, its sounds are in there
        return self.read(name, lambda session, campaign: self._shown(session, campaign) | {"speaking": speaking})

    def _shown(self, session: Session, campaign: Campaign) -> dict[str, Any]:
        config, kind, name = from_json(json.loads(campaign.config)), kind_of(campaign.kind), campaign.name
        items = session.exec(select(Item).where(Item.campaign_id == campaign.id).order_by(col(Item.id))).all()
        systems = session.exec(select(System).where(System.campaign_id == campaign.id).order_by(col(System.id))).all()
        pairs = select(Stimulus.item_id, Stimulus.system_id).where(Stimulus.campaign_id == campaign.id)
        heard = session.exec(pairs).all()
        tests = {i.id for i in items if i.role == "test"}
        unready = problems(session, campaign) if campaign.state == "draft" else []
        counts: dict[str, Any] = {"units": 0, "sittings": 0, "answers": 0}
        if not unready:
            run = running(session, campaign)
            answers = len(run.units) * config.raters_per_stimulus
            counts = {"units": len(run.units), "sittings": sittings_needed(run), "answers": answers}
        told = {role: sum(i.role == role for i in items) for role in ("test", "training", "trap", "gold")}
        return {
            "name": name,
            "kind": campaign.kind,
            "kind_title": kind.title,
            "about": kind.about,
            "is_spoken": kind.spoken,
            "planned_as": test_of(kind),
            "state": campaign.state,
            "seen": editing.mark_of(campaign),
            "settings": to_json(config),
            "systems": [_system(s, [item for item, of in heard if of == s.id], tests) for s in systems],
            "items": told,
            "texts": editing.written_texts(items),
            "unspoken": sum(len(one.texts) for one in editing.unspoken(session, campaign)),
            "not_ready": [_sentence(str(error)) for error in unready],
            "advice": [_sentence(str(error)) for error in advice(session, campaign)],
            "others": may_follow(session, campaign, config),
            "folders": self.sounds.folders(),
            "links": self.listening.links(name),
            **counts,
        }

    def check_speakable(self, system: str) -> None:
        """Raises BadOption, BadVoice unless the server has the voice of a system, with such options."""
        voice, cards = read_spec(system), self.engine.cards()
        if voice.voice == TEACHER:
            return  # it is refused with the reason
        card, _ = parse_voice(voice_address(voice.voice, voice.speaker, cards), {c.name: c for c in cards})
        merge_options(card.options, voice.options, {})
        warmth = voice.temperature
        if type(voice.seed) is not int or voice.seed < 0:
            raise BadOption(f"the seed is {voice.seed!r:.40}", "it is a whole number of 0 or more")
        if warmth is not None and (type(warmth) not in (int, float) or not 0 <= warmth <= MAX_TEMPERATURE):
            raise BadOption(f"the temperature is {warmth!r:.40}", f"it may be 0 to {MAX_TEMPERATURE:g}")

    def plan(self, name: str, half_width: float) -> dict[str, Any]:
        if not self.planning.acquire(blocking=False):
            raise Busy("another test is being planned", "try again in a moment")
        try:
            run = self.read(name, running)
            return asdict(plan_of(run, half_width))
        finally:
            self.planning.release()


def add_drafts(app: FastAPI, listening: Listening, door: Door, engine: Engine) -> None:
    """Put the routes of drafts into an app; texts are spoken by ``engine``, behind everybody else."""
    drafts = _Drafts(listening, door, engine)
    app.include_router(_reading(drafts))
    app.include_router(_changing(drafts))
    app.include_router(_sounding(drafts))


def _reading(drafts: _Drafts) -> APIRouter:
    routes = APIRouter(prefix="/mos/owner")

    @routes.get("/templates")
    async def templates(request: Request) -> Response:
        return await drafts.owner(request, _templates)

    @routes.get("/drafts/{name}")
    async def draft(request: Request, name: str) -> Response:
        return await drafts.owner(request, partial(drafts.shown, name))

    @routes.get("/drafts/{name}/preview")
    async def look(request: Request, name: str) -> Response:
        return await drafts.owner(request, partial(drafts.read, name, preview))

    @routes.get("/drafts/{name}/settings.toml")
    async def settings_file(request: Request, name: str) -> Response:
        await drafts.door.owner(request)
        text = await run_in_threadpool(drafts.read, name, lambda _, c: to_toml(from_json(json.loads(c.config))))
        return Response(text, media_type="application/toml", headers=PRIVATE)

    @routes.post("/drafts/{name}/plan", openapi_extra=takes(PlanAsk))
    async def plan(request: Request, name: str) -> Response:
        await drafts.door.owner(request)
        asked = await read_body(request, PlanAsk)
        return private_json(await run_in_threadpool(drafts.plan, name, asked.half_width))

    return routes


def _changing(drafts: _Drafts) -> APIRouter:
    routes, listening = APIRouter(prefix="/mos/owner"), drafts.listening

    async def changed(name: str, work: Callable[[], object]) -> Response:
        await run_in_threadpool(work)
        return private_json(await run_in_threadpool(drafts.shown, name))

    @routes.post("/drafts", openapi_extra=takes(DraftCreate))
    async def create(request: Request) -> Response:
        await drafts.door.owner(request)
        wanted = await read_body(request, DraftCreate)
        return await changed(wanted.name, partial(editing.new_draft, listening, wanted.name, wanted.template))

    @routes.post("/drafts/{name}/settings", openapi_extra=takes(SettingsChange))
    async def settings(request: Request, name: str) -> Response:
        await drafts.door.owner(request)
        wanted = await read_body(request, SettingsChange)
        config = from_json(wanted.settings)
        return await changed(name, partial(editing.change_settings, listening, name, config, wanted.seen))

    @routes.post("/drafts/{name}/systems", openapi_extra=takes(SystemPut))
    async def system(request: Request, name: str) -> Response:
        await drafts.door.owner(request)
        wanted = await read_body(request, SystemPut)

        def put() -> None:
            there = drafts.read(name, lambda s, c: s.exec(select(System.name).where(System.campaign_id == c.id)).all())
            if wanted.system not in there:
                drafts.check_speakable(wanted.system)
            editing.put_system(listening, name, wanted.system, wanted.role)

        return await changed(name, put)

    @routes.post("/drafts/{name}/systems/drop", openapi_extra=takes(SystemDrop))
    async def drop(request: Request, name: str) -> Response:
        await drafts.door.owner(request)
        wanted = await read_body(request, SystemDrop)
        return await changed(name, partial(editing.drop_system, listening, name, wanted.system))

    @routes.post("/drafts/{name}/texts", openapi_extra=takes(TextsPut))
    async def texts(request: Request, name: str) -> Response:
        await drafts.door.owner(request)
        wanted = await read_body(request, TextsPut)
        return await changed(name, partial(editing.set_texts, listening, name, wanted.texts, wanted.sure))

    return routes


def _sounding(drafts: _Drafts) -> APIRouter:
    routes, listening = APIRouter(prefix="/mos/owner"), drafts.listening

    @routes.post("/drafts/{name}/speak")
    async def speak(request: Request, name: str) -> Response:
        await drafts.door.owner(request)
        await run_in_threadpool(drafts.speaking.begin, name)
        return private_json(await run_in_threadpool(drafts.shown, name))

    @routes.post("/drafts/{name}/speak/stop")
    async def stop(request: Request, name: str) -> Response:
        await drafts.door.owner(request)
        drafts.speaking.stop(name)
        return private_json(await run_in_threadpool(drafts.shown, name))

    @routes.post("/drafts/{name}/sounds", openapi_extra=takes(SoundsTake))
    async def sounds(request: Request, name: str) -> Response:
        await drafts.door.owner(request)
        wanted = await read_body(request, SoundsTake)
        told = await run_in_threadpool(drafts.sounds.take, name, wanted.folder)
        return private_json({**await run_in_threadpool(drafts.shown, name), "notes": told})

    @routes.post(UPLOAD.removeprefix("/mos/owner"))
    async def upload(request: Request, campaign: str = "", system: str = "", file: str = "") -> Response:
        await drafts.door.owner(request)
        body = await request.body()
        await run_in_threadpool(drafts.sounds.keep, campaign, system, file, body)
        return private_json({"file": file})

    @routes.get("/drafts/{name}/sound")
    async def sound(request: Request, name: str, item: str = "", system: str = "") -> Response:
        await drafts.door.owner(request)

        def sha(session: Session, campaign: Campaign) -> str:
            found = session.exec(
                select(Stimulus.clip_sha)
                .join(Item, col(Item.id) == col(Stimulus.item_id))
                .join(System, col(System.id) == col(Stimulus.system_id))
                .where(Stimulus.campaign_id == campaign.id, Item.name == item, System.name == system)
            ).first()
            if found is None:
                raise BadFile("there is no such sound", "reload the page")
            return found

        path = listening.clips.path(await run_in_threadpool(drafts.read, name, sha))
        return await ranged_file(request, path, "audio/wav")

    return routes


def _templates() -> dict[str, Any]:
    """What a new draft may begin with, and the questions that each asks."""
    found: list[dict[str, Any]] = []
    configs = {name: template(name) for name in template_names()}
    for name, config in sorted(configs.items(), key=lambda one: [*KINDS].index(one[1].kind)):
        kind = kind_of(config.kind)
        asks = [asdict(q) for q in config.questions] or [{"prompt": config.prompt}]
        found.append({"name": name, "kind": kind.name, "title": kind.title, "about": kind.about, "asks": asks})
    return {"templates": found}


def _system(system: System, said: list[int], tests: set[int | None]) -> dict[str, Any]:
    voice = json.loads(system.voice)
    return {
        "name": system.name,
        "role": system.role,
        "speaks": bool(voice.get("voice") or voice.get("speaker")),
        "sounds": sum(item in tests for item in said),
        "aside": sum(item not in tests for item in said),
    }


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
