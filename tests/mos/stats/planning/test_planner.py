"""How many raters: the answer is the least that suffices, and theory agrees."""

import numpy as np
import pytest

from studio.core.errors import BadOption
from studio.mos.stats.planning.planner import (
    ASSURANCE,
    default_population,
    elo_half_widths,
    half_widths,
    monotone_widths,
    raters_for_elo,
    raters_for_means,
)
from studio.mos.stats.planning.population import RatingPopulation, VotePopulation

WHO = RatingPopulation(systems=(3.0,), low=None, noise_spread=0.0, clickers=0.0)
FOUR = RatingPopulation(systems=(3.0,) * 4, low=None)


def test_the_fewest_raters_that_do():
    shown = []
    plan = raters_for_means(0.3, WHO, items=40, runs=60, show=lambda raters, width: shown.append((raters, width)))
    assert plan.half_width <= 0.3
    curve = dict(plan.curve)
    assert curve[plan.raters - 1] > 0.3
    assert [raters for raters, _ in plan.curve] == sorted(raters for raters, _ in shown)
    assert raters_for_means(0.3, WHO, items=40, runs=60) == plan


def test_it_is_no_median_and_of_all_systems():
    """Half of the tests miss the median, and of four systems some one misses it in most tests."""
    plan = raters_for_means(0.3, FOUR, items=30, runs=100)
    met = (half_widths(FOUR, plan.raters, 30, 1.0, 100, 0) <= 0.3).mean()
    assert ASSURANCE <= met < 0.95
    fewer = raters_for_means(0.3, WHO, items=30, runs=100).raters
    assert fewer < plan.raters
    by_median = next(r for r in range(2, 99) if np.median(half_widths(WHO, r, 30, 1.0, 60, 0)) <= 0.3)
    assert by_median < fewer and (half_widths(FOUR, by_median, 30, 1.0, 100, 0) <= 0.3).mean() < 0.4


@pytest.mark.parametrize("seed", range(4))
def test_no_more_raters_ever_give_a_wider_interval(seed):
    """Two runs are noise for the most part; the list falls, and the answer is that of what was seen."""
    shown = {}
    plan = raters_for_means(0.3, WHO, items=8, runs=2, seed=seed, show=shown.__setitem__)
    widths = [width for _, width in plan.curve]
    assert widths == sorted(widths, reverse=True)
    assert widths == monotone_widths([shown[raters] for raters, _ in plan.curve])
    assert plan.raters == min(raters for raters, width in shown.items() if width <= 0.3)
    assert plan.half_width == dict(plan.curve)[plan.raters] <= 0.3


def test_evening_out_pools_what_rises_and_nothing_else():
    assert monotone_widths([5.0, 4.0, 4.0, 1.0]) == [5.0, 4.0, 4.0, 1.0]
    assert monotone_widths([5.0, 2.0, 4.0, 3.0, 1.0, 2.0]) == [5.0, 3.0, 3.0, 3.0, 1.5, 1.5]
    assert monotone_widths([1.0, 2.0, 3.0]) == [2.0, 2.0, 2.0]
    assert monotone_widths([np.inf, 2.0, 3.0]) == [np.inf, 2.5, 2.5] and monotone_widths([]) == []


def test_theory_agrees():
    """Var(mean) = (rater + taste) / R + (item + item by system) / I + noise / (R I)."""
    raters, items = 60, 60
    found = np.mean(half_widths(WHO, raters, items, 1.0, 60, 0))
    variance = (0.4**2 + 0.2**2) / raters + (0.3**2 + 0.2**2) / items + 0.7**2 / (raters * items)
    assert found == pytest.approx(2.001 * np.sqrt(variance), rel=0.05)


def test_the_fewest_raters_for_elo():
    who = VotePopulation(systems=(-100, 0, 100))
    plan = raters_for_elo(60, who, pairs=12, runs=20)
    curve = dict(plan.curve)
    assert plan.half_width <= 60 < curve[plan.raters - 1]
    more = raters_for_elo(60, who, pairs=48, runs=20)
    assert more.raters < plan.raters  # who judges more pairs says more
    few_scripts = elo_half_widths(who, plan.raters, 12, 5, 20, 0)
    assert np.median(few_scripts) > 60  # and who is heard on five scripts says less
    for bad in ({"half_width": 0}, {"half_width": 30, "pairs": 0}, {"half_width": 30, "scripts": 1}):
        with pytest.raises(BadOption):
            raters_for_elo(**bad)


@pytest.mark.parametrize(
    ("test", "width", "named"), [("mos", 0.3, 4), ("mushra", 7, 4), ("cmos", 0.4, 6), ("preference", 0.1, 6)]
)
def test_every_test_has_usual_variances(test, width, named):
    who = default_population(test, 4)
    assert len(who.systems) == named
    assert 8 < raters_for_means(width, who, items=20, runs=20).raters < 60


def test_what_no_number_of_raters_reaches():
    with pytest.raises(BadOption, match="use more than 5 items"):
        raters_for_means(0.05, WHO, items=5, runs=2)
    for bad in (
        {"half_width": 0},
        {"half_width": 1, "items": 1},
        {"half_width": 1, "share": 0},
        {"half_width": 1, "runs": 0},
    ):
        with pytest.raises(BadOption):
            raters_for_means(population=WHO, **bad)
    for test, systems in (("cmos", 1), ("elo", 5)):
        with pytest.raises(BadOption):
            default_population(test, systems)
