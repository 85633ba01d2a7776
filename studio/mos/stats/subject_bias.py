"""MOS with the bias and the inconsistency of each rater removed (ITU-T P.913, 12.6; Li et al. 2020).

    U_ij = psi_j + Delta_i + upsilon_i X,   X ~ N(0, 1)

quality ``psi`` of stimulus j, bias ``Delta`` of rater i, inconsistency ``upsilon``. Maximum likelihood by alternating
projection: each of the three is set to its optimum given the other two. Careless raters get small weights, and none is
excluded. Biases are relative to this panel's mean: they sum to zero.

The likelihood is unbounded where the qualities equal one rater's answers and that rater's error is zero. With few
answers the iteration may end there. Then it is repeated with variances shrunk towards the mean variance, so that a
maximum exists, and the result says so.
"""

# scipy has no type stubs.
# pyright: reportMissingTypeStubs=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false

from dataclasses import dataclass

import numpy as np
import scipy

from studio.core.errors import BadOption
from studio.mos.stats.columns import F8, I8, Ratings, distinct
from studio.mos.stats.interval import Interval, clustered_interval

_MAX_STEPS = 1000
_TOLERANCE = 1e-8
_MIN_VARIANCE = 1e-8  # added to the variance of a rater, as in the recommendation's program
MIN_ANSWERS = 3  # of a rater: two would be used up by bias and inconsistency
_COLLAPSED = 1e-6  # variance below which a rater has all the weight
_PRIOR_ANSWERS = 4  # weight of the mean variance, when variances are shrunk towards it


@dataclass(frozen=True)
class RaterBias:
    """One rater."""

    rater: str
    bias: float  # mean difference from the others, in the unit of the score
    inconsistency: float  # standard deviation of the answers around quality and bias
    n: int


@dataclass(frozen=True)
class BiasFreeStimulus:
    """One stimulus."""

    item: str
    system: str
    mos: float
    ci95: float | None  # 1.96 s / sqrt(n), s of the answers without their biases; None for one answer


@dataclass(frozen=True)
class SubjectBias:
    """Result of ``subject_bias``."""

    # mean quality of the stimuli of each system; intervals by rater and script, of answers without their bias: they
    # ignore a common bias of the whole panel
    systems: dict[str, Interval]
    stimuli: list[BiasFreeStimulus]
    raters: list[RaterBias]
    left_out: int  # raters with fewer than three answers
    is_shrunk: bool  # whether variances were shrunk towards their mean, because the likelihood has no maximum


def subject_bias(ratings: Ratings) -> SubjectBias:
    """Quality of stimuli and systems, and bias and inconsistency of raters.

    Raises BadOption: fewer than two raters with three answers each; or raters who share no stimuli, so that biases and
    qualities cannot be separated.
    """
    count = np.bincount(ratings.rater, minlength=len(ratings.raters))
    left_out = int(((count > 0) & (count < MIN_ANSWERS)).sum())
    usable = ratings.where(count[ratings.rater] >= MIN_ANSWERS)
    rater_codes, rater = np.unique(usable.rater, return_inverse=True)
    if len(rater_codes) < 2:
        raise BadOption(f"{len(rater_codes)} raters have {MIN_ANSWERS} answers or more", "at least two are needed")
    width = len(usable.items)
    keys, stimulus = np.unique(usable.system * width + usable.item, return_inverse=True)
    _check_connected(rater, stimulus)
    psi, bias, variance = alternating_projection(usable.score, rater, stimulus)
    is_shrunk = bool(variance.min() < _COLLAPSED < variance.max())
    if is_shrunk:
        psi, bias, variance = alternating_projection(usable.score, rater, stimulus, _PRIOR_ANSWERS)
    weight = 1 / (variance + _MIN_VARIANCE)
    share = weight[rater] / np.bincount(stimulus, weight[rater])[stimulus]
    n = np.bincount(stimulus)
    unbiased = usable.score - bias[rater]
    middle = np.bincount(stimulus, unbiased) / n
    spread = np.sqrt(np.bincount(stimulus, (unbiased - middle[stimulus]) ** 2) / n)
    names = [(usable.items[key % width], usable.systems[key // width]) for key in keys.tolist()]
    stimuli = [
        BiasFreeStimulus(*name, float(mos), None if k < 2 else float(1.96 * s / k**0.5))
        for name, mos, s, k in zip(names, psi, spread, n, strict=True)
    ]
    raters = [
        RaterBias(usable.raters[code], float(b), float(v) ** 0.5, int(m))
        for code, b, v, m in zip(rater_codes.tolist(), bias, variance, np.bincount(rater), strict=True)
    ]
    systems = {
        usable.systems[code]: _system(usable, code, keys // width, psi, stimulus, share, unbiased)
        for code in distinct(usable.system).tolist()
    }
    stimuli.sort(key=lambda one: (one.system, one.item))
    return SubjectBias(systems, stimuli, raters, left_out, is_shrunk)


def alternating_projection(score: F8, rater: I8, stimulus: I8, prior_answers: float = 0.0) -> tuple[F8, F8, F8]:
    """Quality [J], bias [I] with mean zero, and variance [I].

    Args:
        score: [N] answers.
        rater, stimulus: [N] codes from 0, all of them used.
        prior_answers: weight of the raters' mean variance in each of their variances, in answers; 0 for the MLE.
    """
    in_stimulus, of_rater = np.bincount(stimulus), np.bincount(rater)
    psi: F8 = np.bincount(stimulus, score) / in_stimulus
    bias: F8 = np.bincount(rater, score - psi[stimulus]) / of_rater
    variance = np.ones(len(bias))
    for _ in range(_MAX_STEPS):
        before = psi
        residual = score - psi[stimulus] - bias[rater]
        mean = np.bincount(rater, residual) / of_rater
        squares = np.bincount(rater, (residual - mean[rater]) ** 2)
        variance = (squares + prior_answers * squares.sum() / len(score)) / (of_rater + prior_answers)
        weight = (1 / (variance + _MIN_VARIANCE))[rater]
        psi = np.bincount(stimulus, weight * (score - bias[rater])) / np.bincount(stimulus, weight)
        bias = np.bincount(rater, score - psi[stimulus]) / of_rater
        if np.linalg.norm(psi - before) < _TOLERANCE:
            break
    common = bias.mean()
    return psi + common, bias - common, variance


def _system(ratings: Ratings, code: int, system_of: I8, psi: F8, stimulus: I8, share: F8, unbiased: F8) -> Interval:
    """Mean quality of a system's stimuli, with the influence of each answer on it."""
    rows, mine = ratings.system == code, psi[system_of == code]
    mean = float(mine.mean())
    influence = share[rows] * (unbiased[rows] - mean) / len(mine)
    return clustered_interval(mean, influence, ratings.rater[rows], ratings.item[rows], "two_way", 0.95, ratings.scale)


def _check_connected(rater: I8, stimulus: I8) -> None:
    size = int(rater.max()) + 1
    total = size + int(stimulus.max()) + 1
    graph = scipy.sparse.coo_matrix((np.ones(len(rater)), (rater, stimulus + size)), shape=(total, total))
    groups = int(scipy.sparse.csgraph.connected_components(graph, directed=False)[0])
    if groups > 1:
        what = f"the raters form {groups} groups that share no stimuli, so their biases cannot be compared"
        raise BadOption(what, "let every rater rate some stimuli of the others")
