"""Differences of systems rated by the same raters."""

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.stats import ttest_rel
from statsmodels.stats.multitest import multipletests

from studio.core.errors import BadOption
from studio.mos.stats.columns import ratings_from_rows
from studio.mos.stats.means import by_system, difference, holm, pairwise_differences
from studio.mos.stats.planning.population import RatingPopulation, draw_ratings


def drawn(seed=0, share=1.0):
    return draw_ratings(RatingPopulation(), np.random.default_rng(seed), 12, 9, share=share)


def test_one_score_a_rater_is_the_paired_t_test():
    rng = np.random.default_rng(0)
    level = rng.normal(50, 20, 15)
    x, y = level + rng.normal(3, 2, 15), level + rng.normal(0, 2, 15)
    rows = [(f"r{k:02}", "i", s, v[k]) for k in range(15) for s, v in (("x", x), ("y", y))]
    found = difference(ratings_from_rows(rows), "x", "y", "by_rater")
    oracle = ttest_rel(x, y)
    assert found.p == pytest.approx(oracle.pvalue)
    low, high = oracle.confidence_interval()
    assert [found.interval.low, found.interval.high] == pytest.approx([low, high])


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_two_way_agrees_with_a_regression_on_the_system(share):
    ratings = drawn(share=share)
    both = ratings.where(ratings.system < 2)
    oracle = sm.OLS(both.score, sm.add_constant((both.system == 0).astype(float))).fit(
        cov_type="cluster", cov_kwds={"groups": np.column_stack([both.rater, both.item])}, use_t=True
    )
    found = difference(ratings, "s1", "s2")
    n = len(both)
    assert found.interval.mean == pytest.approx(oracle.params[1])
    assert found.interval.se == pytest.approx(oracle.bse[1] / np.sqrt((n - 1) / (n - 2)))


def test_a_constant_for_a_rater_or_an_item_cancels():
    ratings = drawn()
    rows = list(zip(ratings.rater, ratings.item, ratings.system, ratings.score, strict=True))
    names = [(ratings.raters[r], ratings.items[i], ratings.systems[s], x + 7 * r - 3 * i) for r, i, s, x in rows]
    for before, after in zip(
        pairwise_differences(ratings), pairwise_differences(ratings_from_rows(names)), strict=True
    ):
        # Centring each rater and item leaves complete pairs as they were.
        assert after.interval.mean == pytest.approx(before.interval.mean)
        assert after.interval.se == pytest.approx(before.interval.se)


def test_holm_agrees_with_statsmodels():
    p = np.random.default_rng(1).random(15) ** 3
    assert holm(p) == pytest.approx(multipletests(p, method="holm")[1])
    assert holm(np.zeros(0)).tolist() == []
    found = pairwise_differences(drawn())
    assert len(found) == 6
    assert [d.p_holm for d in found] == pytest.approx(multipletests([d.p for d in found], method="holm")[1])


def test_turning_a_pair_round_turns_the_sign():
    there, back = difference(drawn(), "s1", "s2"), difference(drawn(), "s2", "s1")
    assert there.interval.low == pytest.approx(-back.interval.high)
    assert there.p == pytest.approx(back.p)


def test_what_cannot_be_known():
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
    """Systems that are all alike, each on scripts of its own; script k is k tenths of a step easier than the first."""
    rng = np.random.default_rng(seed)
    return ratings_from_rows(
        [
            (f"r{r:02}", f"i{i:02}", system, 2 + 0.1 * i + rng.normal(0, 0.3))
            for r in range(raters)
            for system, mine in scripts.items()
            for i in mine
        ]
    )


def test_systems_are_compared_on_the_scripts_that_both_said():
    """Two that are alike differed "beyond doubt", for one of them was given the easy scripts."""
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
