"""Coverage of intervals, interim looks and planned numbers of raters, on few simulated tests."""

import numpy as np
import pytest

from studio.bench.mos import coverage, design
from studio.bench.mos.coverage import CoverageSetting, bench_mos_coverage, coverage_cells, show
from studio.bench.mos.design import (
    LooksCell,
    LooksSetting,
    PlanSetting,
    bench_mos_looks,
    bench_mos_plan,
    show_looks,
    show_plan,
)
from studio.bench.mos.margins import bench_mos_margin, show_margins
from studio.bench.mos.settings import MarginSetting
from studio.bench.mos.simulated_raters import SimulatedRaters
from studio.measure.report import as_markdown, plain
from studio.mos.stats.means import by_system
from studio.mos.stats.planner import RaterPlan, WidthNotReached


@pytest.fixture(scope="module")
def found():
    """Every cell often enough: 30 runs have an error of .04."""
    return bench_mos_coverage(CoverageSetting(runs=120, population_size=4000, quiet=True))


def part(found, name, over, method="by rater and script"):
    [row] = [p for p in found["parts"] if (p["part"], p["over"], p["method"]) == (name, over, method)]
    return row


@pytest.mark.parametrize("scripts", [10, 100])
def test_preference_and_elo_hold_on_few_scripts_and_on_many(found, scripts):
    """By rater alone, intervals on ten scripts cover the truth in at most three of four tests."""
    for name, over in (("preference 20 x 50", "share"), ("Elo 40 x 40", "scores"), ("Elo 40 x 40", "differences")):
        assert 0.92 <= part(found, f"{name}, {scripts} scripts", over)["mean"] <= 0.98
        by_rater = part(found, f"{name}, {scripts} scripts", over, "by rater")["mean"]
        assert by_rater < 0.85 or scripts == 100


def test_mos_of_few_raters_near_the_ceiling_holds_and_has_a_width(found):
    for raters in (3, 5):
        for over in ("means", "differences"):
            row = part(found, f"MOS {raters} x 6 near the ceiling", over)
            assert row["mean"] >= 0.94 and row["worst"] >= 0.88 and row["zero_width"] == 0
    assert part(found, "MOS 20 x 30", "means")["mean"] >= 0.92


def test_ordinal_model_holds_under_misspecification():
    """Two tests of each kind; the full run is `studio bench mos-ordinal`."""
    found = bench_mos_coverage(CoverageSetting(runs=2, population_size=4000, tests=("ordinal",), quiet=True))
    for name in ("MOS 3 x 6 near the ceiling", "MOS 5 x 6 near the ceiling", "MOS 20 x 30"):
        row = part(found, name, "means", "ordinal model")
        assert row["mean"] + row["none"] >= 0.9 and row["zero_width"] == 0
        assert row["half_width"] < 1.6
    assert "The ordinal model has none" in as_markdown(show, found)


def test_unequal_raters_are_covered_for_mushra_and_ranks(monkeypatch):
    """60 runs of two cells have an error of .02; by heads two raters of 90 had .87."""
    cells = [cell for cell in coverage_cells(("unequal",)) if cell.test in ("mushra", "ladder")]
    monkeypatch.setattr(coverage, "coverage_cells", lambda _: cells)
    found = bench_mos_coverage(CoverageSetting(runs=60, population_size=4000, tests=("unequal",), quiet=True))
    for over in ("means", "differences"):
        assert part(found, "MUSHRA, two raters of 90 among 30 of 6", over)["mean"] >= 0.89
    for name in ("Zipf, 80 raters", "one of 400 among 80 of 5", "two of 300 among 80 of 5", "arena at its caps"):
        row = part(found, f"ladder, {name}", "ranks")
        assert row["mean"] >= 0.93 and row["half_width"] < 1.5  # three ranks in four: not everything is allowed
    by_rater = part(found, "ladder, one script of half", "ranks", "by rater")
    assert by_rater["mean"] < 0.8 < part(found, "ladder, one script of half", "ranks")["mean"]


def test_figures_are_printed_and_saved(found):
    assert plain(found)["parts"] == found["parts"]
    text = as_markdown(show, found)
    assert "preference 20 x 50, 10 scripts: share" in text and "worst cell" in text
    assert "ordinal" not in text  # of another command
    assert {cell.test for cell in coverage_cells(("mos",))} == {"mos"}


def test_raters_are_as_specified():
    rng = np.random.default_rng(0)
    crowd = SimulatedRaters(systems=(4.0, 3.0))
    ratings = crowd.ratings(rng, 500, 10)
    assert set(np.unique(ratings.score)) == {1, 2, 3, 4, 5} and len(ratings) == 10_000
    means = [i.mean for i in by_system(ratings, "plain").values()]
    assert means[0] > 3.7 > means[1] + 0.7
    assert len(crowd.ratings(rng, 3, 4, own_scripts=True).items) == 12
    votes = crowd.votes(rng, 400, 20, 10)
    assert (np.bincount(votes.item) == 800).all()
    assert len(set(crowd.votes(rng, 30, 5, 10).item)) == 10
    shares = np.bincount(votes.outcome, minlength=4) / len(votes)
    assert 0.02 < shares[2] < 0.2 and 0.01 < shares[3] < shares[2]
    wins = np.where(votes.outcome == 0, votes.a, votes.b)[votes.outcome < 2]
    assert (wins == 0).mean() > 0.75


