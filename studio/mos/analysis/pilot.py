"""A campaign as the pilot of a larger one: what its answers say of raters and scripts, for the planner."""

from collections.abc import Sequence

import numpy as np
from sqlmodel import Session

from studio.core.errors import BadOption
from studio.mos.analysis.results import analysed
from studio.mos.kinds.analysis import ratings_of, votes_of
from studio.mos.kinds.base import Judged
from studio.mos.rating.campaigns import running
from studio.mos.stats import mushra
from studio.mos.stats.bradley_terry.strength import points
from studio.mos.stats.columns import Ratings, ratings_from_rows
from studio.mos.stats.planning.pilot import listeners_of, voters_of
from studio.mos.stats.planning.planner import Test
from studio.mos.stats.planning.population import Listeners, Voters
from studio.mos.store.tables.campaigns import Campaign

_TESTS: dict[str, tuple[Test, ...]] = {
    "acr": ("mos",),
    "dcr": ("mos",),
    "scale": ("mos",),
    "mushra": ("mushra",),
    "ccr": ("cmos",),
    "ab": ("preference", "elo"),
    "similarity": ("preference", "elo"),
    "live": ("preference", "elo"),
}


def population_of(
    session: Session, campaign: Campaign, test: Test | None = None, question: str = ""
) -> tuple[Test, Listeners | Voters]:
    """The test that a campaign can be the pilot of, and the population that its analysed answers show.

    Args:
        session: to read.
        campaign: the pilot.
        test: which is planned; the first that its kind is good for unless given.
        question: of several, the one that is planned for; the first unless given.

    Raises:
        BadOption: the campaign is of no kind that can be planned from, or not of ``test``; there is no such question;
            it has fewer than three raters or scripts.
    """
    fits = _TESTS.get(campaign.kind, ())
    if not fits or test not in (None, *fits):
        able = ", ".join(fits) or "nothing"
        raise BadOption(f"a pilot of kind {campaign.kind} plans {able}", "take another pilot, or plan without one")
    test = test or fits[0]
    asked = [q.id for q in running(session, campaign).config.questions]
    if question and question not in asked:
        raise BadOption(f"the pilot asks no question {question!r}", f"it asks {', '.join(asked) or 'for a choice'}")
    question = question or (asked[0] if asked else "")
    answers = analysed(session, campaign)
    if test == "elo":
        return test, voters_of(votes_of(answers))
    if test == "preference":
        return test, listeners_of(_shares(answers))
    if test == "cmos":
        return test, listeners_of(_comparisons(answers, question))
    ratings = ratings_of(answers, question)
    hidden = {a.reference for a in answers if a.reference is not None}
    if test == "mushra" and hidden and len(ratings):
        anchor = next((a.mid_anchor for a in answers if a.mid_anchor in ratings.systems), None)
        ratings = mushra.without(ratings, mushra.post_screen(ratings, hidden.pop(), anchor).dropped)
    return test, listeners_of(ratings)


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
