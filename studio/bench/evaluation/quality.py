"""Predicted MOS of voices, settings, vocoders and folders of sounds, beside the teacher's speech.

Predictions are a guide for listening, not ratings: nothing is ranked by them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from studio.bench.evaluation.settings import QualitySetting
from studio.bench.evaluation.vocoder import resynthesise
from studio.bench.evaluation.wer import resynthesised
from studio.bench.material import EvaluationRun, answers, read_texts, work_folder
from studio.core.clips import to_float, to_int16
from studio.core.errors import BadFile
from studio.core.sound_files import read_mono
from studio.engine.tokenizers import dmel
from studio.measure.recognisers.base import Sound
from studio.measure.report import print_table, weights_name
from studio.measure.statistics import bootstrap_mean, bootstrap_mean_difference
from studio.predict.distillmos import DistillMos, MosPredictor

ENDINGS = (".wav", ".flac")
NOTE = "predicted by {}, not by people; short clips score lower, so compare over the same texts"


@dataclass(frozen=True)
class _Scores:
    """Durations and predicted MOS of sounds by key (text or file name)."""

    seconds: dict[str, float]
    mos: dict[str, float]


class _Judge:
    """The predictor with a cache of its answers."""

    def __init__(self, predictor: MosPredictor, folder: Path, progress: Any) -> None:
        self._predictor, self._folder, self._progress = predictor, folder, progress

    def scores(self, name: str, sounds: Mapping[str, Sound]) -> _Scores:
        """Predicted MOS of each sound."""
        bar = (self._progress, f"predict {name}")
        predictions = answers(self._folder, "predicted", self._predictor.about, list(sounds.values()), self._ask, bar)
        seconds = {key: len(pcm) / rate_hz for key, (pcm, rate_hz) in sounds.items()}
        return _Scores(seconds, dict(zip(sounds, predictions, strict=True)))

    def _ask(self, sounds: Sequence[Sound], *, on_done: Any) -> list[float]:
        out = []
        for sound in sounds:
            out.append(self._predictor.predict(*sound))
            on_done()
        return out


def eval_quality(setting: QualitySetting) -> dict[str, Any]:
    """Predicted MOS with bootstrap intervals, and the difference from the teacher's (paired by text or name).

    Raises:
        NeedsPackage: the predictor's packages are missing.
        BadFile: a folder without sounds, or with an unreadable one.
    """
    out: dict[str, Any] = {"speakers": {}, "folders": {}, "notes": []}
    with work_folder(setting.cache) as (folder, progress), DistillMos(setting.workers) as predictor:
        judge = _Judge(predictor, folder, progress)
        out["predictor"] = predictor.about
        if setting.speak:
            _voice(out, setting, judge, EvaluationRun(setting, folder, progress))
        if setting.folders:
            _folders(out, setting, judge)
    return out


def _voice(out: dict[str, Any], setting: QualitySetting, judge: _Judge, at: EvaluationRun) -> None:
    texts = read_texts(setting.texts, setting.count)
    out |= at.about() | {"texts": setting.texts.name}
    at.settings()  # raises before anything is spoken
    for name in setting.vocoder_names:
        at.vocoder(name)
    try:
        for speaker in at.speakers:
            sounds = _teacher(at, setting, speaker, texts)
            if isinstance(sounds, str):
                out["notes"].append(sounds)
                sounds = {}
            shared = [text for text in texts if text in sounds] or texts  # file names of a folder are not texts
            out["speakers"][speaker] = _speaker(at, setting, judge, speaker, shared, sounds)
    finally:
        at.close()


def _speaker(
    at: EvaluationRun,
    setting: QualitySetting,
    judge: _Judge,
    speaker: str,
    texts: Sequence[str],
    teacher: dict[str, Sound],
) -> dict[str, Any]:
    scores: dict[str, _Scores] = {}
    if teacher:
        own = list(teacher.values())
        scores["teacher"] = judge.scores(f"{speaker} teacher", teacher)
        again = dict(zip(teacher, resynthesised(at, own), strict=True))
        scores["dMel"] = judge.scores(f"{speaker} dMel", again)
        for name in setting.vocoder_names:
            for level, sounds in resynthesise(at, name, own).sounds.items():
                row = f"{name} {level}"
                scores[row] = judge.scores(f"{speaker} {row}", dict(zip(teacher, sounds, strict=True)))
    for name, options in at.settings().items():
        traces = at.speak(speaker, texts, options)
        sounds = {text: (one.pcm, one.rate_hz) for text, one in zip(texts, traces, strict=True)}
        scores[name] = judge.scores(f"{speaker} {name}", sounds)
    return _figures(scores, scores.get("teacher"))


def _folders(out: dict[str, Any], setting: QualitySetting, judge: _Judge) -> None:
    teacher = None
    scores: dict[str, _Scores] = {}
    if setting.teacher is not None:
        teacher = judge.scores(str(setting.teacher), read_folder(setting.teacher))
        scores["teacher"] = teacher
    for folder in setting.folders:
        scores[str(folder)] = judge.scores(str(folder), read_folder(folder))
    out["folders"] = _figures(scores, teacher)


def _figures(scores: Mapping[str, _Scores], teacher: _Scores | None) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, one in scores.items():
        mos = list(one.mos.values())
        out[name] = {"n": len(mos), "mean_s": sum(one.seconds.values()) / len(mos), **asdict(bootstrap_mean(mos))}
        if teacher is not None:
            out[name]["above_teacher"] = _above(one, teacher)
    return out


def _above(one: _Scores, teacher: _Scores) -> dict[str, Any]:
    """Paired bootstrap if every sound has a counterpart of the teacher's, else unpaired."""
    paired = one.mos.keys() <= teacher.mos.keys()
    beside = [teacher.mos[key] for key in one.mos] if paired else list(teacher.mos.values())
    difference = bootstrap_mean_difference(list(one.mos.values()), beside, paired=paired)
    return asdict(difference) | {"paired": paired}


