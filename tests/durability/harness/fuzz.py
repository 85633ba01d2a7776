"""Fuzz the running app: hostile requests and messages at every entry point, then floods."""

import multiprocessing
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from durability.harness.floods import FLOODS, flood
from durability.harness.pulse import pulse
from durability.harness.served import MonitoredServer, Resources, plainly, served
from durability.harness.target import Routes, Target, enter_raters
from mounted import gradio_of

from studio.bench.durability import FuzzSetting
from studio.bench.mos.site import make_site
from studio.core.cards import Card
from studio.core.errors import Busy, NeedsPackage
from studio.core.ports import EngineLoad, SpeakRequest, Utterance
from studio.measure.latency import percentiles
from studio.mos.service import open_listening_tests
from studio.serve.app import create_app
from studio.serve.settings import ServeSettings
from studio.ui.app import mount

if TYPE_CHECKING:
    from durability.harness.fuzz_targets import Outcome

FREE_S = 1.0  # until every slot is free again
_AT_ONCE = 3  # entry points fuzzed concurrently
_SPARE_THREADS, _SPARE_DESCRIPTORS = 8, 8  # the event loop keeps its worker threads
_SPARE_MIB = 60.0


def bench_fuzz(setting: FuzzSetting) -> dict[str, Any]:
    """Answers by status, failures, resources before and after, and ``/health``; ``failures`` as sentences.

    Raises:
        PageFailed: the app did not start.
        NeedsPackage: schemathesis or hypothesis is missing, or the system does not report a process's resources.
    """
    missing = [name for name in ("schemathesis", "hypothesis") if find_spec(name) is None]
    if missing:
        raise NeedsPackage(f"{missing[0]} is not installed", "pip install schemathesis, which brings hypothesis")
    with tempfile.TemporaryDirectory() as folder:
        site = make_site(Path(folder) / "site", items=8, systems=2, clip_s=1.0, trials=6, quota=500)
        with served(site, Path(folder), setting.command) as server:
            raters = enter_raters(server.port, site, 24)
            target = Target(server.port, site.key, site.owner, setting.routes or all_routes(), raters)
            return _run(setting, server, target)


def _run(setting: FuzzSetting, server: MonitoredServer, target: Target) -> dict[str, Any]:
    places = server.places_free()
    with ProcessPoolExecutor(_AT_ONCE, mp_context=multiprocessing.get_context("spawn")) as hands:
        _through_all(hands, setting, target, setting.requests // 10, setting.seed + 1000)
        _settled(server, places, setting.settle_s)
        before, began_s = server.resources(), time.monotonic()
        with pulse(server.url) as health_ms:
            outcomes = _through_all(hands, setting, target, setting.requests, setting.seed)
        took_s = time.monotonic() - began_s
    free_s = server.until_free(places, setting.settle_s)
    floods = {}
    for kind in FLOODS if setting.flood_s > 0 else ():
        with pulse(server.url) as flood_ms:
            flood(kind, target, setting.flood_s)
        free_after_s = server.until_free(places, setting.settle_s)
        floods[kind.__name__] = percentiles(flood_ms, (50, 99)) | {"free_s": free_after_s}
    _settled(server, places, setting.settle_s)
    after = server.resources()
    out: dict[str, Any] = {
        "requests": sum(one.sent for one in outcomes),
        "took_s": round(took_s, 1),
        "doors": [asdict(one) | {"answers": dict(sorted(one.answers.items()))} for one in outcomes],
        "wrong": sum(one.wrongs for one in outcomes),
        "log": server.trouble()[:20],
        "before": plainly(before),
        "after": plainly(after),
        "places_free_after_s": free_s,
        "health_ms": percentiles(health_ms, (50, 99)),
        "floods": floods,
    }
    out["failures"] = _failures(out, before, after, server, places)
    return out


def _through_all(
    hands: ProcessPoolExecutor, setting: FuzzSetting, target: Target, requests: int, number: int
) -> "list[Outcome]":
    """Fuzz every entry point with its share of requests, several processes at a time."""
    from durability.harness.fuzz_entry_points import DOORS, through

    doors = setting.targets or tuple(DOORS)
    waits = [hands.submit(through, door, target, requests, number + n) for n, door in enumerate(doors)]
    return [one.result() for one in waits]


def _settled(server: MonitoredServer, places: int, within_s: float) -> None:
    """Wait until the server's resources stop shrinking for half of the allowed time."""
    until_s = time.monotonic() + within_s
    least, steady_s = server.resources(), time.monotonic()
    while time.monotonic() < until_s and time.monotonic() - steady_s < within_s / 2:
        time.sleep(0.5)
        now = server.resources()
        if now.threads < least.threads or now.descriptors < least.descriptors or now.places < places:
            least, steady_s = now, time.monotonic()


def _failures(
    out: Mapping[str, Any], before: Resources, after: Resources, server: MonitoredServer, places: int
) -> list[str]:
    """Failures as sentences."""
    found = [f"{one['door']}: {what}" for one in out["doors"] for what in one["wrong"]]
    found += [f"in the log: {line}" for line in out["log"]]
    if not server.is_up():
        found.append("the server has ended")
    if after.places != places:
        found.append(f"{places - after.places} of {places} slots are lost")
    if out["places_free_after_s"] is None or out["places_free_after_s"] > FREE_S:
        after_s = out["places_free_after_s"]
        found.append("slots were not freed" if after_s is None else f"slots were freed after {after_s:.2f} s")
    if after.threads > before.threads + _SPARE_THREADS:
        found.append(f"{after.threads} threads, {before.threads} before")
    if after.descriptors > before.descriptors + _SPARE_DESCRIPTORS:
        found.append(f"{after.descriptors} descriptors, {before.descriptors} before")
    if after.memory_mib > before.memory_mib + _SPARE_MIB + out["requests"] / 1000.0:
        found.append(f"{after.memory_mib:.0f} MiB, {before.memory_mib:.0f} before")
    return found


class _NoEngine:
    """An engine without voices, for an app that is not served."""

    def cards(self) -> Sequence[Card]:
        return []

    def open(self, request: SpeakRequest) -> Utterance:
        raise Busy("there is no voice", "start the app")

    def is_loaded(self, voice: str) -> bool:
        return False

    def free_slots(self) -> int:
        return 0

    def drain(self) -> None:
        pass

    def load(self) -> EngineLoad:
        return EngineLoad(slots=0, speaking=0)

    def close(self) -> None:
        pass


def all_routes() -> Routes:
    """The schema of our routes, and method and path of all others."""
    with tempfile.TemporaryDirectory() as folder:
        engine, settings = _NoEngine(), ServeSettings(traces_folder=Path(folder) / "traces")
        listening = open_listening_tests("", Path(folder))
        try:
            app = mount(create_app(engine, settings, listening=listening), engine, settings, listening)
            return Routes(app.openapi(), sorted(set(_listed(gradio_of(app)))))
        finally:
            listening.close()


def _listed(app: Any) -> Iterator[tuple[str, str]]:
    for route in app.routes:
        if hasattr(route, "original_router"):
            yield from _listed(route.original_router)
        else:
            yield from ((method, route.path) for method in getattr(route, "methods", None) or ())
