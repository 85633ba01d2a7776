"""Replicas under load: sockets that come and go while processes are killed and replaced; the cost of the front."""

import asyncio
import itertools
import os
import random
import secrets
import signal
import statistics
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from studio.bench.material import read_texts
from studio.bench.settings import ReplicasSetting
from studio.client import AsyncClient, Refused, ServerGone
from studio.core.errors import StudioError
from studio.core.events import Audio, Ended, Failed, Queued
from studio.core.terminal import print_line
from studio.measure.latency import percentiles
from studio.measure.report import print_table
from studio.text.normalise import best

LOST_S, FIRST_MS, PACKET_MS = 2.0, 5.0, 0.1  # targets
_READY_S = 180.0
_PINGS = 200
_SOCKETS_PER_S = 1000
_IDLE_S = 3.0
_WORDS_PER_S = 5.0


def plain_normaliser(_: Path | None) -> Any:
    """The normaliser without a lexicon."""
    return best()


@dataclass
class Site:
    """Replicas of this machine behind a front in a thread of this process.

    Attributes:
        redeploy: replaces every replica, one after the other; returns when the new ones are ready.
    """

    url: str
    key: str
    members: Any
    thread: threading.Thread
    redeploy: Any

    def pids(self) -> dict[str, int]:
        """Processes of the replicas that report a load, by name."""
        return {name: one.load.pid for name, one in [*self.members.by_name.items()] if one.load is not None}

    def until_ready(self, count: int) -> float:
        """Seconds until ``count`` replicas take utterances. Raises StudioError."""
        began_s = time.monotonic()
        while sum(not one.is_draining for one in self.members.by_name.values() if one.load is not None) < count:
            if time.monotonic() - began_s > _READY_S:
                raise StudioError(f"there are not {count} replicas after {_READY_S:g} s", "read Ray's logs")
            time.sleep(0.05)
        return time.monotonic() - began_s


@contextmanager
def running_site(setting: ReplicasSetting) -> Generator[Site]:
    """Start Ray, replicas and a front; all end afterwards."""
    from studio.deploy.front import Front
    from studio.deploy.hosting import Hosting
    from studio.deploy.local import check_ray, deploy, local_ray
    from studio.mos.store.access import RateLimit
    from studio.serve.server import bind_port, build_server
    from studio.serve.settings import ServeSettings

    check_ray()
    with tempfile.TemporaryDirectory() as folder, local_ray():
        bound = bind_port(ServeSettings(port=0))
        port = bound.getsockname()[1]
        settings = ServeSettings(
            port=port, traces_folder=Path(folder, "traces"), max_sockets=max(64, setting.sockets + 8), max_queue=0
        )
        hosting = Hosting(
            settings,
            plain_normaliser,
            voices=setting.voices,
            device=setting.device,
            places=setting.places,
            data=Path(folder, "data"),
        )
        key = secrets.token_urlsafe(32)
        redeploy = partial(deploy, hosting, setting.replicas, key, setting.drain_s)
        redeploy()
        from studio.deploy.cluster import find_members  # imports Ray, which reads its environment

        members = find_members(key)
        server = build_server(Front(settings, members), settings, loop="auto", is_front=True)
        server.limits.upgrades = RateLimit(_SOCKETS_PER_S, _SOCKETS_PER_S)  # all clients have one address here
        thread = threading.Thread(target=server.run, args=([bound],), name="front", daemon=True)
        thread.start()
        site = Site(f"http://127.0.0.1:{port}", key, members, thread, redeploy)
        site.until_ready(setting.replicas)
        while thread.is_alive() and not server.started:  # it queries the replicas before it listens
            time.sleep(0.01)
        try:
            yield site
        finally:
            server.should_exit = True
            thread.join(10.0)


@dataclass
class _Counts:
    """Outcomes of the utterances."""

    outcomes: Counter[str] = field(default_factory=Counter[str])
    failures: list[tuple[float, str]] = field(default_factory=list[tuple[float, str]])  # monotonic time, and code
    misplaced: int = 0  # queued or refused while a replica had room
    refused: int = 0
    unconnected: int = 0  # sockets that were not accepted
    packets: int = 0
    first_ms: list[float] = field(default_factory=list[float])


