"""Means and differences: published values, statsmodels as the oracle, invariances."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import t as student
from scipy.stats import ttest_rel
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.sandwich_covariance import cov_cluster

from studio.bench.mos.margins import FamilyCell, bench_mos_family, show_family
from studio.bench.mos.settings import FamilySetting
from studio.core.errors import BadOption
from studio.measure.report import as_markdown
from studio.mos.stats.clusters import cluster_variance
from studio.mos.stats.columns import ScoreScale, ratings_from_rows
from studio.mos.stats.interval import clustered_error, mean_interval, p_value_against, small_sample_note
from studio.mos.stats.means import by_stimulus, by_system, difference, holm, mean_of, p808, pairwise_differences
from studio.mos.stats.planner import RatingPopulation, draw_ratings

PRINTED = ratings_from_rows([(f"r{k}", "i", "s", score) for k, score in enumerate([5, 4, 4, 3, 5, 4, 2, 4])])

FIVE = ScoreScale(1, 5)


def drawn(seed=0, share=1.0, scale=FIVE):
    return replace(draw_ratings(RatingPopulation(), np.random.default_rng(seed), 12, 9, share=share), scale=scale)


def test_published_values():
    columns = p808(PRINTED)["s"]
    assert (columns.n, columns.mean) == (8, 3.875)
    assert columns.s == pytest.approx(0.991031, abs=5e-7)
    assert columns.ci95 == pytest.approx(0.686750, abs=5e-6)
    assert mean_of(PRINTED, "plain_t").half_width == pytest.approx(0.828523, abs=5e-7)


def test_eight_raters_once_each_are_their_own_clusters():
    assert mean_of(PRINTED, "by_rater").half_width == pytest.approx(0.828523, abs=5e-7)


def test_clusters_agree_with_statsmodels():
    """With the scale's ends far away or unknown, the interval is the regression's, if all give the same number."""
    for code, (name, found) in enumerate(by_system(drawn(scale=None)).items()):
        rows = drawn()
        rows = rows.where(rows.system == code)
        frame = pd.DataFrame({"score": rows.score})
        for method, groups in (("two_way", np.column_stack([rows.rater, rows.item])), ("by_rater", rows.rater)):
            oracle = smf.ols("score ~ 1", frame).fit(
                cov_type="cluster", cov_kwds={"groups": groups, "df_correction": True}, use_t=True
            )
            ours = by_system(drawn(scale=None), method)[name]
            assert ours.mean == pytest.approx(oracle.params["Intercept"])
            assert ours.se == pytest.approx(oracle.bse["Intercept"])
            assert [ours.low, ours.high] == pytest.approx(oracle.conf_int().loc["Intercept"].tolist())
        assert (found.n, found.raters, found.items) == (len(rows), 12, 9)
        assert found.df == pytest.approx(8)


def test_sums_of_unequal_clusters_agree_with_statsmodels():
    """Only the small-sample factor and the degrees of freedom differ, and for nearly equal raters hardly."""
    rows = drawn(share=0.5)
    rows = rows.where(rows.system == 1)
    oracle = sm.OLS(rows.score, np.ones(len(rows))).fit()
    influence = (rows.score - rows.score.mean()) / len(rows)
    for codes in (rows.rater, rows.item):
        ours = cluster_variance(influence, codes).squares
        assert ours == pytest.approx(cov_cluster(oracle, codes, use_correction=False)[0, 0])
    heads = cov_cluster(oracle, rows.item)[0, 0]
    assert clustered_error(influence, rows.item, rows.rater, "by_rater")[0] ** 2 == pytest.approx(heads, rel=0.05)


def test_one_rater_of_half_the_ratings_is_most_of_the_error():
    """Counting heads, [2.9, 3.1] of 41 raters; one of them has half of the ratings."""
    rng = np.random.default_rng(5)
    rater, item = np.repeat(np.arange(41), [200, *[5] * 40]), np.arange(400)
    level = rng.normal(0, 0.5, 41)[rater] + rng.normal(0, 0.5, 400)
    found = mean_interval(3 + level, rater, item, "by_rater", 0.95, None)
    sizes = np.bincount(rater).astype(float)
    assert found.df == pytest.approx(400**2 / (sizes**2).sum() - 1) and found.df < 3
    assert (found.rater_share, found.item_share) == (0.5, 1 / 400)
    assert found.half_width > 1.5 * mean_interval(3 + level, item // 10, item, "by_rater", 0.95, None).half_width


def test_differences_of_equal_systems_use_their_level():
    """3% to 5% of tests find a difference; with t(min - 1) and a floor of V_both 1.5% of those without effects did."""
    runs, cells = 1200, (FamilyCell(20, 12, 0.0), FamilyCell(20, 12, 0.15))
    found = bench_mos_family(FamilySetting(runs=runs, cells=cells, quiet=True))
    least, most = (share + side * 2 * (share * (1 - share) / runs) ** 0.5 for share, side in ((0.03, -1), (0.05, 1)))
    for row in found["cells"]:
        assert least <= row["family_wise"] <= most, row
        assert 0.025 <= row["single"] <= 0.065, row
    assert "three equal systems" in as_markdown(show_family, found)


def test_negative_variance_is_raised_to_that_of_independent_ratings():
    # Each rater's and each item's errors cancel: both sums are zero, and V_rater + V_item - V_both is below it.
    ratings = ratings_from_rows([("a", "i", "s", 5), ("a", "j", "s", 1), ("b", "i", "s", 1), ("b", "j", "s", 5)])
    assert mean_of(ratings).se == pytest.approx(np.sqrt(4 * 2**2 / 4**2 * 4 / 3))


def test_unknown_values_are_none():
    one = mean_of(PRINTED.where(PRINTED.rater < 1))
    assert (one.low, one.high, one.se, one.half_width, one.df) == (None, None, None, None, 0)
    alone = PRINTED.where(PRINTED.rater == 0)
    for method in ("two_way", "by_rater", "plain", "plain_t"):
        assert mean_of(alone, method).low is None
    assert p808(alone)["s"].ci95 is None


def test_a_single_script_has_the_interval_by_rater():
    one_item = by_system(PRINTED)["s"]
    assert one_item == by_system(PRINTED, "by_rater")["s"] and one_item.method == "by_rater"
    assert "for this script only" in str(small_sample_note(one_item.raters, one_item.items))


def test_stimuli_are_clustered_by_rater():
    ratings = drawn()
    table = by_stimulus(ratings)
    assert len(table) == 4 * 9
    mask = (ratings.system == 2) & (ratings.item == 5)
    assert table["s3", "i6"].mean == pytest.approx(ratings.score[mask].mean())
    assert table["s3", "i6"].half_width == pytest.approx(mean_of(ratings.where(mask), "plain_t").half_width)
    assert by_stimulus(ratings.where(ratings.score > 9)) == {}


def test_bad_arguments_are_named():
    with pytest.raises(BadOption, match="level is 95"):
        by_system(PRINTED, level=95)
    with pytest.raises(BadOption, match="'bootstrap' is not"):
        by_system(PRINTED, "bootstrap")
    with pytest.raises(BadOption, match="no ratings"):
        mean_of(PRINTED.where(PRINTED.score > 5))


@given(seed=st.integers(0, 999), shift=st.floats(-50, 50), scale=st.floats(0.1, 9), share=st.sampled_from([0.4, 1.0]))
@settings(deadline=None, max_examples=25)
def test_shifting_and_stretching_the_scale(seed, shift, scale, share):
    ratings, scale_there = drawn(seed, share), ScoreScale(scale + shift, 5 * scale + shift)
    moved = ratings_from_rows(
        [
            (ratings.raters[r], ratings.items[i], ratings.systems[s], x * scale + shift)
            for r, i, s, x in zip(ratings.rater, ratings.item, ratings.system, ratings.score, strict=True)
        ],
        scale=ScoreScale(scale_there.low - 1e-9, scale_there.high + 1e-9),
    )
    for method in ("two_way", "by_rater", "plain", "plain_t"):
        after = by_system(moved, method)
        for name, before in by_system(ratings, method).items():
            assert after[name].mean == pytest.approx(before.mean * scale + shift, abs=1e-9)
            assert after[name].half_width == pytest.approx(before.half_width * scale, rel=1e-6, abs=1e-6)


@given(seed=st.integers(0, 999))
@settings(deadline=None, max_examples=25)
def test_order_of_rows_does_not_matter(seed):
    ratings = drawn(seed, 0.5)
    shuffled = ratings.where(np.random.default_rng(seed).permutation(len(ratings)))
    for name, found in by_system(ratings).items():
        other = by_system(shuffled)[name]
        assert [other.mean, other.low, other.high] == pytest.approx([found.mean, found.low, found.high])


def test_repeating_a_raters_ratings_does_not_narrow_the_interval():
    ratings = drawn().where(drawn().system == 0)
    twice = ratings.where(np.tile(np.arange(len(ratings)), 2))
    once, again = mean_of(ratings, "by_rater"), mean_of(twice, "by_rater")
    assert again.half_width == pytest.approx(once.half_width)
    assert mean_of(twice, "plain").half_width < 0.75 * mean_of(ratings, "plain").half_width


def test_single_cluster_has_no_error():
    assert np.isnan(clustered_error(np.ones(3), np.zeros(3, int), np.arange(3), "by_rater")[0])


def alike(value, raters, items, scale=FIVE):
    rows = [(f"r{r}", f"i{i}", "s", value) for r in range(raters) for i in range(items)]
    return ratings_from_rows(rows, scale=scale)


@pytest.mark.parametrize("method", ["two_way", "by_rater"])
@pytest.mark.parametrize(("value", "raters"), [(5, 2), (5, 20), (1, 4), (3, 6), (4, 3)])
def test_no_interval_has_zero_width(value, raters, method):
    """Two raters who gave 5 throughout were printed as 5.00 +- 0.00."""
    found = mean_of(alike(value, raters, 6), method)
    independent = min(raters, 6) if method == "two_way" else raters
    far = 1 - 0.025 ** (1 / independent)  # Clopper-Pearson for as many votes, for answers one step away
    assert [found.low, found.high] == pytest.approx([max(1, value - far), min(5, value + far)])
    assert found.se is None and found.high - found.low > 0.1


def test_long_scale_and_unknown_scale():
    hidden = mean_of(alike(100, 10, 10, ScoreScale(0, 100)))
    assert (hidden.low, hidden.high) == (pytest.approx(100 - 5 * (1 - 0.025**0.1)), 100)
    assert mean_of(alike(100, 10, 10, None)).low is None
    assert mean_of(alike(4, 5, 5), "plain").low is None and p808(alike(4, 5, 5))["s"].ci95 is None


def test_interval_stays_within_the_scale():
    rng = np.random.default_rng(0)
    for raters, items, quality in [(2, 6, 4.6), (3, 6, 4.8), (5, 6, 5.2), (4, 8, 1.2), (2, 2, 3.0)]:
        for _ in range(40):
            found = mean_of(draw_ratings(RatingPopulation(systems=(quality,)), rng, raters, items))
            assert 1 <= found.low < found.mean < found.high <= 5 or found.mean in (1, 5)


def test_near_the_end_of_the_scale_the_interval_is_wilsons():
    """Independent answers of 1 and 5 are a share, so the interval is Wilson's with t for z."""
    score = np.where(np.arange(40) < 37, 5.0, 1.0)
    found = mean_interval(score, np.arange(40), np.arange(40), "by_rater", 0.95, ScoreScale(1, 5))
    z2, p, n = student(39).ppf(0.975) ** 2, 37 / 40, 39  # s^2 is divided by n - 1
    middle, half = (p + z2 / (2 * n)) / (1 + z2 / n), np.sqrt(p * (1 - p) * z2 / n + z2**2 / (4 * n**2)) / (1 + z2 / n)
    assert [found.low, found.high] == pytest.approx([1 + 4 * (middle - half), 1 + 4 * (middle + half)])


