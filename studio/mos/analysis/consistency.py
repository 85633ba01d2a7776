"""Screens that were shown twice, out of the store: what each rater answered the first time and the second."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy import text
from sqlmodel import Session

from studio.mos.stats.repeats import Twice, consistency

_TWICE = """
SELECT rater.pseudonym, one.question, {marks}
FROM trial AS again
JOIN trial AS before ON before.rater_id = again.rater_id AND before.unit = again.unit AND before.role = 'test'
JOIN answer AS was ON was.trial_id = before.id AND was.counted = 1
JOIN answer AS now ON now.trial_id = again.id AND now.counted = 1
JOIN {table} AS one ON one.answer_id = was.id
JOIN {table} AS two ON two.answer_id = now.id AND two.question = one.question{place}
JOIN rater ON rater.id = again.rater_id AND rater.role = 'panel'
WHERE again.campaign_id = :campaign AND again.role = 'repeat'
ORDER BY was.id, one.question
"""
_SCORES = _TWICE.format(
    marks="one.value, two.value, one.high - one.low", table="score", place=" AND two.slot = one.slot"
)
_CHOICES = _TWICE.format(marks="one.outcome, two.outcome, NULL", table="choice", place="")


def twice(session: Session, campaign_id: int) -> list[Twice]:
    """Every mark that was given twice by a rater who is no preview; the first attempts, the order of sounds is kept."""
    asked = {"campaign": campaign_id}
    rows = [row for query in (_SCORES, _CHOICES) for row in session.connection().execute(text(query), asked)]
    return [Twice(*row) for row in rows]


def by_rater(pairs: Sequence[Twice]) -> dict[str, list[Twice]]:
    """The marks of each rater who has any."""
    found: defaultdict[str, list[Twice]] = defaultdict(list)
    for pair in pairs:
        found[pair.rater].append(pair)
    return dict(found)


def consistency_tables(pairs: Sequence[Twice], left_out: set[str]) -> dict[str, Any]:
    """By question, of the raters who are analysed; and of every rater, as JSON values."""
    questions: defaultdict[str, list[Twice]] = defaultdict(list)
    for pair in pairs:
        if pair.rater not in left_out:
            questions[pair.question].append(pair)
    whole = {question: consistency(mine) for question, mine in questions.items()}
    each = {rater: consistency(mine) for rater, mine in by_rater(pairs).items()}
    return {
        "questions": {question: asdict(c) for question, c in whole.items() if c},
        "raters": [{"rater": rater, **asdict(c)} for rater, c in each.items() if c],
    }
