"""Answers that count, out of the store and into the columns that the statistics read."""

import json
import re
from collections import defaultdict
from collections.abc import Sequence

from sqlmodel import Session, col, select

from studio.mos.campaign.names import read_tags
from studio.mos.kinds.base import Judged
from studio.mos.kinds.registry import kind_of
from studio.mos.rating.takes import AGAIN, TYPED, latest, scripts
from studio.mos.stats.mushra import MID_ANCHOR_HZ
from studio.mos.store.tables.answers import Answer, Choice, Score
from studio.mos.store.tables.campaigns import Campaign
from studio.mos.store.tables.raters import Rater
from studio.mos.store.tables.stimuli import Item, Stimulus, System
from studio.mos.store.tables.trials import Slot, Trial


def judgements(
    session: Session, campaign_id: int, roles: Sequence[str] = ("test",), everyone: bool = False
) -> list[Judged]:
    """Counted answers to screens of the given roles, in the order in which they came.

    Previews never count; raters whom the quality gates exclude (``use`` is fail) only with ``everyone``.
    """
    wanted = (
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
        wanted = wanted.where(Rater.use != "fail")
    rows = session.exec(wanted).all()
    systems: defaultdict[str, list[str]] = defaultdict(list)
    for trial, name in session.exec(
        select(Slot.trial_id, System.name)
        .join(Trial, col(Trial.id) == col(Slot.trial_id))
        .join(Stimulus, col(Stimulus.id) == col(Slot.stimulus_id))
        .join(System, col(System.id) == col(Stimulus.system_id))
        .where(Trial.campaign_id == campaign_id, Slot.place == "candidate")
        .order_by(Slot.trial_id, col(Slot.slot))
    ):
        systems[trial].append(name)
    references: dict[str, str] = {}
    for trial, name in session.exec(
        select(Slot.trial_id, System.name)
        .join(Trial, col(Trial.id) == col(Slot.trial_id))
        .join(Stimulus, col(Stimulus.id) == col(Slot.stimulus_id))
        .join(System, col(System.id) == col(Stimulus.system_id))
        .where(Trial.campaign_id == campaign_id, Slot.place == "reference")
    ):
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
        Judged(
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
    """The script of every screen of a standing test, where it is what the rater typed; of others none."""
    kind = session.exec(select(Campaign.kind).where(Campaign.id == campaign_id)).one()
    return scripts(session, campaign_id) if kind_of(kind).standing else {}


def _latencies(session: Session, campaign_id: int) -> dict[str, tuple[float | None, ...]]:
    """Of both voices of every live screen on which both have spoken."""
    found = latest(session, select(Trial.id).where(Trial.campaign_id == campaign_id))
    screens = {trial for trial, _ in found}
    slots = (TYPED, AGAIN)
    return {t: tuple(found[t, s].latency_ms for s in slots) for t in screens if all((t, s) in found for s in slots)}


def _mid_anchor(session: Session, campaign_id: int) -> str | None:
    """The anchor that the studio made at 7 kHz; of anchors that came along, the one whose name says so."""
    anchors = session.exec(select(System).where(System.campaign_id == campaign_id, System.role == "anchor")).all()
    made = [a.name for a in anchors if json.loads(a.voice).get("low_pass_hz") == MID_ANCHOR_HZ]
    named = [a.name for a in anchors if _MID.search(a.name)]
    return next(iter([*made, *named]), None)


_MID = re.compile(r"\bmid|\b7 ?(?:\.0+)? ?k(?:hz)?\b|\b7000\b", re.IGNORECASE)
