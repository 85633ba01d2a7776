"""What the ordinal model says of every question whose mean opinion scores are shown, JSON-safe."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from studio.core.errors import BadOption
from studio.mos.campaign.config import Question
from studio.mos.kinds.analysis import ratings_of
from studio.mos.kinds.base import Judged
from studio.mos.stats.columns import Scale
from studio.mos.stats.ordinal.model import MOST_LEVELS, ordinal_model


def second_opinions(
    questions: Sequence[Question], answers: Sequence[Judged], tables: Mapping[str, Any]
) -> dict[str, Any]:
    """The model of each question that has means on a scale of few levels; ``reason`` says why there is none.

    Args:
        questions: of the campaign.
        answers: those that the tables are made of.
        tables: of the campaign's kind.
    """
    found: dict[str, Any] = {}
    for question in questions:
        shown = tables.get("questions", {}).get(question.id, {"n": 0})
        if shown["n"] and question.high - question.low < MOST_LEVELS:
            ratings = ratings_of(answers, question.id, Scale(question.low, question.high))
            try:
                found[question.id] = {"reason": "", **asdict(ordinal_model(ratings))}
            except BadOption as error:
                found[question.id] = {"reason": error.what}
    return found
