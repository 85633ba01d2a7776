"""Backpressure of one socket: a bounded queue of unprocessed messages, and a time limit for a send."""

import asyncio
from collections import deque
from types import TracebackType
from typing import Any

from studio.serve.live import protocol as wire

INBOX_MESSAGES = 64
INBOX_CHARS = wire.MAX_MESSAGE_CHARS  # of text; one more message may exceed it


class Inbox:
    """Bounded queue of unprocessed client messages.

    The caller waits while ``is_full``, so that the client's socket fills up instead of the server's memory.
    """

    def __init__(self) -> None:
        self._messages: deque[wire.Message] = deque()
        self._chars = 0

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def is_full(self) -> bool:
        """Whether the number of messages or of characters has reached its limit."""
        return len(self._messages) >= INBOX_MESSAGES or self._chars > INBOX_CHARS

    def put(self, message: wire.Message) -> None:
        """Append a message."""
        self._messages.append(message)
        self._chars += _chars(message)

    def take(self) -> wire.Message:
        """Remove and return the first message."""
        message = self._messages.popleft()
        self._chars -= _chars(message)
        return message

    def clear(self) -> None:
        """Drop all messages."""
        self._messages.clear()
        self._chars = 0


def _chars(message: wire.Message) -> int:
    match message:
        case wire.TextIn(text=text) | wire.Revise(text=text) | wire.EditText(insert=text):
            return len(text)
        case _:
            return 0


class SharedTimeout:
    """``asyncio.timeout`` with one limit and one timer for all tasks: raises TimeoutError.

    ``asyncio.timeout`` makes a timer per use, a fifth of the cost of sending a frame. Several tasks may be inside at
    once, each only once, all on one event loop.
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._entered: dict[asyncio.Task[Any], tuple[float, int]] = {}  # time and cancel count; the oldest first
        self._expired: dict[asyncio.Task[Any], int] = {}  # cancelled here; the cancel count before
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None, "on an event loop"
        now_s = loop.time()
        self._entered[task] = now_s, task.cancelling()
        if self._timer is None:
            self._timer = loop.call_at(now_s + self._limit_s, self._expire)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        task = asyncio.current_task()
        assert task is not None, "on an event loop"
        if self._entered.pop(task, None) is None:
            # A cancellation from elsewhere takes precedence.
            is_ours = task.uncancel() <= self._expired.pop(task)
            if is_ours and kind is asyncio.CancelledError:
                raise TimeoutError from error

    def _expire(self) -> None:
        """Cancel the tasks past the limit, and set the timer for the next one."""
        self._timer, loop = None, asyncio.get_running_loop()
        for task, (entered_s, cancel_count) in [*self._entered.items()]:
            if entered_s + self._limit_s > loop.time():
                self._timer = loop.call_at(entered_s + self._limit_s, self._expire)
                return
            del self._entered[task]
            self._expired[task] = cancel_count
            task.cancel()