def test_p_value_and_interval_agree():
    """At any distance from the scale's end: p is under 5% where the interval excludes the null."""
    rng = np.random.default_rng(1)
    for raters in (2, 3, 5, 12):
        for mean in (-2.9, -2, -0.5, 0.3, 1, 2.5):
            score = np.clip(np.rint(rng.normal(mean, 0.6, raters * 4)), -3, 3)
            rater, item = np.repeat(np.arange(raters), 4), np.tile(np.arange(4), raters)
            found = mean_interval(score, rater, item, "two_way", 0.95, ScoreScale(-3, 3), null=0.0)
            p = p_value_against(found, 0.0, ScoreScale(-3, 3))
            assert (p < 0.05) == (not found.low <= 0 <= found.high), (raters, mean, found, p)


def cmos(score):
    """Interval by rater and script of scores [raters, scripts], and its p value."""
    rater, item = (axis.ravel() for axis in np.indices(score.shape))
    found = mean_interval(score.ravel().astype(float), rater, item, "two_way", 0.95, ScoreScale(-3, 3), null=0.0)
    return found, p_value_against(found, 0.0, ScoreScale(-3, 3))


@pytest.mark.parametrize("scripts", [2, 3, 4, 8, 20])
@pytest.mark.parametrize("score", [-3, -1, 2, 3])
def test_p_value_and_interval_agree_for_unanimous_scores(scripts, score):
    found, p = cmos(np.full((20, scripts), score))
    assert (p < 0.05) == (not found.low <= 0 <= found.high)


