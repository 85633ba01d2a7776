"""Effect of latency on preferences and scores in live tests.

Latency and voice are confounded, so there are two slopes: over all answers, and within voices, whose latency varies
from one typing to the next.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy  # pyright: ignore[reportMissingTypeStubs]

from studio.core.errors import BadOption
from studio.mos.stats.bradley_terry import ELO_PER_E
from studio.mos.stats.columns import F8, I8, ScoreScale
from studio.mos.stats.elo import least_lead_of_streak
from studio.mos.stats.interval import (
    Interval,
    clustered_error,
    count_distinct,
    finite_or_none,
    is_zero_error,
    mean_interval,
    sign_test_p,
    t_cdf,
    t_quantile,
)

PER_MS = 100.0
_MIN_BIN_ANSWERS = 8
_MAX_BINS = 6
_RIDGE = 1e-6  # on the strengths of voices: an undefeated voice would have an infinite one
_MAX_ITERATIONS, _TOLERANCE = 60, 1e-10
Always = Literal["sooner", "later"]


@dataclass(frozen=True)
class LatencyAnswers:
    """Answers with latencies."""

    value: F8  # [N], the score, or the value of the vote to the first of two (1, 0, 1/2)
    ms: F8  # [N], latency of the rated voice; for votes, by how much the first voice was faster than the second
    voices: F8  # [N, S], 1 for the voice; for votes 1 for the first and -1 for the second
    rater: I8  # [N] codes
    item: I8  # [N] codes


@dataclass(frozen=True)
class LatencyBin:
    """Answers of similar latency; ``mean`` is their score, or the share of votes for the faster voice."""

    low_ms: float
    middle_ms: float
    high_ms: float
    mean: Interval


@dataclass(frozen=True)
class LatencySlope:
    """Slope per 100 ms of latency, clustered by rater and script."""

    value: float | None  # None if there is no finite slope
    low: float | None  # like ``high``, a bound of the 95% interval; without a finite slope the one-sided bound
    high: float | None
    p: float | None  # two-sided, against zero slope
    n: int  # answers
    # the voice that won every vote that latency can explain, so that there is no finite slope (perfect separation,
    # Albert & Anderson 1984); None otherwise
    always: Always | None = None


def latency_bins(answers: LatencyAnswers, scale: ScoreScale, null: float | None = None) -> list[LatencyBin]:
    """Means of up to six equally large groups by latency. Raises BadOption without answers."""
    if not len(answers.value):
        raise BadOption("there are no answers with latencies", "only live tests have them")
    count = int(np.clip(len(answers.value) // _MIN_BIN_ANSWERS, 1, _MAX_BINS))
    order = np.argsort(answers.ms, kind="stable")
    bins: list[LatencyBin] = []
    for rows in np.array_split(order, count):
        ms = answers.ms[rows]
        mean = mean_interval(answers.value[rows], answers.rater[rows], answers.item[rows], "two_way", 0.95, scale, null)
        bins.append(LatencyBin(float(ms.min()), float(np.median(ms)), float(ms.max()), mean))
    return bins


def orient_to_faster(answers: LatencyAnswers) -> LatencyAnswers:
    """Votes reordered so that the first voice is the faster one."""
    turn = answers.ms < 0
    value = np.where(turn, 1 - answers.value, answers.value)
    voices = np.where(turn[:, None], -answers.voices, answers.voices)
    return LatencyAnswers(value, np.abs(answers.ms), voices, answers.rater, answers.item)


def score_slope(answers: LatencyAnswers, same_voice: bool = False) -> LatencySlope | None:
    """Score points per 100 ms by least squares; ``same_voice``: within voices."""
    x, y = answers.ms / PER_MS, answers.value
    groups = answers.voices.argmax(axis=1) if same_voice else np.zeros(len(x), np.int64)
    x, y = _centred(x, groups), _centred(y, groups)
    squares = float(x @ x)
    if squares < 1e-9 * len(x):
        return None
    value = float(x @ y) / squares
    return _slope(value, x * (y - value * x) / squares, x**2, answers)


def preference_slope(answers: LatencyAnswers, same_voices: bool = False) -> LatencySlope | None:
    """Elo per 100 ms by which a voice is faster, by logistic regression; ``same_voices``: with a strength per voice.

    This is a Bradley-Terry model with latency as a covariate; a tie is half a win. If the faster voice won every vote,
    the slope has no upper bound: over all answers its lower bound is that of an undefeated system
    (``elo.least_lead_of_streak``) and p is a sign test with one vote per rater (or script, if fewer). With a strength
    per voice neither is available. None if latency and voice explain the same votes.
    """
    x = answers.ms / PER_MS
    if float(x @ x) < 1e-9 * max(1, len(x)):
        return None
    design = np.column_stack([x, answers.voices[:, 1:]]) if same_voices else x[:, None]
    sooner, later = (_is_separated(design, answers.value, sign) for sign in (1, -1))
    if sooner and later:
        return None
    if sooner or later:
        always: Always = "sooner" if sooner else "later"
        unbounded = LatencySlope(None, None, None, None, len(x), always)
        return unbounded if same_voices else _one_sided_slope(answers, always)
    ridge = _RIDGE * len(x) * np.eye(design.shape[1])
    ridge[0, 0] = 0.0
    beta = np.zeros(design.shape[1])

    def curvature() -> tuple[F8, F8]:
        """Probabilities [N] at ``beta``, and the Hessian."""
        chance = 1 / (1 + np.exp(-np.clip(design @ beta, -30, 30)))
        return chance, (design.T * (chance * (1 - chance))) @ design + ridge

    for _ in range(_MAX_ITERATIONS):
        chance, hessian = curvature()
        step = np.linalg.lstsq(hessian, design.T @ (answers.value - chance) - ridge @ beta, rcond=None)[0]
        beta = beta + step * min(1.0, 2.0 / max(1e-12, float(np.abs(step).max())))
        if float(np.abs(step).max()) < _TOLERANCE:
            break
    chance, hessian = curvature()
    weights = np.linalg.pinv(hessian)[0] @ design.T
    if same_voices and abs(weights @ x) < 1e-6:
        return None
    influence = ELO_PER_E * weights * (answers.value - chance)
    return _slope(ELO_PER_E * float(beta[0]), influence, weights**2 * chance * (1 - chance), answers)


def _is_separated(design: F8, value: F8, sign: int) -> bool:
    """Whether a step of ``sign`` along the first column, with any step along the others, makes no vote less likely.

    Then the likelihood has no maximum: scores of won votes may only rise, of lost ones fall, of ties not change.
    """
    towards = np.sign(2 * value - 1)[:, None] * design
    decided, ties = towards[value != 0.5], design[value == 0.5]
    ends = [(sign, sign)] + [(None, None)] * (design.shape[1] - 1)
    limits: dict[str, Any] = {"A_ub": -decided, "b_ub": np.zeros(len(decided))} if len(decided) else {}
    limits |= {"A_eq": ties, "b_eq": np.zeros(len(ties))} if len(ties) else {}
    result: Any = scipy.optimize.linprog(np.zeros(design.shape[1]), bounds=ends, **limits)  # scipy has no type stubs
    return result.status == 0


def _one_sided_slope(answers: LatencyAnswers, always: Always) -> LatencySlope:
    """Bound of the slope if the faster (or the slower) voice won every vote between voices of different latency."""
    informative = answers.ms != 0
    units = min(count_distinct(codes[informative]) for codes in (answers.rater, answers.item))
    distance_ms = np.abs(answers.ms[informative])
    mean_ms = float(distance_ms.mean())
    least = least_lead_of_streak(lambda lead: -units * float(np.logaddexp(0.0, -lead * distance_ms / mean_ms).mean()))
    least *= float(ELO_PER_E) * PER_MS / mean_ms
    low, high = (least, None) if always == "sooner" else (None, -least)
    return LatencySlope(None, low, high, sign_test_p(units), len(answers.ms), always)


def voice_columns(first: I8, second: I8 | None, voices: Sequence[str]) -> F8:
    """[N, S] with 1 for the first voice and, for pairs, -1 for the second."""
    rows = np.arange(len(first))
    columns = np.zeros((len(first), len(voices)))
    columns[rows, first] = 1.0
    if second is not None:
        columns[rows, second] -= 1.0
    return columns


def _centred(values: F8, groups: I8) -> F8:
    counts = np.maximum(1, np.bincount(groups))
    return values - (np.bincount(groups, values) / counts)[groups]


def _slope(value: float, influence: F8, size: F8, answers: LatencyAnswers) -> LatencySlope:
    se, df = clustered_error(influence, answers.rater, answers.item, "two_way", size)
    half_width = finite_or_none(t_quantile(df, 0.95) * se)
    if half_width is None or is_zero_error(se):
        return LatencySlope(value, None, None, None, len(influence))
    p = float(2 * t_cdf(df, -abs(value) / se))
    return LatencySlope(value, value - half_width, value + half_width, p, len(influence))
