"""Admission: which requests hold concurrency slots, which are queued, and in which order they are admitted."""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields

from studio.core.errors import BadOption, Busy, Closing, StudioError
from studio.core.ports import MAX_QUEUE
from studio.core.time import Clock
from studio.engine.request.request import EngineRequest


@dataclass(frozen=True)
class EngineLimits:
    """Limits of one engine. Raises BadOption: one is out of range.

    Attributes:
        queue: length of the queue; 0 refuses with ``busy`` at once.
        open_ms: longest wait of an ``open`` call for a slot or a position in the queue.
        queue_timeout_ms: longest wait in the queue.
        idle_ms: an utterance without activity for this long ends and frees its slot.
        idle_wanted_ms: idle limit while others are queued; must be below ``queue_timeout_ms``, otherwise queued
            requests time out first.
        slow_run_ms: a longer run of a module is logged and counted.
        stuck_run_ms: a longer run ends every utterance, and ``/health`` fails until it returns.
    """

    queue: int = 16
    open_ms: float = 30_000.0
    queue_timeout_ms: float = 120_000.0
    idle_ms: float = 1_800_000.0
    idle_wanted_ms: float = 60_000.0
    slow_run_ms: float = 1_000.0
    stuck_run_ms: float = 30_000.0

    def __post_init__(self) -> None:
        if not 0 <= self.queue <= MAX_QUEUE:
            raise BadOption(f"the queue cannot hold {self.queue}", f"give 0 to {MAX_QUEUE}")
        for one in fields(self):
            if one.name != "queue" and not getattr(self, one.name) > 0.0:
                raise BadOption(f"{one.name} cannot be {getattr(self, one.name)}", "give milliseconds above 0")


def fair_order(waiting: Sequence[str], running: Iterable[str]) -> list[int]:
    """Indices of the queue in the order of admission: clients with the fewest slots first, then by arrival.

    Args:
        waiting: the client of each queued request, in order of arrival; each request with an empty name counts as a
            separate client.
        running: the client of each request that holds a slot.
    """
    counts = Counter(running)
    ranks = list[tuple[int, int]]()
    for at, client in enumerate(waiting):
        ranks.append((counts[client] if client else 0, at))
        counts[client] += 1
    return [at for _, at in sorted(ranks)]


def pick_evicted(waiting: Sequence[str], client: str) -> int | None:
    """Index of the entry to evict when a client joins a full queue: the last one of the client with the most entries.

    None unless that client has more entries than the joining client would have.
    """
    counts = Counter(one for one in waiting if one)
    largest, count = max(counts.items(), key=lambda item: item[1], default=("", 0))
    if count <= (counts[client] if client else 0) + 1:
        return None
    return max(at for at, one in enumerate(waiting) if one == largest)


def engine_closing() -> Closing:
    """The error for requests that arrive while the engine closes."""
    return Closing("the engine is being closed", "start it again")


