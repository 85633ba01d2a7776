"""First audio and real-time factor of a warm engine, without a network: the ladder from t0a to t5."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from studio.bench.material import Desk, Setting, desk, read_texts
from studio.core.ports import SpeakRequest
from studio.core.trace import Trace, collect
from studio.measure.latency import STEPS, ladder, summary
from studio.measure.loudness import active_level_db
from studio.measure.report import print_table


@dataclass(frozen=True, kw_only=True)
class LatencySetting(Setting):
    """Texts of a file, pushed one word at a time; ``warm`` texts are spoken first and not counted.

    Attributes:
        pause_ms: rest between two utterances.
    """

    texts: Path
    count: int = 50
    m: int = 5
    n: int = 1
    warm: int = 3
    pause_ms: float = 50.0


def bench_latency(setting: LatencySetting) -> dict[str, Any]:
    """Percentiles keyed by the ladder, such as ``{"t2_t0_ms": {"p50": ..., "p95": ...}, ..., "rtf": ...}``.

    Nothing here is cached: the engine speaks while the clock runs. Speakers take turns.
    """
    texts = read_texts(setting.texts, setting.count)
    with desk(setting) as at:
        for text in texts[: setting.warm]:
            _speak(at, setting, at.speakers[0], text)
        bar = at.progress.add_task("speaking", total=len(texts))
        spoken: list[tuple[str, Trace]] = []
        for place, text in enumerate(texts):
            speaker = at.speakers[place % len(at.speakers)]
            spoken.append((speaker, _speak(at, setting, speaker, text)))
            time.sleep(setting.pause_ms / 1000.0)
            at.progress.advance(bar)
        levels_db = {one: _level_db([trace for speaker, trace in spoken if speaker == one]) for one in at.speakers}
        figures = summary([ladder(trace, levels_db[speaker]) for speaker, trace in spoken])
        out = at.about() | {"texts": setting.texts.name, "n": len(texts), "m": setting.m, "hop": setting.n} | figures
    if not setting.quiet:
        show(out)
    return out


def _speak(at: Desk, setting: LatencySetting, speaker: str, text: str) -> Trace:
    options = {"m": setting.m, "n": setting.n}
    request = SpeakRequest(voice=f"{at.card.name}:{speaker}", seed=setting.seed, options=options)
    utterance = at.engine.open(request)
    for word in text.split():
        utterance.push_text(word + " ")
    utterance.end()
    return collect(utterance.provenance, utterance.events())


def _level_db(traces: list[Trace]) -> float:
    """The voice's active speech level: the median over its utterances."""
    levels = sorted(active_level_db(one.pcm, one.rate_hz) for one in traces)
    return levels[len(levels) // 2] if levels else float("-inf")


def show(out: Mapping[str, Any]) -> None:
    """Print the figures, fresh or read back from bench/results."""
    rows = [
        [f"{step} - {start}", *(round(out[f"{step}_{start}_ms"][point], 1) for point in ("p50", "p95")), "ms"]
        for step, start in STEPS
    ]
    rows.append(["chunk gap", *(round(out["chunk_gap_ms"][point], 1) for point in ("p50", "p95")), "ms"])
    rows.append(["rtf (compute / audio)", out["rtf"], None, ""])
    title = f"First audio of {out['voice']}, warm, {out['n']} texts, m={out['m']}, n={out['hop']}"
    print_table(title, ("", "p50", "p95", ""), rows)
