"""Tables of scores, choices and latencies as JSON values."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from studio.measure.statistics import krippendorff
from studio.mos.campaign.config import CampaignConfig, Question
from studio.mos.kinds.base import CountedAnswer
from studio.mos.kinds.marked import MarkedAnswers, marked, sorted_codes
from studio.mos.stats import agreement, elo, latency, means, preference
from studio.mos.stats.columns import OUTCOMES, Ratings, ScoreScale, Vote, Votes, ratings_from_rows, votes_from_rows
from studio.mos.stats.latency import LatencyAnswers, LatencySlope
from studio.mos.stats.preference import AbxAnswer, CmosAnswer, abx_result, abx_results, cmos_results, order_effect

A0 = B0 = 0.1  # shape and rate of the prior on strengths
C = 2000.0  # the Elo of strength 1
ELO_METHODS: tuple[elo.EloMethod, ...] = ("gamma", "mle", "dsm", "davidson", "posterior")
MATCH = "match"  # the question of an ABX trial


def ratings_of(answers: Sequence[CountedAnswer], question: str, scale: ScoreScale | None = None) -> Ratings:
    """The scores of one question as columns."""
    columns = marked(answers)

    def scores(mark: CountedAnswer) -> list[tuple[str, str, str, float]]:
        return [
            ("", "", mark.systems[slot], float(value))
            for (asked, slot), value in mark.scores.items()
            if asked == question
        ]

    answer, rows, row = columns.rows(scores)
    distinct = ratings_from_rows(rows, scale=scale)
    rater, raters, item, items = columns.names_of(answer)
    return replace(
        distinct,
        score=distinct.score[row],
        system=distinct.system[row],
        rater=rater,
        raters=raters,
        item=item,
        items=items,
    )


def votes_of(answers: Sequence[CountedAnswer]) -> Votes:
    """The choices as columns; ``a`` and ``b`` are the systems shown first and second."""
    columns = marked(answers)

    def choices(mark: CountedAnswer) -> list[Vote]:
        return [Vote(mark.systems[0], mark.systems[1], mark.outcomes["preference"])] if _has_choice(mark) else []

    answer, rows, row = columns.rows(choices)
    distinct = votes_from_rows(rows)
    if not rows:
        return distinct
    rater, raters, item, items = columns.names_of(answer)
    return replace(
        distinct,
        a=distinct.a[row],
        b=distinct.b[row],
        outcome=distinct.outcome[row],
        rater=rater,
        raters=raters,
        item=item,
        items=items,
    )


def _has_choice(answer: CountedAnswer) -> bool:
    return "preference" in answer.outcomes


def score_tables(answers: Sequence[CountedAnswer], question: Question) -> dict[str, Any]:
    """Means with every interval, by system and by stimulus, differences between systems, agreement, a histogram."""
    low, high = question.low, question.high
    ratings = _scaled_ratings(answers, question)
    if not len(ratings):
        return {"n": 0}
    first, rater, stimulus = agreement.first_scores(ratings)
    icc = agreement.icc(first, rater, stimulus)
    return {
        "n": len(ratings),
        "systems": {m: _as_dicts(means.by_system(ratings, m)) for m in ("two_way", "by_rater", "plain")},
        "quartiles": _as_dicts(means.quartiles(ratings)),
        "p808": _as_dicts(means.p808(ratings)),
        "stimuli": [
            {"item": item, "system": system, **asdict(i)}
            for (system, item), i in sorted(means.by_stimulus(ratings).items(), key=lambda row: row[0][::-1])
        ],
        "differences": [asdict(d) for d in means.pairwise_differences(ratings)],
        "agreement": {
            "alpha_ordinal": krippendorff(first, stimulus, "ordinal"),
            "alpha_interval": krippendorff(first, stimulus, "interval"),
            "icc": None if icc is None else asdict(icc),
        },
        "tags": {
            tag: {"n": len(rows), "items": _scripts(mine), "systems": _as_dicts(means.by_system(rows))}
            for tag, mine in _by_tag(answers)
            if len(rows := _scaled_ratings(mine, question))
        },
        "histogram": {
            name: [int(((ratings.system == s) & (ratings.score == value)).sum()) for value in range(low, high + 1)]
            for s, name in enumerate(ratings.systems)
        },
    }


def asking_tables(answers: Sequence[CountedAnswer], question: Question) -> list[dict[str, Any]]:
    """Mean of a question by question order: [{order, mean, n, ...}]."""
    orders = sorted({a.question_order for a in answers if a.question_order}, reverse=True)
    by_order = [
        (order, _scaled_ratings([a for a in answers if a.question_order == order], question)) for order in orders
    ]
    return [{"order": list(order), **asdict(means.mean_of(rows))} for order, rows in by_order if len(rows)]


def choice_tables(answers: Sequence[CountedAnswer], seed: int) -> dict[str, Any]:
    """Preference of every pair with four intervals, Elo by every method, and wins per side."""
    votes = votes_of(answers)
    if not len(votes):
        return {"n": 0}
    return {
        "n": len(votes),
        "names": votes.systems,
        "pairs": {
            method: [asdict(p) for p in preference.pairwise_preferences(votes, method)]
            for method in ("two_way", "by_rater", "exact", "wilson")
        },
        "elo": {method: elo.elo_report(votes, method, C, A0, B0, seed=seed) for method in ELO_METHODS}
        | {"by_rater": elo.elo_report(votes, "gamma", C, A0, B0, clusters="by_rater")},
        "constants": {"a0": A0, "b0": B0, "c": C},
        "tags": {
            tag: {"n": len(mine), "items": _scripts(mine), "elo": elo.elo_report(votes_of(mine), "gamma", C, A0, B0)}
            for tag, mine in _by_tag(marked(answers).having(_has_choice))
        },
        # wins per side over all systems; a share far from one half shows a side bias
        "sides": {outcome: int((votes.outcome == code).sum()) for code, outcome in enumerate(OUTCOMES)},
    }


def screened_answers(answers: Sequence[CountedAnswer], question: Question) -> Sequence[CountedAnswer]:
    """Answers of raters who pass the post-screening of a MUSHRA question."""
    screening = _screening(answers, _scaled_ratings(answers, question))
    return answers if screening is None else [a for a in answers if a.rater not in screening[0].dropped]


def post_screened(config: CampaignConfig, answers: Sequence[CountedAnswer]) -> dict[str, str]:
    """Raters that the post-screening of MUSHRA excludes, with the reason: reference, anchor or both."""
    if config.kind != "mushra" or not config.questions:
        return {}
    screening = _screening(answers, _scaled_ratings(answers, config.questions[0]))
    return {} if screening is None else {rater: _reason(screening[0], rater) for rater in screening[0].dropped}


def _reason(screen: means.PostScreen, rater: str) -> str:
    if rater not in screen.by_anchor:
        return "reference"
    return "both" if rater in screen.by_reference else "anchor"


def screened_tables(answers: Sequence[CountedAnswer], question: Question) -> dict[str, Any]:
    """Tables of a MUSHRA question after its post-screening, the numbers of excluded raters, and means of all raters."""
    ratings = _scaled_ratings(answers, question)
    tables = {"questions": {question.id: score_tables(screened_answers(answers, question), question)}}
    if (screening := _screening(answers, ratings)) is None:
        return tables
    screen, reference, anchor = screening
    return tables | {
        "post_screen": {
            "reference": reference,
            "mid_anchor": anchor,
            "limit": means.LIMIT,
            "share": means.SHARE,
            "unharmed_share": means.UNHARMED,
            "raters": len(screen.low_share),
            "dropped": len(screen.dropped),
            "by_reference": len(screen.by_reference),
            "by_anchor": len(screen.by_anchor),
            "excluded": [
                {
                    "rater": rater,
                    "reason": _reason(screen, rater),
                    "low_share": screen.low_share.get(rater),
                    "high_share": screen.high_share.get(rater),
                }
                for rater in screen.dropped
            ],
            "unharmed": list(screen.unharmed),  # scripts whose mid anchor is not used to screen raters
            "everybody": _as_dicts(means.by_system(ratings)),
        }
    }


def _screening(answers: Sequence[CountedAnswer], ratings: Ratings) -> tuple[means.PostScreen, str, str | None] | None:
    """Post-screening of a MUSHRA question, its hidden reference and mid anchor; None without a reference."""
    hidden = {a.reference for a in answers if a.reference is not None}
    if not len(ratings) or not hidden:
        return None
    [reference] = hidden
    anchor = next(iter({a.mid_anchor for a in answers} & set(ratings.systems)), None)
    return means.post_screen(ratings, reference, anchor), reference, anchor


def comparison_tables(
    answers: Sequence[CountedAnswer], question: Question, baseline: str | None = None
) -> dict[str, Any]:
    """CMOS of every pair, signs corrected for the order, and whether the order itself had an effect."""
    scale = ScoreScale(question.low, question.high)
    rated = marked(answers).having(lambda mark: (question.id, 1) in mark.scores)
    if not rated:
        return {"n": 0}

    def compared(answers: Sequence[CountedAnswer]) -> list[CmosAnswer]:
        return [CmosAnswer(a.rater, a.item, a.systems[0], a.systems[1], a.scores[question.id, 1]) for a in answers]

    def pairs(answers: Sequence[CountedAnswer]) -> list[dict[str, Any]]:
        return [asdict(c) for c in cmos_results(compared(answers), baseline, scale)]

    return {
        "n": len(rated),
        "pairs": pairs(rated),
        "tags": {tag: {"n": len(mine), "items": _scripts(mine), "pairs": pairs(mine)} for tag, mine in _by_tag(rated)},
        "order": asdict(order_effect(compared(rated), scale)),
    }


def identity_tables(answers: Sequence[CountedAnswer]) -> dict[str, Any]:
    """Correct identifications of X by pair and in total; and the counts of answers a and b, regardless of X."""
    outcomes = [(a, a.outcomes[MATCH]) for a in answers if MATCH in a.outcomes]
    if not outcomes:
        return {"n": 0}
    identifications = [
        AbxAnswer(a.rater, a.item, a.systems[0], a.systems[1], a.systems[0 if outcome == "a" else 1] == a.reference)
        for a, outcome in outcomes
    ]
    return {
        "n": len(identifications),
        "pairs": [asdict(i) for i in abx_results(identifications)],
        "all": asdict(abx_result("", "", identifications)),
        "said": {side: sum(outcome == side for _, outcome in outcomes) for side in ("a", "b")},
    }


def _by_tag(answers: Sequence[CountedAnswer]) -> list[tuple[str, MarkedAnswers]]:
    """The answers on the scripts of each tag; a script of two tags is in both."""
    columns = marked(answers)
    answer, tags, row = columns.rows(lambda mark: mark.tags)
    tag, names = sorted_codes(row, tags)
    return [(name, columns.where(answer[tag == code])) for code, name in enumerate(names)]


def _scripts(answers: Sequence[CountedAnswer]) -> int:
    return len(marked(answers).names_of()[3])


def _as_dicts(rows: Mapping[str, Any]) -> dict[str, Any]:
    return {name: asdict(row) for name, row in rows.items()}


def _scaled_ratings(answers: Sequence[CountedAnswer], question: Question) -> Ratings:
    return ratings_of(answers, question.id, ScoreScale(question.low, question.high))


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
        "systems": {name: _latency_quartiles(known, name) for name in voices},
        "preference": _preference_by_latency(known, voices),
        "questions": {q.id: _scores_by_latency(known, voices, q) for q in questions},
    }


def _latency_quartiles(answers: Sequence[CountedAnswer], name: str) -> dict[str, Any]:
    ms = [m for a in answers for s, m in zip(a.systems, a.latencies_ms, strict=True) if s == name and m is not None]
    low, middle, high = np.percentile(ms, (25, 50, 75))
    return {"n": len(ms), "low_ms": float(low), "median_ms": float(middle), "high_ms": float(high)}


def _preference_by_latency(answers: Sequence[CountedAnswer], voices: list[str]) -> dict[str, Any]:
    votes = [a for a in answers if "preference" in a.outcomes]
    if not votes:
        return {"n": 0}
    first, second = (np.array([voices.index(a.systems[slot]) for a in votes]) for slot in (0, 1))
    lead_ms = np.array([(a.latencies_ms[1] or 0.0) - (a.latencies_ms[0] or 0.0) for a in votes])
    worth = np.array([_WORTH[a.outcomes["preference"]] for a in votes])
    data = LatencyAnswers(worth, lead_ms, latency.voice_columns(first, second, voices), *_codes(votes))
    bins = latency.latency_bins(latency.orient_to_faster(data), ScoreScale(0.0, 1.0), null=0.5)
    return {"n": len(votes), "bins": [asdict(b) for b in bins], **_slopes(data, latency.preference_slope)}


def _scores_by_latency(answers: Sequence[CountedAnswer], voices: list[str], question: Question) -> dict[str, Any]:
    rows = [
        (a, slot, value)
        for a in answers
        for (question_id, slot), value in a.scores.items()
        if question_id == question.id
    ]
    if not rows:
        return {"n": 0}
    voice = latency.voice_columns(np.array([voices.index(a.systems[slot]) for a, slot, _ in rows]), None, voices)
    ms = np.array([a.latencies_ms[slot] or 0.0 for a, slot, _ in rows])
    value = np.array([float(value) for *_, value in rows])
    data = LatencyAnswers(value, ms, voice, *_codes([a for a, *_ in rows]))
    bins = latency.latency_bins(data, ScoreScale(question.low, question.high))
    return {"n": len(rows), "bins": [asdict(b) for b in bins], **_slopes(data, latency.score_slope)}


def _slopes(data: LatencyAnswers, slope: Callable[[LatencyAnswers, bool], LatencySlope | None]) -> dict[str, Any]:
    slopes = {name: slope(data, same) for name, same in (("slope", False), ("slope_same_voices", True))}
    return {name: None if one is None else asdict(one) for name, one in slopes.items()}


def _codes(answers: Sequence[CountedAnswer]) -> tuple[Any, Any]:
    """Codes of raters and of scripts."""
    rater, item = (np.unique([getattr(a, of) for a in answers], return_inverse=True)[1] for of in ("rater", "item"))
    return rater, item
