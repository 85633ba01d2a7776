"""Counted answers of a campaign for the statistics; agreement of its raters with themselves and with the others."""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from sqlalchemy import text
from sqlmodel import Session, col, select

from studio.mos.campaign.config import CampaignConfig
from studio.mos.campaign.names import read_tags
from studio.mos.kinds.base import CountedAnswer
from studio.mos.kinds.marked import codes_of, marked, sorted_codes
from studio.mos.kinds.registry import kind_of
from studio.mos.sessions.takes import REPLAYED, TYPED, latest_takes, script_ids
from studio.mos.stats.agreement import ConsensusAnswers, RaterConsensus, RepeatedAnswer, consistency, rater_consensus
from studio.mos.stats.means import MID_ANCHOR_HZ
from studio.mos.store.tables import Answer, Campaign, Choice, Item, Rater, Score, Slot, Stimulus, System, Trial


def load_answers(
    session: Session, campaign_id: int, roles: Sequence[str] = ("test",), everyone: bool = False
) -> list[CountedAnswer]:
    """Counted answers to trials of the given roles, in order of arrival.

    Previews never count; raters excluded by the quality gates (``use`` is fail) only with ``everyone``.
    """
    query = (
        select(Answer.id, Trial, Rater.pseudonym, Item)
        .join(Trial, col(Trial.id) == col(Answer.trial_id))
        .join(Rater, col(Rater.id) == col(Trial.rater_id))
        .join(Item, col(Item.id) == col(Trial.item_id))
        .where(
            Trial.campaign_id == campaign_id,
            col(Trial.role).in_(roles),
            Answer.counted == 1,
            Answer.missing == "",
            Rater.role == "panel",
        )
        .order_by(col(Answer.id))
    )
    if not everyone:
        query = query.where(Rater.use != "fail")
    rows = session.exec(query).all()
    systems: defaultdict[str, list[str]] = defaultdict(list)
    references: dict[str, str] = {}
    for trial, role, name in session.exec(
        select(Slot.trial_id, Slot.place, System.name)
        .join(Trial, col(Trial.id) == col(Slot.trial_id))
        .join(Stimulus, col(Stimulus.id) == col(Slot.stimulus_id))
        .join(System, col(System.id) == col(Stimulus.system_id))
        .where(Trial.campaign_id == campaign_id, col(Slot.place).in_(("candidate", "reference")))
        .order_by(Slot.trial_id, col(Slot.slot))
    ):
        if role == "candidate":
            systems[trial].append(name)
        else:
            references[trial] = name
    typed = typed_scripts(session, campaign_id)
    anchor, latencies = _mid_anchor(session, campaign_id), _latencies(session, campaign_id)
    scores: defaultdict[int, dict[tuple[str, int], float]] = defaultdict(dict)
    for score in session.exec(
        select(Score)
        .join(Answer, col(Answer.id) == col(Score.answer_id))
        .join(Trial, col(Trial.id) == col(Answer.trial_id))
        .where(Trial.campaign_id == campaign_id)
        .order_by(col(Score.answer_id), Score.question, col(Score.slot))  # as exported, so that sums are equal
    ):
        scores[score.answer_id][score.question, score.slot] = score.value
    outcomes: defaultdict[int, dict[str, str]] = defaultdict(dict)
    for choice in session.exec(
        select(Choice)
        .join(Answer, col(Answer.id) == col(Choice.answer_id))
        .join(Trial, col(Trial.id) == col(Answer.trial_id))
        .where(Trial.campaign_id == campaign_id)
    ):
        outcomes[choice.answer_id][choice.question] = choice.outcome
    return [
        CountedAnswer(
            rater=rater,
            item=typed.get(trial.id, item.name),
            systems=systems[trial.id],
            scores=scores[answer],
            outcomes=outcomes[answer],
            reference=references.get(trial.id),
            mid_anchor=anchor,
            tags=read_tags(item.tags),
            question_order=tuple(trial.asked.split()),
            latencies_ms=latencies.get(trial.id, ()),
        )
        for answer, trial, rater, item in rows
        if answer is not None
    ]


def typed_scripts(session: Session, campaign_id: int) -> dict[str, str]:
    """Typed script of every trial of an arena; empty for other tests."""
    kind = session.exec(select(Campaign.kind).where(Campaign.id == campaign_id)).one()
    return script_ids(session, campaign_id) if kind_of(kind).is_standing else {}


def _latencies(session: Session, campaign_id: int) -> dict[str, tuple[float | None, ...]]:
    """Latencies of both voices of every live trial in which both have spoken."""
    takes = latest_takes(session, select(Trial.id).where(Trial.campaign_id == campaign_id))
    trials = {trial for trial, _ in takes}
    slots = (TYPED, REPLAYED)
    return {t: tuple(takes[t, s].latency_ms for s in slots) for t in trials if all((t, s) in takes for s in slots)}


