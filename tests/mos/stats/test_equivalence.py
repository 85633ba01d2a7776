"""Tests with a margin against statsmodels, their duality with the interval, verdicts, and planned power."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, stats
from statsmodels.stats.power import TTestPower
from statsmodels.stats.weightstats import ttost_paired

from studio.core.errors import BadOption
from studio.mos.stats.columns import ScoreScale, ratings_from_rows
from studio.mos.stats.equivalence import (
    ALPHA,
    LEVEL,
    at_level,
    margin_test,
    one_sided_p,
    posterior_above,
    with_holm_verdicts,
)
from studio.mos.stats.interval import Interval, mean_interval
from studio.mos.stats.margin_plan import MarginAsk, PowerNotReached, raters_for_margin, simulated_power
from studio.mos.stats.means import difference
from studio.mos.stats.planner import RatingPopulation, default_population

CMOS = ScoreScale(-3, 3)
SHARE = ScoreScale(0, 1)


def interval_of(score, scale=None, null=0.0):
    """One score of each rater, so the clustered interval is the one-sample t interval."""
    score = np.asarray(score, np.float64)
    return mean_interval(score, np.arange(len(score)), score.astype(np.int64) * 0, "by_rater", 0.95, scale, null)


@pytest.mark.parametrize("margin", [0.2, 0.5, 1.0])
def test_tost_equals_statsmodels(margin):
    rng = np.random.default_rng(1)
    one, other = rng.normal(0.1, 1, 24), rng.normal(0, 1, 24)
    p, lower, upper = ttost_paired(one, other, -margin, margin)
    found = margin_test("a", "b", interval_of(one - other), margin, None)
    assert found.p_equivalent == pytest.approx(p)
    assert found.p_not_worse == pytest.approx(lower[1]) and found.p_not_better == pytest.approx(upper[1])
    low, high = stats.t.interval(0.9, 23, (one - other).mean(), stats.sem(one - other))
    assert (found.interval.low, found.interval.high, found.interval.level) == pytest.approx((low, high, LEVEL))


@pytest.mark.parametrize(
    ("scores", "scale", "null"),
    [
        ([0, 1, -1, 0, 2, 0, 1, -2, 0, 0, 1, 0], CMOS, 0.0),
        ([3, 3, 2, 3, 3, 3, 2, 3], CMOS, 0.0),  # near the end of the scale: Wilson's form
        ([0, 0, 0, 0, 0, 0], CMOS, 0.0),  # all alike
        ([1, 1, 1, 1, 1, 1, 1, 1, 1, 0.5], SHARE, 0.5),
        ([1, 1, 1, 1, 1, 1, 1], SHARE, 0.5),
        ([0.5, 0.5, 0.5, 0.5, 0.5], SHARE, 0.5),
    ],
)
def test_p_is_below_alpha_exactly_where_the_interval_is_above_the_bound(scores, scale, null):
    found = at_level(interval_of(scores, scale, null), LEVEL, scale, null)
    for bound in np.linspace(scale.low + 0.01, scale.high - 0.01, 200):
        p = one_sided_p(found, bound, scale)
        assert 0 <= p <= 1
        if abs(found.low - bound) > 1e-9 and bound < found.mean:
            assert (p <= ALPHA) == (found.low > bound), bound
    p = [one_sided_p(found, bound, scale) for bound in np.linspace(scale.low + 0.01, scale.high - 0.01, 50)]
    assert (np.diff(p) >= -1e-12).all(), "a higher bound is harder to exceed"


def test_unanimous_votes_are_exact():
    """Seven of seven votes against a true share of .4: .4^7."""
    found = margin_test("a", "b", interval_of([1] * 7, SHARE, 0.5), 0.1, SHARE, 0.5)
    assert found.p_not_worse == pytest.approx(0.4**7) and found.verdict == "better", "90% of such tests: above .65"
    ties = margin_test("a", "b", interval_of([0.5] * 7, SHARE, 0.5), 0.1, SHARE, 0.5)
    assert ties.p_equivalent == pytest.approx(0.9**7) and ties.verdict == "undecided", "seven ties show little"


def test_posterior_is_the_t_posterior_cut_at_the_scale():
    found = interval_of([0, 1, -1, 0, 2, 0, 1, -2, 0, 0, 1, 0], CMOS)
    density = stats.t(found.df, found.mean, found.se).pdf
    whole = integrate.quad(density, -3, 3)[0]
    assert posterior_above(found, -0.5, CMOS) == pytest.approx(integrate.quad(density, -0.5, 3)[0] / whole)
    tested = margin_test("a", "b", found, 0.5, CMOS)
    assert tested.posterior_equivalent == pytest.approx(integrate.quad(density, -0.5, 0.5)[0] / whole)
    free = margin_test("a", "b", found, 0.5, None)
    assert free.posterior_not_worse == pytest.approx(1 - free.p_not_worse), "under a flat prior without ends"
    for end, probability in ((-3.0, 1.0), (3.0, 0.0)):
        assert posterior_above(found, end, CMOS) == pytest.approx(probability)


def known(mean, se, df=29):
    return Interval(mean, mean - 2 * se, mean + 2 * se, se, df, 900, 30, 30, "two_way", 0.95)


@pytest.mark.parametrize(
    ("mean", "se", "verdict"),
    [
        (0.0, 0.05, "equivalent"),
        (0.15, 0.08, "not_worse"),
        (-0.15, 0.08, "not_better"),
        (0.5, 0.05, "better"),
        (-0.5, 0.05, "worse"),
        (0.0, 0.3, "undecided"),
    ],
)
def test_verdicts(mean, se, verdict):
    found = margin_test("a", "b", known(mean, se), 0.2, ScoreScale(-4, 4))
    assert found.verdict == verdict
    turned = margin_test("b", "a", known(-mean, se), 0.2, ScoreScale(-4, 4))
    assert (turned.p_not_worse, turned.p_not_better) == pytest.approx((found.p_not_better, found.p_not_worse))


def test_verdicts_of_several_pairs_use_holms_p():
    one = margin_test("a", "b", known(-0.03, 0.085), 0.2, None)
    assert one.p_not_worse < ALPHA and one.verdict == "equivalent"
    three = with_holm_verdicts([replace(one, a=name) for name in "xyz"])
    assert [t.p_not_worse_holm for t in three] == pytest.approx([3 * one.p_not_worse] * 3)
    assert {t.verdict for t in three} == {"not_better"}, "p of not worse is 0.09 now, that of not better 0.02"


def test_nothing_is_shown_without_an_interval():
    alone = Interval(0.4, None, None, None, 0, 3, 1, 3, "two_way", 0.95)
    found = margin_test("a", "b", alone, 0.2, CMOS)
    assert (found.verdict, found.p_not_worse, found.p_equivalent, found.posterior_not_worse) == (
        "undecided",
        None,
        None,
        None,
    )
    assert with_holm_verdicts([found]) == [found]


@pytest.mark.parametrize(("margin", "scale", "null"), [(0, CMOS, 0), (-1, CMOS, 0), (3, CMOS, 0), (0.5, SHARE, 0.5)])
def test_impossible_margins_are_refused(margin, scale, null):
    with pytest.raises(BadOption, match="the margin is"):
        margin_test("a", "b", known(0.1, 0.1), margin, scale, null)


def test_difference_of_systems_is_tested_on_the_common_scripts():
    rows = [
        (f"r{r}", f"i{i}", name, 3.0 + worth + 0.3 * ((r * 7 + i * 3) % 3 - 1))
        for r in range(12)
        for i in range(8)
        for name, worth in (("offline", 0.1), ("streaming", 0.1 * (r % 2)))
    ]
    ratings = ratings_from_rows(rows, scale=ScoreScale(1, 5))
    found = margin_test(
        "streaming", "offline", difference(ratings, "streaming", "offline").interval, 0.2, ScoreScale(-4, 4)
    )
    assert found.interval.mean == pytest.approx(-0.05) and found.verdict == "equivalent"


def test_planned_number_agrees_with_the_power_of_the_t_test():
    """Tastes alone, on many scripts: nearly the one-sided paired t test of raters."""
    who = RatingPopulation((0.0, 0.0), 0.4, 0.0, 0.5, 0.0, 0.05, 0.0, 0.0, low=None)
    plan = raters_for_margin(MarginAsk("mos", 0.4, items=80), who, runs=1000)
    effect = 0.4 / (2**0.5 * 0.5)
    expected = TTestPower().solve_power(effect, alpha=0.05, power=0.8, alternative="larger")
    assert abs(plan.raters - expected) <= 2
    assert plan.power >= 0.8 and dict(plan.curve)[plan.raters] == plan.power
    power = [value for _, value in plan.curve]
    assert power == sorted(power)


def test_power_falls_with_a_true_deficit_and_with_more_claims():
    who = default_population("cmos", 2)
    ask = MarginAsk("cmos", 0.4)
    base = simulated_power(ask, who, 12, 300, 0)
    assert 0.6 < base < 0.95
    for harder in ({"true_difference": -0.1}, {"claims": 4}, {"claim": "equivalent"}):
        assert simulated_power(replace(ask, **harder), who, 12, 300, 0) < base - 0.05, harder


@pytest.mark.parametrize(
    "wrong",
    [
        {"margin": 0.0},
        {"margin": float("nan")},
        {"true_difference": -0.2},
        {"claim": "equivalent", "true_difference": 0.2},
        {"power": 1.0},
        {"power": 0.01},
        {"claims": 0},
        {"items": 1},
        {"share": 0.0},
        {"test": "elo"},
    ],
)
def test_impossible_plans_are_refused(wrong):
    with pytest.raises(BadOption):
        MarginAsk(**{"test": "mos", "margin": 0.2, **wrong})


def test_too_few_scripts_are_said():
    who = replace(default_population("mushra", 2), item_system_sd=20.0, noise_sd=1.0)
    with pytest.raises(PowerNotReached, match="1024 raters reach"):
        raters_for_margin(MarginAsk("mushra", 2.0, items=3), who, runs=20)