def _teacher(at: EvaluationRun, setting: QualitySetting, speaker: str, texts: Sequence[str]) -> dict[str, Sound] | str:
    """The teacher's sounds at the voice's rate by text (by name for a folder), or the reason why there are none."""
    rate_hz = at.card.sample_rate_hz
    if setting.teacher is not None:
        own = setting.teacher / speaker
        return {
            key: _at_rate(one, rate_hz) for key, one in read_folder(own if own.is_dir() else setting.teacher).items()
        }
    speech = at.teacher_at_hand(speaker, texts)
    if isinstance(speech, str):
        return f"{speech} Alternatively give a folder of its sounds with --teacher."
    return {text: (one.pcm, rate_hz) for text, one in zip(texts, speech, strict=True) if one is not None}


def _at_rate(sound: Sound, rate_hz: int) -> Sound:
    pcm, own_hz = sound
    return to_int16(dmel.resample(torch.from_numpy(to_float(pcm)), own_hz, rate_hz).numpy()), rate_hz


def read_folder(folder: Path) -> dict[str, Sound]:
    """The WAV and FLAC files of a folder by their stems, in order, mixed to mono. Raises BadFile."""
    if not folder.is_dir():
        what = "is a file" if folder.is_file() else "is no folder"
        raise BadFile(f"{folder} {what}", "give a folder of WAV or FLAC files")
    out: dict[str, Sound] = {}
    for path in sorted(path for path in folder.iterdir() if path.suffix.lower() in ENDINGS):
        pcm, rate_hz = read_mono(path)
        if not len(pcm):
            raise BadFile(f"{path} holds no samples", "give sounds")
        if path.stem in out:
            raise BadFile(f"{folder} holds two sounds named {path.stem}", "keep one of them")
        out[path.stem] = (pcm, rate_hz)
    if not out:
        raise BadFile(f"{folder} holds no sounds", "give a folder of WAV or FLAC files")
    return out


def show(out: Mapping[str, Any]) -> None:
    note = "\n".join([NOTE.format(weights_name(out["predictor"])), *out["notes"]])
    if out["speakers"]:
        rows = [row for speaker, one in out["speakers"].items() for row in _rows(one, f"{speaker} ")]
        title = f"Predicted MOS of {out['voice']}, {out['texts']}"
        print_table(title, _COLUMNS, rows, note)
    if out["folders"]:
        print_table("Predicted MOS of folders", _COLUMNS, _rows(out["folders"]), note)


_COLUMNS = ("", "n", "s each", "predicted MOS", "95%", "above teacher", "95%")


def _rows(figures: Mapping[str, Any], prefix: str = "") -> list[list[object]]:
    return [
        [prefix + name, one["n"], f"{one['mean_s']:.1f}", f"{one['value']:.2f}", _span(one, ".2f"), *_beside(one)]
        for name, one in figures.items()
    ]


def _beside(one: Mapping[str, Any]) -> list[object]:
    above = one.get("above_teacher")
    if above is None:
        return [None, None]
    return [f"{above['value']:+.2f}", _span(above, "+.2f") + ("" if above["paired"] else " (unpaired)")]


def _span(one: Mapping[str, Any], digits: str) -> str:
    """Bounds, or a dash for a single sound (NaN, or null in JSON)."""
    low, high = one["low"], one["high"]
    return "-" if low is None or low != low else f"{low:{digits}} to {high:{digits}}"
