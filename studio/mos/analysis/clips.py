"""Clips of a campaign: predicted MOS, stored by content, and the ratings of one stimulus for the campaign's owner.

Predictions are shown beside the ratings; they enter no mean, order or test of the results.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlmodel import Session, col, select

from studio.core.clips import mixed_to_mono
from studio.core.errors import BadOption
from studio.measure.statistics import bootstrap_mean
from studio.mos.analysis.answers import load_answers
from studio.mos.analysis.quality import excluded_raters
from studio.mos.campaign.config import Question
from studio.mos.kinds.base import CountedAnswer
from studio.mos.kinds.registry import kind_of
from studio.mos.kinds.tables import comparison_tables, identity_tables, ratings_of, votes_of
from studio.mos.sessions.campaigns import find_campaign, load_campaign
from studio.mos.stats.columns import ScoreScale
from studio.mos.stats.means import by_stimulus
from studio.mos.stats.preference import pairwise_preferences
from studio.mos.store.clips import ClipFolder
from studio.mos.store.database import Store
from studio.mos.store.tables import Campaign, Clip, Item, Prediction, Stimulus, System
from studio.predict.distillmos import MosPredictor


def unpredicted(session: Session, campaign: str, weights: str) -> list[str]:
    """Addresses of the campaign's clips without a prediction by these weights, in order.

    Raises BadOption: there is no such campaign, or it is a live test without clips.
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
        pcm, rate_hz = clips.read(sha)
        score = predictor.predict(mixed_to_mono(pcm), rate_hz)

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


_ENDS = ("mean", "low", "high", "n", "raters", "method")


@dataclass(frozen=True)
class RatedSound:
    """Clip of a stimulus, its trace if any, and its text."""

    clip_sha: str
    trace: str | None
    text: str


def systems_by_script(session: Session, campaign: Campaign) -> dict[str, list[str]]:
    """Systems of each script by name, in order of creation; empty for live tests."""
    if kind_of(campaign.kind).is_live:
        return {}
    rows = session.exec(
        select(Item.name, System.name)
        .select_from(Stimulus)
        .join(Item, col(Item.id) == col(Stimulus.item_id))
        .join(System, col(System.id) == col(Stimulus.system_id))
        .where(Stimulus.campaign_id == campaign.id)
        .order_by(col(Item.id), col(System.id))
    )
    systems: dict[str, list[str]] = {}
    for item, system in rows:
        systems.setdefault(item, []).append(system)
    return systems


def find_sound(session: Session, campaign: str, item: str, system: str) -> RatedSound:
    """Stimulus of a script and a system. Raises BadOption if there is none."""
    stimulus, of, _ = _rows(session, find_campaign(session, campaign), item, system)
    return RatedSound(stimulus.clip_sha, stimulus.trace, of.text)


def rated_sound(session: Session, campaign: str, item: str, system: str) -> dict[str, Any]:
    """Ratings by question, comparisons, choices, and predictions of a stimulus, as JSON values.

    The statistics are those of the campaign, restricted to answers to this stimulus by raters that no gate excludes.
    Raises BadOption: there is no such campaign or stimulus, or it is a live test; BadFile: the campaign cannot be read.
    """
    row = find_campaign(session, campaign)
    stimulus, script, voice = _rows(session, row, item, system)
    run, excluded = load_campaign(session, row), excluded_raters(session, row)
    answers = load_answers(session, run.id, (script.role,), everyone=True)
    analysed = run.kind.analysed_answers(run.config, [a for a in answers if a.rater not in excluded])
    own = [a for a in analysed if a.item == item and system in (*a.systems, a.reference)]
    questions, is_relative = run.config.questions, run.kind.is_relative
    clip = session.get(Clip, stimulus.clip_sha)
    return {
        "campaign": row.name,
        "title": run.config.texts.title,
        "kind": run.kind.title,
        "script": {"name": script.name, "text": script.text, "role": script.role},
        "system": {"name": voice.name, "role": voice.role},
        "heard_at": {
            "lufs": stimulus.lufs_after,
            "gain_db": stimulus.gain_db,
            "rate_hz": clip.rate_hz if clip else None,
        },
        "has_trace": stimulus.trace is not None,
        "left_out": len(excluded),
        "questions": [] if is_relative else [_scores(own, one, item, system) for one in questions],
        "comparisons": [row for one in questions for row in _comparisons(own, one, system)] if is_relative else [],
        "preferences": _preferences(own, system),
        "found": _abx_counts(own),
        "predicted": _predicted(session, stimulus.clip_sha),
    }


