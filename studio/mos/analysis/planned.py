"""How many raters a draft needs: ``campaign plan`` with the numbers that the draft itself has."""

import math
from dataclasses import dataclass

from studio.core.errors import BadOption
from studio.mos.analysis.pilot import TESTS
from studio.mos.kinds.base import Kind
from studio.mos.rating.campaigns import Running
from studio.mos.stats.planning.planner import REACH, Plan, Test, raters_for_means, usual


def test_of(kind: Kind) -> Test | None:
    """The test whose usual variances plan a kind; None where no width does: there is none, or there is no end."""
    if kind.name == "scale":
        return "mushra"  # its sliders are MUSHRA's, whose usual variances are in points
    return next(iter(TESTS.get(kind.name, ())), None) if not kind.standing else None


@dataclass(frozen=True)
class DraftPlan:
    """What a width takes in a draft.

    Attributes:
        test: as ``campaign plan --test`` calls it.
        systems: that are judged; ``items`` scripts, of which each rater hears ``share``.
        raters_per_stimulus: with which ``plan.raters`` raters answer their sittings.
    """

    test: Test
    systems: int
    items: int
    share: float
    raters_per_stimulus: int
    plan: Plan


def sittings_needed(run: Running) -> int:
    """How many raters it takes until every unit has those that it is to have, if all finish."""
    return math.ceil(len(run.units) * run.config.raters_per_stimulus / _each(run))


def _each(run: Running) -> int:
    """How many screens a rater answers: nobody judges one twice."""
    return min(run.config.trials_per_sitting, len(run.units))


def plan_of(run: Running, half_width: float, runs: int = 200) -> DraftPlan:
    """How many raters a draft needs for intervals so narrow, with usual variances and its own systems and scripts.

    Raises:
        BadOption: such a test is not planned by the width of an interval, or has too few scripts or systems.
        NotReached: no number of raters gives it.
    """
    test = test_of(run.kind)
    if test is None:
        raise BadOption(f"{run.kind.title} is not planned by a width", "set the number of raters yourself")
    systems = len({system for unit in run.units for system in unit.systems})
    items = len({unit.item_id for unit in run.units})
    share = _each(run) / len(run.units)
    found = raters_for_means(half_width, usual(test, systems), items, share, runs, reach=REACH[test])
    quota = math.ceil(found.raters * _each(run) / len(run.units))
    return DraftPlan(test, systems, items, share, quota, found)
