"""A teacher's speakers side by side, to choose a voice's by measurement."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from studio.core.clips import to_float
from studio.core.errors import BadText
from studio.engine.tokenizers import dmel
from studio.measure.report import print_table
from studio.measure.signal import active_level_db
from studio.measure.wer import corpus_errors, scored_words, word_errors
from studio.train.corpus.shards import resample_and_scale
from studio.train.teachers.port import Teacher
from studio.train.vocoder.data import hop_pitch

TARGET_DB = -18.0  # target of active speech; a recipe's gain_db reaches it
_BANDS_KHZ = ((4, 6), (6, 8), (8, 10), (10, 12))
_SPEECH_KHZ = (0.3, 3.0)  # reference band
_WINDOW = 1024
_PITCH_HOP = 240  # 10 ms

Sound = tuple[np.ndarray, int]  # int16 [T] and its rate in Hz


@dataclass(frozen=True)
class SpeakerFigures:
    """Figures of one speaker over several texts."""

    speaker: str
    texts: int
    wer: float  # word error rate
    mos: float  # mean predicted MOS
    mos_least: float  # lowest predicted MOS
    pitch_hz: tuple[float, float, float]  # median, 5th and 95th percentile
    range_semitones: float  # between the two percentiles
    bands_db: tuple[float, ...]  # mean level of 4 to 6, 6 to 8, 8 to 10 and 10 to 12 kHz, against 0.3 to 3 kHz
    words_each_s: float  # speaking rate
    gain_db: float  # gain to -18 dBFS of active speech


def compare_speakers(
    teacher: Teacher,
    speakers: Sequence[str],
    texts: Sequence[str],
    transcribe: Callable[[Sequence[Sound]], list[str]],
    predict: Callable[[np.ndarray, int], float],
) -> dict[str, Any]:
    """Figures of each speaker over the same texts, printed as they are measured. Raises BadText.

    Args:
        transcribe: transcripts of sounds, in order.
        predict: predicted MOS of a sound.
    """
    figures = [_figures(teacher, speaker, texts, transcribe, predict) for speaker in speakers]
    columns = (
        "speaker",
        "word errors",
        "MOS (least)",
        "pitch Hz",
        "semitones",
        "4-6 6-8 8-10 10-12 kHz",
        "words/s",
        "gain dB",
    )
    print_table(f"{len(texts)} texts", columns, [_row(f) for f in figures], "MOS is predicted, not rated")
    return {"speakers": [asdict(f) for f in figures]}


def _figures(
    teacher: Teacher,
    speaker: str,
    texts: Sequence[str],
    transcribe: Callable[[Sequence[Sound]], list[str]],
    predict: Callable[[np.ndarray, int], float],
) -> SpeakerFigures:
    spoken = [t for t in teacher.speak(speaker, texts) if t is not None]
    if not spoken:
        raise BadText(f"{speaker} can speak none of the texts", "give sentences of plain words")
    rate_hz = dmel.TIME_BASE.rate_hz
    sounds = [(resample_and_scale(t, 0.0), rate_hz) for t in spoken]
    transcripts = transcribe(sounds)
    errors = corpus_errors([word_errors(t.text, text) for t, text in zip(spoken, transcripts, strict=True)])
    mos = [predict(pcm, rate_hz) for pcm, _ in sounds]
    low, middle, high = np.percentile(np.concatenate([_pitch(pcm) for pcm, _ in sounds]), (5, 50, 95))
    return SpeakerFigures(
        speaker,
        len(spoken),
        errors.rate,
        float(np.mean(mos)),
        float(np.min(mos)),
        (float(middle), float(low), float(high)),
        float(12 * np.log2(high / low)),
        bands_db(np.concatenate([to_float(pcm) for pcm, _ in sounds]), rate_hz),
        sum(len(scored_words(t.text)) for t in spoken) / sum(t.word_ends_s[-1] for t in spoken),
        TARGET_DB - float(np.mean([active_level_db(pcm, rate_hz) for pcm, _ in sounds])),
    )


def _pitch(pcm: np.ndarray) -> np.ndarray:
    rate_hz = dmel.TIME_BASE.rate_hz
    pitch = hop_pitch(to_float(pcm), len(pcm) // _PITCH_HOP, sample_rate_hz=rate_hz, hop_samples=_PITCH_HOP, phase=0)
    return pitch[pitch > 0]


def bands_db(sound: np.ndarray, rate_hz: int) -> tuple[float, ...]:
    """Mean power of bands above 4 kHz relative to 0.3 to 3 kHz, in dB, of float [T]."""
    windows = np.lib.stride_tricks.sliding_window_view(sound, _WINDOW)[:: _WINDOW // 2] * np.hanning(_WINDOW)
    power = np.square(np.abs(np.fft.rfft(windows, axis=1))).mean(axis=0)
    khz = np.fft.rfftfreq(_WINDOW, 1000.0 / rate_hz)
    low, *rest = (power[(khz >= a) & (khz < b)].mean() + 1e-12 for a, b in (_SPEECH_KHZ, *_BANDS_KHZ))
    return tuple(float(10 * np.log10(band / low)) for band in rest)


def _row(f: SpeakerFigures) -> tuple[str, ...]:
    middle, low, high = f.pitch_hz
    return (
        f.speaker,
        f"{f.wer:.3f}",
        f"{f.mos:.2f} ({f.mos_least:.2f})",
        f"{middle:.0f} ({low:.0f}-{high:.0f})",
        f"{f.range_semitones:.0f}",
        " ".join(f"{band:.0f}" for band in f.bands_db),
        f"{f.words_each_s:.1f}",
        f"{f.gain_db:+.1f}",
    )
