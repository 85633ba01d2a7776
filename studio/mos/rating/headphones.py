"""Headphone checks of our own making: three tones (Woods et al. 2017) and a dichotic pitch (Milne et al. 2020).

Both are stereo and have to reach the rater lossless: a codec that joins the channels takes the cue away.
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
NEEDED = {"woods": 5, "huggins": 6}  # trials to get right, of six
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
_NOISES = 4  # takes of the noise, each with every order of its intervals: 17 MB when all are kept
_SEED_MASK = 2**64 - 1  # numpy takes no negative seeds


@dataclass(frozen=True, eq=False)
class HeadphoneTrial:
    """Three intervals as a stereo WAV file of 44.1 kHz, and which of them (0, 1, 2) is the right answer."""

    wav: bytes
    answer: int

    @property
    def pcm(self) -> np.ndarray:
        """The samples, int16 [T, 2]."""
        return np.frombuffer(self.wav, "<i2", offset=_WAV_HEADER).reshape(-1, 2)


def right_answers(kind: str, seed: int) -> list[int]:
    """The right intervals of the six trials (0, 1, 2), without making the sound. Raises BadOption."""
    return [answer for answer, _ in _order(_known(kind), seed)]


def trial(kind: str, seed: int, index: int) -> HeadphoneTrial:
    """One of the six trials; the same seed makes the same samples. Raises BadOption for another kind or index.

    The seed sets the order; the sounds themselves are few, made once and kept, for a crowd asks for them all at once.
    """
    known = _known(kind)
    if not 0 <= index < CHECK_SOUNDS:
        raise BadOption(f"there is no headphone trial {index}", f"they are 0 to {CHECK_SOUNDS - 1}")
    return _made(known, *_order(known, seed)[index], seed % _NOISES if known == "huggins" else 0)


@lru_cache(maxsize=6 * (1 + _NOISES))
def _made(known: HeadphoneKind, answer: int, decoy: int, take: int) -> HeadphoneTrial:
    """The sound of a trial; ``take`` draws another noise."""
    rng = np.random.default_rng([take, answer, decoy])
    gap = np.zeros((round(GAP_S * RATE_HZ), 2))
    parts: list[np.ndarray] = []
    for interval in range(3):
        if known == "woods":
            made = _tone(quiet=interval == answer, antiphase=interval == decoy)
        else:
            made = _noise(rng, pitch=interval == answer)
        parts += [made * _envelope(_RAMP_S[known]), gap]
    return HeadphoneTrial(_wav(to_int16(np.concatenate(parts[:-1]))), answer)


def check_sounds(kind: str, seed: int) -> list[bytes]:
    """The six trials as WAV files. Raises BadOption."""
    return [trial(kind, seed, index).wav for index in range(CHECK_SOUNDS)]


def passed(kind: str, seed: int, answers: Sequence[int]) -> bool:
    """Whether enough answers (0, 1, 2) are right: 5 of 6 tones (Woods et al. 2017), 6 of 6 pitches (Milne et al. 2020).

    Raises:
        BadOption: there are not six answers.
    """
    right = right_answers(kind, seed)
    if len(answers) != CHECK_SOUNDS:
        raise BadOption(f"{len(answers)} answers were given", f"a headphone check has {CHECK_SOUNDS}")
    return sum(a == r for a, r in zip(answers, right, strict=True)) >= NEEDED[kind]


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
    """For each trial the right interval and the one in antiphase.

    Every pair stands once, so no interval is right more often than another.
    """
    rng = np.random.default_rng([seed & _SEED_MASK, 0, list(NEEDED).index(kind)])
    pairs = list(permutations(range(3), 2))
    return [pairs[i] for i in rng.permutation(CHECK_SOUNDS)]


def _tone(quiet: bool, antiphase: bool) -> np.ndarray:
    """200 Hz in both ears, [T, 2]. In antiphase it is as loud over headphones, but nearly gone from loudspeakers."""
    time_s = np.arange(round(INTERVAL_S * RATE_HZ)) / RATE_HZ
    left = _TONE_PEAK * np.sin(2 * np.pi * TONE_HZ * time_s) * (10 ** (-QUIETER_DB / 20) if quiet else 1.0)
    return np.stack([left, -left if antiphase else left], axis=1)


def _noise(rng: np.random.Generator, pitch: bool) -> np.ndarray:
    """White noise, the same in both ears, [T, 2]; with ``pitch`` the right ear's band around 600 Hz is turned by 180°.

    Each ear alone still hears white noise: only the two together make the tone (Cramer and Huggins 1958).
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
