"""The owner's routes of drafts, for the Edit page.

Settings, systems and texts are read and checked by the same functions as on the command line.
"""

import json
import threading
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any, TypeVar

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.responses import Response
from sqlmodel import Session, col, select
from starlette.concurrency import run_in_threadpool

from studio.core.cards import parse_voice, voice_address
from studio.core.errors import BadFile, BadOption, Busy
from studio.core.folders import TEXTS
from studio.core.options import merge_options
from studio.core.ports import MAX_TEMPERATURE, Engine
from studio.core.sound_files import MAX_FILE_BYTES
from studio.mos.analysis.planning import advice, plan_draft, plan_draft_margin, planned_test, raters_needed
from studio.mos.campaign.config import campaign_config, from_json, load_template, to_json, to_toml
from studio.mos.campaign.voices import TEACHER, parse_voice_spec
from studio.mos.kinds.registry import kind_of, template_titles
from studio.mos.service import ListeningTests
from studio.mos.sessions.campaigns import find_campaign, load_campaign, opening_problems
from studio.mos.sessions.parts import follow_candidates
from studio.mos.sessions.stage_views import preview
from studio.mos.stimuli import editing
from studio.mos.store.tables import Campaign, Item, Stimulus, System
from studio.serve.auth import TokenAuth
from studio.serve.middleware.bodies import FileRoute
from studio.serve.mos.draft_audio import UPLOAD, DraftSounds, DraftSpeaker
from studio.serve.mos.schemas import DraftCreate, PlanAsk, SettingsChange, SoundsTake, SystemDrop, SystemPut, TextsPut
from studio.serve.responses import PRIVATE, private_json, ranged_file, read_body, takes
from studio.serve.trace_views import VIEWS

EXAMPLE_TEXTS = TEXTS / "demo.txt"  # of a new test
UPLOADS = {UPLOAD: FileRoute(MAX_FILE_BYTES, "owner")}  # the paths that take an upload
T = TypeVar("T")


class _DraftService:
    """What the routes share."""

    def __init__(self, listening: ListeningTests, auth: TokenAuth, engine: Engine) -> None:
        self.listening, self.engine = listening, engine
        self.owner_only = [Depends(auth.owner)]
        self.speaking = DraftSpeaker(listening, engine, VIEWS.call)
        self.sounds = DraftSounds(listening, VIEWS.call)
        self.planning = threading.BoundedSemaphore(1)

    def read(self, name: str, work: Callable[[Session, Campaign], T]) -> T:
        with self.listening.store.read() as session:
            return work(session, find_campaign(session, name))

    def describe(self, name: str) -> dict[str, Any]:
        """A draft as the page shows it."""
        VIEWS.start()  # sounds of a draft are read there
        speaking = self.speaking.progress(name)  # read first: once it is over, its sounds are in the draft
        return self.read(name, lambda session, campaign: self._describe(session, campaign) | {"speaking": speaking})

    def _describe(self, session: Session, campaign: Campaign) -> dict[str, Any]:
        config, kind, name = campaign_config(campaign), kind_of(campaign.kind), campaign.name
        items = session.exec(select(Item).where(Item.campaign_id == campaign.id).order_by(col(Item.id))).all()
        systems = session.exec(select(System).where(System.campaign_id == campaign.id).order_by(col(System.id))).all()
        pairs = select(Stimulus.item_id, Stimulus.system_id).where(Stimulus.campaign_id == campaign.id)
        stimuli = session.exec(pairs).all()
        tests = {i.id for i in items if i.role == "test"}
        unready = opening_problems(session, campaign) if campaign.state == "draft" else []
        counts: dict[str, Any] = {"units": 0, "sittings": 0, "answers": 0}
        if not unready:
            loaded = load_campaign(session, campaign)
            answers = len(loaded.units) * config.raters_per_stimulus
            counts = {"units": len(loaded.units), "sittings": raters_needed(loaded), "answers": answers}
        items_by_role = {role: sum(i.role == role for i in items) for role in ("test", "training", "trap", "gold")}
        return {
            "name": name,
            "kind": campaign.kind,
            "kind_title": kind.title,
            "about": kind.about,
            "is_spoken": kind.is_live,
            "planned_as": planned_test(kind),
            "state": campaign.state,
            "seen": editing.settings_digest(campaign),
            "settings": to_json(config),
            "systems": [_system(s, [item for item, of in stimuli if of == s.id], tests) for s in systems],
            "items": items_by_role,
            "texts": editing.written_texts(items),
            "unspoken": sum(len(one.texts) for one in editing.missing_speech(session, campaign)),
            "not_ready": [_sentence(str(error)) for error in unready],
            "advice": [_sentence(str(error)) for error in advice(session, campaign)],
            "others": follow_candidates(session, campaign, config),
            "folders": self.sounds.folders(),
            "links": self.listening.links(name),
            **counts,
        }

    def check_speakable(self, system: str) -> None:
        """Raises BadOption, BadVoice unless the server has the voice and options of a system."""
        voice, cards = parse_voice_spec(system), self.engine.cards()
        if voice.voice == TEACHER:
            return  # rejected later, with a reason
        card, _ = parse_voice(voice_address(voice.voice, voice.speaker, cards), {c.name: c for c in cards})
        merge_options(card.options, voice.options, {})
        temperature = voice.temperature
        if type(voice.seed) is not int or voice.seed < 0:
            raise BadOption(f"the seed is {voice.seed!r:.40}", "it is a whole number of 0 or more")
        if temperature is not None and (
            type(temperature) not in (int, float) or not 0 <= temperature <= MAX_TEMPERATURE
        ):
            raise BadOption(f"the temperature is {temperature!r:.40}", f"it may be 0 to {MAX_TEMPERATURE:g}")

    def plan(self, name: str, ask: PlanAsk) -> dict[str, Any]:
        if not self.planning.acquire(blocking=False):
            raise Busy("another test is being planned", "try again in a moment")
        try:
            run = self.read(name, load_campaign)
            if ask.margin is not None:
                return asdict(plan_draft_margin(run, ask.margin))
            assert ask.half_width is not None, "one of the two is given"
            return asdict(plan_draft(run, ask.half_width))
        finally:
            self.planning.release()


