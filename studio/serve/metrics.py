"""``/metrics`` for Prometheus: what the engine is doing and what the process takes."""

from collections.abc import Iterator
from itertools import accumulate, pairwise
from typing import Any

from fastapi import FastAPI
from fastapi.responses import Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from studio.core.load import EngineLoad, ModuleLoad, TellsLoad

_ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)  # the histogram's bounds


class EngineCollector(Collector):
    """An engine's load as Prometheus has it, asked when it is scraped."""

    def __init__(self, engine: TellsLoad) -> None:
        self._engine = engine

    def collect(self) -> Iterator[Any]:
        """Every metric at this moment."""
        load = self._engine.load()
        yield from _gauges(load)
        yield from _counters(load)
        yield from _of_modules(load.modules)


def _gauges(load: EngineLoad) -> Iterator[Any]:
    for name, what, value in (
        ("places", "Utterances that are spoken at once.", load.places),
        ("speaking", "Utterances that have a place.", load.speaking),
        ("queue_places", "Utterances that may wait for a place.", load.queue),
        ("waiting", "Utterances that wait for a place: the length of the queue.", load.waiting),
        ("device_memory_bytes", "Memory that tensors take on a GPU.", load.device_bytes),
    ):
        yield GaugeMetricFamily(f"studio_engine_{name}", what, value=value)


def _counters(load: EngineLoad) -> Iterator[Any]:
    for name, what, value in (
        ("utterances_opened", "Utterances that got a place.", load.opened),
        (
            "utterances_refused",
            "Times that somebody was told that the engine is busy; who tries again counts again.",
            load.refused,
        ),
        ("utterances_failed", "Utterances that ended badly.", load.failed),
        ("queued_seconds", "How long those that got a place had waited for it.", load.queued_ms / 1000.0),
        ("audio_seconds", "Sound made.", load.audio_s),
        ("stalls", "Pauses in mid-speech that were the computer's.", load.stalls),
        ("stalled_seconds", "How long these pauses were together.", load.stalled_ms / 1000.0),
    ):
        yield CounterMetricFamily(f"studio_engine_{name}", what, value=value)


def _of_modules(modules: tuple[ModuleLoad, ...]) -> Iterator[Any]:
    labels = ["voice", "module"]
    rows = HistogramMetricFamily("studio_module_rows", "Rows of each run of a module.", labels=labels)
    seconds = CounterMetricFamily("studio_module_seconds", "Time in which a module ran.", labels=labels)
    slow = CounterMetricFamily("studio_module_slow_runs", "Runs that took longer than slow_run_ms.", labels=labels)
    for one in modules:
        counts = [sum(n for size, n in one.runs.items() if low < size <= high) for low, high in _spans()]
        buckets = zip([*map(str, map(float, _ROWS)), "+Inf"], accumulate(counts), strict=True)
        rows.add_metric([one.voice, one.name], [*buckets], sum_value=one.rows)
        seconds.add_metric([one.voice, one.name], sum(one.ms.values()) / 1000.0)
        slow.add_metric([one.voice, one.name], one.slow)
    yield rows
    yield seconds
    yield slow


def _spans() -> list[tuple[float, float]]:
    bounds = [0.0, *map(float, _ROWS), float("inf")]
    return [*pairwise(bounds)]


def add_metrics(app: FastAPI, engine: TellsLoad) -> None:
    """Put ``/metrics`` into an app; it is behind the key like every route that is not listed as open."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(EngineCollector(engine))
    ProcessCollector(registry=registry)

    @app.get("/metrics")
    def metrics() -> Response:
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)
