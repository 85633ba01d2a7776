"""Elo scores of systems from pair votes: Bradley-Terry strengths, with intervals for scores and for differences.

E = c + 400 log10 p, so P(i beats j) = 1 / (1 + 10^((E_j - E_i) / 400)) (paper 002, Bayesian Elo). Scores of different
campaigns are not comparable: only differences within one are.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from studio.core.errors import BadOption
from studio.mos.stats.columns import F8, Votes
from studio.mos.stats.distributions import beta_cdf, gamma_inverse, log_gamma_ratio_inverse, t_cdf
from studio.mos.stats.interval import finite, t_quantile, tails
from studio.mos.stats.strength import all_connected, count, groups, solve, sweep

Method = Literal["mle", "gamma", "dsm"]

ELO_PER_E = 400 / np.log(10)
DSM_SWEEPS = 30
MOST_LOST = 0.05  # share of bootstrap draws without an estimate beyond which there is no interval
_NO_SPREAD = 1e-9  # Elo squared
_LEANING = (
    "wins do not connect all systems, so the distances between some of them are the prior's alone, and their intervals "
    "too narrow; collect votes between them"
)


@dataclass(frozen=True)
class Fit:
    """Strengths of systems.

    Attributes:
        log_p: [S], ln p; NaN where the estimate does not exist.
        wins: [S, S], row beats column.
        shape: [S], of the posterior Gamma of each p; meaningless without a prior.
        rate: [S].
        connected: whether a chain of wins leads from every system to every other.
        reason: why there are no strengths; None where there are.
    """

    method: Method
    a0: float
    b0: float
    log_p: F8
    wins: F8
    shape: F8
    rate: F8
    connected: bool
    reason: str | None

    def elo(self, c: float = 2000.0) -> F8:
        """Scores [S]."""
        return c + ELO_PER_E * self.log_p


@dataclass(frozen=True)
class Spread:
    """What is known about the error of the scores. All arrays are NaN where the data cannot say.

    Attributes:
        low: [S], around the scores on the scale with constant c.
        high: [S].
        difference_low: [S, S], of score of row minus score of column.
        difference_high: [S, S].
        better: [S, S], P(row's score is above column's); 0.5 on the diagonal.
        label: how it was made, in words.
        reason: why there is none; None where there is.
    """

    low: F8
    high: F8
    difference_low: F8
    difference_high: F8
    better: F8
    label: str
    reason: str | None = None


def fit(votes: Votes, method: Method = "gamma", a0: float = 0.1, b0: float = 0.1) -> Fit:
    """Strengths by one of three ways.

    Methods:
        mle: maximum likelihood at geometric mean 1; does not exist unless the wins connect all systems.
        gamma: with a prior Gamma(a0, rate b0) on each p, the fixed point of Caron & Doucet's update.
        dsm: the same update stopped after 30 sweeps, as paper 002 has it; differences have all but settled by then,
            the common scale has not.

    Raises:
        BadOption: an unknown method, or a prior outside 0.001 to 1000.
    """
    return fit_wins(count(votes).total(), votes.systems, method, a0, b0)


def fit_wins(wins: F8, systems: list[str], method: Method, a0: float, b0: float) -> Fit:
    """``fit`` from a win matrix [S, S]."""
    if method not in ("mle", "gamma", "dsm"):
        raise BadOption(f"{method!r} is not a method of scoring", "known are mle, gamma, dsm")
    if not (1e-3 <= a0 <= 1e3 and 1e-3 <= b0 <= 1e3):
        raise BadOption(f"the prior is {a0}, {b0}", "shape a0 and rate b0 lie within 0.001 to 1000")
    strong = groups(wins)
    if method == "mle":
        reason = _why_not(wins, systems, strong)
        nothing = np.full(len(wins), np.nan)
        log_p = nothing if reason else solve(wins)
        return Fit(method, 0.0, 0.0, log_p, wins, nothing, nothing, len(strong) < 2, reason)
    log_p = np.log(sweep(wins, a0, b0, DSM_SWEEPS)) if method == "dsm" else solve(wins, a0, b0)
    # Paper 002 prints the Gamma whose mean is the last p: its rate is the one that p was made from.
    shape = a0 + wins.sum(axis=1)
    rate = shape / np.exp(log_p)
    return Fit(method, a0, b0, log_p, wins, shape, rate, len(strong) < 2, None)


def bootstrap(
    votes: Votes, fitted: Fit, c: float = 2000.0, replicates: int = 200, seed: int = 0, level: float = 0.95
) -> Spread:
    """Intervals from raters drawn anew: standard error of the centred scores times t(raters - 1).

    Votes of one rater are not independent; where raters are not known votes are drawn instead, which is as a rule too
    narrow, and the label says so. Where no draw differs, ``gamma`` has its quantiles instead and ``mle`` nothing. Draws
    that have no maximum-likelihood estimate are left out, up to 1 in 20.

    Raises:
        BadOption: fewer than 2 replicates.
    """
    if replicates < 2:
        raise BadOption(f"replicates is {replicates}", "200 is usual, 2 the least")
    counts = count(votes)
    unit = "rater" if counts.by_rater else "vote"
    label = f"{unit} bootstrap: standard error times t({max(0, counts.units - 1)})"
    if not counts.by_rater:
        label += "; votes are taken as independent, there is no rater column"
    if fitted.reason or counts.units < 2:
        return _no_spread(
            len(fitted.wins), label, fitted.reason or f"{counts.units} {unit}s give no interval: two at least"
        )
    drawn = counts.draw(replicates, np.random.default_rng(seed))
    if fitted.method == "mle":
        kept = all_connected(drawn)
        if kept.mean() < 1 - MOST_LOST:
            lost = f"{int((~kept).sum())} of {replicates} bootstrap draws have no maximum-likelihood estimate"
            return _no_spread(len(fitted.wins), label, f"{lost}: collect more votes, or use gamma")
        drawn = drawn[kept]
    log_p = solve(drawn, fitted.a0, fitted.b0, fitted.log_p)
    covariance = np.atleast_2d(np.cov(centred(ELO_PER_E * log_p), rowvar=False))
    if (np.diag(covariance) < _NO_SPREAD).any():
        alike = f"all {unit}s are alike, which says nothing of their spread"
        if fitted.method == "mle":
            return _no_spread(len(fitted.wins), label, f"{alike}: more raters, or gamma, give an interval")
        return replace(gamma_quantiles(fitted, c, level), label=f"{alike}: Gamma quantiles, votes as independent")
    return _t_spread(fitted.elo(c), covariance, counts.units - 1, level, label)


def gamma_quantiles(fitted: Fit, c: float = 2000.0, level: float = 0.95) -> Spread:
    """The interval that paper 002 prints: quantiles of each Gamma(shape, rate), as though the others were known.

    It is too narrow for strong systems and knows nothing of raters. Differences are quantiles of a ratio of
    independent Gammas.
    """
    assert fitted.method != "mle", "there is no Gamma without a prior"
    a, b = fitted.shape, fitted.rate
    ends = [c + ELO_PER_E * np.log(gamma_inverse(a, q) / b) for q in tails(level)]
    scale = np.log(b[None, :] / b[:, None])
    ratio = [log_gamma_ratio_inverse(a[:, None], a[None, :], q) for q in tails(level)]
    apart = [ELO_PER_E * (scale + r) for r in ratio]
    for matrix in apart:
        np.fill_diagonal(matrix, 0.0)
    better = 1 - beta_cdf(a[:, None], a[None, :], b[:, None] / (b[:, None] + b[None, :]))
    np.fill_diagonal(better, 0.5)
    return Spread(ends[0], ends[1], apart[0], apart[1], better, "DSM-compatible: Gamma quantiles")


def centred(elo: F8) -> F8:
    """Scores [..., S] with their mean taken off: what intervals are judged on, since the common scale is arbitrary."""
    return elo - elo.mean(axis=-1, keepdims=True)


def elo_report(
    votes: Votes,
    method: Method = "gamma",
    c: float = 2000.0,
    a0: float = 0.1,
    b0: float = 0.1,
    seed: int = 0,
    replicates: int = 200,
) -> dict[str, Any]:
    """Everything about the scores, as JSON values (None where there is no number).

    ``dsm`` has the Gamma quantiles of paper 002; ``mle`` and ``gamma`` the bootstrap over raters.

    Returns:
        systems: {name: {elo, lo, hi}}; connected; method; interval: how it was made; votes: their number; raters:
        theirs, or None; wins and p_better: [S][S] in the order of ``systems``; reason: why numbers are missing;
        note: what numbers rest on that votes alone would not give.
    """
    fitted = fit(votes, method, a0, b0)
    spread = gamma_quantiles(fitted, c) if method == "dsm" else bootstrap(votes, fitted, c, replicates, seed)
    elo = fitted.elo(c)
    return {
        "systems": {
            name: {"elo": finite(elo[s]), "lo": finite(spread.low[s]), "hi": finite(spread.high[s])}
            for s, name in enumerate(votes.systems)
        },
        "connected": fitted.connected,
        "method": method,
        "interval": spread.label,
        "votes": len(votes),
        "raters": None if votes.rater is None else len(np.unique(votes.rater)),
        "wins": fitted.wins.tolist(),
        "p_better": [[finite(p) for p in row] for row in spread.better],
        "reason": spread.reason if fitted.reason is None else fitted.reason,
        "note": None if fitted.connected or fitted.reason else _LEANING,
    }


def _t_spread(elo: F8, covariance: F8, df: int, level: float, label: str) -> Spread:
    reach = t_quantile(df, level)
    variance = np.diag(covariance)
    apart = np.sqrt(np.maximum(variance[:, None] + variance[None, :] - 2 * covariance, 0.0))
    gap, se = elo[:, None] - elo[None, :], np.sqrt(variance)
    # No spread at all between two systems leaves only the sign to go by.
    certain = (np.sign(gap) + 1) / 2
    better = np.where(apart > 0, t_cdf(df, gap / np.where(apart > 0, apart, 1.0)), certain)
    np.fill_diagonal(better, 0.5)
    return Spread(elo - reach * se, elo + reach * se, gap - reach * apart, gap + reach * apart, better, label)


def _no_spread(size: int, label: str, reason: str) -> Spread:
    row, square = np.full(size, np.nan), np.full((size, size), np.nan)
    return Spread(row, row, square, square, square, label, reason)


def _why_not(wins: F8, systems: list[str], strong: list[list[int]]) -> str | None:
    if not wins.any():
        return "there are no votes"
    if len(strong) < 2:
        return None
    names = [_listed([systems[i] for i in group]) for group in strong]
    for group, name in zip(strong, names, strict=True):
        inside = np.isin(np.arange(len(wins)), group)
        won, lost = wins[inside][:, ~inside].any(), wins[~inside][:, inside].any()
        if not (won and lost):
            did = "was never compared with" if not won and not lost else "never lost to" if won else "never won against"
            return (
                f"maximum likelihood gives no finite scores: {name} {did} the other systems; "
                "collect more votes, or use gamma"
            )
    raise AssertionError("a graph of strong groups has an end")


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:4])
    return shown if len(names) < 5 else f"{shown} and {len(names) - 4} more"
