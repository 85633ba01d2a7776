"""Rank tests in addition to means: Friedman's over all systems, Wilcoxon's signed-rank test of every pair.

Both need independent blocks. Answers of one rater are not independent, so a block is a rater (mean over scripts) or a
script (mean over raters), never a single page. Each treats only its blocks as a sample; the clustered intervals of
means generalise to other raters and other scripts at once.
"""

# scipy has no type stubs.
# pyright: reportMissingTypeStubs=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

import numpy as np
import scipy

from studio.core.errors import BadOption
from studio.mos.stats.columns import F8, Ratings, distinct
from studio.mos.stats.means import with_holm

Block = Literal["rater", "item"]
_MIN_SYSTEMS = 3  # of Friedman's test; two systems have Wilcoxon's
_EQUAL = 1e-9  # differences of means below it are rounding errors


@dataclass(frozen=True)
class Friedman:
    """Friedman's test of the hypothesis that all systems are equal (Friedman 1937), corrected for ties."""

    systems: int
    blocks: int
    chi2: float  # with ``systems`` - 1 degrees of freedom, like ``p``
    p: float
    w: float  # Kendall's coefficient of concordance, 0 to 1: chi2 / (blocks (systems - 1))


@dataclass(frozen=True)
class SignedRank:
    """Wilcoxon's signed-rank test of ``a`` against ``b`` (Wilcoxon 1945), two-sided."""

    a: str
    b: str
    blocks: int  # with a difference; blocks without one are left out
    equal: int  # blocks without a difference
    median: float  # of the differences a - b
    effect: float | None  # matched-pairs rank-biserial correlation, -1 to 1; above 0 a is better
    p: float | None  # exact below 50 differences without ties; None without any difference
    p_holm: float | None  # corrected for all pairs (Holm 1979)


@dataclass(frozen=True)
class RankTests:
    """Rank tests of one question."""

    block: Block
    left_out: int  # raters (or scripts) that lack a system
    systems: list[str]
    friedman: Friedman | None  # None for two systems, or if all scores are equal
    pairs: list[SignedRank]


def rank_tests(ratings: Ratings, block: Block = "rater", systems: Sequence[str] | None = None) -> RankTests:
    """Tests over the blocks that have every system.

    The score of a block is the mean over the scripts (or raters) with which it has every system; otherwise a rater who
    heard different scripts of two systems would compare scripts, too.

    Args:
        ratings: scores of one question.
        block: the independent unit.
        systems: compared systems; by default all that were rated.

    Raises BadOption: fewer than two systems, or no block has all of them.
    """
    used = [name for code, name in enumerate(ratings.systems) if (ratings.system == code).any()]
    compared = [name for name in used if systems is None or name in systems]
    if len(compared) < 2:
        raise BadOption(f"rank tests compare systems, and there are {len(compared)}", "rate two or more systems")
    means, left_out = _block_means(ratings, compared, block)
    if not len(means):
        of = "rater" if block == "rater" else "script"
        raise BadOption(f"no {of} has ratings of every system", "rank tests need the same raters and scripts")
    friedman = _friedman(means) if len(compared) >= _MIN_SYSTEMS else None
    columns = dict(zip(compared, means.T, strict=True))
    pairs = [_signed_rank(a, b, columns[a] - columns[b]) for a, b in combinations(compared, 2)]
    return RankTests(block, left_out, compared, friedman, with_holm(pairs))


def _block_means(ratings: Ratings, systems: list[str], block: Block) -> tuple[F8, int]:
    """Means [blocks, systems] of the complete blocks, and the number of blocks left out."""
    index = np.full(len(ratings.systems), -1)
    index[[ratings.code_of(name) for name in systems]] = np.arange(len(systems))
    rows = ratings.where(index[ratings.system] >= 0)
    # A page is a rater's scores of a script; only pages with every system are compared.
    pages, page = np.unique(rows.rater * len(ratings.items) + rows.item, return_inverse=True)
    cell, size = page * len(systems) + index[rows.system], len(pages) * len(systems)
    number = np.bincount(cell, minlength=size).reshape(-1, len(systems))
    total = np.bincount(cell, rows.score, size).reshape(-1, len(systems))
    whole = (number > 0).all(axis=1)
    mine = pages // len(ratings.items) if block == "rater" else pages % len(ratings.items)
    blocks, of = np.unique(mine[whole], return_inverse=True)
    score = total[whole] / number[whole]
    means = np.column_stack([np.bincount(of, column) for column in score.T]) / np.bincount(of)[:, None]
    return means, len(distinct(mine)) - len(blocks)


def _friedman(means: F8) -> Friedman | None:
    blocks, systems = means.shape
    if blocks < 2 or not np.ptp(means, axis=1).max() > _EQUAL:
        return None
    test: Any = scipy.stats.friedmanchisquare(*means.round(9).T)
    chi2 = float(test.statistic)
    return Friedman(systems, blocks, chi2, float(test.pvalue), chi2 / (blocks * (systems - 1)))


def _signed_rank(a: str, b: str, differences: F8) -> SignedRank:
    differences = differences.round(9)
    unequal = differences[np.abs(differences) > _EQUAL]
    median, equal = float(np.median(differences)), len(differences) - len(unequal)
    if not len(unequal):
        return SignedRank(a, b, 0, equal, median, None, None, None)
    test: Any = scipy.stats.wilcoxon(unequal)
    ranks = scipy.stats.rankdata(np.abs(unequal))
    effect = float((ranks * np.sign(unequal)).sum() / ranks.sum())
    p = float(test.pvalue)
    return SignedRank(a, b, len(unequal), equal, median, effect, p, p)
