"""Queries at a rate, as in paper 004: each a whole text with unlimited credit; latencies and stalls.

Times are the engine's, counted from the time at which a query was due, so that delays of the sender count. Events are
read after an utterance has ended, so that reading adds no load.
"""

import datetime
import itertools
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from studio.bench.material import read_texts
from studio.bench.settings import ARRIVALS, KINDS, LoadSetting
from studio.bench.speed.systems import compare_systems, show_compared
from studio.bench.speed.typists import (
    batches,
    bench_newcomers,
    bench_typists,
    show_batches,
    show_newcomers,
    show_typists,
    stalls_ms,
)
from studio.core import events as ev
from studio.core.errors import Busy, needs
from studio.core.ports import SpeakRequest
from studio.core.speaking import speak_once
from studio.engine.engine import LocalEngine
from studio.engine.request.request import EngineRequest
from studio.measure.latency import percentiles
from studio.measure.report import RESULTS, bar, print_table

CHUNK_MS = 372.0  # paper 004's first chunk: 32 frames of its mels
_RATES = (10, 30, 60, 70, 100)  # queries a second, as in paper 004
_OPENERS = 32
_POINTS = (50, 95, 99)
_LONGEST_S = 120.0  # longest wait after the last query
MEANS_S: dict[str, float] = dict(zip(KINDS, (2.64, 4.08, 7.00, 4.54), strict=True))  # paper 004, Table 1
_MIXED = {"short": 0.34, "medium": 0.335, "long": 0.325}  # shares of the other three whose mean is 4.54 s
_SPREAD = 0.3  # lengths are uniform within this share of the mean
_CALIBRATION = 4  # texts that calibrate the duration of a character


@dataclass(frozen=True)
class Arrivals:
    """Arrival process of queries: ``fixed`` intervals (paper 004, 3.2.1) or ``poisson``."""

    kind: str
    per_s: float
    seconds: float
    seed: int = 0

    def times_s(self) -> list[float]:
        """Arrival time of every query, from 0."""
        if self.kind == "fixed":
            return [k / self.per_s for k in range(int(self.per_s * self.seconds))]
        draw = random.Random(f"arrivals {self.seed} {self.per_s}")
        times = itertools.accumulate(draw.expovariate(self.per_s) for _ in itertools.count())
        return [*itertools.takewhile(lambda at_s: at_s < self.seconds, times)]


def seconds_per_char(engine: LocalEngine, lines: Sequence[str]) -> float:
    """Seconds of speech per character, measured on a few texts."""
    chars, seconds = 0, 0.0
    for line in lines[:_CALIBRATION]:
        trace = speak_once(engine, SpeakRequest(), line)
        chars, seconds = chars + len(line), seconds + len(trace.pcm) / trace.rate_hz
    return max(seconds, 0.01) / max(chars, 1)


def texts_of(kind: str, count: int, s_per_char: float, lines: Sequence[str], seed: int = 0) -> list[str]:
    """Texts whose speech lasts ``MEANS_S[kind]`` on average: joined sentences, cut at a word."""
    draw = random.Random(f"texts {kind} {seed}")
    words = itertools.cycle(" ".join(lines).split())
    texts = []
    for _ in range(count):
        one = draw.choices([*_MIXED], [*_MIXED.values()])[0] if kind == "mixed" else kind
        wanted = MEANS_S[one] * draw.uniform(1.0 - _SPREAD, 1.0 + _SPREAD) / s_per_char
        text = next(words)
        while len(text) + 3 < wanted:  # about half a word of tolerance
            text += " " + next(words)
        texts.append(text)
    return texts


@dataclass(frozen=True)
class _Query:
    """Times of one query in ms since it was due; None if it was refused."""

    first_pcm_ms: float | None = None
    first_chunk_ms: float | None = None
    last_ms: float | None = None
    audio_ms: float = 0.0
    stalled: bool = False
    failed: bool = False


def bench_load(setting: LoadSetting) -> dict[str, Any]:
    """Typists, a newcomer's wait, and queries if requested. Raises BadFile."""
    if len(setting.system) > 1:
        return compare_systems(setting, bench_load)
    setting = replace(setting, lines=read_texts(setting.texts))
    out = setting.subject.about() | bench_typists(setting)
    out["newcomers"] = bench_newcomers(setting, out["typists_without_stall"])
    if setting.queries or setting.rates or setting.kinds or setting.arrivals:
        out["queries"] = bench_queries(setting)
    return out


