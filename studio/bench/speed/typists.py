"""The number of live typists that a machine serves without stalls, and the wait of a newcomer among them.

Each typist types words at its own phase and plays by credit, as the page does. The number is found by doubling and
then bisection. Newcomers arrive one after another, each with a complete text, and cancel at their first sound.
"""

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import cycle, islice
from typing import Any

from studio.bench.settings import LoadSetting
from studio.core import events as ev
from studio.core.errors import Busy, StudioError
from studio.core.ports import EngineLoad, SpeakRequest
from studio.core.speaking import speak_once
from studio.engine.engine import LocalEngine
from studio.engine.request.request import EngineRequest
from studio.measure.latency import percentiles
from studio.measure.report import console, print_table

HELD_BACK_MS = 30.0  # the player's initial buffer: shorter pauses are inaudible
CREDIT_S = 2.0  # as the page requests
WARM_S = 1.5  # warm-up, not counted
_TICK_S = 0.02
_CHARACTERS_PER_WORD = 6  # convention of typing speed
FULL = 0.8  # share of the typists that fit
_EVERY_S = 0.5
_POINTS = (50, 95, 99)
_SPARE_PLACES = 8  # slots for newcomers that are still there when the next one arrives


@dataclass
class Typist:
    """State of one typist."""

    utterance: EngineRequest
    words: Iterator[str]
    next_s: float
    played: float = 0.0
    typed: int = field(default=0)


