"""Checks of headphones and environment: their cues are only in the sounds, and results are stored."""

import io
import wave
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mos.world import ACR, World

from studio.core.errors import BadMessage, BadOption
from studio.mos.analysis.quality import rater_verdicts
from studio.mos.campaign.config import Gates, from_json
from studio.mos.import_export.export import export_rows
from studio.mos.import_export.rater_export import rater_rows
from studio.mos.sessions.campaigns import find_campaign
from studio.mos.sessions.hearing_checks import (
    CHECK_SOUNDS,
    ENVIRONMENT_RATE_HZ,
    HEADPHONE_RATE_HZ,
    LEVEL_DBFS,
    MIN_CORRECT,
    MIN_PAIRS,
    PAIRS,
    count_correct,
    environment_answers,
    environment_wav,
    headphone_answers,
    headphone_trial,
    is_passed,
)
from studio.mos.sessions.parts import ordered_stages

SEEDS = (0, 1, 20_260_101)


def intervals(kind, seed, index):
    """The three intervals of a trial as float [HEADPHONE_RATE_HZ, 2], and the right answer."""
    made = headphone_trial(kind, seed, index)
    pcm = made.pcm / 32768
    starts = [round(i * 1.5 * HEADPHONE_RATE_HZ) for i in range(3)]
    assert len(pcm) == 4 * HEADPHONE_RATE_HZ
    return [pcm[s : s + HEADPHONE_RATE_HZ] for s in starts], made.answer


def wavs(kind, seed):
    return [headphone_trial(kind, seed, index).wav for index in range(CHECK_SOUNDS)]


def rms_db(samples):
    return 10 * np.log10(np.mean(np.square(samples)) + 1e-12)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("index", range(CHECK_SOUNDS))
def test_one_tone_is_6_db_quieter_and_another_in_antiphase(seed, index):
    tones, answer = intervals("woods", seed, index)
    levels = [rms_db(t[:, 0]) for t in tones]
    loudest = max(levels)
    assert levels[answer] == pytest.approx(loudest - 6, abs=0.05)
    others = [i for i in range(3) if i != answer]
    assert all(levels[i] == pytest.approx(loudest, abs=0.05) for i in others)
    assert all(rms_db(t[:, 1]) == pytest.approx(rms_db(t[:, 0]), abs=0.01) for t in tones)  # the same in each ear
    mono = [rms_db(t.mean(axis=1)) for t in tones]
    gone = int(np.argmin(mono))
    assert gone != answer and mono[gone] < -110  # over one loudspeaker this one is the quietest
    for tone in tones:
        spectrum = np.abs(np.fft.rfft(tone[:, 0]))
        assert int(np.argmax(spectrum)) == 200  # 1 s, so a bin is 1 Hz


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("index", range(CHECK_SOUNDS))
def test_huggins_pitch_exists_only_between_the_ears(seed, index):
    noises, answer = intervals("huggins", seed, index)
    hz = np.fft.rfftfreq(HEADPHONE_RATE_HZ, 1 / HEADPHONE_RATE_HZ)
    band = np.abs(hz - 600) < 34
    around = (np.abs(hz - 600) > 40) & (np.abs(hz - 600) < 300)
    for i, noise in enumerate(noises):
        left, right = np.fft.rfft(noise[:, 0]), np.fft.rfft(noise[:, 1])
        between = np.real(left * np.conj(right))
        alike = between[band].sum() / np.sum(np.abs(left[band]) * np.abs(right[band]))
        outside = between[around].sum() / np.sum(np.abs(left[around]) * np.abs(right[around]))
        assert outside > 0.98
        if i == answer:
            assert alike < -0.95  # 180 degrees
        else:
            assert np.array_equal(noise[:, 0], noise[:, 1])


