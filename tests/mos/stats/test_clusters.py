"""Variance by rater and script: the floor of means, the lower one of differences, and their degrees of freedom."""

import numpy as np
import pytest

from studio.mos.stats.clusters import (
    ClusterVariance,
    cluster_variance,
    independent_variance,
    two_way_variance,
)

RATERS, SCRIPTS = 12, 9
EVERY = RATERS * SCRIPTS
FLOOR = 0.8


def groups_of(count: int, squares: float) -> ClusterVariance:
    """Sums of ``count`` equal groups whose variance V_g is ``squares``."""
    factor = count / (count - 1)
    return ClusterVariance(np.array(squares / factor), np.array(float(count)), np.array(factor))


def combined(rater: float, item: float, *, tested: bool) -> tuple[float, float]:
    """Variance and degrees of freedom for V_rater and V_item, V_both being 1."""
    parts = groups_of(RATERS, rater), groups_of(SCRIPTS, item), groups_of(EVERY, 1.0)
    variance, df = two_way_variance(*parts, tested=tested)
    return float(variance), float(df)


@pytest.mark.parametrize(("rater", "item"), [(0.2, 0.3), (1.0, 0.7), (0.9, 0.9), (0.9, 1.0), (1.0, 1.0)])
def test_means_are_never_below_independent_answers(rater, item):
    assert combined(rater, item, tested=False) == pytest.approx((1.0, SCRIPTS - 1))


@pytest.mark.parametrize(("rater", "item"), [(0.2, 0.3), (1.0, 0.7), (0.9, FLOOR)])
def test_differences_stop_at_their_floor_with_the_degrees_of_freedom_of_all_answers(rater, item):
    assert combined(rater, item, tested=True) == pytest.approx((FLOOR, EVERY - 1))


@pytest.mark.parametrize(("rater", "item"), [(0.9, 0.95), (1.0, 0.9), (1.05, 1.0), (1.1, 1.1), (3.0, 0.5), (2.0, 4.0)])
def test_differences_above_the_floor_have_the_sum_and_satterthwaites_degrees_of_freedom(rater, item):
    """Chance above V_both is not taken away, as chance below it is not: both would move the error rate."""
    variance, df = combined(rater, item, tested=True)
    assert variance == pytest.approx(rater + item - 1)
    above = [(1.0, EVERY), *[(v, g) for v, g in ((rater, RATERS), (item, SCRIPTS)) if v > 1]]
    assert df == pytest.approx(variance**2 / sum(v**2 / (g - 1) for v, g in above))


def test_large_excess_has_about_the_degrees_of_freedom_of_its_clusters():
    variance, df = combined(500.0, 1.0, tested=True)
    assert variance == pytest.approx(500.0) and df == pytest.approx(RATERS - 1, rel=0.01)


def test_variance_of_independent_answers_is_overestimated_less_by_the_floor_of_differences():
    """Over half of the two-way sums of independent answers are below V_both; raising all of these adds a fifth."""
    rng = np.random.default_rng(0)
    rater, item = (axis.ravel() for axis in np.indices((RATERS, SCRIPTS)))
    relative = {False: list[float](), True: list[float]()}
    for _ in range(1000):
        influence = rng.normal(0, 1, EVERY)
        influence -= influence.mean()
        parts = [cluster_variance(influence, codes) for codes in (rater, item, rater * SCRIPTS + item)]
        independent = float(independent_variance(parts[2]))
        for tested, values in relative.items():
            values.append(float(two_way_variance(*parts, tested=tested)[0]) / independent)
    mean, difference = np.array(relative[False]), np.array(relative[True])
    assert mean.min() == pytest.approx(1.0) and difference.min() == pytest.approx(FLOOR)
    assert 0 < np.isclose(difference, FLOOR).mean() < np.isclose(mean, 1.0).mean() - 0.1
    assert 1.1 < difference.mean() < 1.15 and 1.2 < mean.mean() < 1.25


def test_every_estimate_has_its_own_floor():
    """The differences of Elo are arrays: one at the floor, one above it."""
    three = [
        ClusterVariance(np.array([low, high]) * (g - 1) / g, np.array([g, g]), np.array([g, g]) / (g - 1))
        for low, high, g in ((0.5, 2.0, 12.0), (0.5, 3.0, 9.0), (1.0, 1.0, 108.0))
    ]
    variance, df = two_way_variance(*three, tested=True)
    assert variance == pytest.approx([FLOOR, 4.0])
    assert df == pytest.approx([107.0, 16 / (4 / 11 + 9 / 8 + 1 / 107)])


def test_one_group_gives_no_degrees_of_freedom():
    one = ClusterVariance(np.array(0.3), np.array(1.0), np.array(np.nan))
    assert two_way_variance(groups_of(RATERS, 1.0), one, groups_of(EVERY, 1.0), tested=True)[1] == 0
