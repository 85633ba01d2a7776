"""The arena: ``/arena``, the public ladder, and ``/arena/vote``, which leads to the newest open arena."""

import asyncio
import math
import time
from collections.abc import Callable

from fastapi import FastAPI
from fastapi.responses import RedirectResponse, Response
from starlette.concurrency import run_in_threadpool

from studio.core.errors import BadFile
from studio.mos.report.arena import arena_ladder, ladder_page
from studio.mos.service import LADDER, ListeningTests
from studio.mos.sessions.campaigns import open_arenas

CACHE_S = 30.0  # the ladder is computed at most so often
CACHE_FACTOR = 50.0  # and at most every so many times its computing time
LINK_S = 5.0  # the pages look for an open arena at most so often


def add_arena(app: FastAPI, listening: ListeningTests, now_s: Callable[[], float] = time.monotonic) -> None:
    """Add the ladder of every open arena, and the way to the newest one; 404 while none is open."""
    cache: list[tuple[float, bytes | None]] = []  # when it expires, and the page
    computing = asyncio.Lock()

    def is_fresh() -> bool:
        return bool(cache) and now_s() < cache[-1][0]

    async def page() -> bytes | None:
        if is_fresh() or (cache and computing.locked()):  # serve the old page while the new one is computed
            return cache[-1][1]
        async with computing:
            if not is_fresh():
                began_s = now_s()
                body = await run_in_threadpool(_ladder_page, listening)
                cache[:] = [(now_s() + max(CACHE_S, CACHE_FACTOR * (now_s() - began_s)), body)]
        return cache[-1][1]

    @app.get(LADDER)
    @app.head(LADDER)
    async def arena() -> Response:
        body = await page()
        if body is None:
            raise _none_open()
        headers = {"Cache-Control": f"public, max-age={CACHE_S:.0f}"}
        return Response(body, media_type="text/html; charset=utf-8", headers=headers)

    newest = NewestArena(listening, now_s)

    @app.get(f"{LADDER}/vote")
    @app.head(f"{LADDER}/vote")
    async def vote() -> Response:
        path = await newest.path()
        if path is None:
            raise _none_open()
        return RedirectResponse(f"..{path}", 303)


class NewestArena:
    """Path of the raters' link of the newest open arena, looked up at most every ``LINK_S``."""

    def __init__(self, listening: ListeningTests, now_s: Callable[[], float] = time.monotonic) -> None:
        self._listening, self._now_s = listening, now_s
        self._path: str | None = None
        self._expires_s = -math.inf

    async def path(self) -> str | None:
        """None while no arena is open."""
        if self._now_s() >= self._expires_s:
            self._expires_s = self._now_s() + LINK_S  # before the query: other requests get the old path meanwhile
            self._path = await run_in_threadpool(self._listening.newest_arena)
        return self._path


def _none_open() -> BadFile:
    return BadFile("no arena is open", "the owner can open one on the page Listening tests")


def _ladder_page(listening: ListeningTests) -> bytes | None:
    with listening.store.read() as session:
        ladders = [
            (arena_ladder(session, row, run), listening.links(row.name)["rater"], listening.titles(session, run.id))
            for row in open_arenas(session)
            if (run := listening.run_of(session, row))
        ]
    return ladder_page(ladders).encode() if ladders else None
