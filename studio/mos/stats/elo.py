"""Elo report of pairwise votes: scores, intervals and differences as JSON values.

Systems that never lost (or never won) against the others have no finite strength, only a one-sided bound.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, permutations
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from studio.core.errors import BadOption
from studio.mos.stats.bradley_terry import (
    ELO_PER_E,
    EloIntervals,
    Fit,
    components,
    fit,
    gamma_quantiles,
    groups,
    undecided,
)
from studio.mos.stats.clusters import largest_share, unequal_note
from studio.mos.stats.columns import BOTH_BAD, F8, TIE, Votes, distinct, distinct_rows
from studio.mos.stats.elo_intervals import clustered_intervals, posterior_intervals
from studio.mos.stats.interval import Clusters, count_distinct, finite_or_none, small_sample_note, tail_probabilities
from studio.mos.stats.means import holm

State = Literal["undefeated", "winless", "between", "apart"]
_STATES: dict[int, State] = {1: "undefeated", -1: "winless", 0: "between"}
_MAX_LEAD, _TOLERANCE = 50.0, 1e-9  # of ln p
_TAIL = tail_probabilities(0.95)[0]


@dataclass(frozen=True)
class Standing:
    """State of a system that is not connected to most others by wins and losses."""

    group: int  # index of its strongly connected group
    # undefeated or winless against all systems outside its group; between: above some and below others; apart: never
    # compared with any of them
    state: State
    # lower bound of the Elo of an undefeated system, upper bound of a winless one; None in the other states
    bound: float | None
    bound_others_fixed: float | None  # the same with all other systems at their fitted scores
    chance_p: F8  # [S], probability of the streak if the system were as strong as each other system


class Lead(NamedTuple):
    """Lower bound of the Elo difference of two systems, and the probability of such votes if they were equal."""

    least: float
    chance_p: float


def standings(votes: Votes, fitted: Fit, c: float = 2000.0) -> dict[int, Standing]:
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
            moved[part] += streak.sign * least_lead_of_streak(streak.chance)  # usually negative
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


def least_lead_of_streak(chance: Callable[[float], float]) -> float:
    """Lower bound of the lead of a side that won all votes: their probability at it is 2.5% (Clopper & Pearson 1934).

    ``chance`` is the log probability of those votes, increasing in the lead (in ln p, or any unit).
    """
    target, low, high = float(np.log(_TAIL)), -_MAX_LEAD, _MAX_LEAD
    while high - low > _TOLERANCE:
        middle = (low + high) / 2
        low, high = (middle, high) if chance(middle) < target else (low, middle)
    return low


@dataclass(frozen=True)
class _Streak:
    """Wins of a group of systems against all others."""

    state: State
    sign: int  # 1 if it won them all, -1 if it lost them all, else 0
    ahead: F8  # [P, Q], fitted ln p of each of its systems minus that of each other system, times sign
    weight: F8  # [P, Q], effective number of independent votes

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
    share = _TAIL ** (1 / independent)
    return Lead(float(ELO_PER_E * np.log(share / (1 - share))), 0.5**independent)


EloMethod = Literal["mle", "gamma", "dsm", "davidson", "posterior"]
MANY_TIES = 0.1  # share of the votes above which a note explains the effect of half wins


def elo_report(
    votes: Votes,
    method: EloMethod = "gamma",
    c: float = 2000.0,
    a0: float = 0.1,
    b0: float = 0.1,
    seed: int = 0,
    clusters: Clusters = "two_way",
) -> dict[str, Any]:
    """Elo scores, intervals, differences and notes as JSON values (None for missing numbers).

    ``mle``, ``gamma`` and ``davidson`` have intervals clustered by rater and script, ``dsm`` the Gamma quantiles of
    paper 002, ``posterior`` the gamma scores with posterior quantiles. A system that is not connected to the others by
    wins has a ``state`` (``Standing``) and a one-sided bound instead of an interval.

    Returns:
        systems: {name: {elo, lo, hi, state}}; differences: [{a, b, difference, lo, hi, p, p_holm}], best first;
        connected; method; interval: description; votes, raters, items: counts, None if unknown;
        undecided: {tie, both_bad}, shares of the votes; wins and p_better: [S][S] in the order of ``systems``;
        p_better_is: definition of p_better; reason: why numbers are missing; notes.

    Raises BadOption: an unknown method, or prior parameters outside 0.001 to 1000.
    """
    if method not in get_args(EloMethod):
        raise BadOption(f"{method!r} is not a scoring method", f"choose {', '.join(get_args(EloMethod))}")
    fitted = fit(votes, "gamma" if method == "posterior" else method, a0, b0)
    if method == "dsm":
        spread = gamma_quantiles(fitted, c)
    elif method == "posterior":
        spread = posterior_intervals(fitted, c, seed=seed)
    else:
        spread = clustered_intervals(votes, fitted, c, clusters=clusters)
    if method in ("dsm", "posterior"):
        spread = _within_components(fitted, spread)
    separated = {} if fitted.reason else standings(votes, fitted, c)
    unbounded = {} if method in ("dsm", "posterior") else separated  # these intervals follow from the prior
    elo = fitted.elo(c)
    return {
        "systems": _systems(votes.systems, elo, spread, separated, unbounded),
        "differences": _differences(votes, elo, spread, unbounded),
        "connected": fitted.connected,
        "method": method,
        "interval": spread.label,
        "votes": len(votes),
        "raters": None if votes.rater is None else len(distinct(votes.rater)),
        "items": None if votes.item is None else len(distinct(votes.item)),
        "undecided": {name: float((votes.outcome == code).mean()) if len(votes) else 0.0 for name, code in _UNDECIDED},
        "wins": fitted.wins.tolist(),
        "p_better": [[finite_or_none(p) for p in row] for row in _better(votes, elo, spread, unbounded)],
        "p_better_is": spread.better_label + (_BY_LUCK if unbounded else ""),
        "reason": spread.reason if fitted.reason is None else fitted.reason,
        "notes": _notes(votes, fitted, separated, unbounded),
    }


def rank_ranges(differences: Sequence[Mapping[str, Any]], names: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Highest and lowest rank of each named system that the intervals of ``elo_report``'s ``differences`` allow."""
    above = {(d["a"], d["b"]) for d in differences if d["lo"] is not None and d["lo"] > 0}
    return {
        name: (
            1 + sum((other, name) in above for other in names),
            len(names) - sum((name, other) in above for other in names),
        )
        for name in names
    }


