"""Checks of a rater's equipment and room, with synthesised sounds that suit any language.

The headphone checks are three tones (Woods et al. 2017) and a dichotic pitch (Milne et al. 2020). Both are stereo and
need lossless delivery: joint-stereo coding removes the cue.

The environment test is that of ITU-T P.808: can the rater hear a just noticeable difference of noise? Four pairs of a
speech-like sound of vowels and pauses with white noise 50 and 40 dB below it; two correct answers pass, as in the P.808
toolkit (Naderi and Cutler 2020). In a noisy room or at a low level neither noise is audible.
"""

import io
import wave
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations
from typing import Literal

import numpy as np

from studio.core.clips import to_int16, wav_bytes
from studio.core.errors import BadOption

HeadphoneKind = Literal["woods", "huggins"]
HEADPHONE_RATE_HZ = 44_100
CHECK_SOUNDS = 6
MIN_CORRECT = {"woods": 5, "huggins": 6}  # correct trials of six
INTERVAL_S, GAP_S = 1.0, 0.5
TONE_HZ, QUIETER_DB = 200.0, 6.0
PITCH_HZ, PITCH_BAND = 600.0, 0.06  # the band is 600 Hz plus and minus 6%
_TONE_PEAK = 0.1
_NOISE_RMS = 0.05
_RAMP_S = {"woods": 0.1, "huggins": 0.03}
_WAV_HEADER = 44  # bytes
_NOISES = 4  # noise realisations, each in every order of intervals; 17 MB if all are cached
_SEED_MASK = 2**64 - 1  # numpy accepts no negative seeds


@dataclass(frozen=True, eq=False)
class HeadphoneTrial:
    """Three intervals as a stereo WAV file of 44.1 kHz, and the index (0, 1, 2) of the correct one."""

    wav: bytes
    answer: int

    @property
    def pcm(self) -> np.ndarray:
        """The samples, int16 [T, 2]."""
        return np.frombuffer(self.wav, "<i2", offset=_WAV_HEADER).reshape(-1, 2)


def headphone_answers(kind: str, seed: int) -> list[int]:
    """The correct intervals (0, 1, 2) of the six trials, without rendering. Raises BadOption."""
    return [answer for answer, _ in _headphone_order(_known(kind), seed)]


def headphone_trial(kind: str, seed: int, index: int) -> HeadphoneTrial:
    """One of the six trials, deterministic in the seed. Raises BadOption for another kind or index.

    The seed sets the order of a few cached sounds, since many raters may request them at once.
    """
    known = _known(kind)
    if not 0 <= index < CHECK_SOUNDS:
        raise BadOption(f"there is no headphone trial {index}", f"they are 0 to {CHECK_SOUNDS - 1}")
    return _render_headphones(known, *_headphone_order(known, seed)[index], seed % _NOISES if known == "huggins" else 0)


@lru_cache(maxsize=6 * (1 + _NOISES))
def _render_headphones(known: HeadphoneKind, answer: int, decoy: int, take: int) -> HeadphoneTrial:
    """Render a trial; ``take`` seeds the noise."""
    rng = np.random.default_rng([take, answer, decoy])
    gap = np.zeros((round(GAP_S * HEADPHONE_RATE_HZ), 2))
    parts: list[np.ndarray] = []
    for interval in range(3):
        if known == "woods":
            samples = _tone(quiet=interval == answer, antiphase=interval == decoy)
        else:
            samples = _noise(rng, pitch=interval == answer)
        parts += [samples * _envelope(_RAMP_S[known]), gap]
    return HeadphoneTrial(_wav(to_int16(np.concatenate(parts[:-1]))), answer)


def is_passed(kind: str, seed: int, answers: Sequence[int]) -> bool:
    """Whether enough answers (0, 1, 2) are right: 5 of 6 tones (Woods et al. 2017), 6 of 6 pitches (Milne et al. 2020).

    Raises BadOption: there are not six answers.
    """
    right = headphone_answers(kind, seed)
    if len(answers) != CHECK_SOUNDS:
        raise BadOption(f"{len(answers)} answers were given", f"a headphone check has {CHECK_SOUNDS}")
    return sum(a == r for a, r in zip(answers, right, strict=True)) >= MIN_CORRECT[kind]