def _mid_anchor(session: Session, campaign_id: int) -> str | None:
    """The studio's 7 kHz anchor, or else an imported anchor whose name indicates it."""
    anchors = session.exec(select(System).where(System.campaign_id == campaign_id, System.role == "anchor")).all()
    generated = [a.name for a in anchors if json.loads(a.voice).get("low_pass_hz") == MID_ANCHOR_HZ]
    named = [a.name for a in anchors if MID_ANCHOR_NAME.search(a.name)]
    return next(iter([*generated, *named]), None)


# "mid", "7 kHz" and the like; "anchor70" is webMUSHRA's
MID_ANCHOR_NAME = re.compile(r"\bmid|\b7 ?(?:\.0+)? ?k(?:hz)?\b|\b7000\b|anchor[ _-]?70\b", re.IGNORECASE)


_TWICE = """
SELECT rater.pseudonym, one.question, {marks}
FROM trial AS again
JOIN trial AS before ON before.rater_id = again.rater_id AND before.unit = again.unit AND before.role = 'test'
JOIN answer AS was ON was.trial_id = before.id AND was.counted = 1
JOIN answer AS now ON now.trial_id = again.id AND now.counted = 1
JOIN {table} AS one ON one.answer_id = was.id
JOIN {table} AS two ON two.answer_id = now.id AND two.question = one.question{same_slot}
JOIN rater ON rater.id = again.rater_id AND rater.role = 'panel'
WHERE again.campaign_id = :campaign AND again.role = 'repeat'
ORDER BY was.id, one.question
"""
_SCORES = _TWICE.format(
    marks="one.value, two.value, one.high - one.low", table="score", same_slot=" AND two.slot = one.slot"
)
_CHOICES = _TWICE.format(marks="one.outcome, two.outcome, NULL", table="choice", same_slot="")


def repeated_answers(session: Session, campaign_id: int) -> list[RepeatedAnswer]:
    """First attempts at repeated trials by raters other than previews, in the first trial's order of stimuli."""
    parameters = {"campaign": campaign_id}
    rows = [row for query in (_SCORES, _CHOICES) for row in session.connection().execute(text(query), parameters)]
    return [RepeatedAnswer(*row) for row in rows]


def by_rater(pairs: Sequence[RepeatedAnswer]) -> dict[str, list[RepeatedAnswer]]:
    grouped: defaultdict[str, list[RepeatedAnswer]] = defaultdict(list)
    for pair in pairs:
        grouped[pair.rater].append(pair)
    return dict(grouped)


def consistency_tables(pairs: Sequence[RepeatedAnswer], left_out: set[str]) -> dict[str, Any]:
    """Self-consistency by question (of the analysed raters) and by rater (of all), as JSON values."""
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
_Row = tuple[tuple[str, ...], str, float, bool]  # key without the script, question, value, signed


def campaign_consensus(
    config: CampaignConfig, answers: Sequence[CountedAnswer], pool: set[str]
) -> dict[str, RaterConsensus]:
    """Agreement of every rater of test trials with the other raters; only those in ``pool`` enter the means.

    ABX trials have correct answers, so they are not compared.
    """
    columns = marked(answers)
    answer, rows, row = columns.rows(lambda mark: list(_consensus_rows(config, mark)))
    rater, raters = sorted_codes(columns.rater[answer], columns.raters)
    key, group = (codes_of([r[of] for r in rows])[0] for of in (0, 1))
    if config.gates.consensus_by == "stimulus":  # separate keys for each script
        key = np.unique(key[row] * len(columns.items) + columns.item[answer], return_inverse=True)[1]
    else:
        key = key[row]
    result = rater_consensus(
        ConsensusAnswers(
            np.array([r[2] for r in rows], np.float64)[row],
            rater,
            key,
            group[row],
            np.array([r[3] for r in rows], np.bool_)[row],
        ),
        np.array([name in pool for name in raters], np.bool_),
    )
    return dict(zip(raters, result, strict=True))


def _consensus_rows(config: CampaignConfig, answer: CountedAnswer) -> Iterable[_Row]:
    scales = {q.id: (q.low, q.high) for q in config.questions}
    pair = tuple(sorted(answer.systems))
    sign = 1.0 if tuple(answer.systems) == pair else -1.0  # positive favours the first by name
    relative = kind_of(config.kind).is_relative
    for (question, slot), value in answer.scores.items():
        low, high = scales[question]
        if relative:  # score of the second relative to the first
            yield (question, *pair), question, -sign * value / max(-low, high), True
        else:
            yield (question, answer.systems[slot]), question, (value - low) / (high - low), False
    if (outcome := answer.outcomes.get("preference")) is not None:
        yield ("preference", *pair), "preference", sign * _WORTH[outcome], True