def test_redirected_output_has_no_lines_of_a_progress_bar(capfd):
    """Eleven preceded the table."""
    show(bench_mos_coverage(CoverageSetting(runs=1, population_size=200, tests=("mos",))))
    assert capfd.readouterr().out.lstrip(" ").startswith("Coverage, 1 tests per cell")


@pytest.fixture(scope="module")
def found_by_looks():
    few = (LooksCell(10, 10, 0.4), LooksCell(10, 0, 0.4))
    return bench_mos_looks(LooksSetting(runs=160, cells=few, quiet=True))


def test_early_stopping_keeps_its_error_rate_on_ten_scripts(found_by_looks):
    """By rater alone four of ten tests stopped; uncorrected, one of ten."""
    assert found_by_looks["mean"] <= 0.075
    for row in found_by_looks["cells"]:
        assert row["stopped"] <= 0.1 and row["by_rater"] > 0.25
        assert row["uncorrected"] >= row["stopped"]


def test_figures_of_looks_are_printed_and_saved(found_by_looks):
    assert plain(found_by_looks)["cells"] == found_by_looks["cells"]
    text = as_markdown(show_looks, found_by_looks)
    assert "MOS, 10 scripts" in text and "preference, 10 votes each" in text


@pytest.fixture(scope="module")
def planned():
    tests = ("mos", "preference", "elo")
    return bench_mos_plan(PlanSetting(runs=80, tests=tests, pilot=(150, 60), small_pilots=0, plan_runs=80, quiet=True))


def test_planned_number_meets_the_width_in_three_of_four_tests(planned):
    """The median width, used for planning before, is met by half of the tests, and by all systems in fewer."""
    assert [row["test"] for row in planned["tests"]] == ["mos", "preference", "elo"]
    for row in planned["tests"]:
        assert 0.7 <= row["met"] <= 0.99, row  # nor is the number twice what is needed


def test_figures_of_plans_are_printed_and_saved(planned):
    assert plain(planned)["tests"] == planned["tests"]
    assert "elo, 30 scripts" in as_markdown(show_plan, planned)
    few = PlanSetting(runs=4, tests=("mos",), pilot=(20, 10), small=(6, 6), small_pilots=2, plan_runs=10, quiet=True)
    assert " to " in as_markdown(show_plan, bench_mos_plan(few))


def test_pilot_without_a_sufficient_number_does_not_end_the_run(monkeypatch):
    """If scripts vary too much for any number of raters, the planner says so and the bench counts it."""
    planned = iter([12, None, 10, 14, None, 9, 9, 9, 9])  # the large pilot, small ones, the same without bounds

    def raters_for_means(half_width, *_, **__):
        if (raters := next(planned)) is None:
            raise WidthNotReached(f"1024 raters reach 5.1, not {half_width}", "use more than 30 items")
        return RaterPlan(raters, half_width, 0.8, [])

    monkeypatch.setattr(design, "raters_for_means", raters_for_means)
    out = bench_mos_plan(PlanSetting(runs=4, tests=("mos",), pilot=(20, 10), small=(6, 6), small_pilots=4, quiet=True))
    [row] = out["tests"]
    assert (row["raters"], row["small_pilot_none"], row["small_pilot_raters"][2]) == (12, 0.5, 1025)
    assert "> 1024" in as_markdown(show_plan, out)


@pytest.fixture(scope="module")
def at_the_margin():
    few = MarginSetting(
        runs=600, tests=("mos", "preference"), population_size=8000, pilot=(150, 60), plan_runs=400, quiet=True
    )
    return bench_mos_margin(few)


def test_claims_at_the_margin_are_rarely_wrong(at_the_margin):
    """Half the tests would be wrong without the margin's p; .05 is allowed, 600 runs have an error of .009."""
    for row in at_the_margin["sizes"]:
        assert row["not_worse"] <= 0.05 + 3 * 0.0089 and row["equivalent"] <= row["not_worse"], row
    assert np.mean([row["not_worse"] for row in at_the_margin["sizes"]]) == pytest.approx(0.05, abs=0.02)


def test_power_is_near_the_planned_one(at_the_margin):
    for row in at_the_margin["powers"]:
        assert row["planned"] >= 0.79 and row["power"] == pytest.approx(row["planned"], abs=0.09), row
    assert "preference, equivalent" in as_markdown(show_margins, at_the_margin)
