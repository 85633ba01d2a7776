"""Who has a place and who waits for one, and all who wait know where they stand; see ``sharing`` for the order."""

import threading
from collections.abc import Callable

from studio.core.errors import Busy, Closing, StudioError
from studio.core.time import Clock
from studio.engine.hosting.limits import Limits
from studio.engine.hosting.sharing import in_turn, who_makes_room
from studio.engine.utterances.local import LocalUtterance


def closing() -> Closing:
    """What is said to whoever comes when the engine is about to end."""
    return Closing("the engine is being closed", "start it again")


class Places:
    """The utterances of an engine. Only its own thread changes who is where; any thread may ask how many there are.

    Args:
        count: utterances spoken at once.
        begin: makes one ready that has a place now; what goes wrong ends that one alone.
    """

    def __init__(self, count: int, limits: Limits, clock: Clock, begin: Callable[[LocalUtterance], None]) -> None:
        self.count, self._limits, self._clock, self._begin = count, limits, clock, begin
        self.refused = 0
        self._speaking: list[LocalUtterance] = []
        self._queue: list[LocalUtterance] = []
        self._lock = threading.Lock()

    @property
    def free(self) -> int:
        """Places that nobody has and nobody waits for."""
        with self._lock:
            return max(0, self.count - self._taken() - len(self._queue))

    @property
    def waiting(self) -> int:
        """How many wait."""
        with self._lock:
            return len(self._queue)

    def speaking(self) -> list[LocalUtterance]:
        """Those that have a place."""
        with self._lock:
            return [*self._speaking]

    def check_room(self, *, is_guest: bool = False, client: str = "") -> None:
        """Raises Busy where neither a place nor the queue would take one more, and nobody makes room for it."""
        self._let_leavers_go()
        if self._is_full(is_guest=is_guest) and self._who_makes_room(is_guest=is_guest, client=client) is None:
            self.refused += 1
            places, queue = self._shares(is_guest=is_guest)
            queued = f", and {queue} wait for one" if queue else ""
            raise Busy(f"all {places} places are taken{queued}", "try again when one of them has ended")

    def join(self, utterance: LocalUtterance) -> None:
        """Have one wait that has room; ``settle`` gives it a place, or tells it where it stands."""
        if self._is_full(is_guest=utterance.is_guest):
            leaver = self._who_makes_room(is_guest=utterance.is_guest, client=utterance.client)
            if leaver is not None:
                self._leave(leaver)
                self.refused += 1
                leaver.fail("busy", "the queue is full, and others have fewer in it; try again later")
        with self._lock:
            self._queue.append(utterance)

    def over(self) -> list[LocalUtterance]:
        """Those that spoke and do so no more, which are forgotten here."""
        with self._lock:
            over = [one for one in self._speaking if one.done]
            self._speaking = [one for one in self._speaking if not one.done]
        return over

    def settle(self) -> None:
        """Give free places to those who wait; whoever left, or waited too long, is out; the others are told."""
        self._let_leavers_go()
        for one in self._waiting():
            if self._seat(one):
                self._begin(one)
            elif one.queued_ms >= self._limits.queue_timeout_ms:
                self._leave(one)
                self.refused += 1
                waited_s = self._limits.queue_timeout_ms / 1000.0
                one.fail("busy", f"no place came free within {waited_s:g} s; try again later")
        for ahead, one in enumerate(self._waiting()):
            one.wait_behind(ahead)

    def next_due_ms(self) -> float | None:
        """In how many ms somebody will have waited too long, for a place or for whoever made use of it."""
        with self._lock:
            left = [self._limits.queue_timeout_ms - one.queued_ms for one in self._queue]
            left += [self._may_idle_ms() - one.unused_ms() for one in self._speaking]
        return max(0.0, min(left)) if left else None

    def end_unused(self) -> None:
        """Those that nobody makes use of any more end."""
        most_ms = self._may_idle_ms()
        for one in self.speaking():
            if not one.done and one.unused_ms() >= most_ms:
                wanted = " while others waited" if most_ms < self._limits.idle_ms else ""
                seconds = f"{most_ms / 1000.0:g} s{wanted}"
                one.fail("idle", f"nothing was sent or heard for {seconds}; open another utterance")

    def _may_idle_ms(self) -> float:
        """For how long nobody needs to make use of what has a place."""
        limits = self._limits
        return min(limits.idle_ms, limits.idle_wanted_ms) if self._queue else limits.idle_ms

    def drain(self) -> None:
        """Those who wait are told that there will be no place; those who speak finish what is committed."""
        for one in self._waiting():
            self._leave(one)
            one.fail(Closing.code, str(closing()))
        for one in self.speaking():
            one.wind_up()

    def close(self) -> None:
        """End everybody."""
        self.drain()
        for one in self.speaking():
            one.fail("closed", "the engine was closed")

    def give_up(self, error: StudioError) -> None:
        """End everybody, those who wait for a place too."""
        for one in self._waiting():
            self._leave(one)
            one.fail(error.code, str(error))
        for one in self.speaking():
            one.fail(error.code, str(error))

    def _taken(self) -> int:
        return sum(not one.done for one in self._speaking)

    def _let_leavers_go(self) -> None:
        """Who was cancelled while it waited takes nobody's turn or room."""
        for one in self._came():
            if one.is_leaving:
                self._leave(one)
                one.read()

    def _is_full(self, *, is_guest: bool) -> bool:
        places, queue = self._shares(is_guest=is_guest)
        with self._lock:
            return self._taken() >= places and len(self._queue) >= queue

    def _who_makes_room(self, *, is_guest: bool, client: str) -> LocalUtterance | None:
        """Guests take nobody's room but other guests'."""
        there = [one for one in self._came() if one.is_guest or not is_guest]
        at = who_makes_room([one.client for one in there], client)
        return None if at is None else there[at]

    def _came(self) -> list[LocalUtterance]:
        """Those who wait, in the order in which they came."""
        with self._lock:
            return [*self._queue]

    def _waiting(self) -> list[LocalUtterance]:
        """Those who wait, in the order in which they will be served."""
        with self._lock:
            speaking = [one.client for one in self._speaking if not one.done]
            return [self._queue[at] for at in in_turn([one.client for one in self._queue], speaking)]

    def _leave(self, one: LocalUtterance) -> None:
        with self._lock:
            self._queue.remove(one)

    def _shares(self, *, is_guest: bool) -> tuple[int, int]:
        """How many places, and places in the queue, may be taken before one more finds none."""
        if not is_guest:
            return self.count, self._limits.queue
        return max(1, self.count - 1), self._limits.queue // 2

    def _seat(self, one: LocalUtterance) -> bool:
        with self._lock:
            if self._taken() >= self._shares(is_guest=one.is_guest)[0]:
                return False
            self._queue.remove(one)
            self._speaking.append(one)
            return True