def test_one_ear_alone_does_not_hear_the_pitch():
    """Within each ear the band is as strong as its surroundings, in intervals with and without the pitch."""
    hz = np.fft.rfftfreq(HEADPHONE_RATE_HZ, 1 / HEADPHONE_RATE_HZ)
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
        # 1 dB is 26%, the smallest audible difference; a tone would be far above it.
        assert np.mean(ratios) == pytest.approx(1.0, abs=0.06 if key[2] == "band" else 0.15), key


@pytest.mark.parametrize("kind", ["woods", "huggins"])
def test_check_sounds_are_lossless_stereo_of_equal_size(kind):
    files = wavs(kind, 5)
    assert len(files) == CHECK_SOUNDS == 6 and len({len(f) for f in files}) == 1
    for index, data in enumerate(files):
        with wave.open(io.BytesIO(data)) as wav:
            assert wav.getparams()[:3] == (2, 2, 44_100)
            pcm = np.frombuffer(wav.readframes(wav.getnframes()), "<i2").reshape(-1, 2)
        assert len(data) == 44 + pcm.nbytes
        assert np.array_equal(pcm, headphone_trial(kind, 5, index).pcm)
        assert np.abs(pcm).max() < 0.5 * 32768


@pytest.mark.parametrize("kind", ["woods", "huggins"])
def test_seed_determines_the_trials(kind):
    assert wavs(kind, 3) == wavs(kind, 3) != wavs(kind, 4)
    assert len({tuple(headphone_answers(kind, seed)) for seed in range(30)}) > 15
    assert headphone_answers(kind, -1) == headphone_answers(kind, -1)


@given(seed=st.integers(-(2**63), 2**63 - 1), kind=st.sampled_from(["woods", "huggins"]))
def test_every_interval_is_correct_twice(seed, kind):
    assert Counter(headphone_answers(kind, seed)) == {0: 2, 1: 2, 2: 2}


@given(seed=st.integers(0, 1000), wrong=st.integers(0, 6), kind=st.sampled_from(["woods", "huggins"]))
def test_five_tones_or_six_pitches_pass(seed, wrong, kind):
    right = headphone_answers(kind, seed)
    answers = [(a + 1) % 3 if i < wrong else a for i, a in enumerate(right)]
    assert is_passed(kind, seed, answers) == (wrong <= (1 if kind == "woods" else 0))


@pytest.mark.parametrize(("kind", "kept"), [("woods", 6), ("huggins", 24)])
def test_many_raters_share_few_sounds(kind, kept):
    """Orders differ per rater, the sounds are cached."""
    assert len({id(headphone_trial(kind, seed, index)) for seed in range(300) for index in range(CHECK_SOUNDS)}) == kept


def test_other_kinds_and_counts_are_refused():
    with pytest.raises(BadOption, match="woods or huggins"):
        headphone_answers("beats", 1)
    with pytest.raises(BadOption, match="5 answers were given"):
        is_passed("woods", 1, [0] * 5)
    with pytest.raises(BadOption, match="they are 0 to 5"):
        headphone_trial("woods", 1, 6)
    assert set(MIN_CORRECT) == {"woods", "huggins"}


def pcm(data: bytes) -> np.ndarray:
    with wave.open(io.BytesIO(data)) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, ENVIRONMENT_RATE_HZ)
        return np.frombuffer(file.readframes(file.getnframes()), "<i2") / 32768


def level_db(samples: np.ndarray) -> float:
    return float(10 * np.log10(np.mean(samples**2)))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("pair", range(PAIRS))
def test_environment_sounds_differ_only_in_noise(seed: int, pair: int) -> None:
    """The pause before the first word is noise only: 50 and 40 dB below the voice."""
    both = [pcm(environment_wav(seed, 2 * pair + side)) for side in (0, 1)]
    assert len(both[0]) == len(both[1]) and 2.0 < len(both[0]) / ENVIRONMENT_RATE_HZ < 4.0
    pauses = [level_db(one[: round(0.29 * ENVIRONMENT_RATE_HZ)]) for one in both]
    better = environment_answers(seed)[pair]
    assert pauses[better] == pytest.approx(LEVEL_DBFS - 50, abs=0.3)
    assert pauses[1 - better] == pytest.approx(LEVEL_DBFS - 40, abs=0.3)
    apart = both[1 - better] - both[better]  # 10 dB is a factor of 3.16: the difference is 2.16 times the softer
    assert level_db(apart) == pytest.approx(LEVEL_DBFS - 50 + 20 * np.log10(10**0.5 - 1), abs=0.3)
    assert max(np.abs(one).max() for one in both) < 0.7


