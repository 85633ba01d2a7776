"""The routes of the Inspect page: a trace of the shelf, or a file of the caller's own, packed for the picture."""

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import Annotated
from urllib.parse import unquote

from fastapi import Body, FastAPI, Header
from fastapi.responses import Response

from studio.core.errors import BadFile, BadMessage, Busy
from studio.core.trace import Trace, open_trace
from studio.inspection.bundle import pack, pack_prosody
from studio.inspection.opening import Limits, open_bytes
from studio.serve.door.bodies import FileRoute
from studio.serve.refusals import PRIVATE
from studio.serve.traces import TraceShelf

OPEN, PROSODY = "/inspect/open", "/inspect/prosody"
MAX_FILE_BYTES = 64_000_000  # an hour of 24 kHz speech is more: `studio inspect` opens it
FILES = dict.fromkeys((OPEN, PROSODY), FileRoute(MAX_FILE_BYTES))  # the paths that take a file
MAX_TEXT_CHARS = 16_000  # percent-encoded, in a header
_PARTS = {"meta.json": 1 << 20, "events.jsonl": 1 << 24, "audio.wav": MAX_FILE_BYTES, "layers.npz": 1 << 25}
LIMITS = Limits(_PARTS, layer=1 << 25)
_AT_ONCE = 2
MOST_PITCH_S = 600.0
MEDIA_TYPE = "application/octet-stream"


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
        return self._answer(pack, opened)

    def prosody(self, opened: Callable[[], Trace]) -> Response:
        """Its level and pitch, which the page asks for once there is a picture. Raises as ``packed`` does."""
        return self._answer(partial(pack_prosody, most_s=MOST_PITCH_S), opened)

    def _answer(self, made: Callable[[Trace], bytes], opened: Callable[[], Trace]) -> Response:
        with self.place():
            return Response(made(opened()), media_type=MEDIA_TYPE, headers=PRIVATE)


@contextmanager
def sent() -> Generator[None]:
    """A file that was sent: it is there, so BadFile means that it is not what it should be. Raises BadMessage."""
    try:
        yield
    except BadFile as error:
        raise BadMessage(error.what, error.do) from error


def add_inspection(app: FastAPI, shelf: TraceShelf, views: Views) -> None:
    """Add the routes; nothing that is sent is kept."""

    @app.get("/traces/{token}.view")
    def on_shelf(token: str) -> Response:
        return views.packed(lambda: open_trace(shelf.path(token)))

    @app.get("/traces/{token}.prosody")
    def prosody_on_shelf(token: str) -> Response:
        return views.prosody(lambda: open_trace(shelf.path(token)))

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
            return views.prosody(lambda: open_bytes(body, "", LIMITS))
