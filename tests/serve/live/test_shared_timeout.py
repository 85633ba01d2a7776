"""One shared timer that cancels only what exceeds its time."""

import asyncio
import time
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor

import pytest

from studio.serve.live.backpressure import SharedTimeout


def on_a_loop(work: Coroutine[None, None, None]) -> None:
    """Run on an event loop in a new thread: this one may have a loop, that of browser tests."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, work).result()


async def _within(timeout: SharedTimeout, for_s: float) -> float:
    began_s = time.monotonic()
    with pytest.raises(TimeoutError), timeout:
        await asyncio.sleep(for_s)
    return time.monotonic() - began_s


def test_fast_work_finishes_and_slow_work_is_cancelled() -> None:
    async def work() -> None:
        timeout = SharedTimeout(1.0)
        for _ in range(5):  # together longer than the limit for one
            with timeout:
                await asyncio.sleep(0.25)
        assert 0.9 < await _within(timeout, 20.0) < 10.0
        with timeout:
            await asyncio.sleep(0.0)
        current = asyncio.current_task()
        assert current is not None and not current.cancelling() and not timeout._entered and not timeout._expired

    on_a_loop(work())


def test_each_task_has_its_own_deadline() -> None:
    async def work() -> None:
        timeout = SharedTimeout(0.2)
        first = asyncio.create_task(_within(timeout, 20.0))
        await asyncio.sleep(0.1)
        second = asyncio.create_task(_within(timeout, 20.0))
        assert all(0.19 < took_s < 10.0 for took_s in await asyncio.gather(first, second))

    on_a_loop(work())


def test_external_cancellation_is_propagated() -> None:
    async def cancelled(timeout: SharedTimeout, block_s: float) -> bool:
        async def wait() -> None:
            with timeout:
                await asyncio.sleep(20.0)

        task = asyncio.create_task(wait())
        await asyncio.sleep(0.01)
        time.sleep(block_s)  # so that both are due at once
        task.cancel()
        (found,) = await asyncio.gather(task, return_exceptions=True)
        return isinstance(found, asyncio.CancelledError)

    async def work() -> None:
        assert await cancelled(SharedTimeout(5.0), 0.0)
        assert await cancelled(SharedTimeout(1.0), 1.1)

    on_a_loop(work())


def test_exception_of_the_work_is_propagated() -> None:
    async def work() -> None:
        with pytest.raises(ZeroDivisionError), SharedTimeout(5.0):
            raise ZeroDivisionError

    on_a_loop(work())
