"""What an earlier first sound is worth: preferences and scores of live tests against their latency.

Latency and voice go together: a voice that is always later is liked less for whatever it is. So there are two slopes:
over all answers, and among answers on the same voices, whose latency differs from one typing to the next.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.optimize import linprog  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]

from studio.core.errors import BadOption
from studio.mos.stats.bradley_terry.fit import ELO_PER_E
from studio.mos.stats.bradley_terry.undefeated import least_in_a_row
from studio.mos.stats.columns import F8, I8, Scale
from studio.mos.stats.distributions import t_cdf
from studio.mos.stats.interval import Interval, alike, clustered, finite, of_mean, present, sign_test, t_quantile

PER_MS = 100.0
_LEAST = 8  # answers of a bin
_MOST_BINS = 6
_RIDGE = 1e-6  # on the voices' own terms: one that won everything has no finite one
_TURNS, _EXACT = 60, 1e-10
Always = Literal["sooner", "later"]


@dataclass(frozen=True)
class Heard:
    """Answers with latencies, one row each.

    Attributes:
        value: [N], the score, or what the vote is worth to the first of two (1, 0, 1/2).
        ms: [N], latency of a score's voice; of a vote by how much the first voice was sooner than the second.
        voices: [N, S], 1 at the voice; of a vote 1 at the first and -1 at the second.
        rater: [N] codes.
        item: [N] codes.
    """

    value: F8
    ms: F8
    voices: F8
    rater: I8
    item: I8


@dataclass(frozen=True)
class Bin:
    """Answers of about the same latency; ``mean`` is their score, or the share for the voice that was sooner."""

    low_ms: float
    middle_ms: float
    high_ms: float
    mean: Interval


@dataclass(frozen=True)
class Slope:
    """Per 100 ms of latency, by rater and script; None where latencies hardly differ, or the data cannot say.

    Attributes:
        value: None where votes have no finite slope.
        low: like ``high`` the end of the 95% interval; where there is no finite slope the bound to its one side.
        p: two-sided, against no slope.
        n: answers.
        always: which voice won every vote that latency can tell, so that there is no finite slope (perfect separation,
            Albert & Anderson 1984); None otherwise.
    """

    value: float | None
    low: float | None
    high: float | None
    p: float | None
    n: int
    always: Always | None = None


def bins(heard: Heard, scale: Scale, null: float | None = None) -> list[Bin]:
    """Answers in up to six groups as large as each other, by latency, each with its mean.

    Raises:
        BadOption: there are no answers.
    """
    if not len(heard.value):
        raise BadOption("there are no answers with latencies", "live tests have them")
    count = int(np.clip(len(heard.value) // _LEAST, 1, _MOST_BINS))
    order = np.argsort(heard.ms, kind="stable")
    found: list[Bin] = []
    for rows in np.array_split(order, count):
        ms = heard.ms[rows]
        mean = of_mean(heard.value[rows], heard.rater[rows], heard.item[rows], "two_way", 0.95, scale, null)
        found.append(Bin(float(ms.min()), float(np.median(ms)), float(ms.max()), mean))
    return found


def towards_the_sooner(heard: Heard) -> Heard:
    """Votes turned so that the first voice is the one that was sooner."""
    turn = heard.ms < 0
    value = np.where(turn, 1 - heard.value, heard.value)
    voices = np.where(turn[:, None], -heard.voices, heard.voices)
    return Heard(value, np.abs(heard.ms), voices, heard.rater, heard.item)


def score_slope(heard: Heard, same_voice: bool = False) -> Slope | None:
    """Points of the scale per 100 ms, by least squares; ``same_voice``: among answers on the same voice."""
    x, y = heard.ms / PER_MS, heard.value
    groups = heard.voices.argmax(axis=1) if same_voice else np.zeros(len(x), np.int64)
    x, y = _centred(x, groups), _centred(y, groups)
    room = float(x @ x)
    if room < 1e-9 * len(x):
        return None
    value = float(x @ y) / room
    return _slope(value, x * (y - value * x) / room, heard)


def preference_slope(heard: Heard, same_voices: bool = False) -> Slope | None:
    """Elo per 100 ms that a voice is sooner, by logistic regression; ``same_voices``: beside the voices' own strengths.

    That is Bradley and Terry's model with latency in it; a tie is half a win. Where the sooner voice won every vote the
    slope has no upper end: over all answers it is bounded as an undefeated system's strength is
    (``undefeated.least_in_a_row``), with the p value of a sign test, one vote a rater (or script, if they are fewer).
    Beside the voices' strengths, which the same votes would have to tell, neither can be given. None where the slope
    has neither end: latency and voice then tell the same votes.
    """
    x = heard.ms / PER_MS
    if float(x @ x) < 1e-9 * max(1, len(x)):
        return None
    design = np.column_stack([x, heard.voices[:, 1:]]) if same_voices else x[:, None]
    sooner, later = (_separates(design, heard.value, sign) for sign in (1, -1))
    if sooner and later:
        return None
    if sooner or later:
        always: Always = "sooner" if sooner else "later"
        return Slope(None, None, None, None, len(x), always) if same_voices else _bounded(heard, always)
    ridge = _RIDGE * len(x) * np.eye(design.shape[1])
    ridge[0, 0] = 0.0
    at = np.zeros(design.shape[1])
    for _ in range(_TURNS):
        chance = 1 / (1 + np.exp(-np.clip(design @ at, -30, 30)))
        bend = (design.T * (chance * (1 - chance))) @ design + ridge
        step = np.linalg.lstsq(bend, design.T @ (heard.value - chance) - ridge @ at, rcond=None)[0]
        at = at + step * min(1.0, 2.0 / max(1e-12, float(np.abs(step).max())))
        if float(np.abs(step).max()) < _EXACT:
            break
    chance = 1 / (1 + np.exp(-np.clip(design @ at, -30, 30)))
    bend = (design.T * (chance * (1 - chance))) @ design + ridge
    moves = np.linalg.pinv(bend)[0] @ design.T
    if same_voices and abs(moves @ x) < 1e-6:
        return None
    return _slope(ELO_PER_E * float(at[0]), ELO_PER_E * moves * (heard.value - chance), heard)


def _separates(design: F8, value: F8, sign: int) -> bool:
    """Whether a step along the first column, ``sign`` long, with any of the others, makes no vote less likely.

    Then the likelihood rises for ever that way. Won votes may only move up, lost ones down, ties not at all.
    """
    towards = np.sign(2 * value - 1)[:, None] * design
    decided, ties = towards[value != 0.5], design[value == 0.5]
    ends = [(sign, sign)] + [(None, None)] * (design.shape[1] - 1)
    limits: dict[str, Any] = {"A_ub": -decided, "b_ub": np.zeros(len(decided))} if len(decided) else {}
    limits |= {"A_eq": ties, "b_eq": np.zeros(len(ties))} if len(ties) else {}
    found: Any = linprog(np.zeros(design.shape[1]), bounds=ends, **limits)  # scipy comes without types
    return found.status == 0


def _bounded(heard: Heard, always: Always) -> Slope:
    """The slope's one end where the sooner (or the later) voice won every vote between voices not equally late."""
    told = heard.ms != 0
    units = min(present(codes[told]) for codes in (heard.rater, heard.item))
    by = np.abs(heard.ms[told])
    usual = float(by.mean())
    least = least_in_a_row(lambda lead: -units * float(np.logaddexp(0.0, -lead * by / usual).mean()))
    least *= float(ELO_PER_E) * PER_MS / usual
    low, high = (least, None) if always == "sooner" else (None, -least)
    return Slope(None, low, high, sign_test(units), len(heard.ms), always)


def voice_columns(first: I8, second: I8 | None, voices: Sequence[str]) -> F8:
    """[N, S] with 1 at the first voice and, of pairs, -1 at the second."""
    rows = np.arange(len(first))
    columns = np.zeros((len(first), len(voices)))
    columns[rows, first] = 1.0
    if second is not None:
        columns[rows, second] -= 1.0
    return columns


def _centred(values: F8, groups: I8) -> F8:
    counts = np.maximum(1, np.bincount(groups))
    return values - (np.bincount(groups, values) / counts)[groups]


def _slope(value: float, influence: F8, heard: Heard) -> Slope:
    se, df = clustered(influence, heard.rater, heard.item, "two_way")
    reach = finite(t_quantile(df, 0.95) * se)
    if reach is None or alike(se):
        return Slope(value, None, None, None, len(influence))
    p = float(2 * t_cdf(df, -abs(value) / se))
    return Slope(value, value - reach, value + reach, p, len(influence))