def bench_queries(setting: LoadSetting) -> dict[str, Any]:
    """One row for each kind of text, arrival process and rate."""
    kinds, processes = setting.kinds or ("mixed",), setting.arrivals or ARRIVALS
    runs = [(k, a, r) for k in kinds for a in processes for r in setting.rates or _RATES]
    rows = [
        _run(setting, kind, Arrivals(arrivals, rate, setting.query_seconds, setting.seed))
        for kind, arrivals, rate in bar(runs, "queries", setting.quiet)
    ]
    held = [{"kind": k, "arrivals": a, "per_s": highest_clean_rate(rows, k, a)} for k in kinds for a in processes]
    return {"seconds": setting.query_seconds, "places": setting.places, "runs": rows, "held": held}


def _run(setting: LoadSetting, kind: str, arrivals: Arrivals) -> dict[str, Any]:
    with closing(setting.subject.engine(setting.places)) as engine:
        s_per_char = seconds_per_char(engine, setting.lines)  # also warms up the engine
        due_s = arrivals.times_s()
        texts = texts_of(kind, len(due_s), s_per_char, setting.lines, setting.seed)
        before = engine.load()
        queries, took_s = _ask(engine, due_s, texts, SpeakRequest(options=setting.options))
        load = engine.load()
    there = [one for one in queries if one.last_ms is not None]
    audio_ms = sum(one.audio_ms for one in there)
    return {
        "kind": kind,
        "arrivals": arrivals.kind,
        "per_s": arrivals.per_s,
        "queries": len(queries),
        "refused": sum(one.last_ms is None and not one.failed for one in queries),
        "failed": sum(one.failed for one in queries),
        "stalled": sum(one.stalled for one in there),
        "speech_s": audio_ms / max(1, len(there)) / 1000.0,
        "first_pcm_ms": _summed([one.first_pcm_ms for one in there]),
        "first_372_ms": _summed([one.first_chunk_ms for one in there]),
        "last_ms": _summed([one.last_ms for one in there]),
        "rtf": sum(one.last_ms or 0.0 for one in there) / audio_ms if audio_ms else float("nan"),
        "x_real_time": audio_ms / 1000.0 / took_s,
        "modules": batches(load, before),
    }


def _summed(values: Sequence[float | None]) -> dict[str, float]:
    there = [value for value in values if value is not None]
    return percentiles(there, _POINTS) | {"mean": float(np.mean(there)) if there else float("nan")}


def _ask(
    engine: LocalEngine, due_s: Sequence[float], texts: Sequence[str], request: SpeakRequest
) -> tuple[list[_Query], float]:
    """Send every query at its time; return the result of each, and the total seconds."""
    openings: list[Future[tuple[float, EngineRequest] | None]] = []
    began_s = time.perf_counter()

    def send(due: float, text: str) -> tuple[float, EngineRequest] | None:
        try:
            utterance = engine.open(request)
        except Busy:
            return None
        late_ms = 1000.0 * (time.perf_counter() - began_s - due)
        utterance.push_text(text)
        utterance.end()
        return late_ms, utterance

    with ThreadPoolExecutor(_OPENERS) as openers:
        for due, text in zip(due_s, texts, strict=True):
            time.sleep(max(0.0, began_s + due - time.perf_counter()))
            openings.append(openers.submit(send, due, text))
        opened = [one.result() for one in openings]
    until_s = time.perf_counter() + _LONGEST_S
    for one in opened:
        while one is not None and not one[1].done and time.perf_counter() < until_s:
            time.sleep(0.01)
    took_s = time.perf_counter() - began_s
    return [_Query() if one is None else _met(*one) for one in opened], took_s


def _met(late_ms: float, utterance: EngineRequest) -> _Query:
    """Read an utterance's events; one that has not ended is cancelled and counts as failed."""
    utterance.cancel()
    events = [*utterance.events()]
    sound = [one for one in events if isinstance(one, ev.Audio)]
    rate_hz = utterance.card.sample_rate_hz
    whole = isinstance(events[-1], ev.Ended) and not any(isinstance(one, ev.Cancelled) for one in events)
    if not whole or not sound:
        return _Query(failed=True)
    total = sound[-1].sample + len(sound[-1].pcm)
    chunk = min(total, round(CHUNK_MS * rate_hz / 1000.0))
    at_chunk = next(one for one in sound if one.sample + len(one.pcm) >= chunk)
    return _Query(
        first_pcm_ms=late_ms + sound[0].t_ms,
        first_chunk_ms=late_ms + at_chunk.t_ms,
        last_ms=late_ms + events[-1].t_ms,
        audio_ms=1000.0 * total / rate_hz,
        stalled=bool(stalls_ms(events)),
    )


def highest_clean_rate(runs: Sequence[Mapping[str, Any]], kind: str, arrivals: str) -> float | None:
    """The highest rate without refusals, failures and stalls; None if there is none."""
    mine = [run for run in runs if (run["kind"], run["arrivals"]) == (kind, arrivals)]
    fine = [run["per_s"] for run in mine if not (run["refused"] or run["failed"] or run["stalled"])]
    return max(fine, default=None)


