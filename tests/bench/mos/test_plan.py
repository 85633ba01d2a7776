"""The planned number of raters on tests of another population: a short form of `studio bench mos-plan`."""

import pytest

from studio.bench.mos import plan
from studio.bench.mos.plan import PlanSetting, bench_mos_plan, show
from studio.measure.report import as_markdown, plain
from studio.mos.stats.planning.planner import RaterPlan, WidthNotReached


@pytest.fixture(scope="module")
def found():
    tests = ("mos", "preference", "elo")
    return bench_mos_plan(PlanSetting(runs=80, tests=tests, pilot=(150, 60), small_pilots=0, plan_runs=80, quiet=True))


def test_the_planned_number_meets_the_width_in_three_tests_of_four(found):
    """The median of widths, by which was planned before, is met by every other test, and by all systems more seldom."""
    assert [row["test"] for row in found["tests"]] == ["mos", "preference", "elo"]
    for row in found["tests"]:
        assert 0.7 <= row["met"] <= 0.99, row  # nor is the number twice what it takes


def test_the_figures_can_be_shown_and_kept(found):
    assert plain(found)["tests"] == found["tests"]
    assert "elo, 30 scripts" in as_markdown(show, found)
    few = PlanSetting(runs=4, tests=("mos",), pilot=(20, 10), small=(6, 6), small_pilots=2, plan_runs=10, quiet=True)
    assert " to " in as_markdown(show, bench_mos_plan(few))


def test_a_pilot_that_names_no_number_does_not_end_the_run(monkeypatch):
    """Scripts may scatter so much that no number of raters will do: the planner says so, and the bench counts it."""
    planned = iter([12, None, 10, 14, None, 9, 9, 9, 9])  # the large pilot, small ones, the same as they show it

    def raters_for_means(half_width, *_, **__):
        if (raters := next(planned)) is None:
            raise WidthNotReached(f"1024 raters reach 5.1, not {half_width}", "use more than 30 items")
        return RaterPlan(raters, half_width, 0.8, [])

    monkeypatch.setattr(plan, "raters_for_means", raters_for_means)
    out = bench_mos_plan(PlanSetting(runs=4, tests=("mos",), pilot=(20, 10), small=(6, 6), small_pilots=4, quiet=True))
    [row] = out["tests"]
    assert (row["raters"], row["small_pilot_none"], row["small_pilot_raters"][2]) == (12, 0.5, 1025)
    assert "> 1024" in as_markdown(show, out)
