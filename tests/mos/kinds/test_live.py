"""Live tests: contents of an answer, and tables of answers against the measured latency."""

import json
from dataclasses import replace
from random import Random

import pytest
from mos.world import AB, NATURAL

from studio.core.errors import BadOption
from studio.mos.kinds.base import AnswerMark, BadAnswer, CountedAnswer
from studio.mos.kinds.registry import kind_of
from studio.mos.report.models import latency_figures, latency_tables
from studio.mos.store.tables import AnswerCreate, ChoiceCreate, ScoreCreate
from studio.ui.vote_figures import answers as answers_figure
from studio.ui.vote_figures import voices as voices_figure

LIVE = replace(AB, kind="live")
SCORED = replace(LIVE, questions=[NATURAL])
LATE_MS = {"quick": 180.0, "slow": 420.0, "tardy": 650.0}


def sent(*scores: tuple[int, int], outcome: str | None = "a") -> AnswerCreate:
    return AnswerCreate(
        trial="0123456789abcdef",
        scores=[ScoreCreate(question="naturalness", slot=slot, value=value) for slot, value in scores],
        choices=[ChoiceCreate(question="preference", outcome=outcome)] if outcome else [],
    )


def test_answer_is_a_choice_and_optional_scores_of_both() -> None:
    live = kind_of("live")
    live.check(LIVE)
    live.check(SCORED)
    with pytest.raises(BadOption):
        live.check(replace(SCORED, choices=["a", "tie"]))
    assert live.validate(LIVE, 2, sent()) == [AnswerMark("preference", outcome="a")]
    assert live.validate(SCORED, 2, sent((0, 4), (1, 2))) == [
        AnswerMark("preference", outcome="a"),
        AnswerMark("naturalness", 0, 4, 1, 5),
        AnswerMark("naturalness", 1, 2, 1, 5),
    ]
    for config, answer in (
        (LIVE, sent((0, 4))),
        (SCORED, sent((0, 4))),
        (SCORED, sent((0, 4), (1, 2), outcome=None)),
        (SCORED, sent((0, 4), (1, 6))),
    ):
        with pytest.raises(BadAnswer):
            live.validate(config, 2, answer)


def judged(raters: int = 12, items: int = 6) -> list[CountedAnswer]:
    """Raters who slightly prefer 100 ms less; one answer without a latency."""
    rng, found = Random(1), []
    for rater in range(raters):
        for item in range(items):
            pair = rng.sample(list(LATE_MS), 2)
            ms = [LATE_MS[name] + rng.gauss(0, 40) for name in pair]
            outcome = "a" if rng.random() < 1 / (1 + 2.0 ** ((ms[0] - ms[1]) / 100)) else "b"
            scores = {("naturalness", k): min(5, max(1, round(5 - ms[k] / 200 + rng.gauss(0, 0.5)))) for k in (0, 1)}
            found.append(
                CountedAnswer(f"r{rater}", f"i{item}", pair, scores, {"preference": outcome}, latencies_ms=tuple(ms))
            )
    return [*found, replace(found[0], item="other", latencies_ms=(None, 200.0))]


def results_of(answers: list[CountedAnswer]) -> dict:
    tables = kind_of("live").analyse(SCORED, answers)
    json.dumps(tables, allow_nan=False)
    asked = [{"id": "naturalness", "prompt": "How natural?", "low": 1, "high": 5}]
    return {"tables": tables, "questions": asked, "kind": "live"}


def test_answers_are_regressed_on_latency() -> None:
    results = results_of(judged())
    found = results["tables"]["latency"]
    assert found["n"] == 72 and results["tables"]["choices"]["n"] == 73
    for name, ms in LATE_MS.items():
        assert found["systems"][name]["median_ms"] == pytest.approx(ms, abs=20)
    shares = [b["mean"]["mean"] for b in found["preference"]["bins"]]
    assert len(shares) == 6 and shares[-1] > shares[0]
    slope = found["preference"]["slope"]
    assert slope["low"] < 120 < slope["high"] and slope["p"] < 0.01  # ln 2 per 100 ms is 120 Elo
    rated = found["questions"]["naturalness"]
    assert rated["slope"]["value"] == pytest.approx(-0.5, abs=0.1) and rated["n"] == 144
    assert rated["slope_same_voices"] is not None
    assert [t.caption for t in latency_tables(results)] == [
        "Voices by latency",
        "Preference by latency",
        "naturalness by latency",
    ]
    assert "Per 100 ms faster: over all answers " in latency_tables(results)[1].notes[0]
    assert len(latency_figures(results)) == 4
    drawn = voices_figure(results)
    assert list(drawn.data[0].text) == ["quick", "slow", "tardy"] and len(drawn.data) == 2
    assert len(answers_figure(results).data) == 2


def test_unanimous_slope_is_one_sided() -> None:
    """It was printed as 6104 Elo [5572, 6636], p 0.004, beside a share of 100% [15.8%, 100%]."""
    rng, found = Random(2), []
    for rater in range(7):
        for item in ("i1", "i2"):
            pair = rng.sample(["quick", "slow"], 2)
            ms = tuple(LATE_MS[name] + rng.gauss(0, 20) for name in pair)
            won = {"preference": "a" if pair[0] == "quick" else "b"}
            found.append(CountedAnswer(f"r{rater}", item, pair, {}, won, latencies_ms=ms))
    said = latency_tables(results_of(found))[1].notes[0]
    assert "over all answers no finite slope, because the faster voice won every vote: above \N{MINUS SIGN}" in said
    assert "p 0.500; within voices unknown" in said  # the quick voice won at any latency


def test_other_kinds_and_empty_tests_have_no_latency_table() -> None:
    assert results_of([])["tables"]["latency"] == {"n": 0}
    for results in (results_of([]), {"tables": {}, "questions": [], "kind": "ab"}):
        assert latency_tables(results) == latency_figures(results) == []
        assert voices_figure(results) is None and answers_figure(results) is None
