"""Analyses that referees request in addition to means: rank tests, bias-corrected MOS and ordinal models; as JSON."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from studio.core.errors import BadOption
from studio.mos.campaign.config import Question
from studio.mos.kinds.base import CountedAnswer
from studio.mos.kinds.tables import ratings_of
from studio.mos.stats.columns import Ratings, ScoreScale
from studio.mos.stats.ordinal import MOST_LEVELS, ordinal_model
from studio.mos.stats.rank_tests import rank_tests
from studio.mos.stats.subject_bias import subject_bias


def rank_test_results(
    questions: Sequence[Question], answers: Sequence[CountedAnswer], tables: Mapping[str, Any], checks: Sequence[str]
) -> dict[str, Any]:
    """Rank tests of each question with means of two or more systems, over raters and over scripts.

    ``systems`` is the test over raters without the systems ``checks`` (hidden reference, anchors), which differ from
    all others by design; None if there are no such systems, or fewer than two others.
    """

    def tests(ratings: Ratings) -> dict[str, Any]:
        used = [name for code, name in enumerate(ratings.systems) if (ratings.system == code).any()]
        others = [name for name in used if name not in checks]
        has_checks = 2 <= len(others) < len(used)
        return {
            "rater": asdict(rank_tests(ratings, "rater")),
            "item": asdict(rank_tests(ratings, "item")),
            "systems": asdict(rank_tests(ratings, "rater", others)) if has_checks else None,
        }

    return _by_question(questions, answers, tables, tests)


def subject_bias_results(
    questions: Sequence[Question], answers: Sequence[CountedAnswer], tables: Mapping[str, Any]
) -> dict[str, Any]:
    """Bias-corrected means of each question; ``reason`` says why there are none."""
    return _by_question(questions, answers, tables, lambda ratings: asdict(subject_bias(ratings)))


def second_opinions(
    questions: Sequence[Question], answers: Sequence[CountedAnswer], tables: Mapping[str, Any]
) -> dict[str, Any]:
    """Ordinal model of each question with means on a scale of few levels; ``reason`` says why there is none."""
    few = [q for q in questions if q.high - q.low < MOST_LEVELS]
    return _by_question(few, answers, tables, lambda ratings: asdict(ordinal_model(ratings)))


def _by_question(
    questions: Sequence[Question],
    answers: Sequence[CountedAnswer],
    tables: Mapping[str, Any],
    compute: Callable[[Ratings], dict[str, Any]],
) -> dict[str, Any]:
    results: dict[str, Any] = {}
    for question in questions:
        if tables.get("questions", {}).get(question.id, {"n": 0})["n"]:
            try:
                ratings = ratings_of(answers, question.id, ScoreScale(question.low, question.high))
                results[question.id] = {"reason": "", **compute(ratings)}
            except BadOption as error:
                results[question.id] = {"reason": error.what}
    return results
