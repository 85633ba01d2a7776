"""Systems that never lost (or never won) against the others: they have no finite strength, only a bound to one side."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from studio.mos.stats.bradley_terry.fit import ELO_PER_E, Fit
from studio.mos.stats.bradley_terry.strength import groups
from studio.mos.stats.columns import F8, Votes
from studio.mos.stats.interval import present, tails

State = Literal["undefeated", "winless", "between", "apart"]
_STATES: dict[int, State] = {1: "undefeated", -1: "winless", 0: "between"}
_FARTHEST, _EXACT = 50.0, 1e-9  # of ln p; nobody's votes reach the first


@dataclass(frozen=True)
class Standing:
    """What can be said of a system that wins do not connect, both ways, with most others.

    Attributes:
        group: a number that systems share which wins connect both ways.
        state: undefeated or winless against all systems outside its group; between, above some and below others;
            apart, never compared with any of them.
        bound: the Elo that an undefeated system has at least, a winless one at most; None in the other states.
        beyond: the same, all others where the fit put them.
        by_luck: [S], the chance of as many wins in a row, were it level with each other system.
    """

    group: int
    state: State
    bound: float | None
    beyond: float | None
    by_luck: F8


@dataclass(frozen=True)
class Lead:
    """By how much Elo one system lies at least ahead of another, and the chance of such votes were they level."""

    least: float
    by_luck: float


def standings(votes: Votes, fitted: Fit, c: float = 2000.0, level: float = 0.95) -> dict[int, Standing]:
    """The standing of every system outside the largest group that wins connect; empty where they connect all systems.

    The bound is exact as though each rater (or script, if they are fewer) had one vote, the others' scores taken as
    known: the strength at which as many wins in a row have a chance of 2.5% (of two systems Clopper & Pearson's).
    Where no two systems are connected it is of the centred score.
    """
    parts = sorted(groups(fitted.wins), key=lambda part: (-len(part), part))
    if len(parts) < 2:
        return {}
    among_others = len(parts[0]) > 1
    found: dict[int, Standing] = {}
    for group, part in list(enumerate(parts))[among_others:]:
        row = _Row.of(votes, fitted, part)
        moved = fitted.log_p.copy()
        if row.sign:
            moved[part] += row.sign * row.shift(level)
        middle = 0.0 if among_others else fitted.log_p.mean() - moved.mean()
        for system in part:
            beyond = float(c + ELO_PER_E * moved[system]) if row.sign else None
            bound = None if beyond is None else float(beyond + ELO_PER_E * middle)
            found[system] = Standing(group, row.state, bound, beyond, row.by_luck(fitted.log_p, system))
    return found


def lead(votes: Votes, found: Mapping[int, Standing], elo: F8, i: int, j: int) -> Lead | None:
    """What votes say of i ahead of j where i is undefeated or j winless; None where wins connect them, and elsewhere.

    Where both are, their own votes alone count, for the fit has put neither.
    """
    first, second = found.get(i), found.get(j)
    if (first and first.group) == (second and second.group):
        return None
    top = first if first and first.state == "undefeated" else None
    bottom = second if second and second.state == "winless" else None
    if top and bottom:
        return _direct(votes, i, j)
    if top and top.beyond is not None:
        return Lead(top.beyond - float(elo[j]), float(top.by_luck[j]))
    if bottom and bottom.beyond is not None:
        return Lead(float(elo[i]) - bottom.beyond, float(bottom.by_luck[i]))
    return None


def least_in_a_row(chance: Callable[[float], float], level: float = 0.95) -> float:
    """The least that a lead may be, of votes all won by one side: there their chance is 2.5% (Clopper & Pearson 1934).

    Args:
        chance: the logarithm of the chance of those votes, rising in the lead (in ln p, or in the like of it).
        level: nominal, of an interval with two sides.
    """
    wanted, low, high = float(np.log(tails(level)[0])), -_FARTHEST, _FARTHEST
    while high - low > _EXACT:
        middle = (low + high) / 2
        low, high = (middle, high) if chance(middle) < wanted else (low, middle)
    return low


@dataclass(frozen=True)
class _Row:
    """A group's wins in a row against the others.

    Attributes:
        sign: 1 where it won them all, -1 where it lost them all, 0 else.
        ahead: [P, Q], ln p of each of its systems above that of each other, as they were put; times sign.
        weight: [P, Q], votes, of as many as are surely independent.
    """

    state: State
    sign: int
    ahead: F8
    weight: F8

    @staticmethod
    def of(votes: Votes, fitted: Fit, part: list[int]) -> "_Row":
        inside = np.isin(np.arange(len(fitted.wins)), part)
        won, lost = fitted.wins[np.ix_(inside, ~inside)], fitted.wins[np.ix_(~inside, inside)].T
        sign = int(won.any()) - int(lost.any())
        games, crossing = won + lost, votes.where(inside[votes.a] != inside[votes.b])
        state: State = _STATES[sign] if len(crossing) else "apart"
        ahead = sign * (fitted.log_p[inside][:, None] - fitted.log_p[~inside][None, :])
        return _Row(state, sign, ahead, games * _independent(crossing) / max(games.sum(), 1.0))

    def chance(self, shift: float) -> float:
        """Of so many wins in a row, the logarithm, had the group been put so much farther ahead."""
        return float(-(self.weight * np.logaddexp(0.0, -(self.ahead + shift))).sum())

    def shift(self, level: float) -> float:
        """How much farther ahead than it was put the group is at least; as a rule below nought."""
        return least_in_a_row(self.chance, level)

    def by_luck(self, log_p: F8, system: int) -> F8:
        """The chance [S] of so many wins in a row, the group moved until the system is level with each other."""
        return np.exp([self.chance(shift) for shift in self.sign * (log_p - log_p[system])])


def _independent(votes: Votes) -> int:
    """How many votes are surely independent: one for each rater, or for each script if they are fewer."""
    return min((present(codes) for codes in (votes.rater, votes.item) if codes is not None), default=len(votes))


def _direct(votes: Votes, i: int, j: int) -> Lead | None:
    """Of the votes between the two, all of which i won."""
    met = votes.where(((votes.a == i) & (votes.b == j)) | ((votes.a == j) & (votes.b == i)))
    if not len(met):
        return None
    independent = _independent(met)
    share = tails(0.95)[0] ** (1 / independent)
    return Lead(float(ELO_PER_E * np.log(share / (1 - share))), 0.5**independent)