async def _come_and_go(site: Site, number: int, texts: Sequence[str], counts: _Counts, until: threading.Event) -> None:
    """One client: open a socket, speak an utterance, pause; repeat until ``until`` is set."""
    draw, client = random.Random(number), AsyncClient(site.url)
    await asyncio.sleep(draw.uniform(0.0, 3.0))
    while not until.is_set():
        had_room = _roomy(site)
        try:
            utterance = await client.utterance()
        except ServerGone:
            counts.unconnected += 1
            counts.misplaced += bool(had_room & _roomy(site))
            await asyncio.sleep(draw.uniform(0.5, 1.5))
            continue
        outcome = "gone"
        try:
            async with utterance:
                outcome = await _speak(site, utterance, draw.choice(texts), counts)
        except Refused as error:
            counts.misplaced += error.code == "busy" and bool(had_room & _roomy(site))
            counts.refused += 1
            await asyncio.sleep(draw.uniform(0.5, 1.5))
            continue
        except ServerGone as error:
            counts.failures.append((time.monotonic(), str(error)))
        counts.outcomes[outcome] += 1
        await asyncio.sleep(draw.uniform(0.1, 1.0))


def _roomy(site: Site) -> set[str]:
    """Replicas with a free slot, according to the front."""
    return {name for name, one in [*site.members.by_name.items()] if one.free > 0}


async def _speak(site: Site, utterance: Any, text: str, counts: _Counts) -> str:
    began_s, has_sound = time.monotonic(), False
    feeding = asyncio.create_task(_feed(utterance, text))
    outcome = "gone"
    try:
        async for event in utterance:
            if isinstance(event, Queued):
                counts.misplaced += bool(_roomy(site))
            elif isinstance(event, Audio):
                counts.packets += 1
                if not has_sound:
                    counts.first_ms.append(1000.0 * (time.monotonic() - began_s))
                has_sound = True
            elif isinstance(event, Ended):
                outcome = "ended"
            elif isinstance(event, Failed):
                outcome = event.code
                counts.failures.append((time.monotonic(), event.code))
    finally:
        feeding.cancel()
    return outcome


async def _feed(utterance: Any, text: str) -> None:
    with suppress(ServerGone, Refused):
        for word in text.split():
            await utterance.send(word + " ")
            await asyncio.sleep(1.0 / _WORDS_PER_S)
        await utterance.end()


def bench_replicas(setting: ReplicasSetting) -> dict[str, Any]:
    """Kills, then a rolling drain, under load; then the overhead of the front without load."""
    texts = [text for text in read_texts(setting.texts) if len(text) < 120]
    with running_site(setting) as site:
        overhead = asyncio.run(_overhead(site)) | asyncio.run(_cpu(site, texts))
        counts, over = _Counts(), threading.Event()
        crowd = threading.Thread(target=_crowd, args=(site, setting, texts, counts, over))
        crowd.start()
        kills = _kill(site, setting)
        time.sleep(LOST_S)  # after the last kill: later failures count as lost in the drain
        killed = dict(counts.outcomes)
        lost = [_after_kill_s(at_s, kills) for at_s, _ in counts.failures]
        site.until_ready(setting.replicas)
        at = len(counts.failures)
        began_s = time.monotonic()
        site.redeploy()
        drain_s = time.monotonic() - began_s
        lost_in_drain = [what for _, what in counts.failures[at:]]
        over.set()
        crowd.join()
    slow = [late for late in lost if late > LOST_S]
    out: dict[str, Any] = {
        "replicas": setting.replicas,
        "places": setting.places,
        "sockets": setting.sockets,
        "kills": len(kills),
        "outcomes_with_kills": killed,
        "outcomes": dict(counts.outcomes),
        "failed_after_kill_s": {"n": len(lost), "largest": max(lost, default=0.0)},
        "drain_s": drain_s,
        "lost_in_drain": len(lost_in_drain),
        "misplaced": counts.misplaced,
        "busy_answers": counts.refused,
        "unaccepted_sockets": counts.unconnected,
        "first_ms": percentiles(counts.first_ms, (50, 95)),
        "packets": counts.packets,
        "overhead": overhead,
    }
    out["failures"] = [
        text
        for is_wrong, text in (
            (lost_in_drain, f"{len(lost_in_drain)} utterances were lost in the drain: {lost_in_drain[:3]}"),
            (slow, f"{len(slow)} utterances failed more than {LOST_S:g} s after a kill"),
            (counts.misplaced, f"{counts.misplaced} utterances waited or were refused while a replica had room"),
            (not counts.outcomes["ended"], "no utterance ended"),
        )
        if is_wrong
    ]
    return out


def _crowd(site: Site, setting: ReplicasSetting, texts: Sequence[str], counts: _Counts, until: threading.Event) -> None:
    async def run_clients() -> None:
        await asyncio.gather(*(_come_and_go(site, n, texts, counts, until) for n in range(setting.sockets)))

    asyncio.run(run_clients())