def add_drafts(app: FastAPI, listening: ListeningTests, auth: TokenAuth, engine: Engine) -> None:
    """Add the routes of drafts; ``engine`` speaks the texts, as a guest."""
    drafts = _DraftService(listening, auth, engine)
    app.include_router(_read_routes(drafts))
    app.include_router(_change_routes(drafts))
    app.include_router(_sound_routes(drafts))


def _read_routes(drafts: _DraftService) -> APIRouter:
    routes = APIRouter(prefix="/mos/owner", dependencies=drafts.owner_only)

    @routes.get("/templates")
    async def templates() -> Response:
        return private_json(await run_in_threadpool(_templates))

    @routes.get("/drafts/{name}")
    async def draft(name: str) -> Response:
        return private_json(await run_in_threadpool(drafts.describe, name))

    @routes.get("/drafts/{name}/preview")
    async def draft_preview(name: str) -> Response:
        return private_json(await run_in_threadpool(drafts.read, name, preview))

    @routes.get("/drafts/{name}/settings.toml")
    async def settings_file(name: str) -> Response:
        text = await run_in_threadpool(drafts.read, name, lambda _, c: to_toml(campaign_config(c)))
        return Response(text, media_type="application/toml", headers=PRIVATE)

    @routes.post("/drafts/{name}/plan", openapi_extra=takes(PlanAsk))
    async def plan(request: Request, name: str) -> Response:
        body = await read_body(request, PlanAsk)
        return private_json(await run_in_threadpool(drafts.plan, name, body))

    return routes


