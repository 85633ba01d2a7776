"""The running app from outside: start-up and memory, the sound of typed texts, the delay of the word highlight."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np

from studio.bench.evaluation.settings import HeardSetting
from studio.bench.material import read_texts
from studio.bench.page.browser import (
    app_process,
    captured,
    open_page,
    running_app,
    type_words,
    utterances_played,
    wait_for,
    wait_utterances_played,
)
from studio.bench.settings import HighlightSetting, StartSetting
from studio.client import Client
from studio.core.clips import write_wav
from studio.core.errors import BadVoice, NeedsPackage, StudioError
from studio.core.events import Ended, Failed, Ready
from studio.measure.latency import percentiles
from studio.measure.recognisers.registry import open_recogniser
from studio.measure.report import bar, print_table, recogniser_name
from studio.measure.wer import corpus_errors, word_errors

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
_MIB = 1024.0  # kB, as the kernel counts
RATE_HZ = 24_000


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


def frame_of(turns: Sequence[Mapping[str, Any]], sample: int) -> float:
    """The audio context's frame at which a voice sample of the first play left the worklet."""
    moving = [turn for turn in turns if turn["play"] == 1 and turn["playing"] and turn["sample"] <= sample]
    return moving[-1]["frame"] + sample - moving[-1]["sample"]


def show_highlight(out: Mapping[str, Any]) -> None:
    rows = [
        [f"{shift} ms", one["words"], *(round(one[key], 1) for key in ("min_ms", "p50_ms", "max_ms")), one["within"]]
        for shift, one in out["shifts"].items()
    ]
    columns = ("audio device delay", "words", "min ms", "p50 ms", "max ms", f"share within {out['tolerance_ms']:g} ms")
    print_table("Delay of the highlight behind the sound", columns, rows)


def bench_start(setting: StartSetting) -> dict[str, Any]:
    """Seconds from the start of the process until the page is served, and the process's memory in MiB.

    Raises:
        PageFailed: the app did not answer.
        NeedsPackage: this system does not report the memory of a process.
    """
    answers_s: list[float] = []
    usage: dict[str, float] = {}
    for _ in range(setting.starts):
        with app_process(setting.command) as (process, url):
            began_s = time.monotonic()
            wait_for(process, url)
            answers_s.append(time.monotonic() - began_s)
            if len(answers_s) == setting.starts:
                usage["idle_mib"] = _memory_mib(process.pid, "VmRSS")
                usage["audio_s"] = _speak(url, read_texts(setting.text, 1)[0])
                usage["peak_mib"] = _memory_mib(process.pid, "VmHWM")
    return {"starts": setting.starts, "answers_s": percentiles(answers_s) | {"first": answers_s[0]}, "memory": usage}


def _memory_mib(pid: int, field: str) -> float:
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    except OSError as error:
        raise NeedsPackage(
            "this system does not report the memory of a process in /proc", "measure on Linux"
        ) from error
    return next(int(line.split()[1]) / _MIB for line in lines if line.startswith(f"{field}:"))


def _speak(url: str, text: str) -> float:
    """Speak a text as a client that stores the sound would; returns its duration in seconds."""
    samples, rate_hz = 0, 1
    for event in Client(url).speak(text):
        if isinstance(event, Ready):
            rate_hz = event.rate_hz
        elif isinstance(event, Ended):
            samples = event.samples
        elif isinstance(event, Failed):
            raise StudioError(f"the app did not speak: {event.message}")
    return samples / rate_hz


def show_start(out: Mapping[str, Any]) -> None:
    answers, usage = out["answers_s"], out["memory"]
    rows = [
        ["until the page answers: first start", round(answers["first"], 2), "s"],
        [f"until the page answers: median of {out['starts']}", round(answers["p50"], 2), "s"],
        ["memory, idle", round(usage["idle_mib"]), "MiB"],
        [f"memory, highest while {usage['audio_s']:.0f} s are spoken", round(usage["peak_mib"]), "MiB"],
    ]
    print_table("Start and memory of the app", ("", "", ""), rows)


def eval_heard(setting: HeardSetting) -> dict[str, Any]:
    """Transcripts and stalls of each text. Only rendered speech is captured, not pauses.

    Raises:
        NeedsPackage: playwright, chromium or the recogniser is missing.
        BadFile: the recogniser's weights are missing.
        PageFailed: the app did not start, or samples were lost on their way.
        BadVoice: the page has no such voice or speaker.
    """
    texts = read_texts(setting.texts)[: setting.count]
    recogniser, rows = open_recogniser(setting.recogniser), []
    name, _, speaker = setting.voice.partition(":")
    query = urlencode({key: value for key, value in (("tap", "1"), ("voice", name), ("speaker", speaker)) if value})
    with running_app(setting.command) as url, open_page(f"{url}?{query}") as page:
        chosen = ('[name="live-voice"]:checked', '[data-set="speaker"]')
        selected = [page.locator(f".live {one}").input_value() for one in chosen]
        voice = ":".join(selected)
        if setting.voice not in ("", selected[0], voice):
            raise BadVoice(
                f"the page has no voice {setting.voice!r:.100}", f"it took {voice}; `studio voices` lists them"
            )
        for number, text in enumerate(bar(texts, "typing", setting.quiet), 1):
            before, began_s = utterances_played(page), time.monotonic()
            type_words(page, text.split(), setting.wpm)
            page.keyboard.press("Control+Enter")
            wait_utterances_played(page, before + 1, 180.0)
            figures = page.evaluate("document.querySelector('.live').figures")
            pcm = captured(page, number)
            page.locator('[data-do="clear"]').click()
            if setting.keep:
                setting.keep.mkdir(parents=True, exist_ok=True)
                write_wav(setting.keep / f"heard-{number:02}.wav", pcm, RATE_HZ)
            transcript = recogniser.transcribe(pcm, RATE_HZ)
            rows.append(
                {
                    "text": text,
                    "heard": transcript,
                    "wer": corpus_errors([word_errors(text, transcript)]).rate,
                    "audio_s": len(pcm) / RATE_HZ,
                    "typed_s": time.monotonic() - began_s,
                    "stalls": figures["stalls"]["count"],
                }
            )
    errors = corpus_errors([word_errors(row["text"], row["heard"]) for row in rows])
    about = {"voice": voice, "texts": setting.texts.name, "wpm": setting.wpm, "recogniser": recogniser.about}
    return {**about, "wer": errors.rate, "rows": rows}


def show_heard(out: Mapping[str, Any]) -> None:
    rows = [[row["heard"], row["wer"], row["audio_s"], row["stalls"]] for row in out["rows"]]
    typed = f"{out['texts']} typed at {out['wpm']:g} wpm"
    who = f" of {out['voice']}" if "voice" in out else ""  # absent from older results
    title = f"Output of the browser{who}, {typed}; WER of all {out['wer']:.3f} by {recogniser_name(out)}"
    print_table(title, ("transcript", "WER", "speech s", "stalls"), rows)
