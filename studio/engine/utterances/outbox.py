"""An utterance's events on their way to whoever listens: in one order, none after the last."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from queue import SimpleQueue

from studio.core import events as ev
from studio.core.time import Clock

_BEFORE_READY = ev.Queued | ev.Cancelled | ev.Ended | ev.Failed
FULL = 1024  # events that a listener did not take yet: 12 s of sound with its frames, or so many words


class Outbox:
    """Events with their times since ``begin``. Whoever puts them holds a lock that all who put share.

    What happens before that is told after ``ready``, but for the place in the queue, and for an end that comes first.
    """

    def __init__(self, clock: Clock) -> None:
        self.is_over = False  # nothing comes after the last event
        self._clock, self._start_ms = clock, clock.now_ms()
        self._since_ms = self._start_ms  # when what is there came, or somebody took some of it
        self._held: list[ev.Event] | None = []
        self._out: SimpleQueue[ev.Event] = SimpleQueue()
        self._news: Callable[[], None] = lambda: None
        self._is_heard = False

    def begin(self, ready: ev.Ready) -> None:
        """The first event, and those that waited for it."""
        held, self._held = self._held or [], None
        self._start_ms = self._clock.now_ms()
        for event in (ready, *held):
            self.put(event)

    def put(self, event: ev.Event) -> None:
        """Add an event, stamped."""
        if self._held is not None and not isinstance(event, _BEFORE_READY):
            self._held.append(event)
            return
        self.is_over = ev.is_last(event)
        if self._out.empty():
            self._since_ms = self._clock.now_ms()
        self._out.put(replace(event, t_ms=self._clock.now_ms() - self._start_ms))

    @property
    def is_full(self) -> bool:
        """Whether somebody listens who has so much yet to take that nothing more should be made for them."""
        return self._is_heard and self._out.qsize() >= FULL

    def untaken_ms(self) -> float:
        """For how long nobody asked for what is there; 0 where nothing is."""
        return 0.0 if self._out.empty() else self._clock.now_ms() - self._since_ms

    def tell(self) -> None:
        """Say that there is something to take."""
        self._news()

    def listen(self, news: Callable[[], None]) -> None:
        """Have ``news`` called whenever there is something to take."""
        self._news, self._is_heard = news, True
        news()

    def taken(self, most: int | None = None) -> list[ev.Event]:
        """Every event that is there, or the first ``most`` of them, without waiting."""
        self._since_ms = self._clock.now_ms()
        there = self._out.qsize()
        return [self._out.get() for _ in range(there if most is None else min(there, most))]

    def events(self) -> Iterator[ev.Event]:
        """Every event in order, waiting for the next."""
        while True:
            event = self._out.get()
            self._since_ms = self._clock.now_ms()
            yield event
            if ev.is_last(event):
                return
