"""Word times of a voice against an aligner's, in the voice's own sound: starts after a pause, and all others."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from studio.bench.evaluation.settings import WordTimesSetting
from studio.bench.material import evaluation_run, options_text, read_texts
from studio.core.text.typography import MARKS
from studio.core.traces.trace import TraceWord
from studio.measure.recognisers.pocketsphinx import WordTime, align_all
from studio.measure.report import print_table

_KINDS = ("start after a mark", "start elsewhere", "end at a mark", "end elsewhere")


def eval_word_times(setting: WordTimesSetting) -> dict[str, Any]:
    """Differences of starts and ends from pocketsphinx's, in ms, by whether a mark stands between two words."""
    texts = read_texts(setting.texts, setting.count)
    out: dict[str, Any] = {"texts": setting.texts.name, "n": len(texts), "speakers": {}}
    with evaluation_run(setting) as at:
        out |= at.about() | {"setting": options_text(at.one_setting)}
        for speaker in at.speakers:
            traces = at.speak(speaker, texts, dict(at.one_setting))
            spoken = [trace.words() for trace in traces]
            sounds = [(trace.pcm, trace.rate_hz) for trace in traces]
            transcripts = [" ".join(word.text for word in words) for words in spoken]
            aligned = align_all(sounds, transcripts, workers=setting.workers)
            rates = [trace.rate_hz for trace in traces]
            out["speakers"][speaker] = _figures([*zip(spoken, aligned, rates, strict=True)])
    return out


def _figures(utterances: Sequence[tuple[Sequence[TraceWord], list[WordTime] | None, int]]) -> dict[str, Any]:
    differences: dict[str, list[float]] = {kind: [] for kind in _KINDS}
    unaligned = overlaps = 0
    for words, aligned, rate_hz in utterances:
        if aligned is None or len(aligned) != len(words):
            unaligned += 1
            continue
        for kind, found_ms in time_differences(words, aligned, rate_hz):
            differences[kind].append(found_ms)
        overlaps += sum(
            one.end is not None and other.start is not None and one.end > other.start for one, other in pairwise(words)
        )
    figures = {kind: _summary(values) for kind, values in differences.items()}
    return {"differences_ms": figures, "overlaps": overlaps, "unaligned_texts": unaligned}


def time_differences(words: Sequence[TraceWord], aligned: Sequence[WordTime], rate_hz: int) -> list[tuple[str, float]]:
    """(kind, difference in ms; negative: earlier than the aligner) of each start and end but the first start."""
    differences: list[tuple[str, float]] = []
    for k, (word, true) in enumerate(zip(words, aligned, strict=True)):
        if word.start is not None and k:
            follows_mark = words[k - 1].text[-1] in MARKS
            differences.append((_KINDS[0 if follows_mark else 1], 1000.0 * (word.start / rate_hz - true.start_s)))
        if word.end is not None:
            differences.append((_KINDS[2 if word.text[-1] in MARKS else 3], 1000.0 * (word.end / rate_hz - true.end_s)))
    return differences


def _summary(values: Sequence[float]) -> dict[str, float]:
    away = np.abs(values)
    if not len(away):
        return {"count": 0}
    return {
        "count": len(away),
        "median_away": float(np.median(away)),
        "p90_away": float(np.quantile(away, 0.9)),
        "median": float(np.median(values)),
    }


def show(out: Mapping[str, Any]) -> None:
    rows: list[list[object]] = []
    for speaker, one in out["speakers"].items():
        for kind, figures in one["differences_ms"].items():
            values = [figures[name] for name in ("median_away", "p90_away", "median")] if figures["count"] else [""] * 3
            rows.append([f"{speaker}, {kind}", figures["count"], *values])
    columns = ("", "words", "median |dt| ms", "p90 |dt| ms", "median dt ms")
    print_table(f"Word times of {out['voice']} against pocketsphinx, {out['n']} texts of {out['texts']}", columns, rows)
