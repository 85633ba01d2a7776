"""A lazily built app: a thread of the running server builds it when it is first needed."""

import asyncio
import gc
import logging
import sys
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from typing import Any

from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from studio.core.garbage import paused_collections
from studio.ui.gradio_middleware import answer

_log = logging.getLogger("studio.ui")
_PAUSE_RATIO = 3.0  # pause / CPU time of an import while an utterance is spoken, as for requests


@dataclass(frozen=True)
class BuiltApp:
    """An app with its lifespan, and a function that ends its endless responses."""

    app: ASGIApp
    lifespan: Callable[[Any], AbstractAsyncContextManager[Any]]
    end: Callable[[], None]


class _PausingFinder(MetaPathFinder):
    """Finds no module, but pauses its own thread before each import while an utterance is spoken."""

    def __init__(self, is_speaking: Callable[[], bool]) -> None:
        self._is_speaking = is_speaking
        self._thread, self._paused_s = threading.get_ident(), time.thread_time()

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        if threading.get_ident() != self._thread:
            return
        if self._is_speaking():
            time.sleep(_PAUSE_RATIO * (time.thread_time() - self._paused_s))
        self._paused_s = time.thread_time()


@contextmanager
def _beside_speech(is_speaking: Callable[[], bool]) -> Generator[None]:
    """Import without long stalls of other threads: pauses during speech, no garbage collection.

    At the end of the imports, a collection would take 0.1 s.
    """
    finder = _PausingFinder(is_speaking)
    sys.meta_path.insert(0, finder)
    try:
        with paused_collections():
            yield
            gc.freeze()  # as the server does after its own imports; 3 MB of the objects are garbage
    finally:
        sys.meta_path.remove(finder)


class LateApp:
    """ASGI app that builds another one in a thread on ``begin``; a request calls ``begin`` and waits for the app."""

    def __init__(self, build: Callable[[], BuiltApp], is_speaking: Callable[[], bool] = lambda: False) -> None:
        self._build, self._is_speaking = build, is_speaking
        self._built: Future[BuiltApp] = Future()
        self._built.set_running_or_notify_cancel()  # a cancelled request must not cancel the others' build
        self._begun = False
        self._started: asyncio.Event | None = None  # set once the lifespan has begun; None without ``attach``

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.begin()
        try:
            built = await asyncio.wrap_future(self._built)
        except Exception:  # noqa: BLE001 - any error of the build, which its thread has logged
            await answer(send, 500, "this page failed to start; the server's log says why")
            return
        if self._started is not None:
            await self._started.wait()
        await built.app(scope, receive, send)

    def begin(self) -> Future[BuiltApp]:
        """Begin the build unless it has begun; returns its future. Call this from the event loop."""
        if not self._begun:
            self._begun = True
            threading.Thread(target=self._run, name="components", daemon=True).start()
        return self._built

    def attach(self, app: FastAPI) -> None:
        """Run the built app's lifespan within that of ``app``."""
        outer = app.router.lifespan_context

        @asynccontextmanager
        async def lifespan(one: Any) -> AsyncGenerator[Any, None]:
            closing = asyncio.Event()
            self._started = asyncio.Event()
            async with outer(one) as state:
                running = asyncio.create_task(self._live(closing, self._started))
                yield state
                closing.set()
                await running

        app.router.lifespan_context = lifespan

    def end(self) -> None:
        """End endless responses."""
        if self._built.done() and self._built.exception() is None:
            self._built.result().end()

    async def _live(self, closing: asyncio.Event, started: asyncio.Event) -> None:
        """Run the lifespan of the built app until ``closing``."""
        building = asyncio.wrap_future(self._built)
        closed = asyncio.create_task(closing.wait())
        await asyncio.wait((building, closed), return_when=asyncio.FIRST_COMPLETED)
        if building.done() and building.exception() is None:
            built = building.result()
            async with built.lifespan(built.app):
                started.set()
                await closed
        await closed

    def _run(self) -> None:
        try:
            with _beside_speech(self._is_speaking):
                app = self._build()
        except Exception as error:  # noqa: BLE001 - whatever fails, waiting requests get an answer
            _log.exception("the pages of Gradio components failed to start")
            self._built.set_exception(error)
        else:
            self._built.set_result(app)
