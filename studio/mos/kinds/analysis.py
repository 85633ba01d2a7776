"""The tables of scores and of choices, as JSON values: what the kinds have in common."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from studio.mos.kinds.base import Judged
from studio.mos.stats import agreement, compare, elo, means, preference
from studio.mos.stats.columns import Ratings, Votes, ratings_from_rows, votes_from_rows

A0 = B0 = 0.1  # shape and rate of the prior on strengths
C = 2000.0  # the Elo of strength 1
REPLICATES = 200  # of the rater bootstrap


def ratings_of(answers: Sequence[Judged], question: str) -> Ratings:
    """The scores of one question as columns."""
    return ratings_from_rows(
        (a.rater, a.item, a.systems[slot], float(value))
        for a in answers
        for (asked, slot), value in a.scores.items()
        if asked == question
    )


def votes_of(answers: Sequence[Judged]) -> Votes:
    """The choices as columns; ``a`` and ``b`` are what was shown first and second."""
    return votes_from_rows(
        (a.systems[0], a.systems[1], a.outcomes["preference"], a.rater) for a in answers if "preference" in a.outcomes
    )


def score_tables(answers: Sequence[Judged], question: str, low: int, high: int) -> dict[str, Any]:
    """Means with every interval, by system and by stimulus, differences between systems, agreement, a histogram."""
    ratings = ratings_of(answers, question)
    if not len(ratings):
        return {"n": 0}
    matrix = agreement.score_matrix(ratings)
    icc = agreement.icc(matrix)
    return {
        "n": len(ratings),
        "systems": {
            method: {name: asdict(i) for name, i in means.by_system(ratings, method).items()}
            for method in ("two_way", "by_rater", "plain")
        },
        "p808": {name: asdict(row) for name, row in means.p808(ratings).items()},
        "stimuli": [
            {"item": item, "system": system, **asdict(i)}
            for (item, system), i in sorted(means.by_stimulus(ratings).items())
        ],
        "differences": [asdict(d) for d in compare.all_pairs(ratings)],
        "agreement": {
            "alpha_ordinal": agreement.krippendorff(matrix, "ordinal"),
            "alpha_interval": agreement.krippendorff(matrix, "interval"),
            "icc": None if icc is None else asdict(icc),
        },
        "histogram": {
            name: [int(((ratings.system == s) & (ratings.score == value)).sum()) for value in range(low, high + 1)]
            for s, name in enumerate(ratings.systems)
        },
    }


def choice_tables(answers: Sequence[Judged], seed: int) -> dict[str, Any]:
    """Preference of every pair with three intervals, Elo by every method, who is better than whom, sides."""
    votes = votes_of(answers)
    if not len(votes):
        return {"n": 0}
    first = [a.outcomes["preference"] for a in answers if "preference" in a.outcomes]
    return {
        "n": len(votes),
        "names": votes.systems,
        "pairs": {
            method: [asdict(p) for p in preference.all_pairs(votes, method, seed=seed)]
            for method in ("raters", "exact", "wilson")
        },
        "elo": {
            method: elo.elo_report(votes, method, C, A0, B0, seed=seed, replicates=REPLICATES)
            for method in ("gamma", "mle", "dsm")
        },
        "constants": {"a0": A0, "b0": B0, "c": C, "replicates": REPLICATES},
        # how often each side won, whatever was on it: far from one half, the sides were not alike
        "sides": {outcome: first.count(outcome) for outcome in ("a", "b", "tie", "both_bad")},
    }