def bench_typists(setting: LoadSetting) -> dict[str, Any]:
    """The largest number without a stall, every run, and the batches of the largest run without stalls."""
    tries: dict[int, dict[str, Any]] = {}
    terminal = console(stderr=True, quiet=setting.quiet)

    def fits(count: int) -> bool:
        with terminal.status(f"{count} typists"):
            tries[count] = _try(setting, count)
        return not (tries[count]["stalls"] or tries[count]["unheard"])

    low, high = 0, 1
    while high <= setting.most and fits(high):
        low, high = high, 2 * high
    high = min(high, setting.most + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    figures = {
        "wpm": setting.wpm,
        "seconds": setting.seconds,
        "held_back_ms": HELD_BACK_MS,
        "typists_without_stall": low,
        "all_that_were_tried": low >= setting.most,
        "tries": [tries[count] for count in sorted(tries)],
    }
    return figures | {"modules": tries[low]["modules"] if low else []}


def _try(setting: LoadSetting, count: int) -> dict[str, Any]:
    with closing(setting.subject.engine(count)) as engine:
        _warm_up(engine, setting)
        before = engine.load()
        typists = crowd(engine, setting, count)
        load = engine.load()
        overdue_ms = [one.utterance.overdue_ms() for one in typists]
        spoken = leave(typists)
    stalls_by_typist = [
        stalls_ms(events, 1000.0 * WARM_S) + [late_ms - HELD_BACK_MS] * (late_ms > HELD_BACK_MS)
        for (_, events), late_ms in zip(spoken, overdue_ms, strict=True)
    ]
    return {
        "typists": count,
        "stalls": sum(len(one) for one in stalls_by_typist),
        "stalled_typists": sum(bool(one) for one in stalls_by_typist),
        "longest_ms": max((ms for one in stalls_by_typist for ms in one), default=0.0),
        "failed": sum(isinstance(events[-1], ev.Failed) for _, events in spoken),
        "unheard": sum(not one.utterance.samples for one, _ in spoken),
        "words": sum(one.typed for one, _ in spoken),
        "audio_s": sum(one.utterance.samples / one.utterance.card.sample_rate_hz for one, _ in spoken),
        "modules": batches(load, before),
    }


def _warm_up(engine: LocalEngine, setting: LoadSetting) -> None:
    """Speak a text, so that everything is loaded. Raises StudioError: it could not be spoken."""
    last = speak_once(engine, SpeakRequest(), setting.lines[0]).events[-1]
    if isinstance(last, ev.Failed):
        raise StudioError(f"{engine.cards()[0].name} did not speak {setting.lines[0][:60]!r}: {last.message}")


def crowd(
    engine: LocalEngine, setting: LoadSetting, count: int, on_tick: Callable[[float], None] | None = None
) -> list[Typist]:
    """Run ``count`` typists for ``setting.seconds``; ``on_tick`` is called with the time in seconds."""
    draw = random.Random(f"typists {setting.seed} {count}")
    words = " ".join(setting.lines).split()
    typists: list[Typist] = []
    began_s = last_s = time.perf_counter()
    until_s = began_s + WARM_S + setting.seconds
    while (now_s := time.perf_counter()) < until_s:
        if len(typists) < count and now_s >= began_s + WARM_S * len(typists) / count:
            rate_hz = engine.cards()[0].sample_rate_hz
            request = SpeakRequest(seed=len(typists), credit_samples=round(CREDIT_S * rate_hz))
            at = draw.randrange(len(words))
            typists.append(Typist(engine.open(request), islice(cycle(words), at, None), now_s))
        for one in typists:
            _type(one, now_s, setting.wpm)
            _listen(one, now_s - last_s)
        if on_tick is not None:
            on_tick(now_s)
        last_s = now_s
        time.sleep(_TICK_S)
    return typists


def leave(typists: Sequence[Typist]) -> list[tuple[Typist, list[ev.Event]]]:
    """Cancel all typists; return the events of each."""
    for one in typists:
        one.utterance.cancel()
    return [(one, [*one.utterance.events()]) for one in typists]


def _type(one: Typist, now_s: float, wpm: float) -> None:
    while now_s >= one.next_s and not one.utterance.done:
        word = next(one.words) + " "
        one.utterance.push_text(word)
        one.typed += 1
        one.next_s += 60.0 * len(word) / (wpm * _CHARACTERS_PER_WORD)


def _listen(one: Typist, passed_s: float) -> None:
    rate_hz = one.utterance.card.sample_rate_hz
    one.played = min(one.utterance.samples, one.played + passed_s * rate_hz)
    one.utterance.grant(round(one.played + CREDIT_S * rate_hz))


def stalls_ms(events: Sequence[ev.Event], from_ms: float = 0.0) -> list[float]:
    """Audible stalls of a listener that buffers ``HELD_BACK_MS`` after each wait for text.

    Args:
        from_ms: earlier stalls are not counted.
    """
    stalls, spare_ms = list[float](), HELD_BACK_MS
    counted = False
    for one in events:
        if isinstance(one, ev.Failed):
            stalls.append(0.0)
        if not isinstance(one, ev.Wait):
            continue
        counted = counted or one.t_ms >= from_ms
        if one.reason == "text":
            spare_ms = HELD_BACK_MS
        elif one.reason == "compute" and counted:
            late_ms = one.duration_ms - spare_ms
            spare_ms = max(0.0, -late_ms)
            if late_ms > 0:
                stalls.append(late_ms)
                spare_ms = HELD_BACK_MS
    return stalls


def answer(out: Mapping[str, Any]) -> str:
    """The result as a sentence."""
    count, wpm = out["typists_without_stall"], out["wpm"]
    if not count and out["tries"] and out["tries"][0].get("failed"):
        return "The only typist's speech failed: see what studio say, or studio systems test, says of its text."
    if not count and out["tries"] and out["tries"][0].get("unheard"):
        return f"The only typist heard nothing in {out['seconds']:g} s: raise --seconds, or cut its text shorter."
    if not count:
        none = f"Not even one typist at {wpm:g} words a minute runs without stalls"
        return f"{none}: stop other programs, or try a smaller voice."
    many = f"{count} live typists" if count > 1 else "1 live typist"
    more = " (more were not tested)" if out["all_that_were_tried"] else ""
    return f"{many} at {wpm:g} words a minute fit this machine{more}."


def show_typists(out: Mapping[str, Any]) -> None:
    rows = []
    for one in out["tries"]:
        counts = [str(one["typists"]), one["stalls"], one["stalled_typists"], one.get("unheard", 0)]
        rows.append([*counts, f"{one['longest_ms']:.0f}", f"{one['audio_s']:.0f}"])
    title = f"{answer(out)} ({out['voice']}, {out['weights']} weights, {out['seconds']:g} s a run)"
    longest = f"longest beyond {HELD_BACK_MS:.0f} ms, ms"
    print_table(title, ("typists", "stalls", "typists with stalls", "without sound", longest, "speech, s"), rows)
    if out["modules"]:
        show_batches(out["modules"], f"Batches with {out['typists_without_stall']} typists")


def batches(after: EngineLoad, before: EngineLoad | None = None) -> list[dict[str, Any]]:
    """Runs and mean time by batch size for each module, between two snapshots of the load."""
    past = {(one.voice, one.name): one for one in before.modules} if before else {}
    batch_sizes = []
    for one in after.modules:
        old = past.get((one.voice, one.name))
        runs = {size: count - (old.runs.get(size, 0) if old else 0) for size, count in sorted(one.runs.items())}
        ms = {size: one.ms[size] - (old.ms.get(size, 0.0) if old else 0.0) for size in runs}
        histogram = {size: count for size, count in runs.items() if count}
        rows, total = sum(size * count for size, count in histogram.items()), sum(histogram.values())
        batch_sizes.append(
            {
                "module": one.name,
                "runs": total,
                "mean_rows": rows / max(1, total),
                "ms_per_run": sum(ms.values()) / max(1, total),
                "histogram": {str(size): {"runs": n, "ms": ms[size] / n} for size, n in histogram.items()},
            }
        )
    return batch_sizes


def show_batches(modules: Sequence[Mapping[str, Any]], title: str) -> None:
    """Print the histogram."""
    rows = [
        [
            one["module"],
            one["runs"],
            f"{one['mean_rows']:.1f}",
            f"{one['ms_per_run']:.2f}",
            "  ".join(f"{size}: {it['runs']}" for size, it in one["histogram"].items()),
        ]
        for one in modules
    ]
    print_table(title, ("module", "runs", "rows", "ms a run", "runs by rows"), rows)


class _Newcomers:
    """Opens one newcomer at a time, when it is due."""

    def __init__(self, engine: LocalEngine, lines: Sequence[str]) -> None:
        self._engine, self._lines = engine, lines
        self._due_s: float | None = None
        self._there: list[EngineRequest] = []
        self.first_ms: list[float] = []
        self.unheard = 0

    def tick(self, now_s: float) -> None:
        """Open the next newcomer if it is due, and cancel those that have sounded."""
        if self._due_s is None or now_s >= self._due_s:
            self._due_s = now_s + _EVERY_S
            self._come()
        for one in [one for one in self._there if one.samples or one.done]:
            self._there.remove(one)
            one.cancel()
            sound = next((event for event in one.events() if isinstance(event, ev.Audio)), None)
            if sound is None:
                self.unheard += 1
            else:
                self.first_ms.append(sound.t_ms)

    def _come(self) -> None:
        try:
            one = self._engine.open(SpeakRequest(seed=len(self.first_ms)))
        except Busy:
            self.unheard += 1
            return
        one.push_text(self._lines[len(self.first_ms) % len(self._lines)])
        one.end()
        self._there.append(one)

    def stay_away(self) -> None:
        """Stop; newcomers without sound are counted as unheard."""
        for one in self._there:
            one.cancel()
            self.unheard += 1


def bench_newcomers(setting: LoadSetting, fitting: int) -> dict[str, Any]:
    """First-sound latency on an idle engine, and with the share ``FULL`` of the typists that fit."""
    terminal = console(stderr=True, quiet=setting.quiet)
    figures: dict[str, Any] = {}
    for name, count in (("idle", 0), ("full", round(FULL * fitting))):
        with terminal.status(f"newcomers among {count} typists"):
            figures[name] = {"typists": count, **_among(setting, count)}
    return figures


def _among(setting: LoadSetting, count: int) -> dict[str, Any]:
    with closing(setting.subject.engine(count + _SPARE_PLACES)) as engine:
        _warm_up(engine, setting)
        newcomers = _Newcomers(engine, setting.lines)
        typists = crowd(engine, setting, count, newcomers.tick)
        newcomers.stay_away()
        leave(typists)
    return {
        "newcomers": len(newcomers.first_ms),
        "unheard": newcomers.unheard,
        "first_pcm_ms": percentiles(newcomers.first_ms, _POINTS),
    }


def show_newcomers(out: Mapping[str, Any]) -> None:
    idle_ms = out["idle"]["first_pcm_ms"]["p95"]
    rows = []
    for one in (out["idle"], out["full"]):
        times_ms = one["first_pcm_ms"]
        first = [f"{times_ms[point]:.1f}" for point in ("p50", "p95", "p99")]
        rows.append([one["typists"], one["newcomers"], one["unheard"], *first, f"{times_ms['p95'] / idle_ms:.1f}x"])
    columns = ("typists", "newcomers", "without sound", "first sound, ms", "p95", "p99", "p95 over idle")
    print_table(f"First sound of a newcomer, at {100 * FULL:.0f}% of the typists who fit", columns, rows)
