"""Predicted MOS of a campaign's clips: asked of a predictor, kept by content, shown beside what people said.

A prediction is no answer: it enters no mean, no order and no test of a campaign's results.
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
from studio.mos.rating.campaigns import find
from studio.mos.store.clips import ClipFolder
from studio.mos.store.database import Store
from studio.mos.store.tables.campaigns import Campaign
from studio.mos.store.tables.predictions import Prediction
from studio.mos.store.tables.stimuli import Item, Stimulus, System
from studio.predict.port import MosPredictor


def unpredicted(session: Session, campaign: str, weights: str) -> list[str]:
    """The addresses of a campaign's clips of which these weights have said nothing yet, in order.

    Raises:
        BadOption: there is no such campaign, or its sounds are spoken while raters type.
    """
    row = find(session, campaign)
    if kind_of(row.kind).spoken:
        raise BadOption(f"{campaign!r} is a live test, so there are no clips", "predict the clips of another kind")
    known = {one.clip_sha for one in _predictions(session, row) if one.weights == weights}
    return [sha for sha in _clips(session, row) if sha not in known]


def predict_clips(
    store: Store, clips: ClipFolder, wanted: list[str], predictor: MosPredictor, on_done: Callable[[], object]
) -> None:
    """Ask the predictor about clips and keep each answer at once, so that a stopped run goes on.

    Raises:
        BadFile: a clip is absent or damaged.
        PredictorFailed: the predictor broke off; what it said before is kept.
    """
    about = predictor.about
    for sha in wanted:
        score = predictor.predict(*clips.read(sha))

        def keep(session: Session, sha: str = sha, score: float = score) -> None:
            if session.get(Prediction, (sha, about["sha256"])) is None:  # another process may have been sooner
                what = {"predictor": about["name"], "version": about["version"], "weights": about["sha256"]}
                session.add(Prediction(clip_sha=sha, mos=score, at=time.time(), **what))

        store.write_now(keep)
        on_done()


def predicted(session: Session, campaign: Campaign) -> dict[str, Any] | None:
    """Means by system over the scripts that raters judge; None until every sound of the campaign has its score.

    By the weights that spoke last, where several have judged every sound. The interval is a bootstrap over scripts.
    """
    by_weights: defaultdict[str, list[Prediction]] = defaultdict(list)
    for one in _predictions(session, campaign):
        by_weights[one.weights].append(one)
    clips = len(_clips(session, campaign))
    whole = [one for said in by_weights.values() if len(said) == clips for one in said]
    if not whole:
        return None
    last = max(whole, key=lambda one: one.at)
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
        "systems": {name: _mean(each) for name, each in by_system.items()},
    }


def _mean(each: list[float]) -> dict[str, Any]:
    found = asdict(bootstrap_mean(each))
    bounds = {end: None if found[end] != found[end] else found[end] for end in ("low", "high")}
    return {"n": len(each), "mean": found["value"], **bounds}


def _clips(session: Session, campaign: Campaign) -> list[str]:
    """Each clip once, in the order of the stimuli."""
    found = select(Stimulus.clip_sha).where(Stimulus.campaign_id == campaign.id).order_by(col(Stimulus.id))
    return list(dict.fromkeys(session.exec(found)))


def _predictions(session: Session, campaign: Campaign) -> list[Prediction]:
    """What was said of a campaign's clips, by whatever weights."""
    clips = select(Stimulus.clip_sha).where(Stimulus.campaign_id == campaign.id)
    return list(session.exec(select(Prediction).where(col(Prediction.clip_sha).in_(clips))))
