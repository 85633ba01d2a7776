"""One sound of a campaign, for its owner: what raters said of it, and beside it what a predictor foresees.

Means, comparisons and preferences are those of the campaign's own statistics, over the answers to this one sound by
raters whom no gate excludes. A prediction is no answer: it stands apart and enters none of them.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlmodel import Session, col, select

from studio.core.errors import BadOption
from studio.mos.analysis.judgements import judgements
from studio.mos.analysis.quality import left_out
from studio.mos.campaign.config import Question
from studio.mos.kinds.analysis import comparison_tables, identity_tables, ratings_of, votes_of
from studio.mos.kinds.base import Judged
from studio.mos.kinds.registry import kind_of
from studio.mos.rating.campaigns import find, running
from studio.mos.stats.columns import Scale
from studio.mos.stats.means import by_stimulus
from studio.mos.stats.preference import all_pairs
from studio.mos.store.tables.campaigns import Campaign
from studio.mos.store.tables.predictions import Prediction
from studio.mos.store.tables.stimuli import Clip, Item, Stimulus, System

_ENDS = ("mean", "low", "high", "n", "raters", "method")


@dataclass(frozen=True)
class RatedSound:
    """Where a sound lies: its clip, its trace where it came with one, and what it says."""

    clip_sha: str
    trace: str | None
    text: str


def sounds_of(session: Session, campaign: Campaign) -> dict[str, list[str]]:
    """The systems that say each script, by name, in the order of making; none where voices speak while raters type."""
    if kind_of(campaign.kind).spoken:
        return {}
    rows = session.exec(
        select(Item.name, System.name)
        .select_from(Stimulus)
        .join(Item, col(Item.id) == col(Stimulus.item_id))
        .join(System, col(System.id) == col(Stimulus.system_id))
        .where(Stimulus.campaign_id == campaign.id)
        .order_by(col(Item.id), col(System.id))
    )
    found: dict[str, list[str]] = {}
    for item, system in rows:
        found.setdefault(item, []).append(system)
    return found


def find_sound(session: Session, campaign: str, item: str, system: str) -> RatedSound:
    """The sound of a script by a system. Raises BadOption where there is none."""
    stimulus, of, _ = _rows(session, find(session, campaign), item, system)
    return RatedSound(stimulus.clip_sha, stimulus.trace, of.text)


def rated_sound(session: Session, campaign: str, item: str, system: str) -> dict[str, Any]:
    """What is known of a sound, JSON-safe: ratings by question, comparisons, choices, and predictions apart.

    Raises:
        BadOption: there is no such campaign or sound, or voices speak in it while raters type.
        BadFile: the campaign cannot be read.
    """
    row = find(session, campaign)
    stimulus, script, voice = _rows(session, row, item, system)
    run, excluded = running(session, row), left_out(session, row)
    given = judgements(session, run.id, (script.role,), everyone=True)
    heeded = run.kind.heeded(run.config, [a for a in given if a.rater not in excluded])
    mine = [a for a in heeded if a.item == item and system in (*a.systems, a.reference)]
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
        "questions": [] if run.kind.relative else [_scores(mine, one, item, system) for one in questions],
        "comparisons": [of for one in questions for of in _comparisons(mine, one, system)] if run.kind.relative else [],
        "preferences": _preferences(mine, system),
        "found": _found(mine),
        "predicted": _predicted(session, stimulus.clip_sha),
    }


def _rows(session: Session, campaign: Campaign, item: str, system: str) -> tuple[Stimulus, Item, System]:
    if kind_of(campaign.kind).spoken:
        raise BadOption(f"{campaign.name!r} is a live test, so there are no clips", "what was spoken is in its export")
    found = session.exec(
        select(Stimulus, Item, System)
        .join(Item, col(Item.id) == col(Stimulus.item_id))
        .join(System, col(System.id) == col(Stimulus.system_id))
        .where(Stimulus.campaign_id == campaign.id, Item.name == item, System.name == system)
    ).first()
    if found is None:
        raise BadOption(
            f"{system!r:.80} does not say {item!r:.80} in {campaign.name!r}", "the Results page lists its sounds"
        )
    return found


def _scores(answers: Sequence[Judged], question: Question, item: str, system: str) -> dict[str, Any]:
    """The ratings of one question: how often each score was given, and their mean with its interval by rater."""
    ratings = ratings_of(answers, question.id, Scale(question.low, question.high))
    asked = {"id": question.id, "prompt": question.prompt, "low": question.low, "high": question.high}
    found = by_stimulus(ratings).get((system, item))
    if found is None:
        return asked | {"n": 0, "mean": None, "counts": {}}
    own = ratings.score[ratings.system == ratings.systems.index(system)]
    counts = {str(value): int((own == value).sum()) for value in range(question.low, question.high + 1)}
    mean = {name: asdict(found)[name] for name in _ENDS}
    return asked | {"n": found.n, "mean": mean, "counts": {v: c for v, c in counts.items() if c}}


def _comparisons(answers: Sequence[Judged], question: Question, system: str) -> list[dict[str, Any]]:
    """How this sound fared against each other one of its script: CMOS, above nought where this one is better."""
    found = comparison_tables(answers, question.id, question.low, question.high, None)
    out: list[dict[str, Any]] = []
    for pair in found.get("pairs", []):
        mean, turned = pair["cmos"]["by_rater"], pair["b"] == system
        if system not in (pair["a"], pair["b"]):
            continue
        low, high = (mean["low"], mean["high"]) if not turned else (_minus(mean["high"]), _minus(mean["low"]))
        better, worse = (pair["worse"], pair["better"]) if turned else (pair["better"], pair["worse"])
        counts = {"better": better, "same": pair["same"], "worse": worse, "n": mean["n"], "raters": mean["raters"]}
        value = {"mean": _minus(mean["mean"]) if turned else mean["mean"], "low": low, "high": high}
        out.append({"id": question.id, "against": pair["a"] if turned else pair["b"], **value, **counts})
    return out


def _minus(value: float | None) -> float | None:
    return None if value is None else -value


def _preferences(answers: Sequence[Judged], system: str) -> list[dict[str, Any]]:
    """Votes for this sound and for each other one of its script, and the share with its interval by rater."""
    out: list[dict[str, Any]] = []
    for pair in all_pairs(votes_of(answers), "by_rater"):
        if system not in (pair.a, pair.b):
            continue
        share, turned = pair.share, pair.b == system
        ends = (share.low, share.high) if not turned else (_from_one(share.high), _from_one(share.low))
        won, lost = (pair.wins_b, pair.wins_a) if turned else (pair.wins_a, pair.wins_b)
        votes = {"won": won, "lost": lost, "ties": pair.ties, "both_bad": pair.both_bad, "n": share.n}
        value = {"share": 1.0 - share.mean if turned else share.mean, "low": ends[0], "high": ends[1]}
        out.append({"against": pair.a if turned else pair.b, **votes, **value})
    return out


def _from_one(value: float | None) -> float | None:
    return None if value is None else 1.0 - value


def _found(answers: Sequence[Judged]) -> list[dict[str, Any]]:
    """ABX: how often X was found where this sound was among those heard."""
    return [
        {"a": pair["a"], "b": pair["b"], "n": pair["n"], "right": pair["right"]}
        for pair in identity_tables(answers).get("pairs", [])
    ]


def _predicted(session: Session, clip_sha: str) -> list[dict[str, Any]]:
    """What each predictor foresees of the clip that raters heard, the last one first."""
    said = session.exec(select(Prediction).where(Prediction.clip_sha == clip_sha).order_by(col(Prediction.at).desc()))
    return [
        {"predictor": one.predictor, "version": one.version, "weights": one.weights, "mos": one.mos} for one in said
    ]
