"""The environment test of ITU-T P.808: can the rater hear a just noticeable difference of noise?

Four pairs of a speech-like sound with white noise 50 and 40 dB below it; two correct answers pass, as in the P.808
toolkit (Naderi and Cutler 2020). In a noisy room or at a low level neither noise is audible. The sounds are synthesised
from vowels and pauses, so they suit any language.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from studio.core.clips import to_int16, wav_bytes
from studio.core.errors import BadOption

PAIRS = 4
MIN_CORRECT = 2  # correct pairs
SNR_DB = (50.0, 40.0)  # of the better sound, of the worse
RATE_HZ = 24_000
LEVEL_DBFS = -25.0  # of the voiced parts, RMS
BETTER = (0, 1)  # answers: first or second is better; 2: no difference
_PAUSE_S = 0.3
_WORDS = (3, 2, 3)  # syllables
_VOWELS_HZ = ((730, 1090, 2440), (270, 2290, 3010), (570, 840, 2410), (530, 1840, 2480), (300, 870, 2240))
_BANDWIDTHS_HZ = (80.0, 100.0, 140.0)
_TOP_HZ = 5000.0
_SEED_MASK = 2**64 - 1


def correct_answers(seed: int) -> list[int]:
    """Index of the better sound of each pair, 0 and 1 equally often."""
    return [better for _, better in _order(seed)]


def environment_wav(seed: int, index: int) -> bytes:
    """A WAV file (24 kHz, mono); sounds 0 and 1 are the first pair, and so on. Raises BadOption for a wrong index.

    The seed sets the order of eight cached sounds.
    """
    if not 0 <= index < 2 * PAIRS:
        raise BadOption(f"there is no sound {index} in the environment test", f"they are 0 to {2 * PAIRS - 1}")
    take, better = _order(seed)[index // 2]
    return _render(take, SNR_DB[0] if index % 2 == better else SNR_DB[1])


def count_correct(seed: int, answers: Sequence[int]) -> int:
    """Number of correctly answered pairs (0, 1; 2 for no difference is never correct). Raises BadOption."""
    if len(answers) != PAIRS:
        raise BadOption(f"{len(answers)} answers were given", f"an environment test has {PAIRS}")
    return sum(a == better for a, better in zip(answers, correct_answers(seed), strict=True))


def _order(seed: int) -> list[tuple[int, int]]:
    """Take and index of the better sound of each pair."""
    rng = np.random.default_rng([seed & _SEED_MASK, 808])
    better = rng.permutation(np.arange(PAIRS) % 2)
    return [(int(take), int(b)) for take, b in zip(rng.permutation(PAIRS), better, strict=True)]


@lru_cache(maxsize=2 * PAIRS)
def _render(take: int, snr_db: float) -> bytes:
    """One of the eight sounds; both of a pair have the same voice and noise, at another noise level."""
    voice, voiced = _voice(take)
    voice *= 10 ** (LEVEL_DBFS / 20) / np.sqrt(np.mean(voice[voiced] ** 2))
    noise = np.random.default_rng([808, take]).standard_normal(len(voice))
    noise *= 10 ** ((LEVEL_DBFS - snr_db) / 20) / np.sqrt(np.mean(noise**2))
    return wav_bytes(to_int16(voice + noise), RATE_HZ)


def _voice(take: int) -> tuple[np.ndarray, np.ndarray]:
    """Three words of vowels with pauses around them, [T], and where it is voiced, [T]: harmonics of a gliding pitch."""
    rng = np.random.default_rng([take, 1])
    pitch_hz = (115.0, 205.0)[take % 2]
    parts: list[tuple[np.ndarray, np.ndarray]] = []
    for syllables in _WORDS:
        parts.append((np.zeros(round(_PAUSE_S * RATE_HZ)), np.zeros((1, 3))))
        for _ in range(syllables):
            length = round(rng.uniform(0.16, 0.24) * RATE_HZ)
            parts.append((np.hanning(length), np.array([_VOWELS_HZ[rng.integers(len(_VOWELS_HZ))]], float)))
    parts.append((np.zeros(round(_PAUSE_S * RATE_HZ)), np.zeros((1, 3))))
    envelope = np.concatenate([level for level, _ in parts])
    formants_hz = np.concatenate([np.repeat(hz, len(level), axis=0) for level, hz in parts])
    time = np.linspace(0, 1, len(envelope))
    f0_hz = pitch_hz * (1.15 - 0.3 * time + 0.04 * np.sin(2 * np.pi * 5 * time))  # falling, as in a sentence
    phase = 2 * np.pi * np.cumsum(f0_hz) / RATE_HZ
    out = np.zeros(len(envelope))
    for harmonic in range(1, int(_TOP_HZ / pitch_hz)):
        hz = harmonic * f0_hz
        gain = sum(
            1 / (1 + ((hz - formants_hz[:, k]) / width) ** 2) / (1 + 2 * k) for k, width in enumerate(_BANDWIDTHS_HZ)
        )
        out += (gain + 0.02) / harmonic**0.5 * np.sin(harmonic * phase)
    return out * envelope, envelope > 0
