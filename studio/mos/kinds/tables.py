"""The tables of scores and of choices, as JSON values: what the kinds have in common."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from studio.measure.agreement import krippendorff
from studio.mos.kinds.base import CountedAnswer
from studio.mos.stats import agreement, elo, means, mushra, preference
from studio.mos.stats.columns import Ratings, ScoreScale, Vote, Votes, ratings_from_rows, votes_from_rows
from studio.mos.stats.preference import AbxAnswer, CmosAnswer, abx_result, abx_results, cmos_results, order_effect

A0 = B0 = 0.1  # shape and rate of the prior on strengths
C = 2000.0  # the Elo of strength 1
ELO_METHODS: tuple[elo.EloMethod, ...] = ("gamma", "mle", "dsm", "davidson", "posterior")
MATCH = "match"  # the question of an ABX trial


def ratings_of(answers: Sequence[CountedAnswer], question: str, scale: ScoreScale | None = None) -> Ratings:
    """The scores of one question as columns."""
    rows = [
        (a.rater, a.item, a.systems[slot], float(value))
        for a in answers
        for (asked, slot), value in a.scores.items()
        if asked == question
    ]
    return ratings_from_rows(rows, scale=scale)


def votes_of(answers: Sequence[CountedAnswer]) -> Votes:
    """The choices as columns; ``a`` and ``b`` are what was shown first and second."""
    return votes_from_rows(
        Vote(a.systems[0], a.systems[1], a.outcomes["preference"], a.rater, a.item)
        for a in answers
        if "preference" in a.outcomes
    )


def score_tables(answers: Sequence[CountedAnswer], question: str, low: int, high: int) -> dict[str, Any]:
    """Means with every interval, by system and by stimulus, differences between systems, agreement, a histogram."""
    ratings = ratings_of(answers, question, ScoreScale(low, high))
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
        "quartiles": {name: asdict(row) for name, row in mushra.quartiles(ratings).items()},
        "p808": {name: asdict(row) for name, row in means.p808(ratings).items()},
        "stimuli": [
            {"item": item, "system": system, **asdict(i)}
            for (system, item), i in sorted(means.by_stimulus(ratings).items(), key=lambda found: found[0][::-1])
        ],
        "differences": [asdict(d) for d in means.pairwise_differences(ratings)],
        "agreement": {
            "alpha_ordinal": krippendorff(matrix, "ordinal"),
            "alpha_interval": krippendorff(matrix, "interval"),
            "icc": None if icc is None else asdict(icc),
        },
        "tags": {
            tag: {"n": len(rows), "items": _scripts(mine), "systems": _means(rows)}
            for tag, mine in _by_tag(answers)
            if len(rows := ratings_of(mine, question, ScoreScale(low, high)))
        },
        "histogram": {
            name: [int(((ratings.system == s) & (ratings.score == value)).sum()) for value in range(low, high + 1)]
            for s, name in enumerate(ratings.systems)
        },
    }


def asking_tables(answers: Sequence[CountedAnswer], question: str, low: int, high: int) -> list[dict[str, Any]]:
    """The mean of a question by question order: [{order, mean, n, ...}]."""
    orders = sorted({a.asked for a in answers if a.asked}, reverse=True)
    found: list[dict[str, Any]] = []
    for order in orders:
        rows = ratings_of([a for a in answers if a.asked == order], question, ScoreScale(low, high))
        if len(rows):
            found.append({"order": list(order), **asdict(means.mean_of(rows))})
    return found


def choice_tables(answers: Sequence[CountedAnswer], seed: int) -> dict[str, Any]:
    """Preference of every pair with four intervals, Elo by every method, and wins per side."""
    votes = votes_of(answers)
    if not len(votes):
        return {"n": 0}
    first = [a.outcomes["preference"] for a in answers if "preference" in a.outcomes]
    return {
        "n": len(votes),
        "names": votes.systems,
        "pairs": {
            method: [asdict(p) for p in preference.pairwise_preferences(votes, method)]
            for method in ("two_way", "by_rater", "exact", "wilson")
        },
        "elo": {method: elo.elo_report(votes, method, C, A0, B0, seed=seed) for method in ELO_METHODS}
        | {"by_rater": elo.elo_report(votes, "gamma", C, A0, B0, clusters="by_rater")},
        "constants": {"a0": A0, "b0": B0, "c": C},
        "tags": {
            tag: {"n": len(mine), "items": _scripts(mine), "elo": elo.elo_report(votes_of(mine), "gamma", C, A0, B0)}
            for tag, mine in _by_tag(a for a in answers if "preference" in a.outcomes)
        },
        # how often each side won, whatever was on it: far from one half, the sides were not alike
        "sides": {outcome: first.count(outcome) for outcome in ("a", "b", "tie", "both_bad")},
    }


def screened_tables(answers: Sequence[CountedAnswer], question: str, low: int, high: int) -> dict[str, Any]:
    """The tables of a MUSHRA question after its post-screening; beside them who went, and everybody's means."""
    ratings = ratings_of(answers, question, ScoreScale(low, high))
    found = screening(answers, ratings)
    if found is None:
        return {"questions": {question: score_tables(answers, question, low, high)}}
    screen, reference, anchor = found
    passing = [a for a in answers if a.rater not in screen.dropped]
    return {
        "questions": {question: score_tables(passing, question, low, high)},
        "post_screen": {
            "reference": reference,
            "mid_anchor": anchor,
            "limit": mushra.LIMIT,
            "share": mushra.SHARE,
            "raters": len(screen.low_share),
            "dropped": len(screen.dropped),
            "by_reference": len(screen.by_reference),
            "by_anchor": len(screen.by_anchor),
            "unharmed": len(screen.unharmed),
            "everybody": {name: asdict(i) for name, i in means.by_system(ratings).items()},
        },
    }


