"""Load counted answers from the store into the form that the statistics read."""

import json
import re
from collections import defaultdict
from collections.abc import Sequence

from sqlmodel import Session, col, select

from studio.mos.campaign.names import read_tags
from studio.mos.kinds.base import CountedAnswer
from studio.mos.kinds.registry import kind_of
from studio.mos.sessions.takes import REPLAYED, TYPED, latest_takes, script_ids
from studio.mos.stats.mushra import MID_ANCHOR_HZ
from studio.mos.store.tables.answers import Answer, Choice, Score
from studio.mos.store.tables.campaigns import Campaign
from studio.mos.store.tables.raters import Rater
from studio.mos.store.tables.stimuli import Item, Stimulus, System
from studio.mos.store.tables.trials import Slot, Trial


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
    for trial, place, name in session.exec(
        select(Slot.trial_id, Slot.place, System.name)
        .join(Trial, col(Trial.id) == col(Slot.trial_id))
        .join(Stimulus, col(Stimulus.id) == col(Slot.stimulus_id))
        .join(System, col(System.id) == col(Stimulus.system_id))
        .where(Trial.campaign_id == campaign_id, col(Slot.place).in_(("candidate", "reference")))
        .order_by(Slot.trial_id, col(Slot.slot))
    ):
        if place == "candidate":
            systems[trial].append(name)
        else:
            references[trial] = name
    typed = typed_scripts(session, campaign_id)
    anchor, latencies = _mid_anchor(session, campaign_id), _latencies(session, campaign_id)
    scores: defaultdict[int, dict[tuple[str, int], int]] = defaultdict(dict)
    for score in session.exec(
        select(Score)
        .join(Answer, col(Answer.id) == col(Score.answer_id))
        .join(Trial, col(Trial.id) == col(Answer.trial_id))
        .where(Trial.campaign_id == campaign_id)
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
            asked=tuple(trial.asked.split()),
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
    """Anchor made by the studio at 7 kHz; among imported anchors, the one whose name says so."""
    anchors = session.exec(select(System).where(System.campaign_id == campaign_id, System.role == "anchor")).all()
    generated = [a.name for a in anchors if json.loads(a.voice).get("low_pass_hz") == MID_ANCHOR_HZ]
    named = [a.name for a in anchors if _MID_ANCHOR_NAME.search(a.name)]
    return next(iter([*generated, *named]), None)


_MID_ANCHOR_NAME = re.compile(r"\bmid|\b7 ?(?:\.0+)? ?k(?:hz)?\b|\b7000\b", re.IGNORECASE)
