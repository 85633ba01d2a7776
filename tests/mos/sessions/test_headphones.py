"""Headphone checks: the cue is there over headphones, and is not there for one ear or a loudspeaker."""

import io
import wave
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from studio.core.errors import BadOption
from studio.mos.sessions.headphones import (
    CHECK_SOUNDS,
    MIN_CORRECT,
    QUESTIONS,
    RATE_HZ,
    check_sounds,
    correct_answers,
    headphone_trial,
    is_passed,
)

SEEDS = (0, 1, 20_260_101)


def intervals(kind, seed, index):
    """The three intervals of a trial as float [RATE_HZ, 2], and the right answer."""
    made = headphone_trial(kind, seed, index)
    pcm = made.pcm / 32768
    starts = [round(i * 1.5 * RATE_HZ) for i in range(3)]
    assert len(pcm) == 4 * RATE_HZ
    return [pcm[s : s + RATE_HZ] for s in starts], made.answer


def rms_db(samples):
    return 10 * np.log10(np.mean(np.square(samples)) + 1e-12)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("index", range(CHECK_SOUNDS))
def test_one_tone_is_quieter_by_6_db_and_another_cancels(seed, index):
    tones, answer = intervals("woods", seed, index)
    levels = [rms_db(t[:, 0]) for t in tones]
    loudest = max(levels)
    assert levels[answer] == pytest.approx(loudest - 6, abs=0.05)
    others = [i for i in range(3) if i != answer]
    assert all(levels[i] == pytest.approx(loudest, abs=0.05) for i in others)
    assert all(rms_db(t[:, 1]) == pytest.approx(rms_db(t[:, 0]), abs=0.01) for t in tones)  # each ear hears the same
    mono = [rms_db(t.mean(axis=1)) for t in tones]
    gone = int(np.argmin(mono))
    assert gone != answer and mono[gone] < -110  # who listens over one loudspeaker takes this one for the quietest
    for tone in tones:
        spectrum = np.abs(np.fft.rfft(tone[:, 0]))
        assert int(np.argmax(spectrum)) == 200  # 1 s: one bin is 1 Hz


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("index", range(CHECK_SOUNDS))
def test_the_pitch_is_between_the_ears_only(seed, index):
    noises, answer = intervals("huggins", seed, index)
    hz = np.fft.rfftfreq(RATE_HZ, 1 / RATE_HZ)
    band = np.abs(hz - 600) < 34
    around = (np.abs(hz - 600) > 40) & (np.abs(hz - 600) < 300)
    for i, noise in enumerate(noises):
        left, right = np.fft.rfft(noise[:, 0]), np.fft.rfft(noise[:, 1])
        between = np.real(left * np.conj(right))
        alike = between[band].sum() / np.sum(np.abs(left[band]) * np.abs(right[band]))
        outside = between[around].sum() / np.sum(np.abs(left[around]) * np.abs(right[around]))
        assert outside > 0.98
        if i == answer:
            assert alike < -0.95  # turned by 180 degrees
        else:
            assert np.array_equal(noise[:, 0], noise[:, 1])


def test_neither_ear_alone_hears_the_pitch():
    """In each ear the band is as strong as its surroundings, in the interval with the pitch as in those without."""
    hz = np.fft.rfftfreq(RATE_HZ, 1 / RATE_HZ)
    band, around = np.abs(hz - 600) <= 36, (np.abs(hz - 600) > 36) & (np.abs(hz - 600) < 300)
    edges = (np.abs(np.abs(hz - 600) - 36) <= 4) & (hz > 0)
    found = {(ear, has, where): [] for ear in (0, 1) for has in (True, False) for where in ("band", "edges")}
    for seed in range(12):
        for index in range(CHECK_SOUNDS):
            noises, answer = intervals("huggins", seed, index)
            for i, noise in enumerate(noises):
                for ear in (0, 1):
                    power = np.abs(np.fft.rfft(noise[:, ear])) ** 2
                    found[ear, i == answer, "band"].append(power[band].mean() / power[around].mean())
                    found[ear, i == answer, "edges"].append(power[edges].mean() / power[around].mean())
    for key, ratios in found.items():
        # 72 intervals of about 70 bins each: the mean's standard error is below 0.02, at the edges below 0.04.
        # 1 dB is 26%, the least that could be heard; a tone would be far above it.
        assert np.mean(ratios) == pytest.approx(1.0, abs=0.06 if key[2] == "band" else 0.15), key


@pytest.mark.parametrize("kind", ["woods", "huggins"])
def test_sounds_are_lossless_stereo_and_alike_from_outside(kind):
    files = check_sounds(kind, 5)
    assert len(files) == CHECK_SOUNDS == 6 and len({len(f) for f in files}) == 1
    for index, data in enumerate(files):
        with wave.open(io.BytesIO(data)) as wav:
            assert wav.getparams()[:3] == (2, 2, 44_100)
            pcm = np.frombuffer(wav.readframes(wav.getnframes()), "<i2").reshape(-1, 2)
        assert len(data) == 44 + pcm.nbytes
        assert np.array_equal(pcm, headphone_trial(kind, 5, index).pcm)
        assert np.abs(pcm).max() < 0.5 * 32768


@pytest.mark.parametrize("kind", ["woods", "huggins"])
def test_a_seed_makes_the_same_trials_and_another_makes_others(kind):
    assert check_sounds(kind, 3) == check_sounds(kind, 3) != check_sounds(kind, 4)
    assert len({tuple(correct_answers(kind, seed)) for seed in range(30)}) > 15
    assert correct_answers(kind, -1) == correct_answers(kind, -1)


@given(seed=st.integers(-(2**63), 2**63 - 1), kind=st.sampled_from(["woods", "huggins"]))
def test_every_interval_is_right_twice(seed, kind):
    assert Counter(correct_answers(kind, seed)) == {0: 2, 1: 2, 2: 2}


@given(seed=st.integers(0, 1000), wrong=st.integers(0, 6), kind=st.sampled_from(["woods", "huggins"]))
def test_five_tones_or_six_pitches_pass(seed, wrong, kind):
    right = correct_answers(kind, seed)
    answers = [(a + 1) % 3 if i < wrong else a for i, a in enumerate(right)]
    assert is_passed(kind, seed, answers) == (wrong <= (1 if kind == "woods" else 0))


@pytest.mark.parametrize(("kind", "kept"), [("woods", 6), ("huggins", 24)])
def test_a_crowd_asks_for_few_sounds(kind, kept):
    """Every rater has an order of their own, of sounds that are made once."""
    assert len({id(headphone_trial(kind, seed, index)) for seed in range(300) for index in range(CHECK_SOUNDS)}) == kept


def test_other_kinds_and_counts_are_refused():
    with pytest.raises(BadOption, match="woods or huggins"):
        correct_answers("beats", 1)
    with pytest.raises(BadOption, match="5 answers were given"):
        is_passed("woods", 1, [0] * 5)
    with pytest.raises(BadOption, match="they are 0 to 5"):
        headphone_trial("woods", 1, 6)
    assert set(QUESTIONS) == set(MIN_CORRECT) == {"woods", "huggins"}