class Admission:
    """Slots and queue of an engine. Only the engine's thread changes them; any thread may read the counts.

    Args:
        slots: concurrent requests.
        begin: prepares a request that was given a slot; it handles its own errors.
    """

    def __init__(self, slots: int, limits: EngineLimits, clock: Clock, begin: Callable[[EngineRequest], None]) -> None:
        self.slots, self._limits, self._clock, self._begin = slots, limits, clock, begin
        self.refused = 0
        self._running: list[EngineRequest] = []
        self._queue: list[EngineRequest] = []
        self._lock = threading.Lock()

    @property
    def free(self) -> int:
        """Slots that are neither in use nor needed by queued requests."""
        with self._lock:
            return max(0, self.slots - self._used() - len(self._queue))

    @property
    def waiting(self) -> int:
        """Length of the queue now."""
        with self._lock:
            return len(self._queue)

    def running(self) -> list[EngineRequest]:
        """Requests that hold a slot."""
        with self._lock:
            return [*self._running]

    def check_room(self, *, is_guest: bool = False, client: str = "", may_wait: bool = True) -> None:
        """Raises Busy if slots and queue are full and no entry can be evicted for this client.

        Without ``may_wait``, also if the request would have to queue.
        """
        self._drop_cancelled()
        if not may_wait and self._would_wait(is_guest=is_guest):
            self.refused += 1
            raise Busy("no slot is free", "try again when an utterance has ended, or let it wait in the queue")
        if self._is_full(is_guest=is_guest) and self._pick_evicted(is_guest=is_guest, client=client) is None:
            self.refused += 1
            slots, queue = self._shares(is_guest=is_guest)
            queued = f", and {queue} wait for one" if queue else ""
            raise Busy(f"all {slots} slots are taken{queued}", "try again when an utterance has ended")

    def enqueue(self, request: EngineRequest) -> None:
        """Queue a request after ``check_room``; ``admit`` gives it a slot or reports its position."""
        if self._is_full(is_guest=request.is_guest):
            evicted = self._pick_evicted(is_guest=request.is_guest, client=request.client)
            if evicted is not None:
                self._remove(evicted)
                self.refused += 1
                evicted.fail("busy", "the queue is full, and other clients have fewer entries in it; try again later")
        with self._lock:
            self._queue.append(request)

    def pop_finished(self) -> list[EngineRequest]:
        """Remove and return the requests that are done."""
        with self._lock:
            finished = [one for one in self._running if one.done]
            self._running = [one for one in self._running if not one.done]
        return finished

    def admit(self) -> None:
        """Give free slots to queued requests, fail those that timed out, and report the positions of the others."""
        self._drop_cancelled()
        for one in self._in_fair_order():
            if self._take_slot(one):
                self._begin(one)
            elif one.queued_ms >= self._limits.queue_timeout_ms:
                self._remove(one)
                self.refused += 1
                waited_s = self._limits.queue_timeout_ms / 1000.0
                one.fail("busy", f"no slot became free within {waited_s:g} s; try again later")
        for ahead, one in enumerate(self._in_fair_order()):
            one.set_queue_position(ahead)

    def next_timeout_ms(self) -> float | None:
        """Time until the next queue or idle timeout; None without any."""
        with self._lock:
            left = [self._limits.queue_timeout_ms - one.queued_ms for one in self._queue]
            left += [self._idle_limit_ms() - one.idle_ms() for one in self._running]
        return max(0.0, min(left)) if left else None

    def end_idle(self) -> None:
        """End idle requests."""
        limit_ms = self._idle_limit_ms()
        for one in self.running():
            if not one.done and one.idle_ms() >= limit_ms:
                wanted = " while others waited" if limit_ms < self._limits.idle_ms else ""
                seconds = f"{limit_ms / 1000.0:g} s{wanted}"
                one.fail("idle", f"nothing was sent or played for {seconds}; open another utterance")

    def drain(self) -> None:
        """Fail the queued requests; running ones speak what is committed."""
        self._fail_queued(engine_closing())
        for one in self.running():
            one.drain()

    def close(self) -> None:
        """End every request."""
        self.drain()
        for one in self.running():
            one.fail("closed", "the engine was closed")

    def fail_all(self, error: StudioError) -> None:
        """End every request, including queued ones, with an error."""
        self._fail_queued(error)
        for one in self.running():
            one.fail(error.code, str(error))

    def _fail_queued(self, error: StudioError) -> None:
        for one in self._in_fair_order():
            self._remove(one)
            one.fail(error.code, str(error))

    def _idle_limit_ms(self) -> float:
        limits = self._limits
        return min(limits.idle_ms, limits.idle_wanted_ms) if self._queue else limits.idle_ms

    def _used(self) -> int:
        return sum(not one.done for one in self._running)

    def _drop_cancelled(self) -> None:
        """Remove requests that were cancelled while queued."""
        for one in self._in_arrival_order():
            if one.is_cancelling:
                self._remove(one)
                one.read_input()

    def _would_wait(self, *, is_guest: bool) -> bool:
        with self._lock:
            return self._used() + len(self._queue) >= self._shares(is_guest=is_guest)[0]

    def _is_full(self, *, is_guest: bool) -> bool:
        slots, queue = self._shares(is_guest=is_guest)
        with self._lock:
            return self._used() >= slots and len(self._queue) >= queue

    def _pick_evicted(self, *, is_guest: bool, client: str) -> EngineRequest | None:
        """The request to evict; a guest evicts only other guests."""
        candidates = [one for one in self._in_arrival_order() if one.is_guest or not is_guest]
        at = pick_evicted([one.client for one in candidates], client)
        return None if at is None else candidates[at]

    def _in_arrival_order(self) -> list[EngineRequest]:
        with self._lock:
            return [*self._queue]

    def _in_fair_order(self) -> list[EngineRequest]:
        with self._lock:
            running = [one.client for one in self._running if not one.done]
            return [self._queue[at] for at in fair_order([one.client for one in self._queue], running)]

    def _remove(self, one: EngineRequest) -> None:
        with self._lock:
            self._queue.remove(one)

    def _shares(self, *, is_guest: bool) -> tuple[int, int]:
        """Slots and queue length available to a guest or to others."""
        if not is_guest:
            return self.slots, self._limits.queue
        return max(1, self.slots - 1), self._limits.queue // 2

    def _take_slot(self, one: EngineRequest) -> bool:
        with self._lock:
            if self._used() >= self._shares(is_guest=one.is_guest)[0]:
                return False
            self._queue.remove(one)
            self._running.append(one)
            return True
