"""Number of raters of a test: variance components from a pilot campaign, and the plan of a draft."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sqlmodel import Session

from studio.core.errors import BadOption
from studio.mos.analysis.results import analysed_answers
from studio.mos.campaign.config import Question
from studio.mos.kinds.base import CountedAnswer
from studio.mos.kinds.registry import Kind
from studio.mos.kinds.tables import ratings_of, votes_of
from studio.mos.sessions.campaigns import LoadedCampaign, load_campaign
from studio.mos.stats import means
from studio.mos.stats.bradley_terry import points
from studio.mos.stats.columns import Ratings, ratings_from_rows
from studio.mos.stats.interval import count_distinct
from studio.mos.stats.pilot import conservative_ratings, conservative_votes, rating_population, vote_population
from studio.mos.stats.planner import (
    HALF_RANGE,
    PlannedTest,
    RaterPlan,
    RatingPopulation,
    VotePopulation,
    default_population,
    raters_for_means,
)
from studio.mos.store.tables import Campaign

TESTS: dict[str, tuple[PlannedTest, ...]] = {
    "acr": ("mos",),
    "dcr": ("mos",),
    "p835": ("mos",),
    "scale": ("mos",),
    "mushra": ("mushra",),
    "ccr": ("cmos",),
    "ab": ("preference", "elo"),
    "similarity": ("preference", "elo"),
    "live": ("preference", "elo"),
    "arena": ("preference", "elo"),
}


@dataclass(frozen=True)
class Pilot:
    """A campaign as pilot of another.

    Attributes:
        test: the planned test.
        question: the question whose scores were used; None for votes.
        raters: of the analysed answers, like ``scripts``.
        who: estimated population.
        cautious: the same with variances at their upper bounds, to plan with.
        reach: half the range of the scale; None for Elo.
    """

    test: PlannedTest
    question: str | None
    raters: int
    scripts: int
    who: RatingPopulation | VotePopulation
    cautious: RatingPopulation | VotePopulation
    reach: float | None


def campaign_pilot(session: Session, campaign: Campaign, test: PlannedTest | None = None, question: str = "") -> Pilot:
    """Population estimated from the analysed answers of a campaign, for a test that its kind can plan.

    Args:
        test: the planned test; by default the first that the kind can plan.
        question: the question to plan for; optional if only one was rated.

    Raises:
        BadOption: the campaign's kind cannot plan ``test``; the question is unknown or ambiguous; or there are fewer
            than three raters or scripts.
    """
    tests = TESTS.get(campaign.kind, ())
    if not tests or test not in (None, *tests):
        names = ", ".join(tests) or "nothing"
        raise BadOption(f"a pilot of kind {campaign.kind} plans {names}", "use another pilot, or plan without one")
    test = test or tests[0]
    answers = analysed_answers(session, campaign)
    if test == "elo":
        votes = votes_of(answers)
        population = vote_population(votes)
        raters, scripts = (0 if codes is None else count_distinct(codes) for codes in (votes.rater, votes.item))
        return Pilot(test, None, raters, scripts, population, conservative_votes(population, votes), None)
    rated_question = None if test == "preference" else _select_question(session, campaign, answers, question)
    ratings = _shares(answers) if rated_question is None else _ratings(answers, test, rated_question.id)
    population = rating_population(ratings)
    reach = HALF_RANGE[test] if rated_question is None else (rated_question.high - rated_question.low) / 2
    raters, scripts = count_distinct(ratings.rater), count_distinct(ratings.item)
    cautious = conservative_ratings(population, ratings)
    return Pilot(test, rated_question and rated_question.id, raters, scripts, population, cautious, reach)


def _select_question(session: Session, campaign: Campaign, answers: Sequence[CountedAnswer], question: str) -> Question:
    """The rated question to plan for."""
    rated = {name for a in answers for name, _ in a.scores}
    available = [q for q in load_campaign(session, campaign).config.questions if q.id in rated or not rated]
    matching = [q for q in available if q.id == question or not question]
    names = ", ".join(q.id for q in available)
    if not matching:
        raise BadOption(f"the pilot has no question {question!r}", f"choose {names}")
    if len(matching) > 1:
        raise BadOption(f"the pilot has several questions: {names}", "choose one with --question")
    return matching[0]


def _ratings(answers: Sequence[CountedAnswer], test: PlannedTest, question: str) -> Ratings:
    if test == "cmos":
        return _comparisons(answers, question)
    ratings = ratings_of(answers, question)
    hidden = {a.reference for a in answers if a.reference is not None}
    if test == "mushra" and hidden and len(ratings):
        anchor = next((a.mid_anchor for a in answers if a.mid_anchor in ratings.systems), None)
        ratings = means.exclude_raters(ratings, means.post_screen(ratings, hidden.pop(), anchor).dropped)
    return ratings


def _shares(answers: Sequence[CountedAnswer]) -> Ratings:
    """Votes as scores of their pair, 0 to 1."""
    votes = votes_of(answers)
    assert votes.rater is not None and votes.item is not None, "campaigns have raters and scripts"
    first, second = np.minimum(votes.a, votes.b), np.maximum(votes.a, votes.b)
    met, pair = np.unique(first * len(votes.systems) + second, return_inverse=True)
    systems: list[tuple[int, int]] = [divmod(code, len(votes.systems)) for code in met.tolist()]
    names = [_pair(votes.systems[a], votes.systems[b]) for a, b in systems]
    worth = np.where(votes.a == first, points(votes), 1 - points(votes))
    return Ratings(worth, votes.rater, votes.item, pair.astype(np.int64), votes.raters, votes.items, names)


def _comparisons(answers: Sequence[CountedAnswer], question: str) -> Ratings:
    """Comparisons as sign-corrected scores of their pair."""
    rows = [
        (a.rater, a.item, _pair(*a.systems), float(a.scores[question, 1]) * (1 if a.systems[1] < a.systems[0] else -1))
        for a in answers
        if (question, 1) in a.scores
    ]
    return ratings_from_rows(rows)


def _pair(one: str, other: str) -> str:
    return " : ".join(sorted((one, other)))


def planned_test(kind: Kind) -> PlannedTest | None:
    """Test whose default variances apply to a kind; None if it is not planned by a half-width."""
    if kind.name == "scale":
        return "mushra"  # the same sliders, with variances in points
    return next(iter(TESTS.get(kind.name, ())), None) if not kind.is_standing else None


@dataclass(frozen=True)
class DraftPlan:
    """Plan of a draft.

    Attributes:
        test: value of ``campaign plan --test``.
        systems: number of rated systems; ``items`` scripts, of which each rater rates ``share``.
        raters_per_stimulus: quota that results in ``plan.raters`` raters.
    """

    test: PlannedTest
    systems: int
    items: int
    share: float
    raters_per_stimulus: int
    plan: RaterPlan


def raters_needed(run: LoadedCampaign) -> int:
    """Number of raters until every unit has its quota, if all finish."""
    return math.ceil(len(run.units) * run.config.raters_per_stimulus / _trials_per_rater(run))


def _trials_per_rater(run: LoadedCampaign) -> int:
    """Trials of a rater; no unit is rated twice."""
    return min(run.config.trials_per_sitting, len(run.units))


def plan_draft(run: LoadedCampaign, half_width: float, runs: int = 200) -> DraftPlan:
    """Number of raters of a draft for a half-width, with default variances and the draft's systems and scripts.

    Raises:
        BadOption: the kind is not planned by a half-width, or there are too few scripts or systems.
        WidthNotReached: no number of raters is enough.
    """
    test = planned_test(run.kind)
    if test is None:
        raise BadOption(f"{run.kind.title} is not planned by a half-width", "set the number of raters directly")
    systems = len({system for unit in run.units for system in unit.systems})
    items = len({unit.item_id for unit in run.units})
    share = _trials_per_rater(run) / len(run.units)
    population = default_population(test, systems)
    plan = raters_for_means(half_width, population, items, share, runs, half_range=HALF_RANGE[test])
    quota = math.ceil(plan.raters * _trials_per_rater(run) / len(run.units))
    return DraftPlan(test, systems, items, share, quota, plan)
