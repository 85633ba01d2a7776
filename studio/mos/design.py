"""Who hears what, in which order: seeded, counter-balanced, with a quota for every unit. Pure functions."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random


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


@dataclass
class Load:
    """What raters were already given: screens of each unit, and how often a stimulus came first in its unit."""

    given: Counter[str] = field(default_factory=Counter[str])
    led: Counter[tuple[str, int]] = field(default_factory=Counter[tuple[str, int]])


@dataclass(frozen=True)
class Placed:
    """A unit on a rater's list, with its stimuli in the order of the slots and why it is there."""

    unit: Unit
    order: tuple[int, ...]
    role: str = "test"


def deal(units: Sequence[Unit], load: Load, quota: int, count: int, rng: Random) -> list[Placed]:
    """Units for one rater: those with the fewest raters first, no script twice while others are left, systems in turn.

    Among units with as many raters, those of the script that was heard least go first: else the last units of one
    script would be left over for one rater, who may not hear it twice. Fewer than ``count`` come back when every other
    unit has its quota. ``load`` is brought up to date.
    """
    free = [u for u in units if load.given[u.key] < quota]
    rng.shuffle(free)
    heard: Counter[int] = Counter()
    for unit in units:
        heard[unit.item_id] += load.given[unit.key]
    items: Counter[int] = Counter()
    systems: Counter[int] = Counter()
    chosen: list[Placed] = []
    while free and len(chosen) < count:
        best = min(
            free,
            key=lambda u: (
                items[u.item_id],
                load.given[u.key],
                heard[u.item_id],
                sum(systems[s] for s in u.systems),
            ),
        )
        free.remove(best)
        items[best.item_id] += 1
        heard[best.item_id] += 1
        systems.update(best.systems)
        chosen.append(place(best, load, rng))
    rng.shuffle(chosen)
    return chosen


def place(unit: Unit, load: Load, rng: Random, role: str = "test") -> Placed:
    """A unit with its order: what led least often leads, the rest is shuffled. ``load`` is brought up to date."""
    order = list(unit.stimuli)
    rng.shuffle(order)
    order.sort(key=lambda s: load.led[unit.key, s])
    order[1:] = rng.sample(order[1:], len(order) - 1)
    load.given[unit.key] += role == "test"
    load.led[unit.key, order[0]] += role == "test"
    return Placed(unit, tuple(order), role)


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
