"""The owner's routes that publish a voice on the hub: what can be published, the upload, and its state."""

import threading
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.responses import Response
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from studio.core.cards import read_card
from studio.core.errors import BadVoice, Busy
from studio.core.ports import Engine
from studio.core.pulled import read_source
from studio.core.traces.teacher_forcing import SupportsRecomputer
from studio.hub.client import has_token
from studio.hub.push import push_voice
from studio.serve.auth import TokenAuth
from studio.serve.library.voices import BELOW, MAX_ADDRESS_CHARS, job_errors
from studio.serve.responses import StrictModel, private_json, read_body, takes


class VoicePush(StrictModel):
    """A voice of this studio, and the repository that is created or replaced."""

    voice: str = Field(max_length=80)
    repo: str = Field(max_length=MAX_ADDRESS_CHARS)
    private: bool = False


@dataclass
class PushState:
    """An upload as the page shows it; ``link`` is the commit's address after it succeeded."""

    voice: str
    repo: str
    link: str = ""
    error: str = ""
    is_running: bool = True


class VoicePushes:
    """Uploads voices in a thread, one at a time; the newest upload's state is kept."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._state: PushState | None = None

    def listed(self) -> dict[str, Any]:
        """The voices that can be published, whether there is a token, and the newest upload."""
        rows = list[dict[str, str]]()
        for folder in self._folders().values():
            with suppress(BadVoice):  # its card was damaged after the start
                rows.append(_row(folder))
        return {
            "voices": rows,
            "has_token": has_token(),
            "push": None if self._state is None else asdict(self._state),
        }

    def start(self, wanted: VoicePush) -> None:
        """Begin an upload. Raises BadVoice: no such voice; Busy: another upload is running."""
        folder = self._folders().get(wanted.voice)
        if folder is None:
            raise BadVoice(f"there is no voice {wanted.voice!r:.80} to publish", "the list shows those that there are")
        with self._lock:
            if self._state is not None and self._state.is_running:
                raise Busy(f"{self._state.voice} is being published", "wait until it has ended")
            self._state = PushState(wanted.voice, wanted.repo)
        threading.Thread(target=self._run, args=(wanted, folder, self._state), name="voice push", daemon=True).start()

    def _run(self, wanted: VoicePush, folder: Path, state: PushState) -> None:
        with job_errors(state, "the upload"):
            state.link = push_voice(folder, wanted.repo, private=wanted.private)

    def _folders(self) -> dict[str, Path]:
        """Of the voices that were not pulled from the hub: those have a publisher already."""
        if not isinstance(self._engine, SupportsRecomputer):
            return {}
        own = dict[str, Path]()
        for name, folder in self._engine.recomputer().voice_folders().items():
            with suppress(BadVoice):  # a damaged record: it was pulled
                if read_source(folder) is None:
                    own[name] = folder
        return own


def add_publishing(app: FastAPI, auth: TokenAuth, engine: Engine) -> None:
    """Add the routes."""
    pushes = VoicePushes(engine)
    routes = APIRouter(prefix=BELOW, dependencies=[Depends(auth.owner)])

    @routes.get("/push")
    async def listed() -> Response:
        return private_json(await run_in_threadpool(pushes.listed))

    @routes.post("/push", openapi_extra=takes(VoicePush))
    async def push(request: Request) -> Response:
        wanted = await read_body(request, VoicePush)
        await run_in_threadpool(pushes.start, wanted)
        return private_json(await run_in_threadpool(pushes.listed))

    app.include_router(routes)


def _row(folder: Path) -> dict[str, str]:
    card = read_card(folder)
    return {"name": card.name, "title": card.title, "licence": card.licence, "learned_from": card.learned_from}
