"""Experimental design: seeded, counterbalanced assignment of units to raters with a quota per unit. Pure functions."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Unit:
    """The stimuli of one trial, and a reference if the kind has one."""

    key: str  # identifies the unit within its campaign, for quotas
    item_id: int  # the script
    stimuli: tuple[int, ...]  # rated stimuli in canonical order; raters get a shuffled order
    systems: tuple[int, ...]  # the system of each stimulus
    reference: int | None = None  # stimulus played as the reference, not rated


class UnitTable:
    """All units of a campaign, with columns for fast assignment.

    Attributes:
        item: [U], code of each unit's script; ``rows_by_item`` has the rows of each code.
        systems: [U, S], occurrences of each system in a unit.
    """

    def __init__(self, units: Sequence[Unit]) -> None:
        self.units = tuple(units)
        self.keys = [u.key for u in units]
        items = {item: code for code, item in enumerate(dict.fromkeys(u.item_id for u in units))}
        names = {system: code for code, system in enumerate(dict.fromkeys(s for u in units for s in u.systems))}
        self.item = np.array([items[u.item_id] for u in units], np.int64)
        order = np.argsort(self.item, kind="stable")
        self.rows_by_item = np.split(order, np.cumsum(np.bincount(self.item))[:-1]) if len(order) else []
        self.systems = np.zeros((len(self.units), len(names)), np.int64)
        for row, unit in enumerate(units):
            for system in unit.systems:
                self.systems[row, names[system]] += 1


@dataclass
class AssignmentCounts:
    """Counts of assigned trials: per unit, per (unit, first stimulus), and per (unit, question order)."""

    assigned: Counter[str] = field(default_factory=Counter[str])
    first: Counter[tuple[str, int]] = field(default_factory=Counter[tuple[str, int]])
    question_orders: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])


@dataclass(frozen=True)
class AssignedUnit:
    """A unit assigned to a rater, with its stimuli in slot order and the role of the trial."""

    unit: Unit
    order: tuple[int, ...]
    role: str = "test"

    def played(self) -> list[tuple[int, str]]:
        """The stimulus of each slot, with its role: candidate or reference."""
        reference = self.unit.reference
        return [*((s, "candidate") for s in self.order), *([] if reference is None else [(reference, "reference")])]


def assign_units(table: UnitTable, counts: AssignmentCounts, quota: int, count: int, rng: Random) -> list[AssignedUnit]:
    """Units for one rater: fewest raters first, no script twice while others are left, systems balanced.

    Ties go to the script heard least; otherwise the last open units could all belong to one script, which a rater
    should hear only once. Returns fewer than ``count`` units if all others have their quota. Updates ``counts``.
    """
    assigned = np.fromiter((counts.assigned.get(key, 0) for key in table.keys), np.int64, len(table.units))
    open_still = assigned < quota
    times_heard = np.bincount(table.item, assigned).astype(np.int64)[table.item]
    system_overlap = np.zeros(len(assigned), np.int64)
    first = np.where(open_still, assigned, _EXCLUDED)  # primary key; the others break ties
    chosen: list[AssignedUnit] = []
    for _ in range(min(count, int(open_still.sum()))):
        best = np.flatnonzero(first == first.min())
        best = best[_lowest(times_heard[best])]
        best = best[_lowest(system_overlap[best])]
        row = int(best[rng.randrange(len(best))])
        same_script = table.rows_by_item[int(table.item[row])]
        first[same_script] += _REPEATED_SCRIPT
        times_heard[same_script] += 1
        first[row] = _EXCLUDED
        system_overlap += table.systems @ table.systems[row]
        chosen.append(order_stimuli(table.units[row], counts, rng))
    return balance_order(chosen, rng)


_REPEATED_SCRIPT = 2**40  # penalty of a script that the rater already hears: larger than any number of raters
_EXCLUDED = 2**60


def _lowest(value: IntArray) -> NDArray[np.bool_]:
    """Mask of the smallest values of a column [N]."""
    return value == value.min()


def order_stimuli(unit: Unit, counts: AssignmentCounts, rng: Random, role: str = "test") -> AssignedUnit:
    """Order a unit's stimuli: the least frequent first, the rest shuffled. Updates ``counts``."""
    order = list(unit.stimuli)
    rng.shuffle(order)
    order.sort(key=lambda s: counts.first[unit.key, s])
    order[1:] = rng.sample(order[1:], len(order) - 1)
    counts.assigned[unit.key] += role == "test"
    counts.first[unit.key, order[0]] += role == "test"
    return AssignedUnit(unit, tuple(order), role)


