"""Vocoders alone: copy-synthesis of the teacher's speech by each of the card's vocoders."""

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from studio.bench.evaluation.settings import VocoderSetting
from studio.bench.evaluation.wer import score
from studio.bench.material import EvaluationRun, evaluation_run, read_texts, vocode
from studio.core.clips import to_float
from studio.engine.tokenizers import dmel
from studio.measure.recognisers.base import Sound
from studio.measure.report import print_table, recogniser_name
from studio.measure.signal import stft_distance
from studio.measure.wer import bootstrap_difference, bootstrap_rate

_ANALYSES = {"mels": dmel.log_mel, "dmel": lambda pcm: dmel.dequantise(dmel.encode(pcm))}


def eval_vocoder(setting: VocoderSetting) -> dict[str, Any]:
    """WER and STFT distance from mels and from dMel, parameters, and rtf (one frame at a time) of each vocoder."""
    texts = read_texts(setting.texts, setting.count)
    out: dict[str, Any] = {"texts": setting.texts.name, "n": 0, "vocoders": {}}
    threads = torch.get_num_threads()
    with evaluation_run(setting) as at:
        out |= at.about() | {"threads": setting.threads, "recogniser": at.recogniser.about}
        recordings = [
            (text, one) for speaker in at.speakers for text, one in zip(texts, at.teacher(speaker, texts), strict=True)
        ]
        sounds = [(text, (one.pcm, at.card.sample_rate_hz)) for text, one in recordings if one is not None]
        out["n"] = len(sounds)
        names = setting.vocoders or tuple(at.card.vocoders)
        try:
            torch.set_num_threads(setting.threads)
            copies = {name: resynthesise(at, name, [one for _, one in sounds]) for name in names}
        finally:
            torch.set_num_threads(threads)
        _score(at, out, [text for text, _ in sounds], [one for _, one in sounds], copies)
    return out


@dataclass(frozen=True)
class CopySynthesis:
    """Re-synthesised speech by vocoder input (mels, dmel), and the real-time factor."""

    sounds: dict[str, list[Sound]]
    rtf: float
    parameters: int


def resynthesise(at: EvaluationRun, name: str, sounds: list[Sound]) -> CopySynthesis:
    """Sounds through mels and through dMel and back, by one vocoder, a frame at a time."""
    vocoder = at.vocoder(name)
    bar = at.progress.add_task(name, total=len(sounds) * len(_ANALYSES))
    sounds_by_kind: dict[str, list[Sound]] = {kind: [] for kind in _ANALYSES}
    vocode(vocoder, dmel.log_mel(torch.zeros(at.card.sample_rate_hz)))  # the first call warms up
    compute_s = audio_s = 0.0
    for pcm, rate_hz in sounds:
        for kind, analyse in _ANALYSES.items():
            frames = analyse(torch.from_numpy(to_float(pcm)))
            started = time.perf_counter()
            samples = vocode(vocoder, frames, at.setting.seed)
            compute_s += time.perf_counter() - started
            audio_s += len(samples) / rate_hz
            sounds_by_kind[kind].append((samples, rate_hz))
            at.progress.advance(bar)
    return CopySynthesis(sounds_by_kind, compute_s / audio_s, vocoder.parameter_count())


def _score(
    at: EvaluationRun, out: dict[str, Any], texts: list[str], teacher: list[Sound], copies: dict[str, CopySynthesis]
) -> None:
    own = score(at, "teacher", texts, teacher)
    out["teacher"] = asdict(bootstrap_rate(own))
    for name, one in copies.items():
        errors = {level: score(at, f"{name} {level}", texts, sounds) for level, sounds in one.sounds.items()}
        figures: dict[str, Any] = {"rtf": one.rtf, "parameters": one.parameters}
        for level, each in errors.items():
            figures[level] = asdict(bootstrap_rate(each)) | {"stft": _distance(one.sounds[level], teacher)}
        figures["dmel_above_mels"] = asdict(bootstrap_difference(errors["dmel"], errors["mels"]))
        figures["dmel_above_teacher"] = asdict(bootstrap_difference(errors["dmel"], own))
        out["vocoders"][name] = figures


def _distance(sounds: list[Sound], teacher: list[Sound]) -> float:
    """Mean STFT distance; a vocoder's first sample is ``phase`` samples before the recording's."""
    phase = dmel.TIME_BASE.phase
    pairs = zip(sounds, teacher, strict=True)
    return float(np.mean([stft_distance(sound[phase:], own) for (sound, _), (own, _) in pairs]))


def show(out: Mapping[str, Any]) -> None:
    rows: list[list[object]] = [["teacher", out["teacher"]["value"], *[None] * 7]]
    for name, one in out["vocoders"].items():
        mels, levels = one["mels"], one["dmel"]
        above = [f"{one[key]['value']:+.3f}" for key in ("dmel_above_mels", "dmel_above_teacher")]
        sizes = [one["rtf"], f"{one['parameters'] / 1e6:.2f}M"]
        rows.append([name, mels["value"], mels["stft"], levels["value"], levels["stft"], *above, *sizes])
    columns = ("", "WER mels", "STFT", "WER dMel", "STFT", "above mels", "above teacher", "rtf", "parameters")
    about = f"{out['n']} sentences of {out['texts']}, {out['threads']} thread(s); WER by {recogniser_name(out)}"
    print_table(f"Vocoders alone, {about}", columns, rows)
