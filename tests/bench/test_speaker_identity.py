"""Speaker identification depends on the vocal tract, not on loudness or pauses."""

import numpy as np
import pytest
from scipy.signal import lfilter

from studio.bench.evaluation.prompts import (
    COEFFICIENTS,
    Nearer,
    NearestSpeaker,
    mfcc_statistics,
    nearer,
    nearer_together,
)

pytestmark = pytest.mark.slow

RATE_HZ = 24_000
TRACTS = {"short": (650, 1700, 2800), "middle": (560, 1450, 2450), "long": (480, 1250, 2150)}  # formants, Hz


def spoken(formants: tuple[int, ...], seed: int, seconds: float = 1.5) -> np.ndarray:
    """Vowels of one vocal tract, each formant slightly shifted per vowel: int16 [T]."""
    rng = np.random.default_rng(seed)
    parts = []
    for _ in range(10):
        n = round(seconds / 10 * RATE_HZ)
        sound = np.zeros(n)
        sound[:: RATE_HZ // int(rng.integers(110, 220))] = 1.0
        for hz in formants:
            pole = np.exp(-np.pi * 90 / RATE_HZ + 2j * np.pi * hz * rng.uniform(0.9, 1.1) / RATE_HZ)
            sound = lfilter([1.0], np.poly([pole, pole.conj()]), sound)
        parts.append(sound / np.abs(sound).max())
    noise = rng.normal(0, 1e-3, round(seconds / 10 * RATE_HZ) * 10)
    return np.round((np.concatenate(parts) * 0.5 + noise) * 32767 * 0.9).astype(np.int16)


@pytest.fixture(scope="module")
def judge() -> NearestSpeaker:
    made = [(name, mfcc_statistics(spoken(of, seed), RATE_HZ)) for name, of in TRACTS.items() for seed in range(12)]
    return NearestSpeaker(np.stack([one for _, one in made]), [name for name, _ in made])


def test_new_speech_is_nearest_to_its_own_speaker(judge: NearestSpeaker) -> None:
    for name, formants in TRACTS.items():
        found = judge.predict(np.stack([mfcc_statistics(spoken(formants, seed), RATE_HZ) for seed in range(100, 110)]))
        assert found == [name] * 10


def test_recordings_are_identified_by_other_texts(judge: NearestSpeaker) -> None:
    texts = [str(seed) for _ in TRACTS for seed in range(12)]
    told = judge.cross_validate(texts)
    assert np.mean([a == b for a, b in zip(told, np.repeat([*TRACTS], 12), strict=True)]) > 0.9
    shuffled = np.random.default_rng(0).permutation(np.repeat([*TRACTS], 12))
    guessed = NearestSpeaker(judge._recordings, shuffled.tolist()).cross_validate(texts)
    assert np.mean(np.array(guessed) == shuffled) < 0.6, "uninformative names are not found"


def test_voice_between_two_leans_to_the_nearer_one(judge: NearestSpeaker) -> None:
    def of(formants: tuple[int, ...]) -> np.ndarray:
        return np.stack([mfcc_statistics(spoken(formants, seed), RATE_HZ) for seed in range(200, 210)])

    leaning = tuple(round(0.7 * a + 0.3 * b) for a, b in zip(TRACTS["middle"], TRACTS["short"], strict=True))
    others = of(TRACTS["middle"])
    assert judge.predict(of(leaning)).count("short") < 5, "it is not identified as that speaker"
    found = nearer(judge.distances(of(leaning), "short"), judge.distances(others, "short"))
    assert found.share > 0.9 and found.p < 0.001
    away = nearer(judge.distances(of(leaning), "long"), judge.distances(others, "long"))
    assert away.share < 0.1 and away.p > 0.99, "and leans away from the other side"
    assert judge.distances(of(TRACTS["long"]), "long").mean() < judge.distances(others, "long").mean()


def test_nearer_counts_pairs_and_pools_speakers() -> None:
    assert nearer(np.array([1.0, 3.0]), np.array([2.0, 4.0])) == Nearer(0.75, pytest.approx(1 / 3))
    assert nearer(np.array([2.0]), np.array([2.0])).share == 0.5
    together = nearer_together([Nearer(0.8, 0.05), Nearer(0.6, 0.05)])
    assert together == Nearer(pytest.approx(0.7), pytest.approx(0.0025 * (1 - np.log(0.0025)))), "Fisher 1925"


def test_loudness_and_pauses_do_not_identify_a_speaker() -> None:
    sound = spoken(TRACTS["middle"], 3)
    plain = mfcc_statistics(sound, RATE_HZ)
    assert plain.shape == (2 * COEFFICIENTS,) and np.isfinite(plain).all()
    quiet = mfcc_statistics((sound // 2).astype(np.int16), RATE_HZ)
    paused = mfcc_statistics(np.concatenate([np.zeros(RATE_HZ, np.int16), sound, np.zeros(RATE_HZ, np.int16)]), RATE_HZ)
    other = mfcc_statistics(spoken(TRACTS["long"], 3), RATE_HZ)
    for same in (quiet, paused):
        assert np.abs(same - plain).max() < 0.3 * np.abs(other - plain).max()
