"""Word error rates: by setting (paper 000, Table I: by window), of halves of paragraphs, of short texts."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import torch

from studio.bench.evaluation.settings import LongSetting, ShortSetting, WerSetting
from studio.bench.material import EvaluationRun, TeacherSpeech, evaluate_speakers, evaluation_run, read_texts, vocode
from studio.core import events as ev
from studio.core.clips import to_float
from studio.core.errors import BadFile
from studio.core.traces.trace import Trace
from studio.engine.tokenizers import dmel
from studio.measure.recognisers.base import Sound
from studio.measure.report import console, print_table, recogniser_name, setting_name
from studio.measure.signal import audible_s
from studio.measure.statistics import bootstrap_mean
from studio.measure.wer import (
    WordErrors,
    bootstrap_difference,
    bootstrap_rate,
    corpus_errors,
    scored_words,
    word_errors,
    word_errors_by_part,
)

_WHO = ("teacher", "dmel", "voice")  # dmel: the teacher's frames through the voice's vocoder
_WHOLE = 0.5  # share of the teacher's length; shorter speech is cut off


def eval_wer(setting: WerSetting) -> dict[str, Any]:
    """WER of each setting, of the teacher, and of the teacher's dMel by the same vocoder; intervals are paired.

    Sentences that the teacher speaks in other words are left out for all. Without a teacher, a note says so.
    """
    texts = read_texts(setting.texts, setting.count)
    out: dict[str, Any] = {"texts": setting.texts.name, "asked": len(texts), "speakers": {}, "notes": []}
    with evaluation_run(setting) as at:
        out |= at.about() | {"recogniser": at.recogniser.about}
        settings = at.settings()  # raises before anything is spoken
        for speaker in at.speakers:
            taught = at.teacher_at_hand(speaker, texts)
            if isinstance(taught, str):
                out["notes"].append(taught)
                taught = None
            out["speakers"][speaker] = _speaker(at, speaker, texts, settings, taught)
    return out


def _speaker(
    at: EvaluationRun,
    speaker: str,
    texts: Sequence[str],
    settings: Mapping[str, dict[str, Any]],
    taught: Sequence[TeacherSpeech | None] | None,
) -> dict[str, Any]:
    errors: dict[str, list[WordErrors]] = {}
    if taught is not None:
        texts = [text for text, one in zip(texts, taught, strict=True) if one is not None]
        teacher: list[Sound] = [(one.pcm, at.card.sample_rate_hz) for one in taught if one is not None]
        errors["teacher"] = score(at, f"{speaker} teacher", texts, teacher)
        errors["dmel"] = score(at, f"{speaker} dMel", texts, resynthesised(at, teacher))
    figures: dict[str, Any] = {"n": len(texts)}
    for name, options in settings.items():
        traces = at.speak(speaker, texts, options)
        errors[name] = score(at, f"{speaker} {name}", texts, [(one.pcm, one.rate_hz) for one in traces])
    first = next(iter(settings))
    for name, each in errors.items():
        figures[name] = asdict(bootstrap_rate(each))
        if "dmel" in errors:
            figures[name]["above_dmel"] = asdict(bootstrap_difference(each, errors["dmel"]))
        if name in settings and name != first:
            figures[name]["above_first"] = asdict(bootstrap_difference(each, errors[first])) | {"first": first}
    return figures


def score(at: EvaluationRun, name: str, texts: Sequence[str], sounds: Sequence[Sound]) -> list[WordErrors]:
    """Word errors of each sound."""
    transcripts = at.transcribe(name, sounds)
    return [word_errors(text, words) for text, words in zip(texts, transcripts, strict=True)]


def resynthesised(at: EvaluationRun, sounds: Sequence[Sound]) -> list[Sound]:
    """Sounds through dMel and the voice's vocoder."""
    vocoder = at.vocoder()
    bar = at.progress.add_task("dMel re-synthesised", total=len(sounds))
    out: list[Sound] = []
    for pcm, rate_hz in sounds:
        levels = dmel.encode(torch.from_numpy(to_float(pcm)))
        out.append((vocode(vocoder, dmel.dequantise(levels), at.setting.seed), rate_hz))
        at.progress.advance(bar)
    return out


def show(out: Mapping[str, Any]) -> None:
    rows = []
    for speaker, figures in out["speakers"].items():
        for name, one in figures.items():
            if name == "n":
                continue
            above = one.get("above_dmel")
            paired = (f"{above['value']:+.3f}", f"{above['low']:+.3f} to {above['high']:+.3f}") if above else ("", "")
            row = [f"{speaker} {name}", figures["n"], one["value"], f"{one['low']:.3f}-{one['high']:.3f}", *paired]
            rows.append([*row, _against_first(one.get("above_first"))])
    columns = ("", "n", "WER", "95%", "above dMel", "95% paired", "above the first setting")
    title = f"WER of {out['voice']} by {recogniser_name(out)}, {out['texts']}"
    print_table(title, columns, rows, " ".join(out.get("notes", [])))


def _against_first(above: Mapping[str, Any] | None) -> str:
    return f"{above['value']:+.3f} ({above['low']:+.3f} to {above['high']:+.3f})" if above else ""