def test_unanimous_scores_are_no_less_certain_than_nearly_unanimous_ones():
    """Four scripts at -3 gave [-3.00, 0.61], p 0.125, and at -2.95 [-3.00, -2.44], p < 0.01."""
    unanimous, p = cmos(np.full((5, 4), -3))
    nearly = np.full((5, 4), -3)
    nearly[:, 3] = -2  # one of four scripts differs by a step for all raters
    split, also = cmos(nearly)
    assert unanimous.high == pytest.approx(-3 + student(3).ppf(0.975) / 4) and p < 0.002
    assert unanimous.high < split.high and p < also < 0.05
    assert cmos(np.full((20, 20), -3))[0].high == pytest.approx(-3 + 1 - 0.025 ** (1 / 20))


@pytest.mark.parametrize(("raters", "scripts"), [(2, 2), (2, 4), (3, 3), (4, 4)])
@pytest.mark.parametrize("leaning", [1.0, 2.0])
def test_few_raters_with_equal_bias_keep_the_error_rate(raters, scripts, leaning):
    """No true difference, but raters have biases, equal over scripts: with a step alone 8.8% were significant."""
    rng, wrong, tests = np.random.default_rng(3), 0, 400
    for _ in range(tests):
        latent = rng.normal(0, leaning, (raters, 1)) + rng.normal(0, 0.15, (raters, scripts))
        wrong += cmos(np.clip(np.rint(latent), -3, 3))[1] < 0.05
    assert wrong / tests <= 0.07


