"""Predicted MOS of a campaign's clips, stored by content and shown beside the ratings.

Predictions enter no mean, order or test of the results.
"""

import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from sqlmodel import Session, col, select

from studio.core.errors import BadOption
from studio.measure.bootstrap import bootstrap_mean
from studio.mos.kinds.registry import kind_of
from studio.mos.sessions.campaigns import find_campaign
from studio.mos.store.clips import ClipFolder
from studio.mos.store.database import Store
from studio.mos.store.tables.campaigns import Campaign
from studio.mos.store.tables.stimuli import Item, Prediction, Stimulus, System
from studio.predict.distillmos import MosPredictor


def unpredicted(session: Session, campaign: str, weights: str) -> list[str]:
    """Addresses of the campaign's clips without a prediction by these weights, in order.

    Raises:
        BadOption: there is no such campaign, or it is a live test without clips.
    """
    row = find_campaign(session, campaign)
    if kind_of(row.kind).is_live:
        raise BadOption(f"{campaign!r} is a live test without clips", "choose a campaign of another kind")
    predicted_clips = {one.clip_sha for one in _predictions(session, row) if one.weights == weights}
    return [sha for sha in _clips(session, row) if sha not in predicted_clips]


def predict_clips(
    store: Store, clips: ClipFolder, pending: list[str], predictor: MosPredictor, on_done: Callable[[], object]
) -> None:
    """Predict clips and store each result at once, so that an interrupted run can be resumed.

    Raises:
        BadFile: a clip is missing or damaged.
        PredictorFailed: the predictor failed; earlier results are stored.
    """
    about = predictor.about
    for sha in pending:
        score = predictor.predict(*clips.read(sha))

        def store_prediction(session: Session, sha: str = sha, score: float = score) -> None:
            if session.get(Prediction, (sha, about["sha256"])) is None:  # unless another process stored it
                weights = {"predictor": about["name"], "version": about["version"], "weights": about["sha256"]}
                session.add(Prediction(clip_sha=sha, mos=score, at=time.time(), **weights))

        store.write_now(store_prediction)
        on_done()


def predicted(session: Session, campaign: Campaign) -> dict[str, Any] | None:
    """Means by system over test scripts; None until every clip of the campaign has a prediction.

    With several complete sets of weights, the most recent is used. The interval is a bootstrap over scripts.
    """
    by_weights: defaultdict[str, list[Prediction]] = defaultdict(list)
    for one in _predictions(session, campaign):
        by_weights[one.weights].append(one)
    clips = len(_clips(session, campaign))
    complete = [one for predictions in by_weights.values() if len(predictions) == clips for one in predictions]
    if not complete:
        return None
    last = max(complete, key=lambda one: one.at)
    rows = session.exec(
        select(System.name, Prediction.mos)
        .select_from(Stimulus)
        .join(System, col(System.id) == col(Stimulus.system_id))
        .join(Item, col(Item.id) == col(Stimulus.item_id))
        .join(Prediction, col(Prediction.clip_sha) == col(Stimulus.clip_sha))
        .where(Stimulus.campaign_id == campaign.id, Item.role == "test", Prediction.weights == last.weights)
        .order_by(col(System.id), col(Item.id))
    ).all()
    by_system: defaultdict[str, list[float]] = defaultdict(list)
    for name, mos in rows:
        by_system[name].append(mos)
    return {
        "predictor": last.predictor,
        "version": last.version,
        "weights": last.weights,
        "systems": {name: _mean(scores) for name, scores in by_system.items()},
    }


def _mean(scores: list[float]) -> dict[str, Any]:
    estimate = asdict(bootstrap_mean(scores))
    bounds = {end: None if estimate[end] != estimate[end] else estimate[end] for end in ("low", "high")}
    return {"n": len(scores), "mean": estimate["value"], **bounds}


def _clips(session: Session, campaign: Campaign) -> list[str]:
    """Clips without duplicates, in the order of the stimuli."""
    query = select(Stimulus.clip_sha).where(Stimulus.campaign_id == campaign.id).order_by(col(Stimulus.id))
    return list(dict.fromkeys(session.exec(query)))


def _predictions(session: Session, campaign: Campaign) -> list[Prediction]:
    """Predictions of a campaign's clips by any weights."""
    clips = select(Stimulus.clip_sha).where(Stimulus.campaign_id == campaign.id)
    return list(session.exec(select(Prediction).where(col(Prediction.clip_sha).in_(clips))))
