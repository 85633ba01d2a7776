"""Systems that never lost (or never won) against the others have no finite strength, only a one-sided bound."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from studio.mos.stats.bradley_terry.fit import ELO_PER_E, Fit
from studio.mos.stats.bradley_terry.strength import groups
from studio.mos.stats.columns import F8, Votes
from studio.mos.stats.interval import count_distinct, tail_probabilities

State = Literal["undefeated", "winless", "between", "apart"]
_STATES: dict[int, State] = {1: "undefeated", -1: "winless", 0: "between"}
_MAX_LEAD, _TOLERANCE = 50.0, 1e-9  # of ln p


@dataclass(frozen=True)
class Standing:
    """State of a system that is not connected to most others by wins and losses.

    Attributes:
        group: index of its strongly connected group.
        state: undefeated or winless against all systems outside its group; between: above some and below others; apart:
            never compared with any of them.
        bound: lower bound of the Elo of an undefeated system, upper bound of a winless one; None in the other states.
        bound_others_fixed: the same with all other systems at their fitted scores.
        chance_p: [S], probability of the streak if the system were level with each other system.
    """

    group: int
    state: State
    bound: float | None
    bound_others_fixed: float | None
    chance_p: F8


@dataclass(frozen=True)
class Lead:
    """Lower bound of the Elo difference of two systems, and the probability of such votes if they were level."""

    least: float
    chance_p: float


def standings(votes: Votes, fitted: Fit, c: float = 2000.0, level: float = 0.95) -> dict[int, Standing]:
    """Standing of every system outside the largest connected group; empty if wins connect all systems.

    The bound is exact for one vote per rater (or script, if fewer) and known scores of the others: the strength at
    which a streak of that length has a probability of 2.5% (Clopper & Pearson for two systems). If no two systems are
    connected it is a bound of the centred score.
    """
    parts = sorted(groups(fitted.wins), key=lambda part: (-len(part), part))
    if len(parts) < 2:
        return {}
    among_others = len(parts[0]) > 1
    result: dict[int, Standing] = {}
    for group, part in list(enumerate(parts))[among_others:]:
        streak = _Streak.of(votes, fitted, part)
        moved = fitted.log_p.copy()
        if streak.sign:
            moved[part] += streak.sign * streak.shift(level)
        shift = 0.0 if among_others else fitted.log_p.mean() - moved.mean()
        for system in part:
            bound_fixed = float(c + ELO_PER_E * moved[system]) if streak.sign else None
            bound = None if bound_fixed is None else float(bound_fixed + ELO_PER_E * shift)
            result[system] = Standing(group, streak.state, bound, bound_fixed, streak.chance_p(fitted.log_p, system))
    return result


def lead(votes: Votes, standings: Mapping[int, Standing], elo: F8, i: int, j: int) -> Lead | None:
    """Lead of i over j if i is undefeated or j winless; None if wins connect them, and in other states.

    If both hold, only their direct votes count.
    """
    first, second = standings.get(i), standings.get(j)
    if (first and first.group) == (second and second.group):
        return None
    top = first if first and first.state == "undefeated" else None
    bottom = second if second and second.state == "winless" else None
    if top and bottom:
        return _direct_lead(votes, i, j)
    if top and top.bound_others_fixed is not None:
        return Lead(top.bound_others_fixed - float(elo[j]), float(top.chance_p[j]))
    if bottom and bottom.bound_others_fixed is not None:
        return Lead(float(elo[i]) - bottom.bound_others_fixed, float(bottom.chance_p[i]))
    return None


def least_lead_of_streak(chance: Callable[[float], float], level: float = 0.95) -> float:
    """Lower bound of a lead when one side won all votes: their probability there is 2.5% (Clopper & Pearson 1934).

    Args:
        chance: log probability of those votes, increasing in the lead (ln p, or any unit).
        level: nominal coverage of the two-sided interval.
    """
    target, low, high = float(np.log(tail_probabilities(level)[0])), -_MAX_LEAD, _MAX_LEAD
    while high - low > _TOLERANCE:
        middle = (low + high) / 2
        low, high = (middle, high) if chance(middle) < target else (low, middle)
    return low


@dataclass(frozen=True)
class _Streak:
    """Wins of a group of systems against all others.

    Attributes:
        sign: 1 if it won them all, -1 if it lost them all, else 0.
        ahead: [P, Q], fitted ln p of each of its systems minus that of each other system, times sign.
        weight: [P, Q], effective number of independent votes.
    """

    state: State
    sign: int
    ahead: F8
    weight: F8

    @staticmethod
    def of(votes: Votes, fitted: Fit, part: list[int]) -> "_Streak":
        inside = np.isin(np.arange(len(fitted.wins)), part)
        won, lost = fitted.wins[np.ix_(inside, ~inside)], fitted.wins[np.ix_(~inside, inside)].T
        sign = int(won.any()) - int(lost.any())
        games, crossing = won + lost, votes.where(inside[votes.a] != inside[votes.b])
        state: State = _STATES[sign] if len(crossing) else "apart"
        ahead = sign * (fitted.log_p[inside][:, None] - fitted.log_p[~inside][None, :])
        return _Streak(state, sign, ahead, games * _independent_votes(crossing) / max(games.sum(), 1.0))

    def chance(self, shift: float) -> float:
        """Log probability of the streak if the group were ``shift`` further ahead."""
        return float(-(self.weight * np.logaddexp(0.0, -(self.ahead + shift))).sum())

    def shift(self, level: float) -> float:
        """Lower bound of the shift from the fitted position; usually negative."""
        return least_lead_of_streak(self.chance, level)

    def chance_p(self, log_p: F8, system: int) -> F8:
        """Probability [S] of the streak with the group moved so that the system is level with each other one."""
        return np.exp([self.chance(shift) for shift in self.sign * (log_p - log_p[system])])


def _independent_votes(votes: Votes) -> int:
    """Number of independent votes: one per rater, or per script if there are fewer."""
    return min((count_distinct(codes) for codes in (votes.rater, votes.item) if codes is not None), default=len(votes))


def _direct_lead(votes: Votes, i: int, j: int) -> Lead | None:
    """Lead by the direct votes, all of which i won."""
    met = votes.where(((votes.a == i) & (votes.b == j)) | ((votes.a == j) & (votes.b == i)))
    if not len(met):
        return None
    independent = _independent_votes(met)
    share = tail_probabilities(0.95)[0] ** (1 / independent)
    return Lead(float(ELO_PER_E * np.log(share / (1 - share))), 0.5**independent)