@pytest.mark.parametrize("quality", [-3.0, -3.5, -4.0])
def test_coverage_with_mostly_worst_scores(quality):
    """Many tests are unanimous; their intervals cover the population's mean as often as others."""
    rng = np.random.default_rng(4)

    def drawn(tests, raters, scripts):
        latent = rng.normal(quality, 0.5, (tests, 1, scripts)) + rng.normal(0, 0.5, (tests, raters, 1))
        return np.clip(np.rint(latent + rng.normal(0, 0.7, (tests, raters, scripts))), -3, 3)

    truth = drawn(100_000, 1, 1).mean()
    held = [found.low <= truth <= found.high for found, _ in map(cmos, drawn(300, 4, 4))]
    assert np.mean(held) >= 0.93


def test_one_score_per_rater_is_the_paired_t_test():
    rng = np.random.default_rng(0)
    level = rng.normal(50, 20, 15)
    x, y = level + rng.normal(3, 2, 15), level + rng.normal(0, 2, 15)
    rows = [(f"r{k:02}", "i", s, v[k]) for k in range(15) for s, v in (("x", x), ("y", y))]
    found = difference(ratings_from_rows(rows), "x", "y", "by_rater")
    oracle = ttest_rel(x, y)
    assert found.p == pytest.approx(oracle.pvalue)
    low, high = oracle.confidence_interval()
    assert [found.interval.low, found.interval.high] == pytest.approx([low, high])