def choose_question_order(
    orders: Sequence[str], trials: Sequence[AssignedUnit], counts: AssignmentCounts, rng: Random
) -> str:
    """The question order that raters of these units had least often; "" without orders.

    A rater keeps one order, so orders are balanced among the raters of every unit. Updates ``counts``.
    """
    if not orders:
        return ""
    so_far = {
        order: sum(counts.question_orders[s.unit.key, order] for s in trials)
        for order in rng.sample(orders, len(orders))
    }
    mine = min(so_far, key=lambda order: so_far[order])
    counts.question_orders.update((s.unit.key, mine) for s in trials)
    return mine


def balance_order(trials: Sequence[AssignedUnit], rng: Random) -> list[AssignedUnit]:
    """Order trials such that every system follows every other equally often (first-order carry-over balance).

    The previous sound biases the rating of the next one. Returns the most even of several greedy random orders.
    """
    kinds = {kind: k for k, kind in enumerate(dict.fromkeys(tuple(sorted(s.unit.systems)) for s in trials))}
    if len(kinds) < 2:
        return rng.sample(trials, len(trials))
    names = {name: k for k, name in enumerate(sorted({system for kind in kinds for system in kind}))}
    holds = np.zeros((len(kinds), len(names)), np.int64)
    for kind, row in kinds.items():
        holds[row, [names[system] for system in kind]] = 1
    of_kind: list[list[AssignedUnit]] = [[] for _ in kinds]
    for trial in rng.sample(trials, len(trials)):
        of_kind[kinds[tuple(sorted(trial.unit.systems))]].append(trial)
    left = np.array([len(mine) for mine in of_kind])
    _, order = min(
        (_one_order(holds, left.copy(), rng) for _ in range(_ORDERS)), key=lambda scored_order: scored_order[0]
    )
    return [of_kind[kind].pop() for kind in order]


_ORDERS = 6


def _one_order(holds: IntArray, left: IntArray, rng: Random) -> tuple[int, list[int]]:
    """The unevenness of a greedy random order of trial types, and the order.

    Args:
        holds: [K, S], 1 where a system is in a trial type.
        left: [K], trials left of each type; consumed.
    """
    followed = np.zeros((holds.shape[1],) * 2, np.int64)
    order = [rng.choices(range(len(left)), left.tolist())[0]]
    left[order[0]] -= 1
    for _ in range(int(left.sum())):
        cost = (holds @ (holds[order[-1]] @ followed)) + _SAME * (holds @ holds[order[-1]])
        open_still = np.flatnonzero(left)
        best = open_still[_lowest(cost[open_still])]
        best = best[_lowest(-left[best])]
        following = int(best[rng.randrange(len(best))])
        followed += np.outer(holds[order[-1]], holds[following])
        left[following] -= 1
        order.append(following)
    same = int(np.trace(followed))
    return int((followed**2).sum()) + _SAME**2 * same, order


_SAME = 3  # cost of a system that follows itself; 1 per earlier occurrence of a succession


def assemble_session(
    tests: list[AssignedUnit], training: list[AssignedUnit], checks: list[AssignedUnit], repeats: int, rng: Random
) -> list[AssignedUnit]:
    """The trials of a session: training first, traps and golds scattered among the tests, repeats in the second half.

    A repeat comes at least half a list after the original if possible; a trap or gold never comes first.
    """
    trials = list(tests)
    for again in rng.sample(tests[: (len(tests) + 1) // 2], min(repeats, (len(tests) + 1) // 2)):
        trials.append(AssignedUnit(again.unit, again.order, "repeat"))
    for check in checks:
        trials.insert(rng.randint(min(1, len(trials)), len(trials)), check)
    return [*training, *trials]
