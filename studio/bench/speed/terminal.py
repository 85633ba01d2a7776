"""``studio type``: latency from a key to the sample at the output, and underruns.

The program runs without a screen, on the null output; Textual's test driver presses the keys.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from studio.bench.material import read_texts
from studio.bench.settings import TypeSetting
from studio.core.errors import StudioError, needs
from studio.core.ports import SpeakRequest
from studio.desktop.devices import NULL
from studio.desktop.session import Session
from studio.measure.latency import ladder, percentiles
from studio.measure.report import print_table
from studio.measure.signal import active_level_db, first_audible_sample
from studio.systems.combined import open_voices
from studio.text.normalise import best

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from studio.desktop.line import Line

TARGET_MS = 60.0  # p50 from the key to the first sample
MORE_WORDS = 2  # words typed beyond the first window
_CHARS_PER_WORD = 6  # as typing speed is counted
_WAIT_S = 0.01
_PATIENCE_S = 120.0
_FIGURES = {
    "key_ms": f"key to first sample (p50 target: {TARGET_MS:g})",
    "t2_t0_ms": "of which engine (t2 - t0)",
    "audible_ms": "key to first audible sample",
}


def bench_type(setting: TypeSetting) -> dict[str, Any]:
    """Percentiles of first sound after a key, and underruns while texts are typed for minutes. Raises StudioError."""
    texts = read_texts(setting.texts, setting.n + setting.warm)
    lines = read_texts(setting.long_texts)
    names = [setting.voice.partition(":")[0]] if setting.voice else None
    with (
        closing(open_voices(setting.voices, best(), setting.device, names)) as engine,
        closing(Session(engine, SpeakRequest(voice=setting.voice), NULL)) as session,
    ):
        return asyncio.run(_measure(setting, session, texts, lines))


async def _measure(
    setting: TypeSetting, session: Session, texts: Sequence[str], lines: Sequence[str]
) -> dict[str, Any]:
    with needs("a program in the terminal needs the package textual", "desktop"):
        from studio.desktop.app import TypeApp
    window = int(session.options.get("m", 1))
    async with TypeApp(session, [NULL]).run_test(size=(100, 30)) as pilot:
        first: list[Line] = []
        typed: list[Line] = []
        for text in texts:
            words = " ".join(text.split()[: window + MORE_WORDS])
            first.append(await _type(pilot, session, words, setting.wpm))
            await _heard(session)
        underruns, late = session.underruns, session.player.underflows
        end_s = time.monotonic() + 60.0 * setting.minutes
        while time.monotonic() < end_s:
            typed.append(await _type(pilot, session, lines[len(typed) % len(lines)], setting.wpm, end_s))
        await _heard(session)
        return {
            "voice": setting.voice,
            "n": setting.n,
            "wpm": setting.wpm,
            "window": window,
            **_latencies(first[setting.warm :]),
            "minutes": setting.minutes,
            "spoken_s": sum(one.samples for one in typed) / session.player.rate_hz,
            "underruns": session.underruns - underruns,
            "late_blocks": session.player.underflows - late,
        }


async def _type(pilot: "Pilot[None]", session: Session, text: str, wpm: float, end_s: float = float("inf")) -> "Line":
    """Type a line, a character at a time, until ``end_s`` at most. Returns it."""
    began_s, line = time.monotonic(), None
    for k, char in enumerate(text):
        due_s = began_s + k * 60.0 / (wpm * _CHARS_PER_WORD)
        if due_s > end_s:
            break
        await asyncio.sleep(max(0.0, due_s - time.monotonic()))
        await pilot.press(char)
        line = session.typing or line
    await pilot.press("enter")
    if line is None:
        raise StudioError("a text began no line", "give texts of words")
    return line


async def _heard(session: Session) -> None:
    """Wait until everything was played. Raises StudioError if it takes too long, or a line failed."""
    try:
        async with asyncio.timeout(_PATIENCE_S):
            while not session.is_idle():
                await asyncio.sleep(_WAIT_S)
    except TimeoutError as error:
        raise StudioError("a line was not heard to its end", "try studio type manually") from error
    if session.errors:
        raise session.errors[0]


def _latencies(lines: Sequence["Line"]) -> dict[str, Any]:
    times_ms: dict[str, list[float | None]] = {name: [] for name in _FIGURES}
    for line in lines:
        trace = line.trace()
        audible = first_audible_sample(trace.pcm, trace.rate_hz, active_level_db(trace.pcm, trace.rate_hz))
        key_ms = line.latency_ms
        times_ms["key_ms"].append(key_ms)
        times_ms["t2_t0_ms"].append(ladder(trace).since("t2", "t0"))
        times_ms["audible_ms"].append(
            None if key_ms is None or audible is None else key_ms + 1000.0 * audible / trace.rate_hz
        )
    return {name: percentiles(values) for name, values in times_ms.items()}


def show(out: Mapping[str, Any]) -> None:
    rows: list[list[object]] = [
        [title, round(out[name]["p50"], 1), round(out[name]["p95"], 1), "ms"] for name, title in _FIGURES.items()
    ]
    spoken = f"{out['minutes']:g} minutes of typing ({out['spoken_s']:.0f} s of speech)"
    rows.append([f"underruns in {spoken} (target: 0)", out["underruns"], "", "count"])
    rows.append(["of which blocks that the output got too late", out["late_blocks"], "", "count"])
    title = f"The terminal program, {out['n']} texts at {out['wpm']:g} wpm, m={out['window']}"
    print_table(title, ("", "p50", "p95", ""), rows)
