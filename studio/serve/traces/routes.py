"""Routes of traces: the file itself, and its sound as a WAV file."""

import asyncio
from collections import Counter
from functools import partial

import anyio.to_thread
from anyio import CapacityLimiter
from fastapi import FastAPI, Request
from fastapi.responses import FileResponse
from starlette.responses import Response

from studio.core.errors import Busy
from studio.serve.door.addresses import address_of
from studio.serve.refusals import PRIVATE
from studio.serve.traces.shelf import TraceShelf, download_name

AT_ONCE = 2  # sounds that are made of traces: each takes a core and, of an hour, half a gigabyte
WAITING, WAITING_OF_ONE = 16, 8  # requests for sounds, of all and of one network address


class _Makers:
    """Makes a few sounds at once, on threads of their own: no other route waits for them."""

    def __init__(self, shelf: TraceShelf) -> None:
        self._shelf = shelf
        self._places, self._threads = asyncio.Semaphore(AT_ONCE), CapacityLimiter(AT_ONCE)
        self._waiting: Counter[str] = Counter()

    async def sound(self, request: Request, token: str, *, as_heard: bool) -> bytes | None:
        """A WAV file; None where whoever asked for it has left meanwhile. Raises BadFile, Busy."""
        address = address_of(request)
        if self._waiting.total() >= WAITING or self._waiting[address] >= WAITING_OF_ONE:
            raise Busy("too many sounds are being fetched", "try again in a moment")
        self._waiting[address] += 1
        try:
            async with self._places:
                if await request.is_disconnected():
                    return None
                make = partial(self._shelf.wav, token, as_heard=as_heard)
                return await anyio.to_thread.run_sync(make, limiter=self._threads)
        finally:
            self._waiting -= Counter((address,))  # which forgets an address that waits for nothing


def add_traces(app: FastAPI, shelf: TraceShelf) -> None:
    """Put the routes of a shelf into an app."""
    makers = _Makers(shelf)

    @app.get("/traces/{token}.trace")
    async def trace(token: str) -> FileResponse:
        path, name = shelf.path(token), download_name(token, ".trace")
        return FileResponse(path, media_type="application/zip", filename=name, headers=PRIVATE)

    @app.get("/traces/{token}.wav")
    async def wav(request: Request, token: str, as_heard: bool = False) -> Response:
        content = await makers.sound(request, token, as_heard=as_heard)
        name = download_name(token, "-as-heard.wav" if as_heard else ".wav")
        headers = PRIVATE | {"Content-Disposition": f'attachment; filename="{name}"'}
        return Response(content or b"", media_type="audio/wav", headers=headers)
