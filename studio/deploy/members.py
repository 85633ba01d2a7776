"""The replicas behind a front: their addresses and loads, and the choice of one for an utterance."""

import asyncio
import json
import logging
import random
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from weakref import WeakSet

from multidict import CIMultiDict

from studio.deploy.frames import Refused, ReplicaSocket, client_frame
from studio.deploy.load import LOAD_PATH, Load

FRESH_S = 0.1  # oldest usable report of a load
KEY_HEADER = "X-Studio-Key"
_ASK_S = 0.04  # between two reports
_ANSWER_S = 3.0  # without an answer, until a replica counts as lost; the directory forgets it later
_CHECKS = 4  # within that time, all without an answer: so a pause of the front itself does not count as silence
_QUESTION = client_frame("")
_FULL_TRIES = 4
_FIND_S = 0.5  # between two searches for new replicas
_log = logging.getLogger("studio.deploy")


@dataclass(eq=False)
class Member:
    """A front's view of a replica.

    Attributes:
        load: the last report, requested at ``asked_s``; None while it does not answer.
        sent: utterances sent to it since that report.
        sockets: clients' connections to it.
    """

    name: str
    url: str
    load: Load | None = None
    asked_s: float = 0.0
    sent: int = 0
    sockets: WeakSet[ReplicaSocket] = field(default_factory=WeakSet[ReplicaSocket])

    def fresh_load(self) -> Load | None:
        """The load, if it is at most ``FRESH_S`` old."""
        return self.load if time.monotonic() - self.asked_s <= FRESH_S else None

    @property
    def free(self) -> int:
        """Free slots by a fresh report, minus the utterances sent since."""
        load = self.fresh_load()
        return 0 if load is None or load.is_draining else load.free - self.sent

    @property
    def is_draining(self) -> bool:
        """Whether it was draining at its last report; a draining replica always ends."""
        return self.load is not None and self.load.is_draining

    def rank(self) -> tuple[bool, int, float]:
        """Sort key, the greatest is the best: keeps up with speech, free slots, fast steps."""
        load = self.fresh_load()
        share = 0.0 if load is None else load.step_share
        return share < 1.0, self.free, -share


def better_of_two(members: Sequence[Member]) -> Member:
    """The better one of two random members, so that many fronts do not all choose the same one."""
    return max(random.sample(members, min(2, len(members))), key=Member.rank)


@dataclass
class Members:
    """The replicas of one front.

    ``find``: returns the current addresses by name.
    """

    find: Callable[[], Awaitable[Mapping[str, str]]]
    key: str
    by_name: dict[str, Member] = field(default_factory=dict[str, Member])
    _watches: dict[str, "asyncio.Task[None]"] = field(default_factory=dict[str, "asyncio.Task[None]"])

    def usable(self) -> list[Member]:
        """Members that are not draining; if some of them answer, only those."""
        found = [one for one in self.by_name.values() if not one.is_draining]
        return [one for one in found if one.load is not None] or found

    def with_room(self, present: Member | None = None) -> Iterator[Member]:
        """Candidates for an utterance, in order of preference.

        Members with a free slot, then those without a fresh report, then full ones, up to ``_FULL_TRIES`` members in
        all: a slot may have become free since.

        ``present``: the replica that already has the socket; preferred if it has room.
        """
        tried = list[Member]()
        while left := [one for one in self.usable() if one not in tried]:
            free = [one for one in left if one.free > 0]
            unknown = [one for one in left if one.fresh_load() is None]
            full = left if len(tried) < _FULL_TRIES else []
            if not (candidates := free or unknown or full):
                return
            one = present if present is not None and present in candidates else better_of_two(candidates)
            tried.append(one)
            one.sent += 1
            yield one

    def shortest_queue(self) -> Member | None:
        """The member in whose queue an utterance waits if all are full; None without any replica."""
        return min(self.usable(), key=_wait, default=None)

    async def until_one_answers(self) -> None:
        """Return as soon as a replica has reported its load."""
        while all(one.load is None for one in self.by_name.values()):
            await asyncio.sleep(_ASK_S)

    def by_address(self, address: str) -> list[Member]:
        """All usable members in an order that depends on the address and stays when replicas start and end."""
        return sorted(self.usable(), key=lambda one: random.Random(f"{address} {one.name}").random())

    def shuffled(self) -> list[Member]:
        """All usable members in random order."""
        found = self.usable()
        random.shuffle(found)
        return found

    async def watch(self) -> None:
        """Track the replicas and their loads until cancelled."""
        try:
            while True:
                try:
                    self._update(await self.find())
                except Exception:  # noqa: BLE001 - the last list is used until the next one
                    _log.exception("the replicas cannot be listed")
                await asyncio.sleep(_FIND_S)
        finally:
            for task in self._watches.values():
                task.cancel()

    def _update(self, found: Mapping[str, str]) -> None:
        for name in self.by_name.keys() - found.keys():
            del self.by_name[name]
            self._watches.pop(name).cancel()
        for name in found.keys() - self.by_name.keys():
            self.by_name[name] = member = Member(name, found[name])
            self._watches[name] = asyncio.create_task(self._follow(member))

    async def _follow(self, member: Member) -> None:
        url = member.url.replace("http", "ws", 1) + LOAD_PATH
        while True:
            with suppress(Refused, OSError, TimeoutError):
                socket = await ReplicaSocket.connect(url, CIMultiDict({KEY_HEADER: self.key}), ())
                try:
                    is_silent = await _Reports(member, socket).until_silent()
                finally:
                    socket.close()
                if is_silent:  # it hangs or its machine is down, so its connections do not end by themselves
                    _log.warning("replica %s does not answer: its sockets are closed", member.name)
                    for one in [*member.sockets]:
                        one.lose()
            member.load = None if not member.is_draining else member.load
            await asyncio.sleep(_ASK_S)


class _Reports:
    """Requests a replica's load, with callbacks: a task and a timeout for each request took most of the CPU."""

    def __init__(self, member: Member, socket: ReplicaSocket) -> None:
        self._member, self._socket = member, socket
        self._loop = asyncio.get_running_loop()
        self._over: asyncio.Future[None] = self._loop.create_future()
        self._asked_s = 0.0
        self._timer: asyncio.TimerHandle | None = None

    async def until_silent(self) -> bool:
        """Return True when the replica does not answer, False when it has closed the connection."""
        self._socket.listen(lambda frames: None, lambda code, reason: self._end(), self._on_report)
        self._ask()
        silent = 0
        try:
            while not self._over.done() and silent < _CHECKS:
                asked_s = self._asked_s
                await asyncio.wait((self._over,), timeout=_ANSWER_S / _CHECKS)
                silent = silent + 1 if self._asked_s == asked_s else 0
            return not self._over.done()
        finally:
            self._end()

    def _ask(self) -> None:
        self._asked_s = time.monotonic()
        self._socket.send_frames(_QUESTION)

    def _on_report(self, text: bytes) -> bool:
        try:
            load = Load(**json.loads(text))
        except (ValueError, TypeError):
            self._end()
        else:
            self._member.load, self._member.asked_s, self._member.sent = load, self._asked_s, 0
            self._timer = self._loop.call_later(_ASK_S, self._ask)
        return False

    def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self._over.done():
            self._over.set_result(None)


def _wait(member: Member) -> tuple[bool, float, float]:
    """Sort key, the least has the shortest queue; members without a fresh report come last."""
    load = member.load
    if load is None:
        return True, 1.0, 0.0
    return member.fresh_load() is None, load.waiting / load.places, -load.free
