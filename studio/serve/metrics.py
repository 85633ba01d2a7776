"""``/metrics`` for Prometheus: load of the engine and resources of the process."""

from collections.abc import Iterator
from itertools import accumulate, pairwise
from typing import Any

from fastapi import FastAPI
from fastapi.responses import Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from studio.core.ports import EngineLoad, ModuleLoad, SupportsLoad

_ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)  # bounds of the histogram


class EngineCollector(Collector):
    """Collects an engine's load when Prometheus scrapes it."""

    def __init__(self, engine: SupportsLoad) -> None:
        self._engine = engine

    def collect(self) -> Iterator[Any]:
        """The current value of every metric."""
        load = self._engine.load()
        yield from _gauges(load)
        yield from _counters(load)
        yield from _of_modules(load.modules)


def _gauges(load: EngineLoad) -> Iterator[Any]:
    for name, what, value in (
        ("places", "Concurrency slots.", load.slots),
        ("speaking", "Utterances in a slot.", load.speaking),
        ("queue_places", "Maximum length of the queue.", load.queue),
        ("waiting", "Length of the queue.", load.waiting),
        ("device_memory_bytes", "GPU memory of tensors.", load.device_bytes),
    ):
        yield GaugeMetricFamily(f"studio_engine_{name}", what, value=value)


def _counters(load: EngineLoad) -> Iterator[Any]:
    for name, what, value in (
        ("utterances_opened", "Utterances that got a slot.", load.opened),
        (
            "utterances_refused",
            "Utterances rejected because the engine was busy; each retry counts.",
            load.refused,
        ),
        ("utterances_failed", "Utterances that failed.", load.failed),
        ("queued_seconds", "Time in the queue of utterances that got a slot.", load.queued_ms / 1000.0),
        ("audio_seconds", "Generated audio.", load.audio_s),
        ("stalls", "Stalls: pauses in speech caused by compute.", load.stalls),
        ("stalled_seconds", "Total time of stalls.", load.stalled_ms / 1000.0),
    ):
        yield CounterMetricFamily(f"studio_engine_{name}", what, value=value)


def _of_modules(modules: tuple[ModuleLoad, ...]) -> Iterator[Any]:
    labels = ["voice", "module"]
    rows = HistogramMetricFamily("studio_module_rows", "Rows per run of a module.", labels=labels)
    seconds = CounterMetricFamily("studio_module_seconds", "Run time of a module.", labels=labels)
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


def add_metrics(app: FastAPI, engine: SupportsLoad) -> None:
    """Add ``/metrics``, which needs the key like every route that is not public."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(EngineCollector(engine))
    ProcessCollector(registry=registry)

    @app.get("/metrics")
    def metrics() -> Response:
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)