def _rows(session: Session, campaign: Campaign, item: str, system: str) -> tuple[Stimulus, Item, System]:
    if kind_of(campaign.kind).is_live:
        raise BadOption(f"{campaign.name!r} is a live test without clips", "its takes are in the export")
    row = session.exec(
        select(Stimulus, Item, System)
        .join(Item, col(Item.id) == col(Stimulus.item_id))
        .join(System, col(System.id) == col(Stimulus.system_id))
        .where(Stimulus.campaign_id == campaign.id, Item.name == item, System.name == system)
    ).first()
    if row is None:
        raise BadOption(
            f"{system!r:.80} has no script {item!r:.80} in {campaign.name!r}", "the Results page lists its stimuli"
        )
    return row


def _scores(answers: Sequence[CountedAnswer], question: Question, item: str, system: str) -> dict[str, Any]:
    """Histogram of one question's scores, and their mean with its interval by rater."""
    ratings = ratings_of(answers, question.id, ScoreScale(question.low, question.high))
    base = {"id": question.id, "prompt": question.prompt, "low": question.low, "high": question.high}
    interval = by_stimulus(ratings).get((system, item))
    if interval is None:
        return base | {"n": 0, "mean": None, "counts": {}}
    own = ratings.score[ratings.system == ratings.systems.index(system)]
    counts = {str(value): int((own == value).sum()) for value in range(question.low, question.high + 1)}
    mean = {name: asdict(interval)[name] for name in _ENDS}
    return base | {"n": interval.n, "mean": mean, "counts": {v: c for v, c in counts.items() if c}}


def _comparisons(answers: Sequence[CountedAnswer], question: Question, system: str) -> list[dict[str, Any]]:
    """CMOS of this stimulus against each other one of its script, positive if this one is better."""
    table = comparison_tables(answers, question)
    out: list[dict[str, Any]] = []
    for pair in table.get("pairs", []):
        mean, is_reversed = pair["cmos"]["by_rater"], pair["b"] == system
        if system not in (pair["a"], pair["b"]):
            continue
        better, worse = (pair["worse"], pair["better"]) if is_reversed else (pair["better"], pair["worse"])
        counts = {"better": better, "same": pair["same"], "worse": worse, "n": mean["n"], "raters": mean["raters"]}
        low, value, high = _oriented((mean["low"], mean["mean"], mean["high"]), 0.0, is_reversed)
        against = pair["a"] if is_reversed else pair["b"]
        out.append({"id": question.id, "against": against, "mean": value, "low": low, "high": high, **counts})
    return out


def _oriented(
    interval: tuple[float | None, float | None, float | None], total: float, is_reversed: bool
) -> tuple[float | None, ...]:
    """The interval (low, value, high); of ``total`` minus the value if reversed."""
    return tuple(None if v is None else total - v for v in interval[::-1]) if is_reversed else interval


def _preferences(answers: Sequence[CountedAnswer], system: str) -> list[dict[str, Any]]:
    """Votes for this stimulus against each other one of its script, and the share with its interval by rater."""
    out: list[dict[str, Any]] = []
    for pair in pairwise_preferences(votes_of(answers), "by_rater"):
        if system not in (pair.a, pair.b):
            continue
        share, is_reversed = pair.share, pair.b == system
        won, lost = (pair.wins_b, pair.wins_a) if is_reversed else (pair.wins_a, pair.wins_b)
        votes = {"won": won, "lost": lost, "ties": pair.ties, "both_bad": pair.both_bad, "n": share.n}
        low, value, high = _oriented((share.low, share.mean, share.high), 1.0, is_reversed)
        out.append({"against": pair.a if is_reversed else pair.b, **votes, "share": value, "low": low, "high": high})
    return out


def _abx_counts(answers: Sequence[CountedAnswer]) -> list[dict[str, Any]]:
    """ABX: correct answers in trials with this stimulus."""
    return [
        {"a": pair["a"], "b": pair["b"], "n": pair["n"], "right": pair["right"]}
        for pair in identity_tables(answers).get("pairs", [])
    ]


def _predicted(session: Session, clip_sha: str) -> list[dict[str, Any]]:
    """Predictions of the clip, most recent first."""
    rows = session.exec(select(Prediction).where(Prediction.clip_sha == clip_sha).order_by(col(Prediction.at).desc()))
    return [
        {"predictor": row.predictor, "version": row.version, "weights": row.weights, "mos": row.mos} for row in rows
    ]
