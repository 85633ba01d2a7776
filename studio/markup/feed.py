"""Events of an utterance that are derived from another utterance's, when a caller asks for them."""

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator

from studio.core import events as ev
from studio.core.ports import Utterance


class EventFeed(ABC):
    """``set_listener``, ``poll_events`` and ``events`` of ``studio.core.ports.Utterance``.

    The other utterance's events are taken when a caller asks for events, under a lock that is only held briefly.

    Args:
        out: to which ``_forward`` appends; events that callers have not taken yet.
    """

    def __init__(self, out: deque[ev.Event]) -> None:
        self._out = out
        self._lock, self._news = threading.RLock(), threading.Event()
        self._listener: Callable[[], None] = lambda: None

    @abstractmethod
    def _source(self) -> Utterance | None:
        """The utterance whose events come next; None if there is none, or the last event was forwarded."""

    @abstractmethod
    def _forward(self, event: ev.Event) -> None:
        """Convert an event and append the result."""

    @abstractmethod
    def _has_ended(self) -> bool:
        """Whether the last event was appended."""

    def set_listener(self, callback: Callable[[], None]) -> None:
        self._listener = callback
        self._tell()

    def _tell(self) -> None:
        self._news.set()
        self._listener()

    def poll_events(self, limit: int | None = None) -> list[ev.Event]:
        with self._lock:
            self._pull(limit)
            count = len(self._out) if limit is None else min(limit, len(self._out))
            return [self._out.popleft() for _ in range(count)]

    def events(self) -> Iterator[ev.Event]:
        while True:
            self._news.clear()
            events = self.poll_events()
            yield from events
            if not events and self._has_ended():
                return
            if not events:
                self._news.wait()

    def _pull(self, limit: int | None = None) -> None:
        while (source := self._source()) is not None and (limit is None or len(self._out) < limit):
            events = source.poll_events(limit)
            for event in events:
                self._forward(event)
            if limit is None or len(events) < limit:
                return
