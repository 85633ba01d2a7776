"""``/arena``: the public ladder of every arena that is open: totals alone, made at most twice a minute."""

import asyncio
import time
from collections.abc import Callable

from fastapi import FastAPI
from fastapi.responses import Response
from sqlmodel import col, select
from starlette.concurrency import run_in_threadpool

from studio.core.errors import BadFile
from studio.mos.analysis.ladder import ladder
from studio.mos.kinds.registry import KINDS
from studio.mos.report.arena import ladder_page
from studio.mos.service import LADDER, Listening
from studio.mos.store.tables.campaigns import Campaign

KEPT_S = 30.0  # however many people look; a new vote is on the page after that
KEPT_SHARE = 50.0  # and where there are so many votes that it takes long, so many times as long


def add_arena(app: FastAPI, listening: Listening, now_s: Callable[[], float] = time.monotonic) -> None:
    """Put the ladder into an app; while no arena is open there is no such page."""
    kept: list[tuple[float, bytes | None]] = []  # until when it serves, and the page
    making = asyncio.Lock()

    def is_fresh() -> bool:
        return bool(kept) and now_s() < kept[-1][0]

    async def page() -> bytes | None:
        if is_fresh() or (kept and making.locked()):  # while it is made anew, the last one serves
            return kept[-1][1]
        async with making:
            if not is_fresh():
                began_s = now_s()
                body = await run_in_threadpool(_page, listening)
                kept[:] = [(now_s() + max(KEPT_S, KEPT_SHARE * (now_s() - began_s)), body)]
        return kept[-1][1]

    @app.get(LADDER)
    @app.head(LADDER)
    async def arena() -> Response:
        body = await page()
        if body is None:
            raise BadFile("no arena is open", "ask the people who run this studio")
        headers = {"Cache-Control": f"public, max-age={KEPT_S:.0f}"}
        return Response(body, media_type="text/html; charset=utf-8", headers=headers)


def _page(listening: Listening) -> bytes | None:
    standing = [name for name, kind in KINDS.items() if kind.standing]
    wanted = select(Campaign).where(Campaign.state == "open", col(Campaign.kind).in_(standing))
    with listening.store.read() as session:
        rows = session.exec(wanted.order_by(col(Campaign.created_at).desc(), col(Campaign.id).desc())).all()
        found = [
            (ladder(session, row, run), listening.links(row.name)["rater"], listening.titles(session, run.id))
            for row in rows
            if (run := listening.run_of(session, row))
        ]
    return ladder_page(found).encode() if found else None
