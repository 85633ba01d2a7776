"""Our figures beside the paper's: confirmed, contradicted, undecided."""

import pytest

from studio.bench.tables.definition import Claim, Part, Row
from studio.bench.tables.figures import HOLDS, OPEN, TURNED, UNSURE, contradicted_claims, figures_of, judged, verdict

WER = Part(
    place="Table 1",
    measure="wer",
    differs="",
    rows=[Row(name=name, net="a", paper={"wer": wer}) for name, wer in (("good", 0.1), ("bad", 0.3))],
    claims=[Claim(says="Good is better.", better="good", worse="bad", figure="wer")],
)
LOAD = Part(
    place="Table 2",
    measure="queries",
    differs="",
    rows=[Row(name=name, net="a", paper={"x_real_time": x}) for name, x in (("good", 9.0), ("bad", 3.0))],
    claims=[Claim(says="Good is faster.", better="good", worse="bad", figure="x_real_time")],
)


def heard(*errors: int) -> dict:
    """A stored row: sentences of ten words with a number of errors."""
    return {"each": {"one": [[10, count, 0, 0] for count in errors]}}


def loaded(speed: float) -> dict:
    return {"figures": {"first_ms": 9.0, "last_ms": 90.0, "rtf": 0.1, "x_real_time": speed}}


@pytest.mark.parametrize(
    ("good", "bad", "holds"),
    [
        (heard(*[1] * 20), heard(*[3] * 20), HOLDS),
        (heard(*[3] * 20), heard(*[1] * 20), TURNED),
        (heard(1, 4, 2, 3), heard(3, 2, 4, 1), UNSURE),
    ],
)
def test_claim_about_words_is_paired_over_sentences(good, bad, holds):
    found = verdict(WER, WER.claims[0], {"good": [good], "bad": [bad]})
    assert found["holds"] == holds and found["paper"] == pytest.approx(0.2)
    assert found["gain"]["low"] <= found["gain"]["value"] <= found["gain"]["high"]
    part = {"claims": [found]}
    assert bool(contradicted_claims(part)) == (holds == TURNED)
    if holds == TURNED:
        (said,) = contradicted_claims(part)
        assert "Good is better." in said and "by 0.200, here it is worse by 0.200" in said


def test_missing_measurement_is_reported():
    found = verdict(WER, WER.claims[0], {"good": [heard(1)]})
    assert found["holds"] == OPEN and found["gain"] is None and figures_of(WER, []) == {}


def test_direction_depends_on_the_figure_and_seeds_must_agree():
    rows = {"good": [loaded(8.0), loaded(9.0)], "bad": [loaded(4.0), loaded(5.0)]}
    found = verdict(LOAD, LOAD.claims[0], rows)
    assert found["holds"] == HOLDS and found["gain"]["value"] == pytest.approx(4.0) and found["paper"] == 6.0
    assert (found["gain"]["low"], found["gain"]["high"]) == (3.0, 5.0)
    rows["bad"].append(loaded(8.5))
    assert verdict(LOAD, LOAD.claims[0], rows)["holds"] == UNSURE
    assert verdict(LOAD, LOAD.claims[0], {"good": rows["bad"][:1], "bad": rows["good"]})["holds"] == TURNED


def test_verdict_of_one_run_says_so():
    once = verdict(LOAD, LOAD.claims[0], {"good": [loaded(8.0)], "bad": [loaded(4.0)]})
    assert once["holds"] == HOLDS and judged(once) == "as in the paper, in one run"
    twice = verdict(LOAD, LOAD.claims[0], {"good": [loaded(8.0), loaded(9.0)], "bad": [loaded(4.0)]})
    assert judged(twice) == HOLDS
    assert judged(verdict(LOAD, LOAD.claims[0], {})) == OPEN


def test_seeds_are_pooled_and_listed():
    figures = figures_of(WER, [heard(1, 1), heard(3, 3)])["wer"]
    assert figures["value"] == pytest.approx(0.2) and figures["seeds"] == pytest.approx([0.1, 0.3])
    assert figures_of(LOAD, [loaded(8.0), loaded(9.0)])["x_real_time"] == {"value": 8.5, "seeds": [8.0, 9.0]}


def test_stored_verdicts_keep_their_words():
    """Results of earlier runs are read back: renaming ``TURNED`` would hide what they contradict."""
    assert [HOLDS, TURNED, UNSURE, OPEN] == ["as in the paper", "the other way round", "not told apart", "not measured"]