def show(out: Mapping[str, Any]) -> None:
    rows = [
        [
            f"{run['kind']} ({run['speech_s']:.2f} s), {run['arrivals']}",
            run["per_s"],
            *(_ms(run["first_pcm_ms"], "mean", "p99")),
            *(_ms(run["first_372_ms"], "mean", "p99")),
            *(_ms(run["last_ms"], "mean", "p99")),
            run["rtf"],
            f"{run['refused']}/{run['failed']}/{run['stalled']}",
        ]
        for run in out["runs"]
    ]
    measured = ("FCL", "p99", "FCL 372", "p99", "LCL", "p99", "LCL/speech")
    columns = ("texts", "queries/s", *measured, "refused/failed/stalled")
    note = "ms since a query was due. FCL: to the first sample; FCL 372: to the first 372 ms of sound, as paper 004"
    title = f"Queries of {out['voice']} ({out['weights']} weights), {out['seconds']:g} s a run, {out['places']} slots"
    print_table(title, columns, rows, note)
    rows = [[f"{one['kind']}, {one['arrivals']}", one["per_s"]] for one in out["held"]]
    print_table("Highest rate without refusals, failures and stalls", ("texts", "queries/s"), rows)
    for run in out["runs"][-1:]:
        show_batches(run["modules"], f"Batches at {run['per_s']:g} queries a second, {run['arrivals']}")


def show_all(out: Mapping[str, Any]) -> None:
    """Print typists, newcomers, and queries if they were run; or a comparison of systems."""
    if "systems" in out:
        show_compared(out)
        return
    show_typists(out)
    if "newcomers" in out:  # absent from older files
        show_newcomers(out["newcomers"])
    if "queries" in out:
        show({**out, **out["queries"]})


def _ms(summary: Mapping[str, float | None], *names: str) -> list[object]:
    return [None if summary[name] is None else f"{summary[name]:.0f}" for name in names]


def plot_load(figures: Mapping[str, Any], name: str = "load", folder: Path = RESULTS) -> list[Path]:
    """Plot latency over rate, and batch sizes. Raises NeedsPackage."""
    with needs("plots need matplotlib", "bench"):
        from matplotlib.figure import Figure
    stamp = datetime.datetime.now(datetime.UTC).date().isoformat()
    title = f"{figures['voice']} ({figures['weights']} weights) on {figures['device']}"
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []

    def save(figure: Any, what: str) -> None:
        path = folder / f"{name}-{what}-{stamp}.svg"
        figure.savefig(path, metadata={"Date": None})
        written.append(path)

    figure = Figure(figsize=(7.0, 4.0), layout="constrained")
    axes = figure.subplots()
    tried = [one["typists"] for one in figures["tries"]]
    axes.bar([str(count) for count in tried], [one["stalls"] for one in figures["tries"]], color="#3b6ea5")
    fit = figures["typists_without_stall"]
    axes.set(xlabel="live typists", ylabel="stalls", title=f"{title}: {fit} fit at {figures['wpm']:g} wpm")
    save(figure, "typists")
    if runs := figures.get("queries", {}).get("runs"):
        figure = Figure(figsize=(7.0, 4.5), layout="constrained")
        axes = figure.subplots()
        for label, style, rates, values in _lines(runs):
            axes.plot(rates, values, style, label=label)
        axes.set(xlabel="queries a second", ylabel="ms", yscale="log", title=title)
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small")
        save(figure, "queries")
    if modules := figures["modules"]:
        figure = Figure(figsize=(7.0, 2.2 * len(modules)), layout="constrained")
        every = figure.subplots(len(modules), 1, squeeze=False)
        for axes, one in zip(every[:, 0], modules, strict=True):
            sizes = [int(size) for size in one["histogram"]]
            axes.bar(sizes, [it["runs"] for it in one["histogram"].values()], color="#3b6ea5")
            axes.set(ylabel="runs", title=f"{one['module']}: {one['mean_rows']:.1f} rows a run")
        every[-1, 0].set_xlabel("rows")
        save(figure, "batches")
    return written


def _lines(runs: list[dict[str, Any]]) -> Iterator[tuple[str, str, list[float], list[float]]]:
    """Name, style, rates and ms of a line for each kind of text, arrival process and latency."""
    for arrivals, dash in (("fixed", "-"), ("poisson", "--")):
        for kind in dict.fromkeys(run["kind"] for run in runs):
            mine = [run for run in runs if (run["kind"], run["arrivals"]) == (kind, arrivals)]
            for name, mark in (("first_372_ms", "o"), ("last_ms", "s")):
                there = [(run["per_s"], run[name]["mean"]) for run in mine if run[name]["n"]]
                if there:
                    label = f"{name.removesuffix('_ms').replace('_', ' ')}, {kind}, {arrivals}"
                    yield label, mark + dash, [rate for rate, _ in there], [value for _, value in there]
