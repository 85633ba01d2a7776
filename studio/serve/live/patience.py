"""A limit to how long each of many short things may take, with one timer for all of them.

``asyncio.timeout`` makes a timer for each and throws it away: of a frame that a socket takes at once that was a fifth
of the cost.
"""

import asyncio
from types import TracebackType
from typing import Any


class Patience:
    """Whatever a task does within it, may take so long: then it is broken off, and ``TimeoutError`` raised.

    Several tasks may be within at once, none of them twice; all on one event loop.
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._began: dict[asyncio.Task[Any], tuple[float, int]] = {}  # when, how often cancelled; the oldest first
        self._late: dict[asyncio.Task[Any], int] = {}  # broken off, and how often cancelled before
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None, "on an event loop"
        began_s = loop.time()
        self._began[task] = began_s, task.cancelling()
        if self._timer is None:
            self._timer = loop.call_at(began_s + self._limit_s, self._look)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        task = asyncio.current_task()
        assert task is not None, "on an event loop"
        if self._began.pop(task, None) is None:
            # Where somebody else cancelled it, too, that is what counts.
            is_ours = task.uncancel() <= self._late.pop(task)
            if is_ours and kind is asyncio.CancelledError:
                raise TimeoutError from error

    def _look(self) -> None:
        """Break off what has taken too long, and look again when the next one will have."""
        self._timer, loop = None, asyncio.get_running_loop()
        for task, (began_s, cancelled) in [*self._began.items()]:
            if began_s + self._limit_s > loop.time():
                self._timer = loop.call_at(began_s + self._limit_s, self._look)
                return
            del self._began[task]
            self._late[task] = cancelled
            task.cancel()
