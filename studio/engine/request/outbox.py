"""The outgoing events of an utterance, in one order for all listeners' threads."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from queue import SimpleQueue

from studio.core import events as ev
from studio.core.time import Clock

_BEFORE_READY = ev.Queued | ev.Cancelled | ev.Ended | ev.Failed
FULL = 1024  # unread events at which a request stops: 12 s of sound with its frames


class Outbox:
    """A queue of events stamped with the time since ``begin``; callers of ``put`` share a lock.

    Earlier events follow ``ready``, except for ``queued`` and an end before it.
    """

    def __init__(self, clock: Clock) -> None:
        self.is_over = False  # the last event was put
        self._clock, self._start_ms = clock, clock.now_ms()
        self._unread_since_ms = self._start_ms
        self._held: list[ev.Event] | None = []
        self._queue: SimpleQueue[ev.Event] = SimpleQueue()
        self._callback: Callable[[], None] = lambda: None
        self._has_listener = False

    def begin(self, ready: ev.Ready) -> None:
        """Put ``ready``, and the events held for it."""
        held, self._held = self._held or [], None
        self._start_ms = self._clock.now_ms()
        for event in (ready, *held):
            self.put(event)

    def put(self, event: ev.Event) -> None:
        """Add an event with its time."""
        if self._held is not None and not isinstance(event, _BEFORE_READY):
            self._held.append(event)
            return
        self.is_over = ev.is_last(event)
        if self._queue.empty():
            self._unread_since_ms = self._clock.now_ms()
        self._queue.put(replace(event, t_ms=self._clock.now_ms() - self._start_ms))

    @property
    def is_full(self) -> bool:
        """Whether a listener has so many unread events that no more should be made."""
        return self._has_listener and self._queue.qsize() >= FULL

    def unread_ms(self) -> float:
        """Time since the listener last polled; 0 without unread events."""
        return 0.0 if self._queue.empty() else self._clock.now_ms() - self._unread_since_ms

    def notify(self) -> None:
        """Call the listener's callback."""
        self._callback()

    def set_listener(self, callback: Callable[[], None]) -> None:
        """Have ``callback`` called whenever there are new events, and once now."""
        self._callback, self._has_listener = callback, True
        callback()

    def poll(self, limit: int | None = None) -> list[ev.Event]:
        """The unread events, at most ``limit``, without blocking."""
        self._unread_since_ms = self._clock.now_ms()
        count = self._queue.qsize()
        return [self._queue.get() for _ in range(count if limit is None else min(count, limit))]

    def events(self) -> Iterator[ev.Event]:
        """Every event in order, blocking until the next one."""
        while True:
            event = self._queue.get()
            self._unread_since_ms = self._clock.now_ms()
            yield event
            if ev.is_last(event):
                return
