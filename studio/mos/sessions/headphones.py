"""Headphone checks: three tones (Woods et al. 2017) and a dichotic pitch (Milne et al. 2020).

Both are stereo and need lossless delivery: joint-stereo coding removes the cue.
"""

import io
import wave
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations
from typing import Literal

import numpy as np

from studio.core.clips import to_int16
from studio.core.errors import BadOption

HeadphoneKind = Literal["woods", "huggins"]
RATE_HZ = 44_100
CHECK_SOUNDS = 6
MIN_CORRECT = {"woods": 5, "huggins": 6}  # correct trials of six
QUESTIONS = {
    "woods": "Which of the three tones was the quietest?",
    "huggins": "Which of the three noises had a faint tone in it?",
}
INTERVAL_S, GAP_S = 1.0, 0.5
TONE_HZ, QUIETER_DB = 200.0, 6.0
PITCH_HZ, PITCH_BAND = 600.0, 0.06  # the band is 600 Hz plus and minus 6%
_TONE_PEAK = 0.1
_NOISE_RMS = 0.05
_RAMP_S = {"woods": 0.1, "huggins": 0.03}
_WAV_HEADER = 44  # bytes
_NOISES = 4  # takes of the noise, each in every order of intervals: 17 MB when all are cached
_SEED_MASK = 2**64 - 1  # numpy takes no negative seeds


@dataclass(frozen=True, eq=False)
class HeadphoneTrial:
    """Three intervals as a stereo WAV file of 44.1 kHz, and the index (0, 1, 2) of the correct one."""

    wav: bytes
    answer: int

    @property
    def pcm(self) -> np.ndarray:
        """The samples, int16 [T, 2]."""
        return np.frombuffer(self.wav, "<i2", offset=_WAV_HEADER).reshape(-1, 2)


def correct_answers(kind: str, seed: int) -> list[int]:
    """The correct intervals (0, 1, 2) of the six trials, without rendering. Raises BadOption."""
    return [answer for answer, _ in _order(_known(kind), seed)]


def headphone_trial(kind: str, seed: int, index: int) -> HeadphoneTrial:
    """One of the six trials, deterministic in the seed. Raises BadOption for another kind or index.

    The seed sets the order of a few cached sounds, since many raters may request them at once.
    """
    known = _known(kind)
    if not 0 <= index < CHECK_SOUNDS:
        raise BadOption(f"there is no headphone trial {index}", f"they are 0 to {CHECK_SOUNDS - 1}")
    return _render(known, *_order(known, seed)[index], seed % _NOISES if known == "huggins" else 0)


@lru_cache(maxsize=6 * (1 + _NOISES))
def _render(known: HeadphoneKind, answer: int, decoy: int, take: int) -> HeadphoneTrial:
    """Render a trial; ``take`` seeds the noise."""
    rng = np.random.default_rng([take, answer, decoy])
    gap = np.zeros((round(GAP_S * RATE_HZ), 2))
    parts: list[np.ndarray] = []
    for interval in range(3):
        if known == "woods":
            samples = _tone(quiet=interval == answer, antiphase=interval == decoy)
        else:
            samples = _noise(rng, pitch=interval == answer)
        parts += [samples * _envelope(_RAMP_S[known]), gap]
    return HeadphoneTrial(_wav(to_int16(np.concatenate(parts[:-1]))), answer)


def check_sounds(kind: str, seed: int) -> list[bytes]:
    """The six trials as WAV files. Raises BadOption."""
    return [headphone_trial(kind, seed, index).wav for index in range(CHECK_SOUNDS)]


def is_passed(kind: str, seed: int, answers: Sequence[int]) -> bool:
    """Whether enough answers (0, 1, 2) are right: 5 of 6 tones (Woods et al. 2017), 6 of 6 pitches (Milne et al. 2020).

    Raises:
        BadOption: there are not six answers.
    """
    right = correct_answers(kind, seed)
    if len(answers) != CHECK_SOUNDS:
        raise BadOption(f"{len(answers)} answers were given", f"a headphone check has {CHECK_SOUNDS}")
    return sum(a == r for a, r in zip(answers, right, strict=True)) >= MIN_CORRECT[kind]


def _wav(pcm: np.ndarray) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as wav:
        wav.setnchannels(2)
        wav.setsampwidth(2)
        wav.setframerate(RATE_HZ)
        wav.writeframes(pcm.astype("<i2").tobytes())
    return file.getvalue()


def _known(kind: str) -> HeadphoneKind:
    for known in ("woods", "huggins"):
        if kind == known:
            return known
    raise BadOption(f"there is no headphone check {kind!r}", "take woods or huggins")


def _order(kind: HeadphoneKind, seed: int) -> list[tuple[int, int]]:
    """Correct interval and antiphase interval of each trial; every pair once, so correct answers are balanced."""
    rng = np.random.default_rng([seed & _SEED_MASK, 0, list(MIN_CORRECT).index(kind)])
    pairs = list(permutations(range(3), 2))
    return [pairs[i] for i in rng.permutation(CHECK_SOUNDS)]


def _tone(quiet: bool, antiphase: bool) -> np.ndarray:
    """200 Hz in both ears, [T, 2]. Antiphase is as loud over headphones, but nearly silent on loudspeakers."""
    time_s = np.arange(round(INTERVAL_S * RATE_HZ)) / RATE_HZ
    left = _TONE_PEAK * np.sin(2 * np.pi * TONE_HZ * time_s) * (10 ** (-QUIETER_DB / 20) if quiet else 1.0)
    return np.stack([left, -left if antiphase else left], axis=1)


def _noise(rng: np.random.Generator, pitch: bool) -> np.ndarray:
    """White noise, equal in both ears, [T, 2]; with ``pitch`` the right ear's band around 600 Hz is phase-inverted.

    Each ear alone hears white noise; only both together produce the pitch (Cramer and Huggins 1958).
    """
    left = _NOISE_RMS * rng.standard_normal(round(INTERVAL_S * RATE_HZ))
    if not pitch:
        return np.stack([left, left], axis=1)
    spectrum = np.fft.rfft(left)
    away = np.abs(np.fft.rfftfreq(len(left), 1 / RATE_HZ) - PITCH_HZ)
    spectrum[away <= PITCH_BAND * PITCH_HZ] *= -1
    return np.stack([left, np.fft.irfft(spectrum, len(left))], axis=1)


def _envelope(ramp_s: float) -> np.ndarray:
    """Raised-cosine ramps at both ends, [T, 1]."""
    ramp = 0.5 - 0.5 * np.cos(np.pi * np.arange(round(ramp_s * RATE_HZ)) / round(ramp_s * RATE_HZ))
    envelope = np.ones(round(INTERVAL_S * RATE_HZ))
    envelope[: len(ramp)], envelope[-len(ramp) :] = ramp, ramp[::-1]
    return envelope[:, None]
