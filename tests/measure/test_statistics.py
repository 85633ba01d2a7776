"""Bootstrap intervals: seeded, paired, of one sentence; agreement: published values, a second implementation."""

import math

import numpy as np
import pytest

from studio.core.errors import BadOption
from studio.measure.statistics import bootstrap_mean, bootstrap_mean_difference, cohen_kappa, krippendorff

# Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability", section C
N = np.nan
TEXTBOOK = np.array(
    [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, N, N, N],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, N, 3],
        [N, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, N],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, N],
    ]
)


def judged(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The judgements and their units in a matrix [raters, units]."""
    rater, unit = np.nonzero(np.isfinite(matrix))
    return matrix[rater, unit], unit


def test_interval_has_its_nominal_coverage():
    rng = np.random.default_rng(3)
    hits = 0
    for seed in range(200):
        interval = bootstrap_mean(list(rng.normal(3.5, 0.4, 40)), repeats=500, seed=seed)
        hits += interval.low <= 3.5 <= interval.high
    assert 178 <= hits <= 199


def test_pairing_removes_sentence_effects():
    rng = np.random.default_rng(0)
    base = rng.normal(3.5, 0.5, 30)
    one, other = list(base + 0.1 + rng.normal(0, 0.02, 30)), list(base)
    paired = bootstrap_mean_difference(one, other, paired=True)
    apart = bootstrap_mean_difference(one, other, paired=False)
    assert paired.value == pytest.approx(apart.value) == pytest.approx(0.1, abs=0.02)
    assert 0 < paired.low < paired.high < 0.13
    assert apart.low < 0 < apart.high
    assert paired == bootstrap_mean_difference(one, other, paired=True)
    assert paired != bootstrap_mean_difference(one, other, paired=True, seed=1)


def test_unpaired_sides_are_sampled_independently():
    """Equal values on both sides, unpaired: the difference is 0 with an error."""
    each = list(np.random.default_rng(0).normal(3.0, 0.5, 30))
    interval = bootstrap_mean_difference(each, each, paired=False)
    assert interval.value == 0.0
    assert interval.high - interval.low > 0.3


def test_one_sentence_has_no_interval():
    interval = bootstrap_mean([3.2])
    assert interval.value == 3.2 and math.isnan(interval.low) and math.isnan(interval.high)
    assert math.isnan(bootstrap_mean_difference([3.0], [2.0, 2.5], paired=False).low)


@pytest.mark.parametrize(("scale", "alpha"), [("nominal", 0.743421), ("ordinal", 0.815388), ("interval", 0.849107)])
def test_krippendorff_of_the_textbook(scale, alpha):
    assert krippendorff(*judged(TEXTBOOK), scale) == pytest.approx(alpha, abs=5.1e-7)


def test_alpha_is_none_if_undefined():
    assert krippendorff(*judged(np.full((3, 4), 5.0))) is None
    assert krippendorff(*judged(np.array([[1.0, N], [N, 2.0]]))) is None
    assert krippendorff(*judged(np.zeros((0, 0)))) is None
    with pytest.raises(BadOption, match="'rank' is not a scale"):
        krippendorff(*judged(TEXTBOOK), "rank")


def coded(letters: str) -> list[int]:
    return [ord(letter) for letter in letters if letter != " "]


def test_krippendorff_of_two_annotators() -> None:
    """Krippendorff 2011, sections A (two categories, alpha .095) and B (five categories, alpha .692)."""
    meg, owen = coded("0 1 0 0 0 0 0 0 1 0"), coded("1 1 1 0 0 1 0 0 0 0")
    ben, gerry = coded("a a b b d c c c e d d a"), coded("b a b b b c c c e d d d")
    assert krippendorff(*judged(np.array([meg, owen], float)), "nominal") == pytest.approx(0.095, abs=5e-4)
    assert krippendorff(*judged(np.array([ben, gerry], float)), "nominal") == pytest.approx(0.692, abs=5e-4)


def of_table(counts: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    """The units of a table [categories of one, categories of the other]."""
    table = np.array(counts)
    one, other = np.indices(table.shape)
    return one.ravel().repeat(table.ravel()), other.ravel().repeat(table.ravel())


def test_cohens_example() -> None:
    """Cohen 1960, table 1: 200 units, p_o .70, p_c .41, kappa .492."""
    one, other = of_table([[88, 14, 18], [10, 40, 10], [2, 6, 12]])
    assert cohen_kappa(one, other) == pytest.approx(0.492, abs=5e-4)
    assert cohen_kappa(one, other) == pytest.approx((0.70 - 0.41) / (1 - 0.41))


def test_cohen_equals_statsmodels() -> None:
    from statsmodels.stats.inter_rater import cohens_kappa

    rng = np.random.default_rng(0)
    for _ in range(50):
        table = rng.integers(0, 9, (4, 4))
        found = cohen_kappa(*of_table(table.tolist()))
        assert found == pytest.approx(cohens_kappa(table, return_results=False))


def test_kappa_is_none_if_undefined() -> None:
    assert cohen_kappa([], []) is None
    assert cohen_kappa([3, 3], [3, 3]) is None
    assert cohen_kappa([3, 3], [4, 4]) == 0.0
    assert cohen_kappa([1, 2], [1, 2]) == 1.0