def screening(answers: Sequence[CountedAnswer], ratings: Ratings) -> tuple[mushra.PostScreen, str, str | None] | None:
    """The post-screening of a MUSHRA question, its hidden reference and mid anchor; None without a reference."""
    hidden = {a.reference for a in answers if a.reference is not None}
    if not len(ratings) or not hidden:
        return None
    [reference] = hidden
    known = {a.mid_anchor for a in answers} & set(ratings.systems)
    anchor = known.pop() if known else None
    return mushra.post_screen(ratings, reference, anchor), reference, anchor


def comparison_tables(
    answers: Sequence[CountedAnswer], question: str, low: int, high: int, baseline: str | None
) -> dict[str, Any]:
    """CMOS of every pair, signs corrected for the order, and whether the order itself had an effect."""
    given = _compared(answers, question)
    if not given:
        return {"n": 0}
    return {
        "n": len(given),
        "pairs": [asdict(c) for c in cmos_results(given, baseline, ScoreScale(low, high))],
        "tags": {
            tag: {
                "n": len(mine),
                "items": _scripts(mine),
                "pairs": [asdict(c) for c in cmos_results(_compared(mine, question), baseline, ScoreScale(low, high))],
            }
            for tag, mine in _by_tag(a for a in answers if (question, 1) in a.scores)
        },
        "order": asdict(order_effect(given, ScoreScale(low, high))),
    }


def identity_tables(answers: Sequence[CountedAnswer]) -> dict[str, Any]:
    """How often X was found, by pair and in all; and how often each answer was given, whatever X was."""
    said = [(a, a.outcomes[MATCH]) for a in answers if MATCH in a.outcomes]
    if not said:
        return {"n": 0}
    identifications = [
        AbxAnswer(a.rater, a.item, a.systems[0], a.systems[1], a.systems[0 if outcome == "a" else 1] == a.reference)
        for a, outcome in said
    ]
    return {
        "n": len(identifications),
        "pairs": [asdict(i) for i in abx_results(identifications)],
        "all": asdict(abx_result("", "", identifications)),
        "said": {side: sum(outcome == side for _, outcome in said) for side in ("a", "b")},
    }


def _compared(answers: Sequence[CountedAnswer], question: str) -> list[CmosAnswer]:
    return [
        CmosAnswer(a.rater, a.item, a.systems[0], a.systems[1], a.scores[question, 1])
        for a in answers
        if (question, 1) in a.scores
    ]


def _by_tag(answers: Iterable[CountedAnswer]) -> list[tuple[str, list[CountedAnswer]]]:
    """The answers on the scripts of each tag; a script of two tags is in both."""
    found: defaultdict[str, list[CountedAnswer]] = defaultdict(list)
    for answer in answers:
        for tag in answer.tags:
            found[tag].append(answer)
    return sorted(found.items())


def _scripts(answers: Sequence[CountedAnswer]) -> int:
    return len({a.item for a in answers})


def _means(ratings: Ratings) -> dict[str, Any]:
    return {name: asdict(i) for name, i in means.by_system(ratings).items()}
