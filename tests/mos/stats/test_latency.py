"""Answers against latency: statsmodels as the oracle of both slopes, confounding with voices, separation."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import statsmodels.api as sm

from studio.core.errors import BadOption
from studio.mos.stats.bradley_terry import ELO_PER_E
from studio.mos.stats.columns import ScoreScale
from studio.mos.stats.latency import (
    LatencyAnswers,
    latency_bins,
    orient_to_faster,
    preference_slope,
    score_slope,
    voice_columns,
)

LATE = np.array([150.0, 300.0, 500.0])  # of three voices, ms


def drawn(seed=0, raters=20, items=12, worth=0.8, liking=(0.0, 0.0, 0.0)):
    """Votes on pairs whose latencies scatter about the voices' own; ``worth`` is ln odds per 100 ms earlier."""
    rng = np.random.default_rng(seed)
    n = raters * items
    rater, item = np.repeat(np.arange(raters), items), np.tile(np.arange(items), raters)
    first = rng.integers(3, size=n)
    second = (first + rng.integers(1, 3, size=n)) % 3
    late = LATE[np.stack([first, second])] + rng.normal(0, 60, (2, n))
    sooner, like = late[1] - late[0], np.array(liking)
    logit = worth * sooner / 100 + like[first] - like[second]
    value = (rng.random(n) < 1 / (1 + np.exp(-logit))).astype(float)
    return LatencyAnswers(value, sooner, voice_columns(first, second, "abc"), rater, item)


def scores(seed=0, worth=-0.3, liking=(0.0, 0.0, 0.0)):
    rng = np.random.default_rng(seed)
    rater, item = np.repeat(np.arange(20), 12), np.tile(np.arange(12), 20)
    voice = rng.integers(3, size=240)
    ms = LATE[voice] + rng.normal(0, 60, 240)
    value = np.clip(np.rint(4.5 + worth * ms / 100 + np.array(liking)[voice] + rng.normal(0, 0.7, 240)), 1, 5)
    return LatencyAnswers(value, ms, voice_columns(voice, None, "abc"), rater, item)


def groups(heard):
    return np.column_stack([heard.rater, heard.item])


@pytest.mark.parametrize("same", [False, True])
def test_preference_slope_is_a_logistic_regression(same):
    heard = drawn(1, liking=(0.0, 0.5, -0.3))
    design = np.column_stack([heard.ms / 100, heard.voices[:, 1:]]) if same else heard.ms[:, None] / 100
    oracle = sm.GLM(heard.value, design, family=sm.families.Binomial()).fit(
        cov_type="cluster", cov_kwds={"groups": groups(heard)}
    )
    found = preference_slope(heard, same)
    assert found.value == pytest.approx(ELO_PER_E * oracle.params[0], rel=1e-3)
    se, n, k = ELO_PER_E * oracle.bse[0], len(heard.value), design.shape[1]
    expected = 2.200985 * se * np.sqrt((n - k) / (n - 1))  # t(11), without the correction for k terms
    assert found.high - found.value == pytest.approx(expected, rel=0.02)
    assert found.low < ELO_PER_E * 0.8 < found.high and found.p < 0.01


@pytest.mark.parametrize("same", [False, True])
def test_score_slope_is_least_squares(same):
    heard = scores(3, liking=(0.0, 0.4, 0.0))  # with no variance raised to that of independent answers
    within = heard.voices if same else np.ones((240, 1))
    design = np.column_stack([heard.ms / 100, within])
    oracle = sm.OLS(heard.value, design).fit(cov_type="cluster", cov_kwds={"groups": groups(heard)}, use_t=True)
    found = score_slope(heard, same)
    assert found.value == pytest.approx(oracle.params[0])
    k = design.shape[1]
    assert found.high - found.value == pytest.approx(2.200985 * oracle.bse[0] * np.sqrt((240 - k) / 239), rel=0.02)


def test_latency_is_separated_from_the_voice():
    """The slow voices are disliked at any latency; within a voice latency has no effect."""
    heard = drawn(3, worth=0.0, liking=(1.2, 0.0, -1.2))
    assert preference_slope(heard).p < 0.001
    assert preference_slope(heard, same_voices=True).p > 0.05
    rated = scores(3, worth=0.0, liking=(0.8, 0.0, -0.8))
    assert score_slope(rated).p < 0.001 and score_slope(rated, same_voice=True).p > 0.05


