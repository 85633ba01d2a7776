"""Calls of the engine by one network address hold up none of another's."""

import asyncio
import threading

import pytest

from studio.serve.live.in_turn import in_turn


def test_an_address_waits_for_no_calls_of_another() -> None:
    goes_on, running = threading.Event(), list[int]()

    def blocked(number: int) -> int:
        running.append(number)
        goes_on.wait()
        return number

    async def run() -> None:
        flood = [asyncio.create_task(in_turn("a", lambda number=number: blocked(number))) for number in range(64)]
        try:
            while len(running) < 4:
                await asyncio.sleep(0.01)
            async with asyncio.timeout(60.0):
                assert await in_turn("b", lambda: "b") == "b"
            assert len(running) == 4
        finally:
            goes_on.set()
        assert await asyncio.gather(*flood) == list(range(64))

    asyncio.run(run())


def test_a_call_that_has_begun_is_undone_where_nobody_waits_for_it() -> None:
    goes_on, begun, undone = threading.Event(), threading.Event(), list[str]()

    def blocked() -> str:
        begun.set()
        goes_on.wait()
        return "opened"

    async def run() -> None:
        first = asyncio.create_task(in_turn("a", blocked, undo=undone.append))
        await asyncio.to_thread(begun.wait)
        others = [asyncio.create_task(in_turn("a", blocked, undo=undone.append)) for _ in range(9)]
        while len(asyncio.all_tasks()) < 20:
            await asyncio.sleep(0.01)
        for task in (*others[5:], first):
            task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        goes_on.set()
        await asyncio.gather(*others[:5])
        while undone != ["opened"]:
            await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(run(), 60.0))


def test_a_call_whose_caller_is_cancelled_as_it_ends_is_undone() -> None:
    undone = list[str]()

    async def run() -> None:
        others = asyncio.all_tasks()
        task = asyncio.create_task(in_turn("a", lambda: "opened", undo=undone.append))
        await asyncio.sleep(0)
        (call,) = asyncio.all_tasks() - {*others, task}
        call.add_done_callback(lambda _: task.cancel())  # behind the callback that wakes the caller
        with pytest.raises(asyncio.CancelledError):
            await task
        while undone != ["opened"]:
            await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(run(), 60.0))
