"""Delay of the word highlight behind the sound, also when the audio device reports a larger latency."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from studio.bench.page.browser import open_page, running_app, type_words, wait_utterances_played
from studio.bench.settings import HighlightSetting
from studio.measure.report import print_table

# window.ear records the reported times before SHIFT_S is added to them.
EAR = """
window.ear = [];
const stamp = AudioContext.prototype.getOutputTimestamp;
const latency = Object.getOwnPropertyDescriptor(AudioContext.prototype, 'outputLatency').get;
AudioContext.prototype.getOutputTimestamp = function () {
  const said = stamp.call(this);
  const ms = performance.now();
  const ear = said.contextTime + (ms - said.performanceTime) / 1000;
  window.ear.push([ms, Math.min(ear, this.currentTime - latency.call(this))]);
  return { contextTime: said.contextTime - SHIFT_S, performanceTime: said.performanceTime };
};
Object.defineProperty(AudioContext.prototype, 'outputLatency', { get() { return latency.call(this) + SHIFT_S; } });
"""
TOLERANCE_MS = 40.0
_ALL_LIT = """() => {
  const { events, lit } = document.querySelector('.live').tap;
  return lit.length >= events.filter((e) => e.type === 'word_start').length;
}"""
_SEEN = """() => {
  const { events, lit, turns, page } = document.querySelector('.live').tap;
  const starts = events.filter((e) => e.type === 'word_start').map((e) => [e.i, e.sample]);
  return { starts, lit, turns, ear: window.ear, rateHz: page.rateHz };
}"""


def bench_highlight(setting: HighlightSetting) -> dict[str, Any]:
    """Delay between a word's first audible sample and its highlight for each shift; it must equal the shift.

    Raises:
        NeedsPackage: playwright or chromium is missing.
        PageFailed: the app did not start, or the page made no sound.
    """
    words = setting.text.split()
    out: dict[str, Any] = {"tolerance_ms": TOLERANCE_MS, "shifts": {}}
    with running_app(setting.command) as url:
        for shift_ms in setting.shifts_ms:
            with open_page(url + "?tap=1", script=ear_script(shift_ms)) as page:
                type_words(page, words, setting.wpm)
                page.keyboard.press("Control+Enter")
                wait_utterances_played(page, 1, 60.0)
                page.wait_for_function(_ALL_LIT, timeout=10_000.0)
                late_ms = np.array(lateness_ms(page))
            off_ms = np.abs(late_ms - shift_ms)
            out["shifts"][f"{shift_ms:g}"] = {
                "words": len(late_ms),
                "min_ms": float(late_ms.min()),
                "p50_ms": float(np.median(late_ms)),
                "max_ms": float(late_ms.max()),
                "within": float((off_ms <= TOLERANCE_MS).mean()),
            }
    if not setting.quiet:
        show(out)
    return out


def ear_script(shift_ms: float) -> str:
    """A script that adds latency to the page's audio device."""
    return EAR.replace("SHIFT_S", str(shift_ms / 1000.0))


def lateness_ms(page: Any) -> list[float]:
    """Delay of the highlight of each word of the first play, in ms after its first sample was audible.

    The page must have been opened with ``?tap=1`` and ``ear_script``.
    """
    seen = page.evaluate(_SEEN)
    starts, ear = dict(seen["starts"]), np.array(seen["ear"])
    late_ms: list[float] = []
    for word in seen["lit"]:
        heard_s = ear[np.abs(ear[:, 0] - word["ms"]).argmin(), 1]
        late_ms.append((heard_s - frame_of(seen["turns"], starts[word["i"]]) / seen["rateHz"]) * 1000.0)
    return late_ms


def frame_of(turns: Sequence[Mapping[str, Any]], sample: int, play: int = 1) -> float:
    """The audio context's frame at which a voice sample left the worklet."""
    moving = [turn for turn in turns if turn["play"] == play and turn["playing"] and turn["sample"] <= sample]
    return moving[-1]["frame"] + sample - moving[-1]["sample"]


def show(out: Mapping[str, Any]) -> None:
    """Print the figures, fresh or read back from bench/results."""
    rows = [
        [
            f"{shift} ms later",
            one["words"],
            *(round(one[key], 1) for key in ("min_ms", "p50_ms", "max_ms")),
            one["within"],
        ]
        for shift, one in out["shifts"].items()
    ]
    columns = ("the device is", "words", "min ms", "p50 ms", "max ms", f"share within {out['tolerance_ms']:g} ms")
    print_table("Delay of the highlight behind the sound", columns, rows)
