"""What Gradio keeps of each open page, bounded: it would keep it for ever, also when nobody ever asks for it."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import gradio as gr

MAX_SESSIONS = 200  # pages that have called lately: 130 KiB each
MAX_WAITING = 16  # calls of one page that have not been answered to it
IDLE_S = 0.02  # Gradio looks every 1 ms whether somebody called: 6% of a core while nobody does
MAX_QUEUED = 128  # calls that wait for their turn, of all pages
FORGOTTEN_S = 30.0  # after so long without anybody who listens
_LEAVING_S, _LOOK_S = 2.0, 0.02  # until a page's own listener before is gone


def bound(blocks: gr.Blocks) -> None:
    """Set Gradio's own bounds; before the app is mounted."""
    blocks.queue(max_size=MAX_QUEUED)
    blocks._queue.ANALYTICS_MAX_EVENTS = 100  # each call makes a table of as many
    blocks._queue.sleep_when_free = IDLE_S
    blocks.state_session_capacity = 2 * MAX_SESSIONS


@dataclass
class _Page:
    seen_s: float = 0.0
    listeners: int = 0


class Sessions:
    """Knows which pages have called and who listens, and has Gradio forget the others."""

    def __init__(self, blocks: gr.Blocks, clock: Callable[[], float] = time.monotonic) -> None:
        self._blocks = blocks
        self._clock = clock
        self._pages: OrderedDict[str, _Page] = OrderedDict()  # the one seen longest ago is first
        self._sweeper: asyncio.Task[None] | None = None

    async def admit(self, session: str) -> bool:
        """Whether a page may call now."""
        await self.sweep()
        if len(self._blocks._queue.pending_event_ids_session.get(session, ())) >= MAX_WAITING:
            return False
        if session not in self._pages and len(self._pages) >= MAX_SESSIONS:
            silent = next((name for name, page in self._pages.items() if not page.listeners), None)
            if silent is None:
                return False
            await self._forget(silent)
        self._see(session, self._pages.setdefault(session, _Page()))
        if self._sweeper is None or self._sweeper.done():
            self._sweeper = asyncio.create_task(self._sweep_till_empty())
        return True

    async def is_awaited(self, session: str) -> bool:
        """Whether Gradio keeps something for a page, and nobody is being told it; whoever was may be just leaving.

        To others Gradio begins an answer all the same, and breaks it off with a traceback.
        """
        for _ in range(round(_LEAVING_S / _LOOK_S)):
            if (page := self._pages.get(session)) is None or not page.listeners:
                break
            await asyncio.sleep(_LOOK_S)
        page = self._pages.get(session)
        kept = session in self._blocks._queue.pending_messages_per_session
        return kept and page is not None and not page.listeners

    @contextmanager
    def listening(self, session: str) -> Iterator[bool]:
        """Somebody listens to a page's answers; yields whether the page has called."""
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
        """Forget the pages that nobody has listened to for a while."""
        before_s = self._clock() - FORGOTTEN_S
        for name in [name for name, page in self._pages.items() if not page.listeners and page.seen_s < before_s]:
            await self._forget(name)

    def _see(self, session: str, page: _Page) -> None:
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
