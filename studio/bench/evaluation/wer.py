"""Word error rate by setting (paper 000, Table I: by window), beside the teacher's."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import torch

from studio.bench.evaluation.settings import WerSetting
from studio.bench.material import EvaluationRun, TeacherSpeech, evaluation_run, read_texts, vocode
from studio.core.clips import to_float
from studio.engine.tokenizers import dmel
from studio.measure.recognisers.base import Sound
from studio.measure.report import print_table, recogniser_name
from studio.measure.wer import WordErrors, bootstrap_difference, bootstrap_rate, word_errors


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
    if not setting.quiet:
        show(out)
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
    heard = at.transcribe(name, sounds)
    return [word_errors(text, words) for text, words in zip(texts, heard, strict=True)]


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
    """Print the figures, fresh or read back from bench/results."""
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
