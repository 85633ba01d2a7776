"""The owner's routes of voices from the hub: list, look up, pull with progress, verify, remove."""

import logging
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Protocol, TypeVar

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.responses import Response
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from studio.core.cards import read_card
from studio.core.checks import escape_unprintable
from studio.core.errors import BadVoice, Busy, StudioError
from studio.core.folders import pulled_voices_folder, without_folders
from studio.core.ports import Engine
from studio.core.pulled import read_source
from studio.hub.client import HubError
from studio.hub.kyutai import MAX_PATH_CHARS, MOST_SPEAKERS
from studio.hub.pull import Offer, look, pull, pulled_names, remove, verify
from studio.serve.auth import TokenAuth
from studio.serve.responses import StrictModel, private_json, read_body, takes

T = TypeVar("T")
log = logging.getLogger("studio.serve")
BELOW = "/library/voices"
_MAX_SPEAKERS = 5_000  # that are offered
MAX_ADDRESS_CHARS = 400  # a repository and a revision


class VoiceAddress(StrictModel):
    """A repository, as ``owner/name`` or ``owner/name@revision``, and the voice's name here, empty for the card's."""

    address: str = Field(max_length=MAX_ADDRESS_CHARS)
    name: str = Field(default="", max_length=80)


class VoicePull(VoiceAddress):
    """The owner has read the licence of this revision, and chosen speakers of a model of Kyutai's, by their paths."""

    accepts_licence: bool
    speakers: list[Annotated[str, Field(max_length=MAX_PATH_CHARS)]] = Field(default=[], max_length=MOST_SPEAKERS)


class PulledVoice(StrictModel):
    """A pulled voice."""

    name: str = Field(max_length=80)


@dataclass
class PullState:
    """A pull as the page shows it; ``error`` is empty while it runs and after it succeeded."""

    address: str
    total_bytes: int = 0
    done_bytes: int = 0
    voice: str = ""
    error: str = ""
    is_running: bool = True


class Job(Protocol):
    """The state of a job in a thread, as the page shows it."""

    error: str
    is_running: bool


@contextmanager
def job_errors(state: Job, name: str) -> Generator[None]:
    """Turns what ends a job early into a sentence of its state; the job is over after the block."""
    said = f"{name} failed; the server's log says why"
    try:
        yield
        said = ""
    except StudioError as error:
        said = without_folders(str(error))
    except OSError as error:
        log.error("%s failed: %s", name, escape_unprintable(str(error)))
        said = f"the file system refuses it: {error.strerror}"
    finally:
        state.error = said
        state.is_running = False


