"""Speaker similarity of a voice to its reference recordings: nearest speaker, and pitch.

The reference is the teacher's speech of other texts through dMel and the voice's vocoder. The teacher is the ceiling;
chance is one over the number of speakers.

A recording is represented by the mean and standard deviation of its mel-frequency cepstral coefficients (Davis &
Mermelstein 1980) over audible frames, without the first coefficient (loudness). The nearest speaker is by Mahalanobis
distance to the speaker means, with a shared within-speaker covariance (Ledoit & Wolf 2004 shrinkage): linear
discriminant analysis with equal priors. ``nearer`` detects weaker effects: whether speech synthesised as a speaker is
nearer to that speaker than other speech.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from studio.bench.evaluation.settings import PromptSetting
from studio.bench.evaluation.wer import resynthesised
from studio.bench.material import EvaluationRun, evaluation_run, read_texts
from studio.core.errors import BadFile, BadOption, BadVoice, needs
from studio.measure.prosody import prosody
from studio.measure.recognisers.base import Sound
from studio.measure.report import print_table
from studio.measure.signal import log_mel
from studio.train.recipes.recipe import read_recipe

TARGET_SHARE = 0.95
COEFFICIENTS = 19  # without the first
_NEEDS = "speaker identification needs scikit-learn"
_BANDS, _WINDOW_MS, _HOP_MS, _FLOOR_DB = 40, 25.0, 10.0, -100.0
_AUDIBLE_DB = 35.0  # below the loudest frame


def eval_prompts(setting: PromptSetting) -> dict[str, Any]:
    """Nearest speaker of each speaker's sentences, and their pitch relative to the median of all speakers.

    Raises:
        BadVoice: the voice has one speaker, or its vocoder produces no pitch.
        BadOption: fewer texts than speakers.
        BadFile: too few texts, or no teacher that can speak them.
        NeedsPackage: pyworld or scikit-learn is not installed.
    """
    texts = read_texts(setting.texts)
    if setting.count + setting.references > len(texts):
        raise BadFile(
            f"{setting.texts} holds {len(texts)} texts",
            f"{setting.count} to be spoken and {setting.references} as references are required",
        )
    spoken_texts, of_teacher = texts[: setting.count], texts[len(texts) - setting.references :]
    with evaluation_run(setting) as at:
        speakers = at.card.speakers
        if len(speakers) < 2:
            raise BadVoice(f"{at.card.name} has one speaker", "choose a voice of several speakers")
        if setting.count < len(speakers):
            raise BadOption(f"{setting.count} texts are too few", f"each of {len(speakers)} speakers says one or more")
        references = {speaker: _reference(at, speaker, of_teacher) for speaker in speakers}
        pitch = {speaker: _median_pitch(at, speaker, one) for speaker, one in references.items()}
        of = [speaker for speaker, one in references.items() for _ in one.texts]
        judge = NearestSpeaker(np.concatenate([one.statistics for one in references.values()]), of)
        predicted = judge.cross_validate([text for one in references.values() for text in one.texts])
        middle_hz = float(np.exp(np.mean(np.log([*pitch.values()]))))
        sounds: dict[str, list[Sound]] = {}
        for turn, speaker in enumerate(speakers):
            traces = at.speak(speaker, spoken_texts[turn :: len(speakers)], dict(at.one_setting))
            sounds[speaker] = [(trace.pcm, trace.rate_hz) for trace in traces]
        statistics = {name: np.stack([mfcc_statistics(*sound) for sound in of]) for name, of in sounds.items()}
        rows = {
            name: _figures(judge, name, statistics) | _pitches(sounds[name], pitch[name], middle_hz)
            for name in speakers
        }
        unseen = _unseen(at)
        out: dict[str, Any] = at.about() | {
            "texts": setting.texts.name,
            "setting": dict(at.one_setting),
            "references": setting.references,
            "middle_pitch_hz": middle_hz,
            "teacher_right": float(np.mean([a == b for a, b in zip(of, predicted, strict=True)])),
            "speakers": {name: {"unseen": name in unseen, **one} for name, one in rows.items()},
        }
    out["seen"] = _together([one for one in out["speakers"].values() if not one["unseen"]])
    if unseen:
        out["unseen"] = _together([one for one in out["speakers"].values() if one["unseen"]])
        out["unseen"]["p_by_chance"] = _p_by_chance(out["unseen"], len(speakers))
    return out


@dataclass(frozen=True)
class _Reference:
    """The teacher's recordings of a speaker: statistics [N, F], texts, and median pitch of each or None."""

    statistics: np.ndarray
    texts: list[str]
    pitch_hz: list[float | None]


