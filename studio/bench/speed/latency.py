"""First audio and real-time factor, warm and cold: the ladder t0a to t5, and t4 on a loopback socket.

t3 is part of t4, since a server does not know when its kernel sends. t6 is measured by ``studio bench page``.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from studio.bench.material import EvaluationRun, evaluation_run, options_text, read_texts
from studio.bench.page.browser import own_command, running_app
from studio.bench.settings import LatencySetting
from studio.bench.speed.systems import compare_systems, show_compared
from studio.client import Client, Refused, Utterance
from studio.core import events as ev
from studio.core.errors import Closed, StudioError
from studio.core.ports import SpeakRequest
from studio.core.traces.trace import Trace, collect_trace
from studio.measure.latency import STEPS, LatencyLadder, ladder, percentiles, summary
from studio.measure.report import print_table, setting_name
from studio.measure.signal import active_level_db

_FIRST = ("t1_t0_ms", "t2_t0_ms", "t5_t0_ms")
_REST_S = 0.05  # pause before the word that completes the window


def bench_latency(setting: LatencySetting) -> dict[str, Any]:
    """Percentiles keyed by the ladder, such as ``{"t2_t0_ms": {"p50": ..., "p95": ...}, ..., "rtf": ...}``.

    Nothing is cached. Speakers alternate. Several systems are keyed by their names in ``systems``.
    """
    if len(setting.system) > 1:
        return compare_systems(setting, bench_latency)
    texts = read_texts(setting.texts, setting.count)
    with evaluation_run(setting) as at:
        for text in texts[: setting.warm]:
            _speak(at, setting, at.speakers[0], text)
        bar = at.progress.add_task("speaking", total=len(texts))
        spoken: list[tuple[str, Trace]] = []
        for number, text in enumerate(texts):
            speaker = at.speakers[number % len(at.speakers)]
            spoken.append((speaker, _speak(at, setting, speaker, text)))
            time.sleep(setting.pause_ms / 1000.0)
            at.progress.advance(bar)
        levels_db = {one: _level_db([trace for speaker, trace in spoken if speaker == one]) for one in at.speakers}
        figures = summary([ladder(trace, levels_db[speaker]) for speaker, trace in spoken])
        out = (
            at.about()
            | {"texts": setting.texts.name, "n": len(texts), "setting": options_text(at.one_setting)}
            | figures
        )
        if setting.typed:
            out["typed"] = _typed(at, setting, texts)
        if setting.cold:
            out["cold"] = _cold(at, setting, texts)
        if setting.served:
            windows = [_window(trace) for _, trace in spoken]
            out["t4_t0_ms"] = _served(at, setting, [*zip(texts, windows, strict=True)])
    return out


def _typed(at: EvaluationRun, setting: LatencySetting, texts: list[str]) -> dict[str, Any]:
    """First audio when words arrive one by one."""
    bar = at.progress.add_task("word by word", total=min(setting.typed, len(texts)))
    ladders: list[LatencyLadder] = []
    for number, text in enumerate(texts[: setting.typed]):
        speaker = at.speakers[number % len(at.speakers)]
        ladders.append(ladder(_speak(at, setting, speaker, text, setting.gap_ms)))
        at.progress.advance(bar)
    figures = summary(ladders)
    return {"n": len(ladders), "gap_ms": setting.gap_ms} | {name: figures[name] for name in _FIRST}


def _cold(at: EvaluationRun, setting: LatencySetting, texts: list[str]) -> dict[str, Any]:
    """The first utterance of a new engine, and the time to open it."""
    bar = at.progress.add_task("cold", total=setting.cold)
    ladders, opened_ms = [], []
    for number in range(setting.cold):
        at.close()
        began_s = time.perf_counter()
        at.reopen()
        opened_ms.append(1000.0 * (time.perf_counter() - began_s))
        ladders.append(ladder(_speak(at, setting, at.speakers[0], texts[number % len(texts)])))
        at.progress.advance(bar)
    figures = summary(ladders)
    return {"n": setting.cold, "open_ms": percentiles(opened_ms)} | {name: figures[name] for name in _FIRST}


def _window(trace: Trace) -> int:
    """Written words that the first segment saw."""
    seen, words = trace.segments()[0].seen, trace.words()
    return 1 + (words[max(seen)] if seen else words[-1]).written


def _served(at: EvaluationRun, setting: LatencySetting, texts: list[tuple[str, int]]) -> dict[str, float]:
    at.close()  # two engines would compete for cores
    count = min(setting.served, len(texts))
    bar = at.progress.add_task("through the socket", total=count + 1)
    options = at.one_setting

    def done() -> None:
        at.progress.advance(bar)

    return percentiles(first_packets_ms(setting.voices, at.card.name, texts[:count], options, setting.device, done))


def _speak(at: EvaluationRun, setting: LatencySetting, speaker: str, text: str, gap_ms: float = 0.0) -> Trace:
    request = SpeakRequest(voice=f"{at.card.name}:{speaker}", seed=setting.seed, options=at.one_setting)
    utterance = at.engine.open(request)
    with suppress(Closed):  # it has failed already
        for word in text.split():
            utterance.push_text(word + " ")
            if gap_ms:
                time.sleep(gap_ms / 1000.0)
        utterance.end()
    trace = collect_trace(utterance.provenance, utterance.events())
    if isinstance(last := trace.events[-1], ev.Failed):
        raise StudioError(f"{at.card.name} did not speak {text[:60]!r}: {last.message}")
    return trace


def _level_db(traces: list[Trace]) -> float:
    """Median active speech level of the voice's utterances."""
    levels = sorted(active_level_db(one.pcm, one.rate_hz) for one in traces)
    return levels[len(levels) // 2] if levels else float("-inf")


def show(out: Mapping[str, Any]) -> None:
    if "systems" in out:
        show_compared(out)
        return
    named = [(f"{step} - {start}", out[f"{step}_{start}_ms"]) for step, start in STEPS]
    named.append(("chunk gap", out["chunk_gap_ms"]))
    if "t4_t0_ms" in out:
        named.append(("t4 - t0, on a socket of this machine", out["t4_t0_ms"]))
    if typed := out.get("typed"):
        apart = f"{typed['gap_ms']:.0f} ms apart"
        named += [(f"words {apart}: {name[:2]} - {name[3:5]}", typed[name]) for name in _FIRST]
    if cold := out.get("cold"):
        named.append(("cold: open the engine", cold["open_ms"]))
        named += [(f"cold: {name[:2]} - {name[3:5]}", cold[name]) for name in _FIRST]
    rows = [[name, *(_rounded(figures.get(point)) for point in ("p50", "iqr", "p95")), "ms"] for name, figures in named]
    rows.append(["rtf (compute / audio)", out["rtf"], None, None, ""])
    title = f"First audio of {out['voice']}, warm, {out['n']} texts{setting_name(out)}"
    print_table(title, ("", "p50", "IQR", "p95", ""), rows)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


def first_packets_ms(
    voices: Path,
    voice: str,
    texts: Sequence[tuple[str, int]],
    options: dict[str, Any],
    device: str = "auto",
    done: Callable[[], None] = lambda: None,
) -> list[float]:
    """Start an app and return its ``packets_ms``. Raises NeedsPackage, PageFailed."""
    command = [*own_command(), "--no-demo", "--voices", str(voices), "--device", device]
    with running_app(command) as url:
        return packets_ms(url, voice, texts, options, done)


def packets_ms(
    url: str,
    voice: str,
    texts: Sequence[tuple[str, int]],
    options: dict[str, Any],
    done: Callable[[], None] = lambda: None,
) -> list[float]:
    """t4 - t0 of each text on an app's socket, by the client's clock; the first text is a warm-up as well.

    Args:
        texts: each with the number of words that the voice waits for.

    Raises:
        NeedsPackage: websockets is missing.
        StudioError: the app did not speak.
    """
    times_ms: list[float] = []
    for text, window in [texts[0], *texts]:
        words = text.split()[:window]
        with Client(url).utterance(voice, options=options, source="stream") as utterance:
            if words[:-1]:
                utterance.send("".join(word + " " for word in words[:-1]))
            time.sleep(_REST_S)
            began_s = time.perf_counter()
            utterance.send(words[-1] + " so ")  # the next word commits a token that could still grow
            _wait_for_sound(utterance)
            times_ms.append(1000.0 * (time.perf_counter() - began_s))
            utterance.cancel()
            for _ in utterance:
                pass
        done()
    return times_ms[1:]


def _wait_for_sound(utterance: Utterance) -> None:
    why: object = "it sent no sound"
    try:
        for event in utterance:
            if isinstance(event, ev.Audio):
                return
            why = event.message if isinstance(event, ev.Failed) else why
    except Refused as error:
        why = error
    raise StudioError(f"the app did not speak: {why}")
