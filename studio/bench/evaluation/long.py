"""WER of the first and second half of paragraphs."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from studio.bench.evaluation.settings import LongSetting
from studio.bench.material import EvaluationRun, evaluation_run, options_text, read_texts
from studio.core import events as ev
from studio.core.traces.trace import Trace
from studio.measure.report import print_table, recogniser_name, setting_name
from studio.measure.wer import bootstrap_difference, corpus_errors, scored_words, word_errors_by_part


def eval_long(setting: LongSetting) -> dict[str, Any]:
    """WER of the first and the second half of each paragraph, and the real-time factor."""
    texts = read_texts(setting.texts, setting.count)
    out: dict[str, Any] = {"texts": setting.texts.name, "n": len(texts), "speakers": {}}
    with evaluation_run(setting) as at:
        out |= at.about() | {"recogniser": at.recogniser.about, "setting": options_text(at.one_setting)}
        for speaker in at.speakers:
            out["speakers"][speaker] = _speaker(at, speaker, texts)
    if not setting.quiet:
        show(out)
    return out


def _speaker(at: EvaluationRun, speaker: str, texts: list[str]) -> dict[str, Any]:
    traces = at.speak(speaker, texts, at.one_setting, at_once=1)  # the real-time factor is measured
    heard = at.transcribe(speaker, [(one.pcm, one.rate_hz) for one in traces])
    halves = [
        word_errors_by_part(text, words, [len(scored_words(text)) // 2])
        for text, words in zip(texts, heard, strict=True)
    ]
    first, second = [one for one, _ in halves], [one for _, one in halves]
    return {
        "first": corpus_errors(first).rate,
        "second": corpus_errors(second).rate,
        "second_above_first": asdict(bootstrap_difference(second, first)),
        "rtf": real_time_factor(traces),
        "audio_s": sum(len(one.pcm) / one.rate_hz for one in traces),
    }


def real_time_factor(traces: list[Trace]) -> float:
    """Compute / audio over many utterances, by the engine's count."""
    compute_s = sum(one.compute_ms for trace in traces for one in trace.events if isinstance(one, ev.Ended)) / 1000.0
    audio_s = sum(len(trace.pcm) / trace.rate_hz for trace in traces)
    return compute_s / audio_s if audio_s else float("nan")


def show(out: Mapping[str, Any]) -> None:
    """Print the figures, fresh or read back from bench/results."""
    rows = [
        [speaker, one["first"], one["second"], one["second_above_first"]["value"], one["rtf"], one["audio_s"]]
        for speaker, one in out["speakers"].items()
    ]
    columns = ("", "WER first half", "second half", "difference", "rtf", "audio s")
    title = f"Long speech: {out['n']} paragraphs{setting_name(out)}; WER by {recogniser_name(out)}"
    print_table(title, columns, rows)