def test_seed_determines_the_pairs_and_half_have_the_better_first() -> None:
    assert [environment_wav(3, k) for k in range(8)] == [environment_wav(3, k) for k in range(8)]
    assert len({environment_wav(3, k) for k in range(8)}) == 8
    orders = {tuple(environment_answers(seed)) for seed in range(50)}
    assert len(orders) == 6 and {sum(order) for order in orders} == {2}
    places = Counter(answer for seed in range(50) for answer in environment_answers(seed)[:1])
    assert min(places.values()) > 12
    for index in (-1, 8):
        with pytest.raises(BadOption, match="0 to 7"):
            environment_wav(0, index)


def test_two_of_four_pass_and_no_difference_is_always_wrong() -> None:
    answers = environment_answers(5)
    assert (
        count_correct(5, answers) == 4
        and count_correct(5, [1 - a for a in answers]) == 0
        and count_correct(5, [2] * 4) == 0
    )
    assert count_correct(5, [*answers[:2], 2, 2]) == MIN_PAIRS == 2
    with pytest.raises(BadOption, match="has 4"):
        count_correct(5, answers[:3])


@pytest.mark.parametrize(
    ("required", "wrong", "verdict", "use"),
    [(False, 2, "ok", "unknown"), (False, 3, "fail", "unknown"), (True, 0, "ok", "ok")],
)
def test_environment_check_is_reported_and_excludes_only_if_required(
    world: World, required: bool, wrong: int, verdict: str, use: str
) -> None:
    gate = Gates(environment=True, environment_required=required)
    config = replace(ACR, gates=gate)
    assert ordered_stages(config) == ["consent", "instructions", "level", "environment", "trials", "comments", "done"]
    world.campaign(config)
    one = world.begin("one")
    shown = one.send("level")
    assert (shown["stage"], shown["check"], shown["sounds"]) == ("environment", "environment", 4)
    assert world.listening.sounds.environment(one.rater_id, 7)[:4] == b"RIFF"
    with pytest.raises(BadMessage, match="environment test is not finished"):
        one.send("environment", answers=[0, 1])
    assert one.send("environment", answers=one.environment(wrong))["stage"] == "trials"
    one.finish()
    with world.store.read() as session:
        row = find_campaign(session, "first")
        [found] = rater_verdicts(session, row)
        [data] = rater_rows(session, row)
        assert {r["environment"] for r in export_rows(session, row)} == {verdict}
    assert (found.verdicts["environment"], found.use) == (verdict, use)
    shown = data["gate_environment"], data["environment_right"], data["environment_tries"]
    assert shown == (verdict, 4 - wrong, 1)


def test_failing_a_required_check_twice_turns_a_rater_away(world: World) -> None:
    world.campaign(replace(ACR, gates=Gates(level=False, environment=True, environment_required=True)))
    deaf = world.begin("deaf")
    first = deaf.environment()
    assert deaf.send("environment", answers=deaf.environment(4))["stage"] == "environment"
    assert len(deaf.environment()) == len(first) == 4
    assert deaf.send("environment", answers=deaf.environment(4))["stage"] == "screened_out"
    broken = world.begin("broken")
    assert broken.send("environment", error="no sound")["stage"] == "trials"
    with world.store.read() as session:
        assert [j.verdicts["environment"] for j in rater_verdicts(session, find_campaign(session, "first"))] == [
            "fail",
            "unknown",
        ]


def test_unasked_check_requires_nothing() -> None:
    with pytest.raises(BadOption, match="environment_required"):
        from_json({"kind": "acr", "gates": {"environment_required": True}})
