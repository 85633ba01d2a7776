"""Elo report of pairwise votes: scores, intervals and differences as JSON values."""

from collections.abc import Mapping
from itertools import combinations, permutations
from typing import Any, Literal, get_args

import numpy as np

from studio.core.errors import BadOption
from studio.mos.stats.bradley_terry import gibbs
from studio.mos.stats.bradley_terry.fit import EloIntervals, Fit, fit, gamma_quantiles
from studio.mos.stats.bradley_terry.intervals import clustered_intervals
from studio.mos.stats.bradley_terry.separation import Standing, lead, standings
from studio.mos.stats.bradley_terry.strength import undecided
from studio.mos.stats.columns import BOTH_BAD, F8, TIE, Votes
from studio.mos.stats.interval import Clusters, count_distinct, finite_or_none, small_sample_note
from studio.mos.stats.means import holm

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
    wins has a ``state`` (``separation.Standing``) and a one-sided bound instead of an interval.

    Returns:
        systems: {name: {elo, lo, hi, state}}; differences: [{a, b, difference, lo, hi, p, p_holm}], best first;
        connected; method; interval: description; votes, raters, items: counts, None if unknown;
        undecided: {tie, both_bad}, shares of the votes; wins and p_better: [S][S] in the order of ``systems``;
        p_better_is: definition of p_better; reason: why numbers are missing; notes.

    Raises:
        BadOption: an unknown method, or prior parameters outside 0.001 to 1000.
    """
    if method not in get_args(EloMethod):
        raise BadOption(f"{method!r} is not a scoring method", f"choose {', '.join(get_args(EloMethod))}")
    fitted = fit(votes, "gamma" if method == "posterior" else method, a0, b0)
    if method == "dsm":
        spread = gamma_quantiles(fitted, c)
    elif method == "posterior":
        spread = gibbs.posterior_intervals(fitted, c, seed=seed)
    else:
        spread = clustered_intervals(votes, fitted, c, clusters=clusters)
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
        "raters": None if votes.rater is None else len(np.unique(votes.rater)),
        "items": None if votes.item is None else len(np.unique(votes.item)),
        "undecided": {name: float((votes.outcome == code).mean()) if len(votes) else 0.0 for name, code in _UNDECIDED},
        "wins": fitted.wins.tolist(),
        "p_better": [[finite_or_none(p) for p in row] for row in _better(votes, elo, spread, unbounded)],
        "p_better_is": spread.better_label + (_BY_LUCK if unbounded else ""),
        "reason": spread.reason if fitted.reason is None else fitted.reason,
        "notes": _notes(votes, fitted, separated, unbounded),
    }


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
            "Where wins do not connect systems, the distance between them and its interval follow from the prior alone"
        )
    ties = float(undecided(votes).mean()) if len(votes) else 0.0
    if ties >= MANY_TIES and fitted.tie is None:
        notes.append(
            f"{ties:.0%} of the votes are ties or 'both bad'; counted as half a win each, they shrink differences, "
            "which Davidson's model does not"
        )
    known = (None if codes is None or not len(codes) else count_distinct(codes) for codes in (votes.rater, votes.item))
    if (short := small_sample_note(*known)) is not None:
        notes.append(short)
    return notes


_STATE_NOTES = {
    "undefeated": "undefeated by the systems outside its group, so its strength has no upper bound; the lower bound "
    "follows from the votes, the score itself from the prior",
    "winless": "never won against the systems outside its group, so its strength has no lower bound; the upper bound "
    "follows from the votes, the score itself from the prior",
    "between": "won every vote against some systems and lost every vote against others, so its rank is known but its "
    "distance follows from the prior; collect more votes",
    "apart": "never compared with the systems outside its group; the distance to them follows from the prior",
}
