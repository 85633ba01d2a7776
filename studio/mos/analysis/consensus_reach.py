"""What the gate of agreement with the others can do in a test that is being made: whom it could judge, and fail."""

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from studio.mos.analysis.planned import sittings_needed, test_of
from studio.mos.campaign.design import Unit
from studio.mos.rating.campaigns import Running
from studio.mos.stats.consensus import Marks, consensus
from studio.mos.stats.planning.planner import usual
from studio.mos.stats.planning.population import draw_ratings

_RATERS = 200  # at least so many are simulated
_MOST_TESTS, _MOST_ITEMS = 50, 200


@dataclass(frozen=True)
class Reach:
    """What the gate can do.

    Attributes:
        comparable: answers of one sitting beside which there are answers of others.
        below: share of careful raters (nobody clicks at random) whose correlation is below the minimum, in simulated
            tests of this design; None where usual systems do not differ (pairs, pages), so that nothing can be said.
    """

    comparable: int
    below: float | None


def consensus_reach(run: Running) -> Reach:
    """The reach of a campaign's gate, by the marks that ``studio.mos.analysis.consensus`` compares."""
    each = min(run.config.trials_per_sitting, len(run.units))
    heard = Counter(stimulus for unit in run.units for stimulus in unit.stimuli)
    comparable = sum(sorted((_comparable(run, unit, heard) for unit in run.units), reverse=True)[:each])
    enough = comparable >= run.config.gates.consensus_answers and run.kind.name in ("acr", "dcr", "p835")
    return Reach(comparable, _share_below(run, each) if enough else None)


def _comparable(run: Running, unit: Unit, heard: Counter[int]) -> int:
    """The answers to a screen that others give, too."""
    config, quota = run.config, run.config.raters_per_stimulus
    by_system = config.gates.consensus_by == "system" and (run.kind.standing or sittings_needed(run) > 1)
    choices = 1 if config.choices else 0
    if run.kind.standing:  # what visitors type is never the same
        return choices if by_system else 0
    whole = by_system or quota > 1
    pair = choices + (len(config.questions) if run.kind.relative else 0)
    sounds = 0 if run.kind.relative else sum(whole or quota * heard[s] > 1 for s in unit.stimuli)
    return pair * whole + sounds * len(config.questions)


def _share_below(run: Running, each: int) -> float:
    config = run.config
    systems = list(dict.fromkeys(s for unit in run.units for s in unit.systems))
    items = min(_MOST_ITEMS, len({unit.item_id for unit in run.units}))
    test = test_of(run.kind)
    assert test is not None, "kinds of scores are planned by a width"
    who = replace(usual(test, len(systems)), clickers=0.0)
    cells, questions = items * len(systems), len(config.questions)
    each = min(each, cells)
    raters = max(2, round(cells * config.raters_per_stimulus / each))
    rng = np.random.default_rng(0)
    found: list[float | None] = []
    for _ in range(min(_MOST_TESTS, -(-_RATERS // raters))):
        order = np.concatenate([rng.permutation(cells) for _ in range(config.raters_per_stimulus + 1)])[: raters * each]
        rater = np.repeat(np.arange(raters), each)
        marks: list[Marks] = []
        for question in range(questions):
            score = draw_ratings(who, rng, raters, items).score.reshape(raters, cells)
            key = order % len(systems) if config.gates.consensus_by == "system" else order
            codes = key + question * cells
            group, signed = np.full(len(order), question, np.int64), np.zeros(len(order), np.bool_)
            marks.append(Marks(score[rater, order], rater, codes, group, signed))
        columns = (
            np.concatenate([getattr(m, name) for m in marks]) for name in ("value", "rater", "key", "group", "signed")
        )
        found += [one.r for one in consensus(Marks(*columns), np.ones(raters, np.bool_))]
    judged = [r for r in found if r is not None]
    return sum(r < config.gates.min_consensus for r in judged) / max(1, len(judged))
