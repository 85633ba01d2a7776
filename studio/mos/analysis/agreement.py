"""Agreement of a campaign's raters with themselves (repeated trials) and with the others (consensus)."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from sqlalchemy import text
from sqlmodel import Session

from studio.mos.analysis.stopping_rule import estimates
from studio.mos.campaign.config import CampaignConfig, Gates
from studio.mos.kinds.base import CountedAnswer
from studio.mos.kinds.registry import kind_of
from studio.mos.stats.agreement import ConsensusAnswers, RaterConsensus, RepeatedAnswer, consistency, rater_consensus

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


def repeated_answers(session: Session, campaign_id: int) -> list[RepeatedAnswer]:
    """First attempts at repeated trials by raters other than previews, in the first trial's order of stimuli."""
    parameters = {"campaign": campaign_id}
    rows = [row for query in (_SCORES, _CHOICES) for row in session.connection().execute(text(query), parameters)]
    return [RepeatedAnswer(*row) for row in rows]


def by_rater(pairs: Sequence[RepeatedAnswer]) -> dict[str, list[RepeatedAnswer]]:
    """Repeated answers by rater."""
    grouped: defaultdict[str, list[RepeatedAnswer]] = defaultdict(list)
    for pair in pairs:
        grouped[pair.rater].append(pair)
    return dict(grouped)


def consistency_tables(pairs: Sequence[RepeatedAnswer], left_out: set[str]) -> dict[str, Any]:
    """Self-consistency by question, of the analysed raters, and of every rater, as JSON values."""
    questions: defaultdict[str, list[RepeatedAnswer]] = defaultdict(list)
    for pair in pairs:
        if pair.rater not in left_out:
            questions[pair.question].append(pair)
    by_question = {question: consistency(mine) for question, mine in questions.items()}
    raters = {rater: consistency(mine) for rater, mine in by_rater(pairs).items()}
    return {
        "questions": {question: asdict(c) for question, c in by_question.items() if c},
        "raters": [{"rater": rater, **asdict(c)} for rater, c in raters.items() if c],
    }


_WORTH = {"a": 1.0, "b": -1.0, "tie": 0.0, "both_bad": 0.0}
_Row = tuple[str, tuple[str, ...], str, float, bool]  # rater, key, question, value, signed


def campaign_consensus(
    config: CampaignConfig, answers: Sequence[CountedAnswer], pool: set[str]
) -> dict[str, RaterConsensus]:
    """Consensus of every rater who answered test trials; ``pool`` are the raters whose answers form it.

    ABX trials have correct answers, so they are not compared.
    """
    rows = [row for answer in answers for row in _consensus_rows(config, answer)]
    raters, rater = np.unique([r[0] for r in rows], return_inverse=True)
    keys = {key: code for code, key in enumerate(dict.fromkeys(r[1] for r in rows))}
    groups = {question: code for code, question in enumerate(dict.fromkeys(r[2] for r in rows))}
    columns = ConsensusAnswers(
        np.array([r[3] for r in rows], np.float64),
        rater.astype(np.int64),
        np.array([keys[r[1]] for r in rows], np.int64),
        np.array([groups[r[2]] for r in rows], np.int64),
        np.array([r[4] for r in rows], np.bool_),
    )
    result = rater_consensus(columns, np.array([name in pool for name in raters.tolist()], np.bool_))
    return dict(zip(raters.tolist(), result, strict=True))


def with_and_without(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Estimates of two analyses side by side: of all raters, and without those who fail the gate."""
    remaining = dict(estimates(after))
    return [{"name": name, "everybody": dict(i), "kept": remaining.get(name)} for name, i in estimates(before)]


def consensus_settings(gates: Gates) -> dict[str, Any]:
    """Settings of the consensus gate as JSON values."""
    return {
        "by": gates.consensus_by,
        "minimum": gates.min_consensus,
        "answers": gates.consensus_answers,
        "required": gates.consensus_required,
    }


def _consensus_rows(config: CampaignConfig, answer: CountedAnswer) -> Iterable[_Row]:
    item = (answer.item,) if config.gates.consensus_by == "stimulus" else ()
    scales = {q.id: (q.low, q.high) for q in config.questions}
    pair = tuple(sorted(answer.systems))
    sign = 1.0 if tuple(answer.systems) == pair else -1.0  # positive favours the first by name
    relative = kind_of(config.kind).is_relative
    for (question, slot), value in answer.scores.items():
        low, high = scales[question]
        if relative:  # score of the second relative to the first
            yield answer.rater, (question, *pair, *item), question, -sign * value / max(-low, high), True
        else:
            share = (value - low) / (high - low)
            yield answer.rater, (question, answer.systems[slot], *item), question, share, False
    if (outcome := answer.outcomes.get("preference")) is not None:
        yield answer.rater, ("preference", *pair, *item), "preference", sign * _WORTH[outcome], True
