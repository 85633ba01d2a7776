"""Ratings of one stimulus for the campaign's owner, with predictions apart.

The statistics are those of the campaign, restricted to answers to this stimulus by raters that no gate excludes.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlmodel import Session, col, select

from studio.core.errors import BadOption
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
from studio.mos.store.tables.campaigns import Campaign
from studio.mos.store.tables.stimuli import Clip, Item, Prediction, Stimulus, System

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

    Raises:
        BadOption: there is no such campaign or stimulus, or it is a live test.
        BadFile: the campaign cannot be read.
    """
    row = find_campaign(session, campaign)
    stimulus, script, voice = _rows(session, row, item, system)
    run, excluded = load_campaign(session, row), excluded_raters(session, row)
    answers = load_answers(session, run.id, (script.role,), everyone=True)
    analysed = run.kind.analysed_answers(run.config, [a for a in answers if a.rater not in excluded])
    own = [a for a in analysed if a.item == item and system in (*a.systems, a.reference)]
    questions = run.config.questions
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
        "questions": [] if run.kind.is_relative else [_scores(own, one, item, system) for one in questions],
        "comparisons": [of for one in questions for of in _comparisons(own, one, system)]
        if run.kind.is_relative
        else [],
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
    table = comparison_tables(answers, question.id, question.low, question.high, None)
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
    """Low, value and high; of ``total`` minus the value if reversed."""
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