def _change_routes(drafts: _DraftService) -> APIRouter:
    routes = APIRouter(prefix="/mos/owner", dependencies=drafts.owner_only)
    listening = drafts.listening

    async def change(name: str, work: Callable[[], object]) -> Response:
        await run_in_threadpool(work)
        return private_json(await run_in_threadpool(drafts.describe, name))

    @routes.post("/drafts", openapi_extra=takes(DraftCreate))
    async def create(request: Request) -> Response:
        body = await read_body(request, DraftCreate)
        return await change(body.name, partial(editing.new_draft, listening, body.name, body.template))

    @routes.post("/drafts/{name}/settings", openapi_extra=takes(SettingsChange))
    async def settings(request: Request, name: str) -> Response:
        body = await read_body(request, SettingsChange)
        config = from_json(body.settings)
        return await change(name, partial(editing.change_settings, listening, name, config, body.seen))

    @routes.post("/drafts/{name}/systems", openapi_extra=takes(SystemPut))
    async def system(request: Request, name: str) -> Response:
        body = await read_body(request, SystemPut)

        def put() -> None:
            present = drafts.read(
                name, lambda s, c: s.exec(select(System.name).where(System.campaign_id == c.id)).all()
            )
            if body.system not in present:
                drafts.check_speakable(body.system)
            editing.put_system(listening, name, body.system, body.role)

        return await change(name, put)

    @routes.post("/drafts/{name}/systems/drop", openapi_extra=takes(SystemDrop))
    async def drop(request: Request, name: str) -> Response:
        body = await read_body(request, SystemDrop)
        return await change(name, partial(editing.drop_system, listening, name, body.system))

    @routes.post("/drafts/{name}/texts", openapi_extra=takes(TextsPut))
    async def texts(request: Request, name: str) -> Response:
        body = await read_body(request, TextsPut)
        return await change(name, partial(editing.set_texts, listening, name, body.texts, body.sure))

    return routes


def _sound_routes(drafts: _DraftService) -> APIRouter:
    routes = APIRouter(prefix="/mos/owner", dependencies=drafts.owner_only)
    listening = drafts.listening

    @routes.post("/drafts/{name}/speak")
    async def speak(name: str) -> Response:
        await run_in_threadpool(drafts.speaking.begin, name)
        return private_json(await run_in_threadpool(drafts.describe, name))

    @routes.post("/drafts/{name}/speak/stop")
    async def stop(name: str) -> Response:
        drafts.speaking.stop(name)
        return private_json(await run_in_threadpool(drafts.describe, name))

    @routes.post("/drafts/{name}/sounds", openapi_extra=takes(SoundsTake))
    async def sounds(request: Request, name: str) -> Response:
        body = await read_body(request, SoundsTake)
        notes = await run_in_threadpool(drafts.sounds.take, name, body.folder)
        return private_json({**await run_in_threadpool(drafts.describe, name), "notes": notes})

    @routes.post(UPLOAD.removeprefix("/mos/owner"))
    async def upload(request: Request, campaign: str = "", system: str = "", file: str = "") -> Response:
        body = await request.body()
        await run_in_threadpool(drafts.sounds.store, campaign, system, file, body)
        return private_json({"file": file})

    @routes.get("/drafts/{name}/sound")
    async def sound(request: Request, name: str, item: str = "", system: str = "") -> Response:

        def sha(session: Session, campaign: Campaign) -> str:
            clip_sha = session.exec(
                select(Stimulus.clip_sha)
                .join(Item, col(Item.id) == col(Stimulus.item_id))
                .join(System, col(System.id) == col(Stimulus.system_id))
                .where(Stimulus.campaign_id == campaign.id, Item.name == item, System.name == system)
            ).first()
            if clip_sha is None:
                raise BadFile("there is no such sound", "reload the page")
            return clip_sha

        path = listening.clips.path(await run_in_threadpool(drafts.read, name, sha))
        return await ranged_file(request, path, "audio/wav")

    return routes


def _templates() -> dict[str, Any]:
    """The templates of a new draft, with their questions, and example texts."""
    rows: list[dict[str, Any]] = []
    for name, title in template_titles().items():
        config = load_template(name)
        kind = kind_of(config.kind)
        asks = [asdict(q) for q in config.questions] or [{"prompt": config.prompt}]
        rows.append({"name": name, "kind": kind.name, "title": title, "about": kind.about, "asks": asks})
    return {"templates": rows, "example_texts": EXAMPLE_TEXTS.read_text(encoding="utf-8")}


def _system(system: System, items: list[int], tests: set[int | None]) -> dict[str, Any]:
    voice = json.loads(system.voice)
    return {
        "name": system.name,
        "role": system.role,
        "speaks": bool(voice.get("voice") or voice.get("speaker")),
        "sounds": sum(item in tests for item in items),
        "aside": sum(item not in tests for item in items),
    }


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