def _within_components(fitted: Fit, spread: EloIntervals) -> EloIntervals:
    """The intervals without those that follow from the prior alone: between systems that no votes connect.

    Only scores in the largest group of connected systems keep their intervals; none does without votes.
    """
    label = components(fitted.wins)
    apart = label[:, None] != label[None, :]
    if not apart.any():
        return spread
    sizes = np.bincount(label)
    outside = (label != int(sizes.argmax())) | (sizes.max() < 2)
    low, high = (np.where(outside, np.nan, end) for end in (spread.low, spread.high))
    gap_low, gap_high, better = (
        np.where(apart, np.nan, of) for of in (spread.difference_low, spread.difference_high, spread.better)
    )
    return replace(spread, low=low, high=high, difference_low=gap_low, difference_high=gap_high, better=better)


_BY_LUCK = (
    "; for an undefeated or winless system, which has no standard error, one minus the probability of the streak if "
    "the two were level"
)
_UNDECIDED = (("tie", TIE), ("both_bad", BOTH_BAD))


EloRow = dict[str, float | str | None]


def _systems(
    names: list[str],
    elo: F8,
    spread: EloIntervals,
    separated: Mapping[int, Standing],
    unbounded: Mapping[int, Standing],
) -> dict[str, EloRow]:
    rows: dict[str, EloRow] = {}
    for s, name in enumerate(names):
        low, high = finite_or_none(spread.low[s]), finite_or_none(spread.high[s])
        state = separated[s].state if s in separated else None
        if s in unbounded:
            low = unbounded[s].bound if state == "undefeated" else None
            high = unbounded[s].bound if state == "winless" else None
        rows[name] = {"elo": finite_or_none(elo[s]), "lo": low, "hi": high, "state": state}
    return rows


