"""First-sound latency of a new utterance on a loaded engine, beside that on an idle one.

Newcomers arrive one after another, each with a complete text, and cancel at their first sound. The load is the typists
of ``studio.bench.speed.typists``.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from studio.bench.settings import LoadSetting
from studio.bench.speed.typists import crowd, leave, warm
from studio.core import events as ev
from studio.core.errors import Busy
from studio.core.ports import SpeakRequest
from studio.engine.engine import LocalEngine
from studio.engine.request.request import EngineRequest
from studio.measure.latency import percentiles
from studio.measure.report import print_table

FULL = 0.8  # share of the typists that fit
_EVERY_S = 0.5
_POINTS = (50, 95, 99)
_SPARE_PLACES = 8  # for newcomers that have not left when the next one arrives


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
            if sound is not None:
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
    console = Console(stderr=True, quiet=setting.quiet)
    found: dict[str, Any] = {}
    for name, count in (("idle", 0), ("full", round(FULL * fitting))):
        with console.status(f"newcomers among {count} typists"):
            found[name] = {"typists": count, **_among(setting, count)}
    return found


def _among(setting: LoadSetting, count: int) -> dict[str, Any]:
    engine = setting.subject.engine(count + _SPARE_PLACES)
    try:
        warm(engine, setting.lines)
        newcomers = _Newcomers(engine, setting.lines)
        typists = crowd(engine, setting, count, newcomers.tick)
        newcomers.stay_away()
        leave(typists)
    finally:
        engine.close()
    return {
        "newcomers": len(newcomers.first_ms),
        "unheard": newcomers.unheard,
        "first_pcm_ms": percentiles(newcomers.first_ms, _POINTS),
    }


def show(out: Mapping[str, Any]) -> None:
    """Print the figures, fresh or read back from bench/results."""
    idle_ms = out["idle"]["first_pcm_ms"]["p95"]
    rows = []
    for one in (out["idle"], out["full"]):
        times_ms = one["first_pcm_ms"]
        first = [f"{times_ms[point]:.1f}" for point in ("p50", "p95", "p99")]
        rows.append([one["typists"], one["newcomers"], one["unheard"], *first, f"{times_ms['p95'] / idle_ms:.1f}x"])
    columns = ("typists", "newcomers", "unheard", "first sound, ms", "p95", "p99", "p95 over idle")
    print_table(f"A newcomer's first sound, at {100 * FULL:.0f}% of the typists who fit", columns, rows)
