"""What an earlier first sound is worth: preferences and scores of live tests against their latency.

Latency and voice go together: a voice that is always later is liked less for whatever it is. So there are two slopes:
over all answers, and among answers on the same voices, whose latency differs from one typing to the next.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from studio.core.errors import BadOption
from studio.mos.stats.bradley_terry.fit import ELO_PER_E
from studio.mos.stats.columns import F8, I8, Scale
from studio.mos.stats.distributions import t_cdf
from studio.mos.stats.interval import Interval, clustered, finite, of_mean, t_quantile

PER_MS = 100.0
_LEAST = 8  # answers of a bin
_MOST_BINS = 6
_RIDGE = 1e-6  # on the voices' own terms: one that won everything has no finite one
_TURNS, _EXACT = 60, 1e-10


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
    """Per 100 ms of latency, by rater and script; None where latencies hardly differ, or the data cannot say."""

    value: float
    low: float | None
    high: float | None
    p: float | None
    n: int


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

    That is Bradley and Terry's model with latency in it; a tie is half a win.
    """
    x = heard.ms / PER_MS
    if float(x @ x) < 1e-9 * max(1, len(x)):
        return None
    design = np.column_stack([x, heard.voices[:, 1:]]) if same_voices else x[:, None]
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
    if reach is None or not se > 0:
        return Slope(value, None, None, None, len(influence))
    p = float(2 * t_cdf(df, -abs(value) / se))
    return Slope(value, value - reach, value + reach, p, len(influence))
