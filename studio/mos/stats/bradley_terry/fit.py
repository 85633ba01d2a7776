"""Bradley-Terry strengths of systems by four ways, and the error that paper 002 prints with them.

E = c + 400 log10 p, so P(i beats j) = 1 / (1 + 10^((E_j - E_i) / 400)) (paper 002, Bayesian Elo). Scores of different
campaigns are not comparable: only differences within one are.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from studio.core.errors import BadOption
from studio.mos.stats.bradley_terry import davidson
from studio.mos.stats.bradley_terry.strength import groups, solve, sweep, undecided, wins_of
from studio.mos.stats.columns import F8, Votes
from studio.mos.stats.distributions import beta_cdf, gamma_inverse, log_gamma_ratio_inverse
from studio.mos.stats.interval import tails

Method = Literal["mle", "gamma", "dsm", "davidson"]
METHODS: tuple[Method, ...] = ("mle", "gamma", "dsm", "davidson")

ELO_PER_E = 400 / np.log(10)
DSM_SWEEPS = 30
GAMMAS = "by independent Gammas, votes as independent"


@dataclass(frozen=True)
class Fit:
    """Strengths of systems.

    Attributes:
        log_p: [S], ln p; NaN where the estimate does not exist.
        wins: [S, S], row beats column, a tie half a win each.
        shape: [S], of the posterior Gamma of each p; meaningless without a prior.
        rate: [S].
        connected: whether a chain of wins leads from every system to every other.
        reason: why there are no strengths; None where there are.
        tie: Davidson's nu, how readily a tie is said; None in the other methods.
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
    tie: float | None = None

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
        better: [S, S], P(row's score is above column's); 0.5 on the diagonal. ``better_is`` says what it is.
        label: how it was made, in words.
        better_is: what the probabilities are.
        p: [S, S], two-sided, of no difference; None where there is no such test.
        reason: why there is none; None where there is.
    """

    low: F8
    high: F8
    difference_low: F8
    difference_high: F8
    better: F8
    label: str
    better_is: str
    p: F8 | None = None
    reason: str | None = None


def fit(votes: Votes, method: Method = "gamma", a0: float = 0.1, b0: float = 0.1) -> Fit:
    """Strengths by one of four ways.

    Methods:
        mle: maximum likelihood at geometric mean 1; does not exist unless the wins connect all systems.
        gamma: with a prior Gamma(a0, rate b0) on each p, the fixed point of Caron & Doucet's update.
        dsm: the same update stopped after 30 sweeps, as paper 002 has it; differences have all but settled by then,
            the common scale has not.
        davidson: maximum likelihood of Davidson's model (1970), in which a tie is an answer of its own and not half a
            win each, so that ties do not draw systems together.

    Raises:
        BadOption: an unknown method, or a prior outside 0.001 to 1000.
    """
    if method not in METHODS:
        raise BadOption(f"{method!r} is not a method of scoring", f"known are {', '.join(METHODS)}")
    if not (1e-3 <= a0 <= 1e3 and 1e-3 <= b0 <= 1e3):
        raise BadOption(f"the prior is {a0}, {b0}", "shape a0 and rate b0 lie within 0.001 to 1000")
    wins = wins_of(votes)
    if method == "mle" or method == "davidson":
        return _without_prior(votes, wins, method)
    log_p = np.log(sweep(wins, a0, b0, DSM_SWEEPS)) if method == "dsm" else solve(wins, a0, b0)
    # Paper 002 prints the Gamma whose mean is the last p: its rate is the one that p was made from.
    shape = a0 + wins.sum(axis=1)
    rate = shape / np.exp(log_p)
    return Fit(method, a0, b0, log_p, wins, shape, rate, len(groups(wins)) < 2, None)


def _without_prior(votes: Votes, wins: F8, method: Method) -> Fit:
    # Davidson's ties connect nothing: of two systems one of which never lost, ties say only how readily they are said.
    decided = wins if method == "mle" else wins_of(votes.where(~undecided(votes)))
    strong = groups(decided)
    reason, nothing, tie = _why_not(decided, votes.systems, strong), np.full(len(wins), np.nan), None
    if reason:
        log_p = nothing
    elif method == "mle":
        log_p = solve(wins)
    else:
        log_p, tie = davidson.solve(decided, wins - decided)
    return Fit(method, 0.0, 0.0, log_p, wins, nothing, nothing, len(groups(wins)) < 2, reason, tie)


def gamma_quantiles(fitted: Fit, c: float = 2000.0, level: float = 0.95) -> Spread:
    """The interval that paper 002 prints: quantiles of each Gamma(shape, rate), as though the others were known.

    It is too narrow for strong systems and knows nothing of raters. Differences are quantiles of a ratio of
    independent Gammas.
    """
    assert fitted.a0 > 0, "there is no Gamma without a prior"
    a, b = fitted.shape, fitted.rate
    ends = [c + ELO_PER_E * np.log(gamma_inverse(a, q) / b) for q in tails(level)]
    scale = np.log(b[None, :] / b[:, None])
    ratio = [log_gamma_ratio_inverse(a[:, None], a[None, :], q) for q in tails(level)]
    apart = [ELO_PER_E * (scale + r) for r in ratio]
    for matrix in apart:
        np.fill_diagonal(matrix, 0.0)
    better = 1 - beta_cdf(a[:, None], a[None, :], b[:, None] / (b[:, None] + b[None, :]))
    np.fill_diagonal(better, 0.5)
    return Spread(ends[0], ends[1], apart[0], apart[1], better, "DSM-compatible: Gamma quantiles", GAMMAS)


def centred(elo: F8) -> F8:
    """Scores [..., S] with their mean taken off: what intervals are judged on, since the common scale is arbitrary."""
    return elo - elo.mean(axis=-1, keepdims=True)


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