class VoicePulls:
    """Pulls voices in a thread, one at a time; the newest pull's state is kept."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._state: PullState | None = None
        self._stopping = threading.Event()

    def state(self) -> dict[str, Any] | None:
        return None if self._state is None else asdict(self._state)

    def reserved_names(self, root: Path) -> set[str]:
        """Names of voices and systems that were not pulled."""
        return {card.name for card in self._engine.cards()} - {*pulled_names(root)}

    def start(self, wanted: VoicePull) -> None:
        """Begin a pull. Raises HubError: its licence was not accepted; Busy: another one is running."""
        if not wanted.accepts_licence:
            raise HubError("the licence was not accepted", "look the voice up, and accept its licence")
        with self._lock:
            if self._state is not None and self._state.is_running:
                raise Busy(f"{self._state.address} is being pulled", "wait until it has ended, or stop it")
            self._state = PullState(wanted.address)
            self._stopping.clear()
        # A daemon: what it leaves behind when the server ends is completed by the next pull.
        threading.Thread(target=self._run, args=(wanted, self._state), name="voice pull", daemon=True).start()

    def stop(self) -> None:
        """End a running pull; what was fetched is kept for the next one."""
        self._stopping.set()

    def _run(self, wanted: VoicePull, state: PullState) -> None:
        def accept(offer: Offer) -> bool:
            state.total_bytes = offer.listing.total_bytes
            return True

        def advance(count: int) -> None:
            state.done_bytes += count
            if self._stopping.is_set():
                raise HubError("the pull was stopped", "pull it again: it goes on where it stopped")

        with job_errors(state, "the pull"):
            root = pulled_voices_folder()
            folder = pull(
                wanted.address,
                root,
                accept,
                name=wanted.name,
                reserved=self.reserved_names(root),
                speakers=wanted.speakers,
                advance=advance,
            )
            state.voice = folder.name


def add_voices(app: FastAPI, auth: TokenAuth, engine: Engine) -> None:
    """Add the routes."""
    pulls = VoicePulls(engine)
    routes = APIRouter(prefix=BELOW, dependencies=[Depends(auth.owner)])

    async def answer(work: Callable[[], T]) -> Response:
        return private_json(await run_in_threadpool(work))

    @routes.get("")
    async def voices() -> Response:
        spoken = {card.name for card in engine.cards()}
        return await answer(lambda: {"voices": _pulled(spoken), "pull": pulls.state()})

    @routes.post("/look", openapi_extra=takes(VoiceAddress))
    async def look_up(request: Request) -> Response:
        wanted = await read_body(request, VoiceAddress)

        def work() -> dict[str, Any]:
            root = pulled_voices_folder()
            return _describe(look(wanted.address, root, name=wanted.name, reserved=pulls.reserved_names(root)))

        return await answer(work)

    @routes.post("/pull", openapi_extra=takes(VoicePull))
    async def pull_voice(request: Request) -> Response:
        pulls.start(await read_body(request, VoicePull))
        return private_json({"pull": pulls.state()})

    @routes.post("/stop")
    async def stop() -> Response:
        pulls.stop()
        return private_json({"pull": pulls.state()})

    @routes.post("/verify", openapi_extra=takes(PulledVoice))
    async def verify_voice(request: Request) -> Response:
        name = (await read_body(request, PulledVoice)).name
        return await answer(lambda: {"files": verify(_folder(name))})

    @routes.post("/remove", openapi_extra=takes(PulledVoice))
    async def remove_voice(request: Request) -> Response:
        name = (await read_body(request, PulledVoice)).name
        await run_in_threadpool(lambda: remove(name, pulled_voices_folder()))
        return private_json({"removed": name})

    app.include_router(routes)


def _folder(name: str) -> Path:
    """The folder of a pulled voice. Raises BadVoice."""
    root = pulled_voices_folder()
    if name not in pulled_names(root):
        raise BadVoice(f"there is no pulled voice {name!r:.80}", "the list shows those that there are")
    return root / name


def _pulled(spoken: set[str]) -> list[dict[str, Any]]:
    root = pulled_voices_folder()
    return [_row(root / name, is_spoken=name in spoken) for name in pulled_names(root)]


def _row(folder: Path, *, is_spoken: bool) -> dict[str, Any]:
    """A pulled voice as the page lists it; a damaged one with its problem, so that it can be removed."""
    row: dict[str, Any] = {"name": folder.name, "is_spoken": is_spoken}
    try:
        card, source = read_card(folder), read_source(folder)
    except StudioError as error:
        return row | {"problem": without_folders(str(error))}
    if source is None:
        return row | {"problem": "its record is gone"}
    return row | {
        "title": card.title,
        "licence": card.licence,
        "repo": source.repo,
        "revision": source.revision,
        "link": f"{source.endpoint}/{source.repo}/tree/{source.revision}",
        "pulled_at": source.pulled_at,
        "bytes": _size_bytes(folder),
    }


def _size_bytes(folder: Path) -> int:
    """Of the files of a voice; 0 where it is being removed."""
    try:
        return sum(path.stat().st_size for path in folder.iterdir())
    except FileNotFoundError:
        return 0


def _describe(offer: Offer) -> dict[str, Any]:
    return {
        "name": offer.card.name,
        "title": offer.card.title,
        "address": f"{offer.listing.repo}@{offer.listing.revision}",
        "licences": offer.licences,
        "learned_from": offer.card.learned_from,
        "bytes": offer.listing.total_bytes,
        "refused": list(offer.listing.refused)[:20],
        "speakers": list(offer.speakers)[:_MAX_SPEAKERS],
        "most_speakers": MOST_SPEAKERS,
    }
