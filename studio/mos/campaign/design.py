"""Who hears what, in which order: seeded, counter-balanced, with a quota for every unit. Pure functions."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

import numpy as np
from numpy.typing import NDArray

Column = NDArray[np.int64]


@dataclass(frozen=True)
class Unit:
    """What one screen shows: the stimuli to be judged, and a reference beside them where the kind has one.

    Attributes:
        key: names the unit within its campaign; quotas count by it.
        item_id: the script.
        stimuli: what is judged, in a fixed order; a rater sees them in another.
        systems: the system of each stimulus.
        reference: the stimulus that is played as the reference, never judged.
    """

    key: str
    item_id: int
    stimuli: tuple[int, ...]
    systems: tuple[int, ...]
    reference: int | None = None


class Deck:
    """Every unit of a campaign, with what is compared when they are dealt as columns.

    Attributes:
        item: [U], a code of each unit's script; ``of_item`` are the rows of each code.
        systems: [U, S], how often each system is on it.
    """

    def __init__(self, units: Sequence[Unit]) -> None:
        self.units = tuple(units)
        self.keys = [u.key for u in units]
        items = {item: code for code, item in enumerate(dict.fromkeys(u.item_id for u in units))}
        names = {system: code for code, system in enumerate(dict.fromkeys(s for u in units for s in u.systems))}
        self.item = np.array([items[u.item_id] for u in units], np.int64)
        order = np.argsort(self.item, kind="stable")
        self.of_item = np.split(order, np.cumsum(np.bincount(self.item))[:-1]) if len(order) else []
        self.systems = np.zeros((len(self.units), len(names)), np.int64)
        for row, unit in enumerate(units):
            for system in unit.systems:
                self.systems[row, names[system]] += 1


@dataclass
class Load:
    """What raters were already given: screens of each unit, how often a stimulus came first in its unit, and an order
    of asking was that of its raters.
    """

    given: Counter[str] = field(default_factory=Counter[str])
    led: Counter[tuple[str, int]] = field(default_factory=Counter[tuple[str, int]])
    asked: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])


@dataclass(frozen=True)
class Placed:
    """A unit on a rater's list, with its stimuli in the order of the slots and why it is there."""

    unit: Unit
    order: tuple[int, ...]
    role: str = "test"


def deal(deck: Deck, load: Load, quota: int, count: int, rng: Random) -> list[Placed]:
    """Units for one rater: those with the fewest raters first, no script twice while others are left, systems in turn.

    Among units with as many raters, those of the script that was heard least go first: else the last units of one
    script would be left over for one rater, who may not hear it twice. Fewer than ``count`` come back when every other
    unit has its quota. ``load`` is brought up to date.
    """
    given = np.fromiter((load.given.get(key, 0) for key in deck.keys), np.int64, len(deck.units))
    open_still = given < quota
    heard = np.bincount(deck.item, given).astype(np.int64)[deck.item]
    turns = np.zeros(len(given), np.int64)
    first = np.where(open_still, given, _NEVER)  # what decides; turns and the rest only where this is alike
    chosen: list[Placed] = []
    for _ in range(min(count, int(open_still.sum()))):
        best = np.flatnonzero(first == first.min())
        best = best[_lowest(heard[best])]
        best = best[_lowest(turns[best])]
        row = int(best[rng.randrange(len(best))])
        alike = deck.of_item[int(deck.item[row])]
        first[alike] += _ONCE_MORE
        heard[alike] += 1
        first[row] = _NEVER
        turns += deck.systems @ deck.systems[row]
        chosen.append(place(deck.units[row], load, rng))
    return in_turn(chosen, rng)


_ONCE_MORE = 2**40  # a script that the rater is to hear anyway: beyond every number of raters
_NEVER = 2**60


def _lowest(value: Column) -> NDArray[np.bool_]:
    """Where a column [N] has its smallest value."""
    return value == value.min()


def place(unit: Unit, load: Load, rng: Random, role: str = "test") -> Placed:
    """A unit with its order: what led least often leads, the rest is shuffled. ``load`` is brought up to date."""
    order = list(unit.stimuli)
    rng.shuffle(order)
    order.sort(key=lambda s: load.led[unit.key, s])
    order[1:] = rng.sample(order[1:], len(order) - 1)
    load.given[unit.key] += role == "test"
    load.led[unit.key, order[0]] += role == "test"
    return Placed(unit, tuple(order), role)


def order_of_asking(orders: Sequence[str], screens: Sequence[Placed], load: Load, rng: Random) -> str:
    """Which of the orders a rater has: the one that the raters of these units had least often; "" without any.

    One rater keeps to one, so the orders are balanced among the raters of every unit. ``load`` is brought up to date.
    """
    if not orders:
        return ""
    so_far = {order: sum(load.asked[s.unit.key, order] for s in screens) for order in rng.sample(orders, len(orders))}
    mine = min(so_far, key=lambda order: so_far[order])
    load.asked.update((s.unit.key, mine) for s in screens)
    return mine


def in_turn(screens: Sequence[Placed], rng: Random) -> list[Placed]:
    """The screens in an order in which every system follows every other as often (first-order carry-over balance).

    What was heard last colours what is heard next, and would favour whoever follows the worst. So of many random
    orders, made step by step of what has followed least often, the most even one is taken; among screens of the same
    systems chance alone decides.
    """
    kinds = {kind: k for k, kind in enumerate(dict.fromkeys(tuple(sorted(s.unit.systems)) for s in screens))}
    if len(kinds) < 2:
        return rng.sample(screens, len(screens))
    names = {name: k for k, name in enumerate(sorted({system for kind in kinds for system in kind}))}
    holds = np.zeros((len(kinds), len(names)), np.int64)
    for kind, row in kinds.items():
        holds[row, [names[system] for system in kind]] = 1
    of_kind: list[list[Placed]] = [[] for _ in kinds]
    for screen in rng.sample(screens, len(screens)):
        of_kind[kinds[tuple(sorted(screen.unit.systems))]].append(screen)
    left = np.array([len(mine) for mine in of_kind])
    _, order = min((_one_order(holds, left.copy(), rng) for _ in range(_ORDERS)), key=lambda found: found[0])
    return [of_kind[kind].pop() for kind in order]


_ORDERS = 6


def _one_order(holds: Column, left: Column, rng: Random) -> tuple[int, list[int]]:
    """Kinds of screens, each step one of those that have followed the last least often; and how uneven that came out.

    Args:
        holds: [K, S], 1 where a system is on a kind of screen.
        left: [K], how many screens of each kind there are; used up.
        rng: decides where there is a choice.
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


_SAME = 3  # a system after itself is put off until others have followed that often


def sitting(
    tests: list[Placed], training: list[Placed], checks: list[Placed], repeats: int, rng: Random
) -> list[Placed]:
    """A whole list of screens: training first, traps and golds strewn among the tests, repeats in the last part.

    A repeat is a test shown again, at least half a list later where the list allows it; never does a check come first.
    """
    screens = list(tests)
    for again in rng.sample(tests[: (len(tests) + 1) // 2], min(repeats, (len(tests) + 1) // 2)):
        screens.append(Placed(again.unit, again.order, "repeat"))
    for check in checks:
        screens.insert(rng.randint(min(1, len(screens)), len(screens)), check)
    return [*training, *screens]
