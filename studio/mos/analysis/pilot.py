"""A campaign as the pilot of a larger one: what its answers say of raters and scripts, for the planner."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sqlmodel import Session

from studio.core.errors import BadOption
from studio.mos.analysis.results import analysed
from studio.mos.campaign.config import Question
from studio.mos.kinds.analysis import ratings_of, votes_of
from studio.mos.kinds.base import Judged
from studio.mos.rating.campaigns import running
from studio.mos.stats import mushra
from studio.mos.stats.bradley_terry.strength import points
from studio.mos.stats.columns import Ratings, ratings_from_rows
from studio.mos.stats.interval import present
from studio.mos.stats.planning.cautious import cautious_listeners, cautious_voters
from studio.mos.stats.planning.pilot import listeners_of, voters_of
from studio.mos.stats.planning.planner import REACH, Test
from studio.mos.stats.planning.population import Listeners, Voters
from studio.mos.store.tables.campaigns import Campaign

TESTS: dict[str, tuple[Test, ...]] = {
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
    """What a campaign says for the planning of another.

    Attributes:
        test: which is planned.
        question: whose scores the variances are of; None of votes.
        raters: of the answers that are analysed, like ``scripts``.
        who: the population as the answers show it.
        cautious: the same with variances at their upper bounds (``planning.cautious``), which to plan with.
        reach: half the width of the scale; None of Elo, which has none.
    """

    test: Test
    question: str | None
    raters: int
    scripts: int
    who: Listeners | Voters
    cautious: Listeners | Voters
    reach: float | None


def pilot_of(session: Session, campaign: Campaign, test: Test | None = None, question: str = "") -> Pilot:
    """The test that a campaign can be the pilot of, and the population that its analysed answers show.

    Args:
        session: to read.
        campaign: the pilot.
        test: which is planned; the first that its kind is good for unless given.
        question: the one that is planned for; may be left out where one alone is rated.

    Raises:
        BadOption: the campaign is of no kind that can be planned from, or not of ``test``; there is no such question,
            or several were rated and none is named; it has fewer than three raters or scripts.
    """
    fits = TESTS.get(campaign.kind, ())
    if not fits or test not in (None, *fits):
        able = ", ".join(fits) or "nothing"
        raise BadOption(f"a pilot of kind {campaign.kind} plans {able}", "take another pilot, or plan without one")
    test = test or fits[0]
    answers = analysed(session, campaign)
    if test == "elo":
        votes = votes_of(answers)
        who = voters_of(votes)
        raters, scripts = (0 if codes is None else present(codes) for codes in (votes.rater, votes.item))
        return Pilot(test, None, raters, scripts, who, cautious_voters(who, votes), None)
    asked = None if test == "preference" else _asked(session, campaign, answers, question)
    ratings = _shares(answers) if asked is None else _ratings(answers, test, asked.id)
    who = listeners_of(ratings)
    reach = REACH[test] if asked is None else (asked.high - asked.low) / 2
    raters, scripts = present(ratings.rater), present(ratings.item)
    return Pilot(test, asked and asked.id, raters, scripts, who, cautious_listeners(who, ratings), reach)


def _asked(session: Session, campaign: Campaign, answers: Sequence[Judged], question: str) -> Question:
    """The question that is meant: one that was rated."""
    rated = {name for a in answers for name, _ in a.scores}
    asked = [q for q in running(session, campaign).config.questions if q.id in rated or not rated]
    meant = [q for q in asked if q.id == question or not question]
    names = ", ".join(q.id for q in asked)
    if not meant:
        raise BadOption(f"the pilot has no question {question!r}", f"it asks {names}")
    if len(meant) > 1:
        raise BadOption(f"the pilot has several questions: {names}", "say which with --question")
    return meant[0]


def _ratings(answers: Sequence[Judged], test: Test, question: str) -> Ratings:
    if test == "cmos":
        return _comparisons(answers, question)
    ratings = ratings_of(answers, question)
    hidden = {a.reference for a in answers if a.reference is not None}
    if test == "mushra" and hidden and len(ratings):
        anchor = next((a.mid_anchor for a in answers if a.mid_anchor in ratings.systems), None)
        ratings = mushra.without(ratings, mushra.post_screen(ratings, hidden.pop(), anchor).dropped)
    return ratings


def _shares(answers: Sequence[Judged]) -> Ratings:
    """Votes as scores of their pair, 0 to 1."""
    votes = votes_of(answers)
    assert votes.rater is not None and votes.item is not None, "a campaign knows its raters and scripts"
    first, second = np.minimum(votes.a, votes.b), np.maximum(votes.a, votes.b)
    met, pair = np.unique(first * len(votes.systems) + second, return_inverse=True)
    systems: list[tuple[int, int]] = [divmod(code, len(votes.systems)) for code in met.tolist()]
    names = [_pair(votes.systems[a], votes.systems[b]) for a, b in systems]
    worth = np.where(votes.a == first, points(votes), 1 - points(votes))
    return Ratings(worth, votes.rater, votes.item, pair.astype(np.int64), votes.raters, votes.items, names)


def _comparisons(answers: Sequence[Judged], question: str) -> Ratings:
    """Comparisons as scores of their pair, signs corrected."""
    rows = [
        (a.rater, a.item, _pair(*a.systems), float(a.scores[question, 1]) * (1 if a.systems[1] < a.systems[0] else -1))
        for a in answers
        if (question, 1) in a.scores
    ]
    return ratings_from_rows(rows)


def _pair(one: str, other: str) -> str:
    return " : ".join(sorted((one, other)))
