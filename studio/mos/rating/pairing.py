"""Which battle of an arena is next: pure functions of what was given and voted.

The next pair is the one whose vote is expected to shorten the ladder's intervals most
(studio.mos.stats.bradley_terry.sharpening), or with probability ``arena.explore`` any, so that no wrong guess lasts.
Battles that are on count as votes to come, or whoever comes at the same time would be given the same pair. Which of the
two is first is what led the pair less often.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

import numpy as np

from studio.mos.campaign.config import Arena
from studio.mos.campaign.design import Placed, Unit
from studio.mos.kinds.analysis import A0, B0
from studio.mos.stats.bradley_terry.sharpening import expected_gain

_POINTS = {"a": 1.0, "b": 0.0, "tie": 0.5, "both_bad": 0.5}

Pair = tuple[int, int]


@dataclass
class Tally:
    """What was given of each pair, and what came of it.

    Attributes:
        wins: votes of a pair's first system against its second; a tie is half of one.
        votes: votes on a pair.
        waiting: battles of a pair that are on.
        led: how often a system of a pair was the first voice.
        given: battles of a unit.
    """

    wins: defaultdict[Pair, float] = field(default_factory=lambda: defaultdict(float))
    votes: Counter[Pair] = field(default_factory=Counter[Pair])
    waiting: Counter[Pair] = field(default_factory=Counter[Pair])
    led: Counter[tuple[Pair, int]] = field(default_factory=Counter[tuple[Pair, int]])
    given: Counter[str] = field(default_factory=Counter[str])

    def add(self, unit: Unit, lead: int, outcome: str | None, count: int) -> None:
        """Count battles of a unit whose first voice was the stimulus ``lead``; without an outcome they are on."""
        pair, first = pair_of(unit), unit.systems[unit.stimuli.index(lead)]
        self.led[pair, first] += count
        self.given[unit.key] += count
        if outcome is None:
            self.waiting[pair] += count
            return
        self.votes[pair] += count
        point = _POINTS[outcome]
        self.wins[pair] += count * (point if first == pair[0] else 1 - point)


def pair_of(unit: Unit) -> Pair:
    """The two systems of a unit, in the order in which the kind has them."""
    first, second = unit.systems
    return first, second


def choose(units: Sequence[Unit], tally: Tally, mine: Tally, arena: Arena, rng: Random) -> Placed | None:
    """The next battle of a rater, and which voice is first; None where every pair has been theirs as often as may be.

    Args:
        units: of the campaign.
        tally: of everybody.
        mine: of the rater.
        arena: the campaign's settings.
        rng: decides where there is a choice.
    """
    pairs = sorted({pair_of(unit) for unit in units})
    open_still = [p for p in pairs if mine.votes[p] + mine.waiting[p] < arena.per_pair]
    if not open_still:
        return None
    pair = rng.choice(open_still if rng.random() < arena.explore else _sharpest(pairs, open_still, tally))
    among = [unit for unit in units if pair_of(unit) == pair]
    fewest = min((mine.given[u.key], tally.given[u.key]) for u in among)
    unit = rng.choice([u for u in among if (mine.given[u.key], tally.given[u.key]) == fewest])
    order = sorted(rng.sample(range(2), 2), key=lambda k: tally.led[pair, unit.systems[k]])
    return Placed(unit, tuple(unit.stimuli[k] for k in order))


def _sharpest(pairs: Sequence[Pair], open_still: Sequence[Pair], tally: Tally) -> list[Pair]:
    """The pairs whose vote gains most; several where they are alike, as before the first vote."""
    places = {system: k for k, system in enumerate(sorted({s for pair in pairs for s in pair}))}
    wins, waiting = (np.zeros((len(places), len(places))) for _ in range(2))
    for pair in pairs:
        i, j = (places[s] for s in pair)
        wins[i, j], wins[j, i] = tally.wins[pair], tally.votes[pair] - tally.wins[pair]
        waiting[i, j] = waiting[j, i] = tally.waiting[pair]
    gain = expected_gain(wins, waiting, A0, B0)
    found = {pair: float(gain[places[pair[0]], places[pair[1]]]) for pair in open_still}
    most = max(found.values())
    return [pair for pair, value in found.items() if value > most * (1 - 1e-9)]
