"""Scheduling of requests: round robin by network address, and paced while speech is synthesised."""

import asyncio
import math
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress

from studio.core.errors import Busy

SHARE = 4.0  # while an utterance is spoken, requests compute for at most one SHARE-th of the time
AT_ONCE = 8  # requests that run together while no utterance is spoken: most of them wait for the database
MAX_RUN_S = 0.02  # a request that has run this long counts as waiting (for a trace or an event), and delays no other


class Turns:
    """Runs a few requests at a time, round robin by address: no address waits for all requests of another one.

    Args:
        max_waiting, max_per_address: requests that run or wait, in total and of one address.
        at_once, at_once_per_address: requests that run, in total and of one address.
    """

    def __init__(
        self,
        max_waiting: float = math.inf,
        max_per_address: float = math.inf,
        at_once: int = 1,
        at_once_per_address: int = 1,
    ) -> None:
        self._max_waiting, self._max_per_address = max_waiting, max_per_address
        self._running = asyncio.Semaphore(at_once)
        self._at_once_per_address = at_once_per_address
        self._heads: dict[str, asyncio.Semaphore] = {}  # held by requests of an address that run or are next
        self._waiting: Counter[str] = Counter()

    @asynccontextmanager
    async def turn(self, address: str) -> AsyncGenerator[None]:
        """Wait for a turn. Raises Busy."""
        if self._waiting.total() >= self._max_waiting or self._waiting[address] >= self._max_per_address:
            raise Busy("too many requests of this kind are waiting", "try again in a moment")
        self._waiting[address] += 1
        try:
            head = self._heads.setdefault(address, asyncio.Semaphore(self._at_once_per_address))
            async with head, self._running:
                yield
        finally:
            self._waiting -= Counter((address,))  # removes an address without requests
            if not self._waiting[address]:
                self._heads.pop(address, None)


class _Run:
    """One request."""

    def __init__(self, began_s: float) -> None:
        self.began_s, self.ended_s = began_s, math.inf
        self._began_cpu_s, self._cpu_s = time.process_time(), math.inf
        self.has_ended = asyncio.Event()

    def end(self, now_s: float) -> None:
        self.ended_s, self._cpu_s = now_s, time.process_time() - self._began_cpu_s
        self.has_ended.set()

    def cost_s(self) -> float:
        """Upper bound of its CPU time until now or its end: the CPU time of the whole process."""
        return min(self.ended_s - self.began_s, self._cpu_s, time.process_time() - self._began_cpu_s, MAX_RUN_S)


class RequestPacer:
    """Limits how many requests run at once, so that traffic that is not paced waits for few of them.

    During speech, each request starts when the previous one has ended, after a pause proportional to the CPU time that
    it used. The pause leaves the event loop and the interpreter's lock to speech, however slow requests are on this
    machine. Without speech, ``AT_ONCE`` requests run together.

    Args:
        max_run_s: a request that has run this long delays no other. With 0, only their starts are spaced.
    """

    def __init__(self, max_run_s: float = MAX_RUN_S) -> None:
        self._max_run_s = max_run_s
        self._turns = Turns()
        self._runs = deque[_Run](maxlen=AT_ONCE)  # the last ones to start

    @asynccontextmanager
    async def run(self, address: str, is_speaking: Callable[[], bool]) -> AsyncGenerator[None]:
        """Wait for the turn of an address, and pause while an utterance is spoken; the block is the request."""
        loop = asyncio.get_running_loop()
        async with self._turns.turn(address):
            if is_speaking() and self._runs:
                await _wait_for(self._runs[-1], self._max_run_s)
            elif len(self._runs) == AT_ONCE:
                await _wait_for(self._runs[0], self._max_run_s)
            if self._runs:
                await _pause(self._runs[-1], SHARE if is_speaking() else 0.0)
            run = _Run(loop.time())
            self._runs.append(run)
        try:
            yield
        finally:
            run.end(loop.time())


async def _wait_for(run: _Run, max_s: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout_at(run.began_s + max_s):
            await run.has_ended.wait()


async def _pause(run: _Run, share: float) -> None:
    """Yield to the event loop at least once, so that 64 simultaneous requests are not handled in one iteration."""
    await asyncio.sleep(run.began_s + share * run.cost_s() - asyncio.get_running_loop().time())
