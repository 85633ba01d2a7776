"""An utterance's events on their way to whoever listens: in one order, none after the last."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from queue import SimpleQueue

from studio.core import events as ev
from studio.core.time import Clock


class Outbox:
    """Events with their times since it was made. Whoever puts them holds a lock that all who put share."""

    def __init__(self, clock: Clock) -> None:
        self.is_over = False  # nothing comes after the last event
        self._clock, self._start_ms = clock, clock.now_ms()
        self._out: SimpleQueue[ev.Event] = SimpleQueue()
        self._news: Callable[[], None] = lambda: None

    def put(self, event: ev.Event) -> None:
        """Add an event, stamped."""
        self.is_over = ev.is_last(event)
        self._out.put(replace(event, t_ms=self._clock.now_ms() - self._start_ms))

    def tell(self) -> None:
        """Say that there is something to take."""
        self._news()

    def listen(self, news: Callable[[], None]) -> None:
        """Have ``news`` called whenever there is something to take."""
        self._news = news
        news()

    def taken(self) -> list[ev.Event]:
        """Every event since the last call, without waiting."""
        return [self._out.get() for _ in range(self._out.qsize())]

    def events(self) -> Iterator[ev.Event]:
        """Every event in order, waiting for the next."""
        while True:
            event = self._out.get()
            yield event
            if ev.is_last(event):
                return
