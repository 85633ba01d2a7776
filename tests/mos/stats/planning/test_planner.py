"""How many raters: the answer is the least that suffices, and theory agrees."""

import numpy as np
import pytest

from studio.core.errors import BadOption
from studio.mos.stats.planning.planner import evened, half_widths, raters_for_elo, raters_needed
from studio.mos.stats.planning.population import Listeners, Voters

WHO = Listeners(systems=(3.0,), low=None, noise_spread=0.0, clickers=0.0)


def test_the_fewest_raters_that_do():
    shown = []
    plan = raters_needed(0.3, items=40, show=lambda raters, width: shown.append((raters, width)))
    assert plan.half_width <= 0.3
    curve = dict(plan.curve)
    assert curve[plan.raters - 1] > 0.3
    assert [raters for raters, _ in plan.curve] == sorted(raters for raters, _ in shown)
    assert raters_needed(0.3, items=40) == plan


@pytest.mark.parametrize("seed", range(6))
def test_no_more_raters_ever_give_a_wider_interval(seed):
    """Medians of two runs are noise for the most part; the list falls, and the answer is that of the medians."""
    shown = {}
    plan = raters_needed(0.3, items=8, runs=2, seed=seed, show=shown.__setitem__)
    widths = [width for _, width in plan.curve]
    assert widths == sorted(widths, reverse=True)
    assert widths == evened([shown[raters] for raters, _ in plan.curve])
    assert plan.raters == min(raters for raters, width in shown.items() if width <= 0.3)
    assert plan.half_width == dict(plan.curve)[plan.raters] <= 0.3


def test_evening_out_pools_what_rises_and_nothing_else():
    assert evened([5.0, 4.0, 4.0, 1.0]) == [5.0, 4.0, 4.0, 1.0]
    assert evened([5.0, 2.0, 4.0, 3.0, 1.0, 2.0]) == [5.0, 3.0, 3.0, 3.0, 1.5, 1.5]
    assert evened([1.0, 2.0, 3.0]) == [2.0, 2.0, 2.0]
    assert evened([np.inf, 2.0, 3.0]) == [np.inf, 2.5, 2.5] and evened([]) == []


def test_theory_agrees():
    """Var(mean) = (rater + taste) / R + (item + item by system) / I + noise / (R I)."""
    raters, items = 60, 60
    found = np.mean(half_widths(WHO, raters, items, 1.0, 60, 0))
    variance = (0.4**2 + 0.2**2) / raters + (0.3**2 + 0.2**2) / items + 0.7**2 / (raters * items)
    assert found == pytest.approx(2.001 * np.sqrt(variance), rel=0.05)


def test_the_fewest_raters_for_elo():
    who = Voters(systems=(-100, 0, 100))
    plan = raters_for_elo(60, who, pairs=12, runs=6)
    curve = dict(plan.curve)
    assert plan.half_width <= 60 < curve[plan.raters - 1]
    more = raters_for_elo(60, who, pairs=48, runs=6)
    assert more.raters < plan.raters  # who judges more pairs says more
    for bad in ({"half_width": 0}, {"half_width": 30, "pairs": 0}):
        with pytest.raises(BadOption):
            raters_for_elo(**bad)


def test_what_no_number_of_raters_reaches():
    with pytest.raises(BadOption, match="use more than 5 items"):
        raters_needed(0.05, items=5, runs=2)
    for bad in ({"half_width": 0}, {"half_width": 1, "items": 1}, {"half_width": 1, "share": 0}):
        with pytest.raises(BadOption):
            raters_needed(**bad)
