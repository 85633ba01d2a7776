"""Bounds of Gradio's state per open page, which Gradio would keep for ever."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import gradio as gr

MAX_SESSIONS = 200  # pages with recent calls: 130 KiB each
MAX_WAITING = 16  # pending calls of one page
IDLE_S = 0.02  # Gradio polls every 1 ms: 6% of a core while idle
MAX_QUEUED = 128  # pending calls of all pages
FORGOTTEN_S = 30.0  # a page without a listener for so long is dropped
_LEAVING_S, _POLL_S = 2.0, 0.02  # time for a page's previous listener to disconnect


def limit_queue(blocks: gr.Blocks) -> None:
    """Set Gradio's own limits, before the app is mounted."""
    blocks.queue(max_size=MAX_QUEUED)
    blocks._queue.ANALYTICS_MAX_EVENTS = 100  # each call builds a table of this length
    blocks._queue.sleep_when_free = IDLE_S
    blocks.state_session_capacity = 2 * MAX_SESSIONS


@dataclass
class _PageState:
    seen_s: float = 0.0
    listeners: int = 0


class PageSessions:
    """Tracks the pages with calls and their listeners, and drops Gradio's state of the others."""

    def __init__(self, blocks: gr.Blocks, clock: Callable[[], float] = time.monotonic) -> None:
        self._blocks = blocks
        self._clock = clock
        self._pages: OrderedDict[str, _PageState] = OrderedDict()  # least recently used first
        self._sweeper: asyncio.Task[None] | None = None

    async def admit(self, session: str) -> bool:
        """Whether a page may make a call now."""
        await self.sweep()
        if len(self._blocks._queue.pending_event_ids_session.get(session, ())) >= MAX_WAITING:
            return False
        if session not in self._pages and len(self._pages) >= MAX_SESSIONS:
            silent = next((name for name, page in self._pages.items() if not page.listeners), None)
            if silent is None:
                return False
            await self._forget(silent)
        self._see(session, self._pages.setdefault(session, _PageState()))
        if self._sweeper is None or self._sweeper.done():
            self._sweeper = asyncio.create_task(self._sweep_till_empty())
        return True

    async def is_awaited(self, session: str) -> bool:
        """Whether a page has pending results and no listener; waits for a previous listener to disconnect.

        For others, Gradio would start a response and fail with a traceback.
        """
        for _ in range(round(_LEAVING_S / _POLL_S)):
            if (page := self._pages.get(session)) is None or not page.listeners:
                break
            await asyncio.sleep(_POLL_S)
        page = self._pages.get(session)
        has_results = session in self._blocks._queue.pending_messages_per_session
        return has_results and page is not None and not page.listeners

    @contextmanager
    def listening(self, session: str) -> Iterator[bool]:
        """Count a listener of a page's results; yields whether the page has made a call."""
        page = self._pages.get(session)
        if page is None:
            yield False
            return
        page.listeners += 1
        try:
            yield True
        finally:
            page.listeners -= 1
            if self._pages.get(session) is page:
                self._see(session, page)

    async def sweep(self) -> None:
        """Drop the pages without a listener for ``FORGOTTEN_S``."""
        before_s = self._clock() - FORGOTTEN_S
        for name in [name for name, page in self._pages.items() if not page.listeners and page.seen_s < before_s]:
            await self._forget(name)

    def _see(self, session: str, page: _PageState) -> None:
        page.seen_s = self._clock()
        self._pages.move_to_end(session)

    async def _sweep_till_empty(self) -> None:
        while self._pages:
            await asyncio.sleep(FORGOTTEN_S / 4)
            await self.sweep()

    async def _forget(self, session: str) -> None:
        self._pages.pop(session, None)
        queue, states = self._blocks._queue, self._blocks.state_holder
        await queue.clean_events(session_hash=session)
        queue.pending_messages_per_session.pop(session, None)
        queue.pending_event_ids_session.pop(session, None)
        states.session_data.pop(session, None)
        states.time_last_used.pop(session, None)
        self._blocks.pending_streams.pop(session, None)
        self._blocks.pending_diff_streams.pop(session, None)
