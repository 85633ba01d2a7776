"""Elo scores of systems from pair votes, with all that is known of their error, as JSON values."""

from collections.abc import Mapping
from itertools import combinations, permutations
from typing import Any, Literal, get_args

import numpy as np

from studio.core.errors import BadOption
from studio.mos.stats.bradley_terry import gibbs
from studio.mos.stats.bradley_terry.error import clustered_spread
from studio.mos.stats.bradley_terry.fit import Fit, Spread, fit, gamma_quantiles
from studio.mos.stats.bradley_terry.strength import undecided
from studio.mos.stats.bradley_terry.undefeated import Standing, lead, standings
from studio.mos.stats.columns import BOTH_BAD, F8, TIE, Votes
from studio.mos.stats.compare import holm
from studio.mos.stats.interval import Clusters, few, finite, present

Method = Literal["mle", "gamma", "dsm", "davidson", "posterior"]
MANY_TIES = 0.1  # share of the votes from which on it is said what half wins do


def elo_report(
    votes: Votes,
    method: Method = "gamma",
    c: float = 2000.0,
    a0: float = 0.1,
    b0: float = 0.1,
    seed: int = 0,
    clusters: Clusters = "two_way",
) -> dict[str, Any]:
    """Everything about the scores, as JSON values (None where there is no number).

    ``mle``, ``gamma`` and ``davidson`` have intervals by rater and script, ``dsm`` the Gamma quantiles of paper 002,
    ``posterior`` the scores of gamma with quantiles of their posterior. A system that wins do not connect with the
    others has a ``state`` (``undefeated.Standing``) and a bound to one side instead of an interval.

    Returns:
        systems: {name: {elo, lo, hi, state}}; differences: [{a, b, difference, lo, hi, p, p_holm}], the best first;
        connected; method; interval: how it was made; votes, raters, items: their numbers, None where not known;
        undecided: {tie, both_bad}, shares of the votes; wins and p_better: [S][S] in the order of ``systems``;
        p_better_is: what the latter are; reason: why numbers are missing; notes: what has to be known of the rest.

    Raises:
        BadOption: an unknown method, or a prior outside 0.001 to 1000.
    """
    if method not in get_args(Method):
        raise BadOption(f"{method!r} is not a method of scoring", f"known are {', '.join(get_args(Method))}")
    fitted = fit(votes, "gamma" if method == "posterior" else method, a0, b0)
    if method == "dsm":
        spread = gamma_quantiles(fitted, c)
    elif method == "posterior":
        spread = gibbs.spread(fitted, c, seed=seed)
    else:
        spread = clustered_spread(votes, fitted, c, clusters=clusters)
    alone = {} if fitted.reason else standings(votes, fitted, c)
    unbounded = {} if method in ("dsm", "posterior") else alone  # these have the prior's own intervals
    elo = fitted.elo(c)
    return {
        "systems": _systems(votes.systems, elo, spread, alone, unbounded),
        "differences": _differences(votes, elo, spread, unbounded),
        "connected": fitted.connected,
        "method": method,
        "interval": spread.label,
        "votes": len(votes),
        "raters": None if votes.rater is None else len(np.unique(votes.rater)),
        "items": None if votes.item is None else len(np.unique(votes.item)),
        "undecided": {name: float((votes.outcome == code).mean()) if len(votes) else 0.0 for name, code in _UNDECIDED},
        "wins": fitted.wins.tolist(),
        "p_better": [[finite(p) for p in row] for row in _better(votes, elo, spread, unbounded)],
        "p_better_is": spread.better_is + (_BY_LUCK if unbounded else ""),
        "reason": spread.reason if fitted.reason is None else fitted.reason,
        "notes": _notes(votes, fitted, alone, unbounded),
    }


_BY_LUCK = (
    "; of an undefeated or a winless system, which has no standard error, one less the chance of so many wins in a row "
    "were the two level"
)
_UNDECIDED = (("tie", TIE), ("both_bad", BOTH_BAD))


Row = dict[str, float | str | None]


def _systems(
    names: list[str], elo: F8, spread: Spread, alone: Mapping[int, Standing], unbounded: Mapping[int, Standing]
) -> dict[str, Row]:
    rows: dict[str, Row] = {}
    for s, name in enumerate(names):
        low, high = finite(spread.low[s]), finite(spread.high[s])
        state = alone[s].state if s in alone else None
        if s in unbounded:
            low = unbounded[s].bound if state == "undefeated" else None
            high = unbounded[s].bound if state == "winless" else None
        rows[name] = {"elo": finite(elo[s]), "lo": low, "hi": high, "state": state}
    return rows


def _differences(votes: Votes, elo: F8, spread: Spread, alone: Mapping[int, Standing]) -> list[Row]:
    """Of every pair, the better of the two first; p values corrected for all pairs (Holm 1979)."""
    names = votes.systems
    order = sorted(range(len(names)), key=lambda s: (not np.isfinite(elo[s]), -elo[s], names[s]))
    rows: list[Row] = []
    for i, j in combinations(order, 2):
        low, high = finite(spread.difference_low[i, j]), finite(spread.difference_high[i, j])
        p = None if spread.p is None else finite(spread.p[i, j])
        if one_sided := lead(votes, alone, elo, i, j):
            low, high, p = one_sided.least, None, min(1.0, 2 * one_sided.by_luck)
        ends = {"lo": low, "hi": high, "p": p, "p_holm": None}
        rows.append({"a": names[i], "b": names[j], "difference": finite(elo[i] - elo[j]), **ends})
    known = [row for row in rows if row["p"] is not None]
    for row, p in zip(known, holm(np.array([row["p"] for row in known], np.float64)), strict=True):
        row["p_holm"] = float(p)
    return rows


def _better(votes: Votes, elo: F8, spread: Spread, alone: Mapping[int, Standing]) -> F8:
    better = spread.better.copy()
    for i, j in permutations(range(len(elo)), 2):
        if one_sided := lead(votes, alone, elo, i, j):
            better[i, j], better[j, i] = 1 - one_sided.by_luck, one_sided.by_luck
    return better


def _notes(votes: Votes, fitted: Fit, alone: Mapping[int, Standing], unbounded: Mapping[int, Standing]) -> list[str]:
    said: list[str] = []
    for state, what in _SAID.items():
        if names := [votes.systems[s] for s, stands in alone.items() if stands.state == state]:
            said.append(f"{', '.join(names)}: {what}")
    if alone and not unbounded:
        said.append("Where wins do not connect systems, the distance between them and its interval are the prior's")
    ties = float(undecided(votes).mean()) if len(votes) else 0.0
    if ties >= MANY_TIES and fitted.tie is None:
        said.append(
            f"{ties:.0%} of the votes are ties or 'both bad'; half a win each, they draw scores together, which "
            "Davidson's model does not"
        )
    known = (None if codes is None or not len(codes) else present(codes) for codes in (votes.rater, votes.item))
    if (short := few(*known)) is not None:
        said.append(short)
    return said


_SAID = {
    "undefeated": "undefeated by the systems outside its group, so its strength has no upper end; the bound is what "
    "the votes say, the score itself is the prior's",
    "winless": "never won against the systems outside its group, so its strength has no lower end; the bound is what "
    "the votes say, the score itself is the prior's",
    "between": "won every vote against some systems and lost every vote against others, so its place is known and its "
    "distance is not: that is the prior's; collect more votes",
    "apart": "never compared with the systems outside its group; the distance to them is the prior's alone",
}
