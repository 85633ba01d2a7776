"""Choice of the next pair in an arena: pure functions of the battles assigned and the votes.

The next pair is the one whose vote is expected to reduce the ladder's error most
(studio.mos.stats.elo_intervals), or with probability ``arena.explore`` any pair, so that wrong estimates get
corrected. Open battles count as expected votes; otherwise concurrent raters would all get the same pair. Within a pair,
the system that was first less often comes first.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

import numpy as np

from studio.mos.campaign.config import Arena
from studio.mos.campaign.design import AssignedUnit, Unit
from studio.mos.kinds.tables import A0, B0
from studio.mos.stats.elo_intervals import expected_error_reduction

_POINTS = {"a": 1.0, "b": 0.0, "tie": 0.5, "both_bad": 0.5}

Pair = tuple[int, int]


@dataclass
class BattleTally:
    """Battles and votes of each pair."""

    # votes for a pair's first system; a tie is 0.5
    wins: defaultdict[Pair, float] = field(default_factory=lambda: defaultdict(float))
    votes: Counter[Pair] = field(default_factory=Counter[Pair])  # votes on a pair
    open_battles: Counter[Pair] = field(default_factory=Counter[Pair])  # battles of a pair without a vote yet
    # how often a system of a pair was the first voice
    first: Counter[tuple[Pair, int]] = field(default_factory=Counter[tuple[Pair, int]])
    assigned: Counter[str] = field(default_factory=Counter[str])  # battles of a unit

    def add(self, unit: Unit, lead: int, outcome: str | None, count: int) -> None:
        """Count battles of a unit with the stimulus ``lead`` first; without an outcome they are open."""
        pair, first = pair_of(unit), unit.systems[unit.stimuli.index(lead)]
        self.first[pair, first] += count
        self.assigned[unit.key] += count
        if outcome is None:
            self.open_battles[pair] += count
            return
        self.votes[pair] += count
        point = _POINTS[outcome]
        self.wins[pair] += count * (point if first == pair[0] else 1 - point)


def pair_of(unit: Unit) -> Pair:
    """The two systems of a unit in canonical order."""
    first, second = unit.systems
    return first, second


def choose_battle(
    units: Sequence[Unit], tally: BattleTally, mine: BattleTally, arena: Arena, rng: Random
) -> AssignedUnit | None:
    """The next battle of a rater, with its order of voices; None if the rater has reached the cap of every pair.

    ``tally``: battles of all raters; ``mine``: battles of this rater.
    """
    pairs = sorted({pair_of(unit) for unit in units})
    open_still = [p for p in pairs if mine.votes[p] + mine.open_battles[p] < arena.per_pair]
    if not open_still:
        return None
    pair = rng.choice(open_still if rng.random() < arena.explore else _most_informative(pairs, open_still, tally))
    among = [unit for unit in units if pair_of(unit) == pair]
    fewest = min((mine.assigned[u.key], tally.assigned[u.key]) for u in among)
    unit = rng.choice([u for u in among if (mine.assigned[u.key], tally.assigned[u.key]) == fewest])
    order = sorted(rng.sample(range(2), 2), key=lambda k: tally.first[pair, unit.systems[k]])
    return AssignedUnit(unit, tuple(unit.stimuli[k] for k in order))


def _most_informative(pairs: Sequence[Pair], open_still: Sequence[Pair], tally: BattleTally) -> list[Pair]:
    """The pairs whose vote reduces the error most; several if equal, as before the first vote."""
    index = {system: k for k, system in enumerate(sorted({s for pair in pairs for s in pair}))}
    wins, waiting = (np.zeros((len(index), len(index))) for _ in range(2))
    for pair in pairs:
        i, j = (index[s] for s in pair)
        wins[i, j], wins[j, i] = tally.wins[pair], tally.votes[pair] - tally.wins[pair]
        waiting[i, j] = waiting[j, i] = tally.open_battles[pair]
    gain = expected_error_reduction(wins, waiting, A0, B0)
    gain_of = {pair: float(gain[index[pair[0]], index[pair[1]]]) for pair in open_still}
    most = max(gain_of.values())
    return [pair for pair, value in gain_of.items() if value > most * (1 - 1e-9)]
