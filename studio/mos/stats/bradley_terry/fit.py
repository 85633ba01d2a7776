"""Bradley-Terry strengths by four methods, and the Gamma quantiles of paper 002.

E = c + 400 log10 p, so P(i beats j) = 1 / (1 + 10^((E_j - E_i) / 400)) (paper 002, Bayesian Elo). Only differences
within one campaign are comparable.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from studio.core.errors import BadOption
from studio.mos.stats.bradley_terry.strength import groups, solve, solve_davidson, sweep, undecided, win_matrix
from studio.mos.stats.columns import F8, Votes
from studio.mos.stats.distributions import beta_cdf, gamma_inverse, log_gamma_ratio_inverse
from studio.mos.stats.interval import tail_probabilities

FitMethod = Literal["mle", "gamma", "dsm", "davidson"]
FIT_METHODS: tuple[FitMethod, ...] = ("mle", "gamma", "dsm", "davidson")

ELO_PER_E = 400 / np.log(10)
DSM_SWEEPS = 30
GAMMA_LABEL = "by independent Gammas, votes as independent"


@dataclass(frozen=True)
class Fit:
    """Estimated strengths.

    Attributes:
        log_p: [S], ln p; NaN if the estimate does not exist.
        wins: [S, S], row beats column, a tie is half a win each.
        shape: [S], of the posterior Gamma of each p; undefined without a prior.
        rate: [S].
        connected: whether wins connect all systems in both directions.
        reason: why there are no strengths; None if there are.
        tie: Davidson's nu, the tie parameter; None in the other methods.
    """

    method: FitMethod
    a0: float
    b0: float
    log_p: F8
    wins: F8
    shape: F8
    rate: F8
    connected: bool
    reason: str | None
    tie: float | None = None

    def elo(self, c: float = 2000.0) -> F8:
        """Elo scores [S]."""
        return c + ELO_PER_E * self.log_p


@dataclass(frozen=True)
class EloIntervals:
    """Intervals of scores and differences; arrays are NaN where not estimable.

    Attributes:
        low: [S], of the scores on the scale with constant c.
        high: [S].
        difference_low: [S, S], of score of row minus score of column.
        difference_high: [S, S].
        better: [S, S], P(row's score is above column's); 0.5 on the diagonal.
        label: how the intervals were made.
        better_label: how ``better`` is defined.
        p: [S, S], two-sided, of no difference; None if there is no such test.
        reason: why there are no intervals; None if there are.
    """

    low: F8
    high: F8
    difference_low: F8
    difference_high: F8
    better: F8
    label: str
    better_label: str
    p: F8 | None = None
    reason: str | None = None


def fit(votes: Votes, method: FitMethod = "gamma", a0: float = 0.1, b0: float = 0.1) -> Fit:
    """Estimate strengths.

    Methods:
        mle: maximum likelihood at geometric mean 1; exists only if wins connect all systems.
        gamma: prior Gamma(a0, rate b0) on each p, fixed point of the update of Caron & Doucet.
        dsm: the same update stopped after 30 sweeps, as in paper 002; differences have nearly converged, the common
            scale has not.
        davidson: maximum likelihood of Davidson's model (1970), in which a tie is an outcome of its own rather than
            half a win each, so that ties do not shrink differences.

    Raises:
        BadOption: an unknown method, or prior parameters outside 0.001 to 1000.
    """
    if method not in FIT_METHODS:
        raise BadOption(f"{method!r} is not a scoring method", f"choose {', '.join(FIT_METHODS)}")
    if not (1e-3 <= a0 <= 1e3 and 1e-3 <= b0 <= 1e3):
        raise BadOption(f"the prior is {a0}, {b0}", "shape a0 and rate b0 must be 0.001 to 1000")
    wins = win_matrix(votes)
    if method == "mle" or method == "davidson":
        return _without_prior(votes, wins, method)
    log_p = np.log(sweep(wins, a0, b0, DSM_SWEEPS)) if method == "dsm" else solve(wins, a0, b0)
    # As in paper 002, the Gamma whose mean is the last p.
    shape = a0 + wins.sum(axis=1)
    rate = shape / np.exp(log_p)
    return Fit(method, a0, b0, log_p, wins, shape, rate, len(groups(wins)) < 2, None)


def _without_prior(votes: Votes, wins: F8, method: FitMethod) -> Fit:
    # In Davidson's model ties connect nothing: against an undefeated system they only inform the tie parameter.
    decided = wins if method == "mle" else win_matrix(votes.where(~undecided(votes)))
    connected_groups = groups(decided)
    reason, missing, tie = _missing_reason(decided, votes.systems, connected_groups), np.full(len(wins), np.nan), None
    if reason:
        log_p = missing
    elif method == "mle":
        log_p = solve(wins)
    else:
        log_p, tie = solve_davidson(decided, wins - decided)
    return Fit(method, 0.0, 0.0, log_p, wins, missing, missing, len(groups(wins)) < 2, reason, tie)


def gamma_quantiles(fitted: Fit, c: float = 2000.0, level: float = 0.95) -> EloIntervals:
    """Interval of paper 002: quantiles of each Gamma(shape, rate), the other strengths taken as known.

    It is too narrow for strong systems and ignores raters. Differences are quantiles of a ratio of independent Gammas.
    """
    assert fitted.a0 > 0, "there is no Gamma without a prior"
    a, b = fitted.shape, fitted.rate
    ends = [c + ELO_PER_E * np.log(gamma_inverse(a, q) / b) for q in tail_probabilities(level)]
    scale = np.log(b[None, :] / b[:, None])
    ratio = [log_gamma_ratio_inverse(a[:, None], a[None, :], q) for q in tail_probabilities(level)]
    apart = [ELO_PER_E * (scale + r) for r in ratio]
    for matrix in apart:
        np.fill_diagonal(matrix, 0.0)
    better = 1 - beta_cdf(a[:, None], a[None, :], b[:, None] / (b[:, None] + b[None, :]))
    np.fill_diagonal(better, 0.5)
    return EloIntervals(ends[0], ends[1], apart[0], apart[1], better, "DSM-compatible: Gamma quantiles", GAMMA_LABEL)


def centred(elo: F8) -> F8:
    """Scores [..., S] minus their mean: the common scale is arbitrary."""
    return elo - elo.mean(axis=-1, keepdims=True)


def _missing_reason(wins: F8, systems: list[str], strong: list[list[int]]) -> str | None:
    if not wins.any():
        return "there are no votes"
    if len(strong) < 2:
        return None
    names = [_join_names([systems[i] for i in group]) for group in strong]
    for group, name in zip(strong, names, strict=True):
        inside = np.isin(np.arange(len(wins)), group)
        won, lost = wins[inside][:, ~inside].any(), wins[~inside][:, inside].any()
        if not (won and lost):
            did = "was never compared with" if not won and not lost else "never lost to" if won else "never won against"
            return (
                f"maximum likelihood has no finite solution: {name} {did} the other systems; "
                "collect more votes, or use gamma"
            )
    raise AssertionError("a graph of strong groups has an end")


def _join_names(names: list[str]) -> str:
    shown = ", ".join(names[:4])
    return shown if len(names) < 5 else f"{shown} and {len(names) - 4} more"