def _kill(site: Site, setting: ReplicasSetting) -> list[float]:
    """Kill the replicas in turn, one every ``kill_every_s``, while another one runs; returns monotonic times, s."""
    kills, until_s = list[float](), time.monotonic() + setting.seconds
    for turn in itertools.count():
        time.sleep(max(0.0, min(setting.kill_every_s, until_s - time.monotonic())))
        if time.monotonic() >= until_s:
            return kills
        site.until_ready(2)
        pids = sorted(site.pids().items())
        kills.append(time.monotonic())
        name, pid = pids[turn % len(pids)]
        os.kill(pid, signal.SIGKILL)
        while name in site.pids():  # until then it would count as running
            time.sleep(0.05)
    raise AssertionError


def _after_kill_s(at_s: float, kills: Sequence[float]) -> float:
    return min((at_s - kill_s for kill_s in kills if kill_s <= at_s), default=float("inf"))


async def _overhead(site: Site) -> dict[str, Any]:
    """Round trips to a replica, directly and through the front: a refused message and its answer."""
    (member, *_) = site.members.by_name.values()
    times = {
        "direct": await _round_trips(member.url, site.key),
        "front": await _round_trips(site.url, ""),
    }
    more = [front - statistics.median(times["direct"]) for front in times["front"]]
    return {name: percentiles(one, (50, 95)) for name, one in times.items()} | {"added": percentiles(more, (50, 95))}


async def _cpu(site: Site, texts: Sequence[str]) -> dict[str, float]:
    """CPU time of the front: per packet of sound with its events and reports, and for polling one replica's load."""
    idle_s = _cpu_s(site.thread)
    await asyncio.sleep(_IDLE_S)
    before_s, packets, samples, began_s = _cpu_s(site.thread), 0, 0, time.monotonic()
    idle_share = (before_s - idle_s) / _IDLE_S
    async for event in AsyncClient(site.url).speak(" ".join(texts[:20])):
        if isinstance(event, Audio):
            packets, samples = packets + 1, samples + len(event.pcm)
    cpu_s = _cpu_s(site.thread) - before_s - idle_share * (time.monotonic() - began_s)
    return {
        "packet_cpu_ms": 1000.0 * cpu_s / max(1, packets),
        "packet_samples": samples / max(1, packets),
        "load_cpu_share": idle_share / len(site.members.by_name),
    }


async def _round_trips(url: str, key: str) -> list[float]:
    from websockets.asyncio.client import connect

    headers = {"X-Studio-Key": key} if key else {}
    times_ms = list[float]()
    async with connect(url.replace("http", "ws", 1) + "/ws/speak", additional_headers=headers, proxy=None) as ws:
        await ws.recv()
        for _ in range(_PINGS):
            began_s = time.perf_counter()
            await ws.send('{"type": "flush", "utterance": 1}')
            await ws.recv()
            times_ms.append(1000.0 * (time.perf_counter() - began_s))
    return times_ms


def _cpu_s(thread: threading.Thread) -> float:
    assert thread.ident is not None
    return time.clock_gettime(time.pthread_getcpuclockid(thread.ident))


def show(out: Mapping[str, Any]) -> None:
    """Print the figures."""
    rows: list[list[object]] = [
        ["utterances, by outcome", ", ".join(f"{name} {count}" for name, count in out["outcomes"].items()), ""],
        ["kills", out["kills"], ""],
        ["failed after a kill, largest, s", round(out["failed_after_kill_s"]["largest"], 2), f"at most {LOST_S:g}"],
        ["lost in a rolling drain", out["lost_in_drain"], "0"],
        ["rolling drain, s", round(out["drain_s"], 1), ""],
        ["waited or refused beside room", out["misplaced"], "0"],
        ["busy answers, sockets not accepted", f"{out['busy_answers']}, {out['unaccepted_sockets']}", ""],
        ["first sound, ms: p50, p95", f"{out['first_ms']['p50']:.0f}, {out['first_ms']['p95']:.0f}", ""],
        ["added by the front, ms: p95", round(out["overhead"]["added"]["p95"], 2), f"at most {FIRST_MS:g}"],
        ["CPU of the front per packet, ms", round(out["overhead"]["packet_cpu_ms"], 3), f"at most {PACKET_MS:g}"],
        ["CPU of the front for a replica's load, % of a core", round(100 * out["overhead"]["load_cpu_share"], 2), ""],
    ]
    title = f"{out['sockets']} sockets on {out['replicas']} replicas of {out['places']} slots"
    print_table(title, ("", "", "target"), rows)
    for line in out["failures"]:
        print_line(line)
