"""Non-inferiority and equivalence of two systems with a margin: two one-sided tests (TOST).

A difference d of two systems is compared with a margin m > 0 that was fixed before the test. ``a`` is *not worse* than
``b`` if d > -m is shown, and *equivalent* if -m < d < m is shown: two one-sided tests, each at ``ALPHA`` (Schuirmann
1987). Both are equivalent to reading the interval of level 1 - 2 ``ALPHA`` against the margin.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from studio.core.errors import BadOption
from studio.mos.stats.columns import F8, ScoreScale
from studio.mos.stats.interval import Interval, interval_bounds, p_value_against, t_cdf, t_quantile
from studio.mos.stats.means import holm

ALPHA = 0.05  # error of each one-sided test
LEVEL = 1 - 2 * ALPHA  # of the interval that is compared with the margin

Claim = Literal["not_worse", "equivalent"]
Verdict = Literal["worse", "better", "equivalent", "not_worse", "not_better", "undecided"]


@dataclass(frozen=True)
class MarginTest:
    """Difference of ``a`` and ``b`` against a margin. p values and probabilities are None if not estimable."""

    a: str
    b: str
    margin: float  # in the unit of the difference
    interval: Interval  # of a - b, of level ``LEVEL``
    p_not_worse: float | None  # one-sided, null hypothesis a - b <= -margin
    p_not_better: float | None  # one-sided, null hypothesis a - b >= margin: b is not worse than a
    p_equivalent: float | None  # the larger of the two (TOST)
    # corrected for all tested pairs (Holm 1979), each claim as a family of its own
    p_not_worse_holm: float | None
    p_not_better_holm: float | None
    p_equivalent_holm: float | None
    # posterior probabilities (``posterior_above``) of a - b > -margin, of a - b < margin, and of both
    posterior_not_worse: float | None
    posterior_not_better: float | None
    posterior_equivalent: float | None
    verdict: Verdict


def margin_test(
    a: str, b: str, difference: Interval, margin: float, scale: ScoreScale | None, null: float = 0.0
) -> MarginTest:
    """Test of one pair; ``with_holm_verdicts`` corrects several.

    Args:
        a, b: the systems.
        difference: clustered interval, of any level, of a mean that is ``null`` if the systems are alike: a - b, the
            CMOS of a against b, or the share of votes for a.
        margin: largest harmless difference, in the unit of ``difference``.
        scale: possible values of ``difference``; None if unknown.
        null: 0, or 1/2 for a share.

    Raises BadOption for a margin that is not positive, or that no difference on the scale can exceed.
    """
    check_margin(margin, scale, null)
    estimate = at_level(difference, LEVEL, scale, null)
    above, below = (one_sided_p(estimate, null + side * margin, scale) for side in (-1, 1))
    not_worse, not_better = above, None if below is None else 1 - below
    both = None if not_worse is None or not_better is None else max(not_worse, not_better)
    over, under = (posterior_above(estimate, null + side * margin, scale) for side in (-1, 1))
    low, high = (None if end is None else end - null for end in (estimate.low, estimate.high))
    centred = replace(estimate, mean=estimate.mean - null, low=low, high=high)
    tested = MarginTest(
        a,
        b,
        margin,
        centred,
        not_worse,
        not_better,
        both,
        not_worse,
        not_better,
        both,
        over,
        None if under is None else 1 - under,
        None if over is None or under is None else over - under,
        "undecided",
    )
    return replace(tested, verdict=_verdict(tested))


def with_holm_verdicts(tests: Sequence[MarginTest]) -> list[MarginTest]:
    """The tests with p values corrected for all of them, and verdicts by these."""
    columns: dict[str, list[float | None]] = {}
    for name in ("p_not_worse", "p_not_better", "p_equivalent"):
        known = iter(holm(np.array([p for t in tests if (p := getattr(t, name)) is not None], np.float64)).tolist())
        columns[f"{name}_holm"] = [None if getattr(t, name) is None else next(known) for t in tests]
    corrected = [replace(t, **{name: column[k] for name, column in columns.items()}) for k, t in enumerate(tests)]
    return [replace(t, verdict=_verdict(t)) for t in corrected]


def check_margin(margin: float, scale: ScoreScale | None, null: float = 0.0) -> None:
    """Raises BadOption for a margin that is not positive, or that no difference on the scale can exceed."""
    reach = np.inf if scale is None else min(scale.high - null, null - scale.low)
    if not 0 < margin < reach:
        most = "" if reach == np.inf else f" and below {reach:g}, the largest difference on this scale"
        raise BadOption(f"the margin is {margin:g}", f"give a margin above 0{most}")


def at_level(interval: Interval, level: float, scale: ScoreScale | None, null: float) -> Interval:
    """A clustered interval at another level; ``null``: mean under the null hypothesis (``interval_bounds``).

    An underestimated error must not make a difference look harmless. By rater and script, degrees of freedom are
    therefore at most min(R, I) - 1, and the variance is multiplied by 1 + 1 / min(R, I): V_both, which is
    subtracted (``two_way_variance``), contains 1 / I of the variance by rater and 1 / R of that by script.
    """
    if not interval.df:
        return replace(interval, low=None, high=None, level=level)
    df, se = interval.df, interval.se
    if interval.method == "two_way" and interval.raters and interval.items:
        fewest = min(interval.raters, interval.items)
        df, se = min(df, fewest - 1.0), None if se is None else se * (1 + 1 / fewest) ** 0.5
    low, high = interval_bounds(interval.mean, se or 0.0, df, level, scale, null)
    return replace(interval, low=low, high=high, level=level, df=df, se=se)


def one_sided_p(interval: Interval, bound: float, scale: ScoreScale | None) -> float | None:
    """p value of the null hypothesis that the true mean is at most ``bound``; None if not estimable.

    It is at most ``ALPHA`` exactly if the interval of level ``LEVEL`` is above ``bound``. If all answers are equal,
    those outside the sample are assumed to differ by a step: (1 - gap / step)^G for G raters (or scripts, if fewer); on
    a scale of more than two answers it is at least the p value of t if one rater had differed by a step.
    """
    if not interval.df or interval.low is None:
        return None
    gap = interval.mean - bound
    if interval.se is not None:
        two_sided = p_value_against(interval, bound, scale)
        return None if two_sided is None else two_sided / 2 if gap >= 0 else 1 - two_sided / 2
    assert scale is not None, "without a scale there is no interval of equal answers"
    share, clusters = abs(gap) / scale.step, interval.df + 1
    p = max(0.0, 1 - share) ** clusters
    if not scale.is_binary:
        p = max(p, float(t_cdf(interval.df, -share * clusters)))
    return min(p, 0.5) if gap >= 0 else 1 - min(p, 0.5)


def posterior_above(interval: Interval, bound: float, scale: ScoreScale | None) -> float | None:
    """Posterior probability that the true mean is above ``bound``; None if not estimable.

    The prior is flat over the possible means and the reference prior of the error's variance, so the posterior is t
    with the interval's degrees of freedom around the estimate (Box & Tiao 1973, section 2.4), cut at the ends of the
    scale. If all answers are equal, the error is that of their interval.
    """
    if not interval.df or interval.low is None or interval.high is None:
        return None
    widest = max(interval.mean - interval.low, interval.high - interval.mean)
    se = widest / t_quantile(interval.df, interval.level) if interval.se is None else interval.se

    def below(value: float) -> float:
        return float(t_cdf(interval.df or 1, (value - interval.mean) / se))

    first, last = (0.0, 1.0) if scale is None else (below(scale.low), below(scale.high))
    return float(np.clip((last - below(bound)) / (last - first), 0.0, 1.0))


def _verdict(test: MarginTest) -> Verdict:
    low, high = test.interval.low, test.interval.high
    if low is None or high is None:
        return "undecided"
    if high < -test.margin:
        return "worse"
    if low > test.margin:
        return "better"
    claims: list[tuple[Verdict, float | None]] = [
        ("equivalent", test.p_equivalent_holm),
        ("not_worse", test.p_not_worse_holm),
        ("not_better", test.p_not_better_holm),
    ]
    for claim, p in claims:
        if p is not None and p <= ALPHA:
            return claim
    return "undecided"


def power_share(tests: Sequence[MarginTest], claim: Claim, alpha: float = ALPHA) -> float:
    """Share of the tests that show the claim at ``alpha``."""
    p: F8 = np.array([1.0 if (value := getattr(t, f"p_{claim}")) is None else value for t in tests], np.float64)
    return float((p <= alpha).mean())