def eval_long(setting: LongSetting) -> dict[str, Any]:
    """WER of the first and the second half of each paragraph, and the real-time factor."""
    texts = read_texts(setting.texts, setting.count)
    about = {"texts": setting.texts.name, "n": len(texts)}
    return evaluate_speakers(setting, about, lambda at, speaker: _halves(at, speaker, texts))


def _halves(at: EvaluationRun, speaker: str, texts: list[str]) -> dict[str, Any]:
    traces = at.speak(speaker, texts, at.one_setting, at_once=1)  # the real-time factor is measured
    transcripts = at.transcribe(speaker, [(one.pcm, one.rate_hz) for one in traces])
    halves = [
        word_errors_by_part(text, words, [len(scored_words(text)) // 2])
        for text, words in zip(texts, transcripts, strict=True)
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


def show_long(out: Mapping[str, Any]) -> None:
    rows = [
        [speaker, one["first"], one["second"], one["second_above_first"]["value"], one["rtf"], one["audio_s"]]
        for speaker, one in out["speakers"].items()
    ]
    columns = ("", "WER first half", "second half", "difference", "rtf", "audio s")
    title = f"Long speech: {out['n']} paragraphs{setting_name(out)}; WER by {recogniser_name(out)}"
    print_table(title, columns, rows)


def eval_short(setting: ShortSetting) -> dict[str, Any]:
    """Share of texts recognised, beside the teacher's, and lengths relative to the teacher's."""
    texts = draw_texts(read_texts(setting.texts), setting.count, setting.seed)
    if not texts:
        raise BadFile(f"{setting.texts} holds no word", "give a file of sentences")
    return evaluate_speakers(setting, {"texts": texts}, lambda at, speaker: _short(at, speaker, texts))


def draw_texts(lines: Sequence[str], count: int, seed: int) -> list[str]:
    """Distinct texts of one and of two words alternately, from anywhere in ``lines``, without punctuation."""
    dice = np.random.default_rng(seed)
    texts: list[str] = []
    pools = [[" ".join(words) for line in lines for words in _runs(line, length)] for length in (1, 2)]
    for number in range(count):
        pool = sorted({*pools[number % 2]} - {*texts})
        if pool:
            texts.append(pool[dice.integers(len(pool))])
    return texts


def _runs(line: str, length: int) -> list[list[str]]:
    """Every sequence of ``length`` words without punctuation between them."""
    words = line.split()
    bare = [word.strip("\"'()[].,;:!?") for word in words]
    starts = range(len(words) - length + 1)
    whole = (at for at in starts if all(word[-1:].isalnum() for word in words[at : at + length - 1]))
    return [run for at in whole if all(run := [one.lower() for one in bare[at : at + length]])]


def _short(at: EvaluationRun, speaker: str, texts: Sequence[str]) -> dict[str, Any]:
    taught = at.teacher(speaker, texts)
    indices = [index for index, one in enumerate(taught) if one is not None]
    texts = [texts[index] for index in indices]
    teacher: list[Sound] = [(one.pcm, at.card.sample_rate_hz) for one in taught if one is not None]
    spoken: list[Sound] = [(one.pcm, one.rate_hz) for one in at.speak(speaker, texts, at.one_setting)]
    sounds = {"teacher": teacher, "dmel": resynthesised(at, teacher), "voice": spoken}
    transcripts = {name: at.transcribe(f"{speaker} {name}", sound) for name, sound in sounds.items()}
    right = {
        name: [scored_words(text) == scored_words(one) for text, one in zip(texts, of_system, strict=True)]
        for name, of_system in transcripts.items()
    }
    gains = [float(ours) - float(theirs) for ours, theirs in zip(right["voice"], right["teacher"], strict=True)]
    judged = zip(texts, transcripts["voice"], right["voice"], strict=True)
    lengths = [audible_s(*one) / max(audible_s(*like), 1e-3) for one, like in zip(spoken, teacher, strict=True)]
    return {
        "n": len(texts),
        "right": {name: float(np.mean(each)) for name, each in right.items()},
        "above_teacher": asdict(bootstrap_mean(gains)),
        "shortest": min(lengths),
        "cut_short": [text for text, length in zip(texts, lengths, strict=True) if length < _WHOLE],
        "misheard": [[text, transcript] for text, transcript, is_right in judged if not is_right],
    }


def show_short(out: Mapping[str, Any]) -> None:
    rows = []
    for speaker, one in out["speakers"].items():
        right, above = one["right"], one["above_teacher"]
        paired = f"{above['low']:+.2f} to {above['high']:+.2f}"
        rows.append(
            [speaker, one["n"], *(right.get(name) for name in _WHO), paired, one["shortest"], len(one["cut_short"])]
        )
    columns = (
        "",
        "n",
        "teacher right",
        "its dMel right",
        "voice right",
        "95% paired",
        "shortest / teacher",
        "cut short",
    )
    title = f"Texts of one and two words by {out['voice']}{setting_name(out)}, transcribed by {recogniser_name(out)}"
    print_table(title, columns, rows)
    for speaker, one in out["speakers"].items():
        for text, transcript in one["misheard"]:
            console().print(f"{speaker}: {text!r} was transcribed as {transcript!r}", markup=False)
