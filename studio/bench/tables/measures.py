"""Measurements of a row: word errors, queries at a rate, a cascade with a language model."""

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import cached_property
from statistics import mean
from typing import Any

from studio.bench.evaluation.wer import resynthesised, score
from studio.bench.material import EvaluationRun
from studio.bench.settings import LoadSetting
from studio.bench.speed.cascade import FIGURES, CascadeSetting, cascade, evenly
from studio.bench.speed.load import bench_queries
from studio.bench.tables.definition import Row
from studio.core.options import merge_options
from studio.measure.recognisers.base import Sound
from studio.measure.wer import WordErrors


@dataclass(frozen=True)
class SpokenTexts:
    """Texts by speaker that the teacher speaks in the same words, with its sounds."""

    texts: Mapping[str, list[str]]
    taught: Mapping[str, list[Sound]]


def spoken_texts(at: EvaluationRun, texts: Sequence[str], *, is_taught: bool) -> SpokenTexts:
    """Texts to speak; all texts without a teacher."""
    if not is_taught:
        return SpokenTexts({speaker: [*texts] for speaker in at.speakers}, {})
    kept: dict[str, list[str]] = {}
    taught: dict[str, list[Sound]] = {}
    for speaker in at.speakers:
        said = [(text, one) for text, one in zip(texts, at.teacher(speaker, texts), strict=True) if one is not None]
        kept[speaker] = [text for text, _ in said]
        taught[speaker] = [(one.pcm, at.card.sample_rate_hz) for _, one in said]
    return SpokenTexts(kept, taught)


@dataclass
class VoiceMeasurement:
    """One voice under measurement."""

    at: EvaluationRun
    texts: Sequence[str]
    is_taught: bool
    threads: int

    @cached_property
    def kept(self) -> SpokenTexts:
        """The texts to speak."""
        return spoken_texts(self.at, self.texts, is_taught=self.is_taught)

    def word_errors(self, row: Row) -> dict[str, Any]:
        """Word errors of every sentence by speaker: (words, substitutions, deletions, insertions)."""
        options = merge_options(self.at.card.options, row.options, {})
        each: dict[str, Any] = {}
        for speaker, texts in self.kept.texts.items():
            sounds = self._sounds(speaker, texts, row, options)
            found = score(self.at, f"{speaker} {row.name}", texts, sounds)
            each[speaker] = [[*astuple(one)] for one in found]
        return {"each": each, "options": options}

    def queries(self, row: Row) -> dict[str, Any]:
        """Figures of whole texts at a rate, on an otherwise idle machine."""
        options = merge_options(self.at.card.options, row.options, {})
        self.at.close()  # its engine would use memory and cores
        setting = LoadSetting(
            voices=self.at.setting.voices,
            voice=self.at.card.name,
            device=self.at.setting.device,
            threads=self.threads,
            lines=self.texts,
            options=options,
            rates=(float(row.load["per_s"]),),
            kinds=(row.load["kind"],),
            arrivals=(row.load["arrivals"],),
            query_seconds=float(row.load["seconds"]),
            places=row.load["places"],
            seed=self.at.setting.seed,
            quiet=True,
        )
        (found,) = bench_queries(setting)["runs"]
        figures = {
            "first_ms": found["first_pcm_ms"]["mean"],
            "last_ms": found["last_ms"]["mean"],
            "rtf": found["rtf"],
            "x_real_time": found["x_real_time"],
        }
        return {"figures": figures, "options": options, "run": found}

    def cascade(self, row: Row) -> dict[str, Any]:
        """Mean latencies with replayed words of a language model, on an otherwise idle machine."""
        options = merge_options(self.at.card.options, row.options, {})
        replies = [evenly(text, **row.load) for text in self.texts]
        each = cascade(self.at, replies, options, CascadeSetting.pause_ms)
        return {"figures": {name: mean(one[name] for one in each) for name in FIGURES}, "options": options}

    def _sounds(self, speaker: str, texts: Sequence[str], row: Row, options: dict[str, Any]) -> list[Sound]:
        if row.reference == "teacher":
            return self.kept.taught[speaker]
        if row.reference == "dmel":
            return resynthesised(self.at, self.kept.taught[speaker])
        return [(one.pcm, one.rate_hz) for one in self.at.speak(speaker, texts, options)]


def read_errors(row: Mapping[str, Any]) -> list[WordErrors]:
    """Word errors of a measured row, sentence by sentence, of all speakers."""
    return [WordErrors(*one) for each in row["each"].values() for one in each]
