"""The routes of the Inspect page: a trace of the shelf, or a file of the caller's own, packed for the picture."""

import asyncio
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Annotated
from urllib.parse import unquote

import numpy as np
from fastapi import Body, FastAPI, Header, Request
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool

from studio.core.clips import read_wav
from studio.core.errors import BadFile, BadMessage, Busy
from studio.core.ports import Engine
from studio.core.traces.forced import Attends, Left, Unable, kept_attention
from studio.core.traces.trace import Trace, open_trace
from studio.core.traces.trace_reader import read_audio
from studio.inspection.bundle import pack, pack_attention, pack_prosody
from studio.inspection.opening import Limits, open_bytes, sound_of_bytes
from studio.serve.door.bodies import FileRoute
from studio.serve.refusals import PRIVATE
from studio.serve.traces.shelf import TraceShelf

OPEN, PROSODY, ATTENTION = "/inspect/open", "/inspect/prosody", "/inspect/attention"
MAX_FILE_BYTES = 64_000_000  # an hour of 24 kHz speech is more: `studio inspect` opens it
FILES = dict.fromkeys((OPEN, PROSODY, ATTENTION), FileRoute(MAX_FILE_BYTES))  # the paths that take a file
MAX_TEXT_CHARS = 16_000  # percent-encoded, in a header
_PARTS = {"meta.json": 1 << 20, "events.jsonl": 1 << 24, "audio.wav": MAX_FILE_BYTES, "layers.npz": 1 << 25}
MAX_EVENTS = 250_000  # ten minutes of speech have 70,000: 64 MB of them stay below
LIMITS = Limits(_PARTS, layer=1 << 25, events=MAX_EVENTS)
_AT_ONCE = 2
MOST_PITCH_S = 660.0  # ten minutes, and what is left of a sentence then
_LOOK_S = 0.25  # how often it is looked whether who asked still waits
MEDIA_TYPE = "application/octet-stream"


async def while_asked(request: Request, work: Callable[[Callable[[], bool]], Response]) -> Response:
    """Do something beside the loop that ``wanted`` may end once who asked has left; then there is nothing to answer.

    Args:
        work: raises ``Left`` where ``wanted``, which it is given, says that nobody waits.
    """
    gone = threading.Event()

    async def watch() -> None:
        while not await request.is_disconnected():
            await asyncio.sleep(_LOOK_S)
        gone.set()

    watching = asyncio.create_task(watch())
    try:
        return await run_in_threadpool(work, lambda: not gone.is_set())
    except Left:
        return Response(status_code=204, headers=PRIVATE)
    finally:
        watching.cancel()


class Attention:
    """Has the engine tell where a net attended; one at a time, and only while somebody waits for it."""

    def __init__(self, engine: Engine, views: "Views") -> None:
        self._engine, self._views = engine, views

    async def answer(self, request: Request, opened: Callable[[], Trace]) -> Response:
        """Attention and likelihood of each frame of a trace, packed; nothing where who asked has left.

        Raises:
            Busy: another one is being computed; and what ``opened`` and ``studio.core.traces.forced.Attends`` raise.
        """
        return await while_asked(request, lambda wanted: self._answer(opened, wanted))

    def _answer(self, opened: Callable[[], Trace], wanted: Callable[[], bool]) -> Response:
        with self._views.place():
            trace = opened()
        found = kept_attention(trace)
        if found is None:
            if not isinstance(self._engine, Attends):
                raise Unable("this server's engine cannot tell what a net attended to", "`studio inspect` can")
            found = self._engine.attend(trace, wanted)
        return bundle(pack_attention(found, trace.p_eos))


class Views:
    """Opens traces and packs them for the picture, two at once: each takes a core and much memory."""

    def __init__(self) -> None:
        self._places = threading.BoundedSemaphore(_AT_ONCE)

    @contextmanager
    def place(self) -> Generator[None]:
        """Room to open one. Raises Busy."""
        if not self._places.acquire(blocking=False):
            raise Busy("other traces are being opened", "try again in a moment")
        try:
            yield
        finally:
            self._places.release()

    def packed(self, opened: Callable[[], Trace]) -> Response:
        """What the page draws of a trace. Raises Busy, and what ``opened`` raises."""
        with self.place():
            return bundle(pack(opened()))

    def prosody(self, sound: Callable[[], tuple[np.ndarray, int]]) -> Response:
        """Level and pitch of a sound, which the page asks for once there is a picture. Raises as ``packed`` does.

        A trace's sound alone is read for it: samples int16 [T], and their rate.
        """
        with self.place():
            return bundle(pack_prosody(*sound(), most_s=MOST_PITCH_S))


def bundle(content: bytes) -> Response:
    """An answer that the page's scripts read."""
    return Response(content, media_type=MEDIA_TYPE, headers=PRIVATE)


@contextmanager
def sent() -> Generator[None]:
    """A file that was sent: it is there, so BadFile means that it is not what it should be. Raises BadMessage."""
    try:
        yield
    except BadFile as error:
        raise BadMessage(error.what, error.do) from error


def add_inspection(app: FastAPI, shelf: TraceShelf, views: Views, attention: Attention) -> None:
    """Add the routes; nothing that is sent is kept."""

    @app.get("/traces/{token}.view")
    def on_shelf(token: str) -> Response:
        return views.packed(lambda: open_trace(shelf.path(token)))

    @app.get("/traces/{token}.prosody")
    def prosody_on_shelf(token: str) -> Response:
        return views.prosody(lambda: read_wav(read_audio(shelf.path(token))))

    @app.get("/traces/{token}.attention")
    async def attention_on_shelf(request: Request, token: str) -> Response:
        return await attention.answer(request, lambda: open_trace(shelf.path(token)))

    @app.post(OPEN)
    def look(
        body: Annotated[bytes, Body(media_type=MEDIA_TYPE)] = b"",
        x_studio_text: Annotated[str, Header(max_length=MAX_TEXT_CHARS)] = "",
    ) -> Response:
        with sent():
            return views.packed(lambda: open_bytes(body, unquote(x_studio_text), LIMITS))

    @app.post(PROSODY)
    def prosody_of(body: Annotated[bytes, Body(media_type=MEDIA_TYPE)] = b"") -> Response:
        with sent():
            return views.prosody(lambda: sound_of_bytes(body, MAX_FILE_BYTES))

    @app.post(ATTENTION)
    async def attention_of(request: Request, body: Annotated[bytes, Body(media_type=MEDIA_TYPE)] = b"") -> Response:
        with sent():
            return await attention.answer(request, lambda: open_bytes(body, "", LIMITS))