def _reference(at: EvaluationRun, speaker: str, texts: Sequence[str]) -> _Reference:
    taught = [(text, one) for text, one in zip(texts, at.teacher(speaker, texts), strict=True) if one is not None]
    if not taught:
        raise BadFile(f"the teacher speaks none of the texts as {speaker}", "give sentences of plain words")
    sounds = resynthesised(at, [(one.pcm, at.card.sample_rate_hz) for _, one in taught])
    return _Reference(
        np.stack([mfcc_statistics(*sound) for sound in sounds]), [text for text, _ in taught], [*map(_pitch, sounds)]
    )


def _median_pitch(at: EvaluationRun, speaker: str, of: _Reference) -> float:
    """Median pitch of the teacher's recordings in Hz. Raises BadVoice if none has a pitch."""
    pitches_hz = [pitch for pitch in of.pitch_hz if pitch is not None]
    if not pitches_hz:
        raise BadVoice(
            f"the teacher's speech as {speaker} has no pitch through the vocoder of {at.card.name}",
            "choose a voice with an intelligible vocoder (`studio eval vocoder`)",
        )
    return float(np.median(pitches_hz))


def _pitch(sound: Sound) -> float | None:
    return prosody(*sound).pitch_of(50)


def _figures(judge: "NearestSpeaker", speaker: str, statistics: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Nearest speakers of the speaker's sentences, and their similarity relative to the other speakers' sentences."""
    own = statistics[speaker]
    others = np.concatenate([of for name, of in statistics.items() if name != speaker])
    nearest = judge.predict(own)
    return {
        "n": len(own),
        "right": nearest.count(speaker),
        "nearest": {name: nearest.count(name) for name in sorted({*nearest})},
        "nearer": asdict(nearer(judge.distances(own, speaker), judge.distances(others, speaker))),
    }


def _pitches(sounds: Sequence[Sound], target_hz: float, middle_hz: float) -> dict[str, Any]:
    pitches = [pitch for pitch in map(_pitch, sounds) if pitch is not None]
    return {
        "pitch_hz": float(np.median(pitches)) if pitches else None,
        "target_pitch_hz": target_hz,
        "voiced": len(pitches),
        "on_its_side": sum((pitch > middle_hz) == (target_hz > middle_hz) for pitch in pitches),
    }


def _unseen(at: EvaluationRun) -> set[str]:
    """Speakers that are not in the voice's training data."""
    path = at.setting.voices / at.card.name / "recipe.toml"
    if not path.is_file():
        return set()
    corpus = read_recipe(path).corpus
    return {name for name, speaker in corpus.named().items() if speaker in corpus.unseen}


def _together(figures: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Figures over all sentences, with Wilson's interval."""
    from scipy.stats import binomtest  # pyright: ignore[reportMissingTypeStubs]

    n, right = sum(one["n"] for one in figures), sum(one["right"] for one in figures)
    bounds: Any = binomtest(right, n).proportion_ci(method="wilson")
    return {
        "n": n,
        "right": right,
        "share": {"value": right / n, "low": float(bounds.low), "high": float(bounds.high)},
        "nearer": asdict(nearer_together([Nearer(**one["nearer"]) for one in figures])),
        "on_its_side": sum(one["on_its_side"] for one in figures) / max(1, sum(one["voiced"] for one in figures)),
    }


def _p_by_chance(counts: Mapping[str, Any], speakers: int) -> float:
    """One-sided binomial p-value against chance."""
    from scipy.stats import binomtest  # pyright: ignore[reportMissingTypeStubs]

    return float(binomtest(counts["right"], counts["n"], 1.0 / speakers, alternative="greater").pvalue)


def _nearer(comparison: Mapping[str, float]) -> str:
    return f"{comparison['share']:.2f} (p {comparison['p']:.1g})"


def show(out: Mapping[str, Any]) -> None:
    rows: list[list[object]] = []
    for name, one in out["speakers"].items():
        most = max(one["nearest"], key=lambda other: (other != name, one["nearest"][other]))
        mistaken = "" if most == name else f"{most} ({one['nearest'][most]})"
        pitch = "-" if one["pitch_hz"] is None else f"{one['pitch_hz']:.0f}"
        rows.append(
            [
                name + (", unseen" if one["unseen"] else ""),
                f"{one['right']} of {one['n']}",
                mistaken,
                _nearer(one["nearer"]),
                pitch,
                f"{one['target_pitch_hz']:.0f}",
                f"{one['on_its_side']} of {one['voiced']}",
            ]
        )
    for key, name in (("seen", "all training speakers"), ("unseen", "all unseen speakers")):
        if key in out:
            of = out[key]
            share = f"{of['share']['value']:.3f} ({of['share']['low']:.3f}-{of['share']['high']:.3f})"
            rows.append([name, share, "", _nearer(of["nearer"]), "", "", f"{of['on_its_side']:.3f}"])
    note = (
        f"The teacher's own sentences are assigned correctly in {out['teacher_right']:.3f}; chance is "
        f"{1 / len(out['speakers']):.3f}; {TARGET_SHARE} is the target for training speakers. "
        "Nearer: the share of pairs in which the speaker's own sentence is nearer to them than another speaker's, "
        "with its p value against 0.5. "
        f"Pitches are medians, and the middle of all speakers is {out['middle_pitch_hz']:.0f} Hz."
    )
    if "unseen" in out:
        note += f" Unseen speakers against chance: p = {out['unseen']['p_by_chance']:.2g}."
    columns = (
        "speaker",
        "nearest to itself",
        "else most to",
        "nearer than others",
        "pitch, Hz",
        "teacher's, Hz",
        "on its side",
    )
    print_table(
        f"Speaker identification of {out['voice']}: {out['texts']} assigned to its speakers", columns, rows, note
    )


def mfcc_statistics(pcm: np.ndarray, rate_hz: int) -> np.ndarray:
    """Means and standard deviations of MFCCs over audible frames, float64 [2 * COEFFICIENTS]. Raises NeedsPackage.

    Args:
        pcm: int16 [T], at least one window (25 ms).
    """
    with needs(_NEEDS, "eval"):
        from scipy.fft import dct  # pyright: ignore[reportMissingTypeStubs]
    mel_db = log_mel(pcm, rate_hz, bins=_BANDS, window_ms=_WINDOW_MS, hop_ms=_HOP_MS, floor_db=_FLOOR_DB)
    loudest_db = mel_db.max(axis=0)
    audible = mel_db[:, loudest_db >= loudest_db.max() - _AUDIBLE_DB].astype(np.float64)
    coefficients: Any = dct(audible, axis=0, norm="ortho")[1 : COEFFICIENTS + 1]  # scipy comes without types
    return np.concatenate([coefficients.mean(axis=1), coefficients.std(axis=1)])


class NearestSpeaker:
    """Classifies recordings by speaker. Raises NeedsPackage.

    Args:
        recordings: statistics float64 [N, F], several per speaker.
        speakers: their speakers, [N], at least two different ones.
    """

    def __init__(self, recordings: np.ndarray, speakers: Sequence[str]) -> None:
        self._recordings, self._speakers = recordings, np.array(speakers)
        self._fitted = _discriminant(len(set(speakers))).fit(recordings, self._speakers)

    def predict(self, recordings: np.ndarray) -> list[str]:
        """The nearest speaker of each recording, statistics float64 [N, F]."""
        return [str(name) for name in self._fitted.predict(recordings)]

    def distances(self, recordings: np.ndarray, speaker: str) -> np.ndarray:
        """Mahalanobis distances of recordings [N, F] from a speaker: [N]."""
        apart = recordings - self._fitted.means_[list(self._fitted.classes_).index(speaker)]
        return np.sqrt((apart * np.linalg.solve(self._fitted.covariance_, apart.T).T).sum(axis=1))

    def cross_validate(self, texts: Sequence[str]) -> list[str]:
        """The nearest speaker of each of its own recordings, by cross-validation over texts."""
        from sklearn.model_selection import GroupKFold, cross_val_predict

        count = min(5, len(set(texts)))
        model = _discriminant(len(set(self._speakers.tolist())))
        predicted: Any = cross_val_predict(
            model, self._recordings, self._speakers, groups=np.array(texts), cv=GroupKFold(count)
        )
        return [str(name) for name in predicted]


@dataclass(frozen=True)
class Nearer:
    """Whether speech synthesised as a speaker is nearer to that speaker than other speech."""

    share: float  # of pairs in which it is, ties as half (the area under the ROC curve); 0.5 by chance
    p: float  # of the one-sided Mann-Whitney test


def nearer(own: np.ndarray, others: np.ndarray) -> Nearer:
    """Compare distances from a speaker: of speech synthesised as that speaker [N], and of other speech [M]."""
    from scipy.stats import mannwhitneyu  # pyright: ignore[reportMissingTypeStubs]

    test: Any = mannwhitneyu(others, own, alternative="greater")
    return Nearer(float(test.statistic) / (len(own) * len(others)), float(test.pvalue))


def nearer_together(each: Sequence[Nearer]) -> Nearer:
    """Combine several speakers: the mean share, and Fisher's combination of the p values."""
    from scipy.stats import combine_pvalues  # pyright: ignore[reportMissingTypeStubs]

    combined: Any = combine_pvalues([one.p for one in each], method="fisher")
    return Nearer(float(np.mean([one.share for one in each])), float(combined.pvalue))


def _discriminant(speakers: int) -> Any:
    with needs(_NEEDS, "eval"):
        from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    return LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto", priors=np.full(speakers, 1.0 / speakers))