def _wav(pcm: np.ndarray) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as wav:
        wav.setnchannels(2)
        wav.setsampwidth(2)
        wav.setframerate(HEADPHONE_RATE_HZ)
        wav.writeframes(pcm.astype("<i2").tobytes())
    return file.getvalue()


def _known(kind: str) -> HeadphoneKind:
    for known in ("woods", "huggins"):
        if kind == known:
            return known
    raise BadOption(f"there is no headphone check {kind!r}", "take woods or huggins")


def _headphone_order(kind: HeadphoneKind, seed: int) -> list[tuple[int, int]]:
    """Correct interval and antiphase interval of each trial; every pair once, so correct answers are balanced."""
    rng = np.random.default_rng([seed & _SEED_MASK, 0, list(MIN_CORRECT).index(kind)])
    pairs = list(permutations(range(3), 2))
    return [pairs[i] for i in rng.permutation(CHECK_SOUNDS)]


def _tone(quiet: bool, antiphase: bool) -> np.ndarray:
    """200 Hz in both ears, [T, 2]. Antiphase is as loud over headphones, but nearly silent on loudspeakers."""
    time_s = np.arange(round(INTERVAL_S * HEADPHONE_RATE_HZ)) / HEADPHONE_RATE_HZ
    left = _TONE_PEAK * np.sin(2 * np.pi * TONE_HZ * time_s) * (10 ** (-QUIETER_DB / 20) if quiet else 1.0)
    return np.stack([left, -left if antiphase else left], axis=1)


def _noise(rng: np.random.Generator, pitch: bool) -> np.ndarray:
    """White noise, equal in both ears, [T, 2]; with ``pitch`` the right ear's band around 600 Hz is phase-inverted.

    Each ear alone hears white noise; only both together produce the pitch (Cramer and Huggins 1958).
    """
    left = _NOISE_RMS * rng.standard_normal(round(INTERVAL_S * HEADPHONE_RATE_HZ))
    if not pitch:
        return np.stack([left, left], axis=1)
    spectrum = np.fft.rfft(left)
    away = np.abs(np.fft.rfftfreq(len(left), 1 / HEADPHONE_RATE_HZ) - PITCH_HZ)
    spectrum[away <= PITCH_BAND * PITCH_HZ] *= -1
    return np.stack([left, np.fft.irfft(spectrum, len(left))], axis=1)


def _envelope(ramp_s: float) -> np.ndarray:
    """Raised-cosine ramps at both ends, [T, 1]."""
    ramp = 0.5 - 0.5 * np.cos(np.pi * np.arange(round(ramp_s * HEADPHONE_RATE_HZ)) / round(ramp_s * HEADPHONE_RATE_HZ))
    envelope = np.ones(round(INTERVAL_S * HEADPHONE_RATE_HZ))
    envelope[: len(ramp)], envelope[-len(ramp) :] = ramp, ramp[::-1]
    return envelope[:, None]


PAIRS = 4
MIN_PAIRS = 2  # correct pairs
SNR_DB = (50.0, 40.0)  # better sound, worse sound
ENVIRONMENT_RATE_HZ = 24_000
LEVEL_DBFS = -25.0  # of the voiced parts, RMS
_PAUSE_S = 0.3
_WORDS = (3, 2, 3)  # syllables
_VOWELS_HZ = ((730, 1090, 2440), (270, 2290, 3010), (570, 840, 2410), (530, 1840, 2480), (300, 870, 2240))
_BANDWIDTHS_HZ = (80.0, 100.0, 140.0)
_TOP_HZ = 5000.0


def environment_answers(seed: int) -> list[int]:
    """Index of the better sound of each pair, 0 and 1 equally often."""
    return [better for _, better in _environment_order(seed)]