def test_votes_are_signed_for_the_earlier_voice():
    heard = drawn(4)
    turned = orient_to_faster(heard)
    assert (turned.ms >= 0).all() and turned.ms == pytest.approx(np.abs(heard.ms))
    assert preference_slope(turned).value == pytest.approx(preference_slope(heard).value)
    found = latency_bins(turned, ScoreScale(0, 1), 0.5)
    assert len(found) == 6 and sum(b.mean.n for b in found) == 240
    assert found[0].mean.mean < 0.75 < found[-1].mean.mean
    assert all(b.low_ms <= b.middle_ms <= b.high_ms for b in found)
    assert all(b.high_ms <= after.low_ms for b, after in pairwise(found))


def test_undetermined_slopes():
    one = drawn(6, raters=1)
    assert preference_slope(one).low is None and score_slope(one).p is None
    level = LatencyAnswers(one.value, np.zeros(12), one.voices, one.rater, one.item)
    assert preference_slope(level) is None and score_slope(level) is None
    with pytest.raises(BadOption, match="no answers with latencies"):
        latency_bins(
            LatencyAnswers(*(v[:0] for v in (one.value, one.ms, one.voices, one.rater, one.item))), ScoreScale(0, 1)
        )
    assert len(latency_bins(drawn(6, raters=1), ScoreScale(0, 1))) == 1


def unanimous(raters=7, items=2, sign=1.0, seed=0):
    """Every vote goes to the earlier voice (-1: later), by about equal latencies for both voices."""
    rng = np.random.default_rng(seed)
    rater, item = (axis.ravel() for axis in np.indices((raters, items)))
    sooner = rng.choice([-1.0, 1.0], raters * items) * rng.uniform(150, 250, raters * items)
    columns = voice_columns(np.zeros(len(rater), int), np.ones(len(rater), int), "ab")
    return LatencyAnswers((sign * sooner > 0).astype(float), sooner, columns, rater, item)


def test_unanimous_slope_has_a_one_sided_bound_and_a_sign_test():
    """14 unanimous votes of seven raters on two texts were printed as 6104 Elo [5572, 6636], p 0.004."""
    found = preference_slope(unanimous())
    assert (found.value, found.high, found.always, found.n) == (None, None, "sooner", 14)
    assert found.p == 2 * 0.5**2  # two texts, so as certain as two votes
    level = replace(unanimous(7, 7), ms=np.sign(unanimous(7, 7).ms) * 200)  # equal latencies: Clopper-Pearson
    share = 0.025 ** (1 / 7)
    assert preference_slope(level).low == pytest.approx(ELO_PER_E / 2 * np.log(share / (1 - share)))
    assert preference_slope(level).p == 2 * 0.5**7
    assert found.low < 0 < preference_slope(unanimous(12, 12)).low
    later = preference_slope(unanimous(sign=-1.0))
    assert (later.low, later.always) == (None, "later") and later.high == pytest.approx(-found.low)


def test_unanimous_slope_beside_the_voices_strengths():
    found = preference_slope(unanimous(), same_voices=True)
    assert found.always == "sooner" and found.value is found.low is found.p is None
    of_the_voice = replace(unanimous(), ms=np.abs(unanimous().ms), value=np.ones(14))  # always the same voice
    assert preference_slope(of_the_voice, same_voices=True) is None


@pytest.mark.parametrize("same", [False, True])
def test_one_opposing_vote_makes_the_slope_finite(same):
    heard = unanimous(7, 4)
    for worth in (0.5, 1 - heard.value[0]):  # so does a tie
        found = preference_slope(replace(heard, value=np.where(np.arange(28) == 0, worth, heard.value)), same)
        assert found.always is None and np.isfinite(found.value) and found.low < found.value < found.high


def test_collinear_scores_have_no_error():
    """Two answers, or all on a line, leave rounding residuals only; the slope had p < 0.001."""
    heard = scores()
    assert score_slope(replace(heard, value=5 - heard.ms / 300)).p is None
