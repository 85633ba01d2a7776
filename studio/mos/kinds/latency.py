"""JSON tables of a live test's answers against latency."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from studio.mos.campaign.config import Question
from studio.mos.kinds.base import CountedAnswer
from studio.mos.stats import latency
from studio.mos.stats.columns import ScoreScale
from studio.mos.stats.latency import LatencyAnswers, LatencySlope

_WORTH = {"a": 1.0, "b": 0.0, "tie": 0.5, "both_bad": 0.5}


def latency_tables(answers: Sequence[CountedAnswer], questions: Sequence[Question]) -> dict[str, Any]:
    """Latencies of every voice, preference by latency difference, and scores of each question by latency.

    Answers without both latencies are excluded; ``n`` counts the rest. Slopes are per 100 ms, over all answers and
    within the same voices.
    """
    known = [a for a in answers if len(a.latencies_ms) == 2 and None not in a.latencies_ms]
    if not known:
        return {"n": 0}
    voices = sorted({name for a in known for name in a.systems})
    return {
        "n": len(known),
        "per_ms": latency.PER_MS,
        "systems": {name: _of_voice(known, name) for name in voices},
        "preference": _preference(known, voices),
        "questions": {q.id: _scores(known, voices, q) for q in questions},
    }


def _of_voice(answers: Sequence[CountedAnswer], name: str) -> dict[str, Any]:
    ms = [m for a in answers for s, m in zip(a.systems, a.latencies_ms, strict=True) if s == name and m is not None]
    low, middle, high = np.percentile(ms, (25, 50, 75))
    return {"n": len(ms), "low_ms": float(low), "median_ms": float(middle), "high_ms": float(high)}


def _preference(answers: Sequence[CountedAnswer], voices: list[str]) -> dict[str, Any]:
    votes = [a for a in answers if "preference" in a.outcomes]
    if not votes:
        return {"n": 0}
    first, second = ([voices.index(a.systems[slot]) for a in votes] for slot in (0, 1))
    sooner = np.array([(a.latencies_ms[1] or 0.0) - (a.latencies_ms[0] or 0.0) for a in votes])
    worth = np.array([_WORTH[a.outcomes["preference"]] for a in votes])
    columns = latency.voice_columns(np.array(first), np.array(second), voices)
    data = LatencyAnswers(worth, sooner, columns, *_codes(votes))
    turned = latency.orient_to_faster(data)
    return {
        "n": len(votes),
        "bins": [asdict(b) for b in latency.latency_bins(turned, ScoreScale(0.0, 1.0), null=0.5)],
        **_slopes(data, latency.preference_slope),
    }


def _scores(answers: Sequence[CountedAnswer], voices: list[str], question: Question) -> dict[str, Any]:
    rows = [(a, slot, value) for a in answers for (asked, slot), value in a.scores.items() if asked == question.id]
    if not rows:
        return {"n": 0}
    voice = np.array([voices.index(a.systems[slot]) for a, slot, _ in rows])
    ms = np.array([a.latencies_ms[slot] or 0.0 for a, slot, _ in rows])
    value = np.array([float(value) for *_, value in rows])
    data = LatencyAnswers(value, ms, latency.voice_columns(voice, None, voices), *_codes([a for a, *_ in rows]))
    return {
        "n": len(rows),
        "bins": [asdict(b) for b in latency.latency_bins(data, ScoreScale(question.low, question.high))],
        **_slopes(data, latency.score_slope),
    }


def _slopes(data: LatencyAnswers, slope: Callable[[LatencyAnswers, bool], LatencySlope | None]) -> dict[str, Any]:
    found = {name: slope(data, same) for name, same in (("slope", False), ("slope_same_voices", True))}
    return {name: None if one is None else asdict(one) for name, one in found.items()}


def _codes(answers: Sequence[CountedAnswer]) -> tuple[Any, Any]:
    """Codes of raters and of scripts."""
    rater, item = (np.unique([getattr(a, of) for a in answers], return_inverse=True)[1] for of in ("rater", "item"))
    return rater, item