def test_two_way_agrees_with_a_regression_on_the_system():
    ratings = drawn()
    both = ratings.where(ratings.system < 2)
    oracle = sm.OLS(both.score, sm.add_constant((both.system == 0).astype(float))).fit(
        cov_type="cluster", cov_kwds={"groups": np.column_stack([both.rater, both.item])}, use_t=True
    )
    found = difference(ratings, "s1", "s2")
    n = len(both)
    assert found.interval.mean == pytest.approx(oracle.params[1])
    assert found.interval.se == pytest.approx(oracle.bse[1] / np.sqrt((n - 1) / (n - 2)))


def test_constants_per_rater_or_item_cancel():
    ratings = drawn()
    rows = list(zip(ratings.rater, ratings.item, ratings.system, ratings.score, strict=True))
    names = [(ratings.raters[r], ratings.items[i], ratings.systems[s], x + 7 * r - 3 * i) for r, i, s, x in rows]
    for before, after in zip(
        pairwise_differences(ratings), pairwise_differences(ratings_from_rows(names)), strict=True
    ):
        # Centring each rater and item leaves complete pairs unchanged.
        assert after.interval.mean == pytest.approx(before.interval.mean)
        assert after.interval.se == pytest.approx(before.interval.se)


def test_holm_agrees_with_statsmodels():
    p = np.random.default_rng(1).random(15) ** 3
    assert holm(p) == pytest.approx(multipletests(p, method="holm")[1])
    assert holm(np.zeros(0)).tolist() == []
    found = pairwise_differences(drawn())
    assert len(found) == 6
    assert [d.p_holm for d in found] == pytest.approx(multipletests([d.p for d in found], method="holm")[1])


def test_swapping_a_pair_changes_the_sign():
    there, back = difference(drawn(), "s1", "s2"), difference(drawn(), "s2", "s1")
    assert there.interval.low == pytest.approx(-back.interval.high)
    assert there.p == pytest.approx(back.p)


def test_unknown_differences_are_none():
    one = ratings_from_rows([("r", "i", "x", 1), ("r", "i", "y", 2)])
    found = pairwise_differences(one)[0]
    assert (found.interval.mean, found.interval.low, found.p, found.p_holm) == (-1.0, None, None, None)
    same = ratings_from_rows([(r, i, s, 3) for r in "ab" for i in "ij" for s in "xy"])
    assert pairwise_differences(same)[0].p == 1.0
    with pytest.raises(BadOption, match="no system 'q'"):
        difference(one, "x", "q")
    with pytest.raises(BadOption, match="'y' has no ratings"):
        difference(one.where(one.system == 0), "x", "y")


def on_scripts(scripts, seed=0, raters=12):
    """Equal systems, each on scripts of its own; script k is k tenths of a step easier than the first."""
    rng = np.random.default_rng(seed)
    return ratings_from_rows(
        [
            (f"r{r:02}", f"i{i:02}", system, 2 + 0.1 * i + rng.normal(0, 0.3))
            for r in range(raters)
            for system, mine in scripts.items()
            for i in mine
        ]
    )


def test_systems_are_compared_on_common_scripts():
    """Two equal systems once differed significantly because one was given easier scripts."""
    ratings = on_scripts({"easy": range(8, 20), "all": range(20)})
    plain = {name: i.mean for name, i in by_system(ratings).items()}
    assert plain["easy"] - plain["all"] > 0.3
    found = difference(ratings, "easy", "all")
    assert abs(found.interval.mean) < 0.1 and found.p > 0.05
    assert (found.interval.items, found.left_out, found.interval.n) == (12, 8, 2 * 12 * 12)
    same = ratings.where(ratings.item >= ratings.items.index("i08"))
    assert difference(same, "easy", "all").interval == found.interval
    assert difference(same, "easy", "all").left_out == 0


def test_systems_without_a_common_script_are_not_compared():
    pairs = pairwise_differences(on_scripts({"x": range(5), "y": range(5, 10), "z": range(3, 8)}))
    found = {(d.a, d.b): d for d in pairs}
    apart = found["x", "y"]
    assert (apart.interval.low, apart.p, apart.p_holm, apart.interval.items, apart.left_out) == (
        None,
        None,
        None,
        0,
        10,
    )
    assert (found["x", "z"].interval.items, found["x", "z"].left_out) == (2, 6)
    known = [d for d in pairs if d.p is not None]
    assert [d.p_holm for d in known] == pytest.approx(multipletests([d.p for d in known], method="holm")[1])