def _differences(votes: Votes, elo: F8, spread: EloIntervals, separated: Mapping[int, Standing]) -> list[EloRow]:
    """Every pair, the better system first, with Holm-corrected p values."""
    names = votes.systems
    order = sorted(range(len(names)), key=lambda s: (not np.isfinite(elo[s]), -elo[s], names[s]))
    rows: list[EloRow] = []
    for i, j in combinations(order, 2):
        low, high = finite_or_none(spread.difference_low[i, j]), finite_or_none(spread.difference_high[i, j])
        p = None if spread.p is None else finite_or_none(spread.p[i, j])
        if one_sided := lead(votes, separated, elo, i, j):
            low, high, p = one_sided.least, None, min(1.0, 2 * one_sided.chance_p)
        ends = {"lo": low, "hi": high, "p": p, "p_holm": None}
        rows.append({"a": names[i], "b": names[j], "difference": finite_or_none(elo[i] - elo[j]), **ends})
    known = [row for row in rows if row["p"] is not None]
    for row, p in zip(known, holm(np.array([row["p"] for row in known], np.float64)), strict=True):
        row["p_holm"] = float(p)
    return rows


def _better(votes: Votes, elo: F8, spread: EloIntervals, separated: Mapping[int, Standing]) -> F8:
    better = spread.better.copy()
    for i, j in permutations(range(len(elo)), 2):
        if one_sided := lead(votes, separated, elo, i, j):
            better[i, j], better[j, i] = 1 - one_sided.chance_p, one_sided.chance_p
    return better


def _notes(
    votes: Votes, fitted: Fit, separated: Mapping[int, Standing], unbounded: Mapping[int, Standing]
) -> list[str]:
    notes: list[str] = []
    for state, what in _STATE_NOTES.items():
        if names := [votes.systems[s] for s, stands in separated.items() if stands.state == state]:
            notes.append(f"{', '.join(names)}: {what}")
    if separated and not unbounded:
        notes.append(
            "Where wins do not connect systems, their distance and its interval follow from the prior alone; "
            "systems that no votes connect have no interval"
        )
    ties = float(undecided(votes).mean()) if len(votes) else 0.0
    if ties >= MANY_TIES and fitted.tie is None:
        notes.append(
            f"{ties:.0%} of the votes are ties or 'both bad'; counted as half a win each, they shrink differences, "
            "which Davidson's model does not"
        )
    columns = [None if codes is None or not len(codes) else codes for codes in (votes.rater, votes.item)]
    raters, items = (None if codes is None else count_distinct(codes) for codes in columns)
    rater_share, item_share = (None if codes is None else largest_share(codes) for codes in columns)
    sample_notes = (
        small_sample_note(raters, items),
        unequal_note(raters, rater_share, items, item_share),
        _identical_rows(votes),
    )
    return notes + [note for note in sample_notes if note is not None]


def _identical_rows(votes: Votes) -> str | None:
    """Note on votes that repeat another one in every column; None if there are none.

    Also None for unknown raters or scripts, or a single script: equal votes of a rater on a pair are expected then.
    """
    if votes.rater is None or votes.item is None or count_distinct(votes.item) < 2:
        return None
    repeated = len(votes) - distinct_rows(votes.rater, votes.item, votes.a, votes.b, votes.outcome.astype(np.int64))
    if not repeated:
        return None
    are = "row is" if repeated == 1 else "rows are"
    return (
        f"{repeated} {are} identical to another one (rater, script, systems in this order, outcome); they are counted, "
        "so remove them if the file has votes twice"
    )


_STATE_NOTES = {
    "undefeated": "undefeated by the systems outside its group, so its strength has no upper bound; the lower bound "
    "follows from the votes, the score itself from the prior",
    "winless": "never won against the systems outside its group, so its strength has no lower bound; the upper bound "
    "follows from the votes, the score itself from the prior",
    "between": "won every vote against some systems and lost every vote against others, so its rank is known but its "
    "distance follows from the prior; collect more votes",
    "apart": "never compared with the systems outside its group; the distance to them follows from the prior",
}
