"""Rank tests on published examples, and on tests with repeated and missing answers."""

import numpy as np
import pytest
from scipy import stats

from studio.core.errors import BadOption
from studio.mos.stats.columns import ratings_from_rows
from studio.mos.stats.rank_tests import rank_tests

# Hollander & Wolfe 1973, pp. 140 ff.: rounding first base; the example of R's friedman.test
ROUNDING = """5.40 5.50 5.55 5.85 5.70 5.75 5.20 5.60 5.50 5.55 5.50 5.40 5.90 5.85 5.70 5.45 5.55 5.60
5.40 5.40 5.35 5.45 5.50 5.35 5.25 5.15 5.00 5.85 5.80 5.70 5.25 5.20 5.10 5.65 5.55 5.45
5.60 5.35 5.45 5.05 5.00 4.95 5.50 5.50 5.40 5.45 5.55 5.50 5.55 5.55 5.35 5.45 5.50 5.55
5.50 5.45 5.25 5.65 5.60 5.40 5.70 5.65 5.55 6.30 6.30 6.25"""
# Hollander & Wolfe 1973, pp. 29 ff.: the example of R's wilcox.test; V = 40
BEFORE = (1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30)
AFTER = (0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29)


def ratings(table, names="abc", item="i"):
    return ratings_from_rows(
        [
            (f"r{r:02}", item, name, float(value))
            for r, row in enumerate(table)
            for name, value in zip(names, row, strict=True)
        ]
    )


def test_friedman_equals_the_published_example():
    table = np.array(ROUNDING.split(), np.float64).reshape(-1, 3)
    found = rank_tests(ratings(table))
    assert found.friedman is not None
    assert (found.friedman.blocks, found.friedman.systems) == (22, 3)
    assert found.friedman.chi2 == pytest.approx(11.1429, abs=5e-5)
    assert found.friedman.p == pytest.approx(0.003805, abs=5e-7)
    assert found.friedman.w == pytest.approx(11.1429 / 44, abs=5e-6)


def test_wilcoxon_equals_the_published_example():
    found = rank_tests(ratings(zip(BEFORE, AFTER, strict=True), "xy"))
    [pair] = found.pairs
    assert pair.p == pytest.approx(2 * 0.01953, abs=1e-5) and found.friedman is None
    assert pair.effect == pytest.approx((40 - 5) / 45), "V = 40 of 45"
    assert (pair.blocks, pair.equal, pair.p_holm) == (9, 0, pair.p)


def test_blocks_are_means_of_the_pages_with_every_system():
    rng = np.random.default_rng(0)
    score = rng.integers(0, 100, (10, 6, 3)).astype(float)
    rows = [
        (f"r{r}", f"i{i}", "abc"[s], score[r, i, s])
        for r in range(10)
        for i in range(6)
        for s in range(3)
        if not (r == 0 and s == 2) and not (r == 1 and i == 0 and s == 0)  # r0 has no c at all, r1 a page without a
    ]
    rows.append(("r2", "i0", "a", score[2, 0, 0]))  # a repeated answer is averaged
    found = rank_tests(ratings_from_rows(rows))
    means = score[1:].mean(axis=1)
    means[0] = score[1, 1:].mean(axis=0)
    assert found.left_out == 1 and found.systems == ["a", "b", "c"]
    assert found.friedman.chi2 == pytest.approx(stats.friedmanchisquare(*means.T).statistic)
    assert found.pairs[0].p == pytest.approx(stats.wilcoxon(means[:, 0] - means[:, 1]).pvalue)
    p = min(pair.p for pair in found.pairs)
    assert min(1, 3 * p) == pytest.approx(min(pair.p_holm for pair in found.pairs))
    by_script = rank_tests(ratings_from_rows(rows), "item")
    assert (by_script.left_out, by_script.friedman.blocks) == (0, 6)
    assert rank_tests(ratings_from_rows(rows), systems=["a", "b"]).left_out == 0, "r0 has both of these"


def test_equal_scores_have_no_test():
    found = rank_tests(ratings([[3, 3, 3]] * 5))
    assert found.friedman is None
    assert [(p.p, p.p_holm, p.effect, p.equal) for p in found.pairs] == [(None, None, None, 5)] * 3


def test_what_cannot_be_compared_is_refused():
    with pytest.raises(BadOption, match="there are 1"):
        rank_tests(ratings([[1], [2]], "a"))
    rows = [("r1", "i1", "a", 1.0), ("r2", "i1", "b", 2.0)]
    with pytest.raises(BadOption, match="no rater has ratings of every system"):
        rank_tests(ratings_from_rows(rows))