def environment_wav(seed: int, index: int) -> bytes:
    """A WAV file (24 kHz, mono); sounds 0 and 1 are the first pair, and so on. Raises BadOption for a wrong index.

    The seed sets the order of eight cached sounds.
    """
    if not 0 <= index < 2 * PAIRS:
        raise BadOption(f"there is no sound {index} in the environment test", f"they are 0 to {2 * PAIRS - 1}")
    take, better = _environment_order(seed)[index // 2]
    return _render_noisy(take, SNR_DB[0] if index % 2 == better else SNR_DB[1])


def count_correct(seed: int, answers: Sequence[int]) -> int:
    """Number of correctly answered pairs (0, 1; 2 for no difference is never correct). Raises BadOption."""
    if len(answers) != PAIRS:
        raise BadOption(f"{len(answers)} answers were given", f"an environment test has {PAIRS}")
    return sum(a == better for a, better in zip(answers, environment_answers(seed), strict=True))


def _environment_order(seed: int) -> list[tuple[int, int]]:
    """Take and index of the better sound of each pair."""
    rng = np.random.default_rng([seed & _SEED_MASK, 808])
    better = rng.permutation(np.arange(PAIRS) % 2)
    return [(int(take), int(b)) for take, b in zip(rng.permutation(PAIRS), better, strict=True)]


@lru_cache(maxsize=2 * PAIRS)
def _render_noisy(take: int, snr_db: float) -> bytes:
    """One of the eight sounds; the two of a pair differ only in the noise level."""
    voice, voiced = _voice(take)
    voice *= 10 ** (LEVEL_DBFS / 20) / np.sqrt(np.mean(voice[voiced] ** 2))
    noise = np.random.default_rng([808, take]).standard_normal(len(voice))
    noise *= 10 ** ((LEVEL_DBFS - snr_db) / 20) / np.sqrt(np.mean(noise**2))
    return wav_bytes(to_int16(voice + noise), ENVIRONMENT_RATE_HZ)


def _voice(take: int) -> tuple[np.ndarray, np.ndarray]:
    """Three words of vowels between pauses, [T] (harmonics of a gliding pitch), and the mask of voiced samples [T]."""
    rng = np.random.default_rng([take, 1])
    pitch_hz = (115.0, 205.0)[take % 2]
    parts: list[tuple[np.ndarray, np.ndarray]] = []
    for syllables in _WORDS:
        parts.append((np.zeros(round(_PAUSE_S * ENVIRONMENT_RATE_HZ)), np.zeros((1, 3))))
        for _ in range(syllables):
            length = round(rng.uniform(0.16, 0.24) * ENVIRONMENT_RATE_HZ)
            parts.append((np.hanning(length), np.array([_VOWELS_HZ[rng.integers(len(_VOWELS_HZ))]], float)))
    parts.append((np.zeros(round(_PAUSE_S * ENVIRONMENT_RATE_HZ)), np.zeros((1, 3))))
    envelope = np.concatenate([level for level, _ in parts])
    formants_hz = np.concatenate([np.repeat(hz, len(level), axis=0) for level, hz in parts])
    time = np.linspace(0, 1, len(envelope))
    f0_hz = pitch_hz * (1.15 - 0.3 * time + 0.04 * np.sin(2 * np.pi * 5 * time))  # falling, as in a sentence
    phase = 2 * np.pi * np.cumsum(f0_hz) / ENVIRONMENT_RATE_HZ
    out = np.zeros(len(envelope))
    for harmonic in range(1, int(_TOP_HZ / pitch_hz)):
        hz = harmonic * f0_hz
        gain = sum(
            1 / (1 + ((hz - formants_hz[:, k]) / width) ** 2) / (1 + 2 * k) for k, width in enumerate(_BANDWIDTHS_HZ)
        )
        out += (gain + 0.02) / harmonic**0.5 * np.sin(harmonic * phase)
    return out * envelope, envelope > 0
