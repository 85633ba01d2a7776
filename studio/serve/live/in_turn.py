"""Runs calls of an engine in worker threads, round robin by client address.

A call may wait for the engine's current step, and parsing markup takes time. An address has at most four of the 16
threads, so 64 connections of one address whose utterances are all rejected do not delay calls of other addresses.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar
from weakref import WeakKeyDictionary

from studio.serve.middleware.turns import Turns

_AT_ONCE, _AT_ONCE_PER_ADDRESS = 16, 4
_THREADS = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="calls")
_turns: "WeakKeyDictionary[asyncio.AbstractEventLoop, Turns]" = WeakKeyDictionary()
_Result = TypeVar("_Result")


async def in_turn(
    address: str, call: Callable[[], _Result], undo: Callable[[_Result], object] = lambda result: None
) -> _Result:
    """Run ``call`` in a worker thread and return its result.

    When cancelled, a call that has begun continues and keeps its turn; ``undo`` then gets its result.
    """
    loop = asyncio.get_running_loop()
    turns = _turns.setdefault(loop, Turns(at_once=_AT_ONCE, at_once_per_address=_AT_ONCE_PER_ADDRESS))
    has_begun = False

    async def run() -> _Result:
        nonlocal has_begun
        async with turns.turn(address):
            has_begun = True
            return await loop.run_in_executor(_THREADS, call)

    def undo_result(done: "asyncio.Task[_Result]") -> None:
        if not done.cancelled() and done.exception() is None:
            undo(done.result())

    task = asyncio.create_task(run())
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if not has_begun:
            task.cancel()
        task.add_done_callback(undo_result)  # also for a call that has returned: its result was not used
        raise
