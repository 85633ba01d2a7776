"""Margins in results, reports, the Results page and the command line."""

import json
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from mos.rated import MOS, PAGE, PAIRS, campaign, given
from mos.world import SQLITE_ONLY, World
from typer.testing import CliRunner

from studio.cli import cli
from studio.core.errors import BadOption
from studio.mos.analysis.results import results
from studio.mos.campaign.config import Margins, Question, from_json, margins_of, to_json
from studio.mos.kinds.base import CountedAnswer
from studio.mos.kinds.registry import kind_of
from studio.mos.report.beside_means import rank_tables, subject_bias_tables
from studio.mos.report.margins import margin_figures, margin_sentences, margin_tables
from studio.mos.report.page import html
from studio.mos.report.tables import latex, markdown
from studio.mos.sessions.campaigns import find_campaign
from studio.ui.score_figures import margins as margin_plot

WORTH = {"heron": 3, "osprey": 3, "teal": 1}


def rated(world: World, name: str, raters: int = 9) -> None:
    """Answers that differ with rater and script by a step, and with the system by ``WORTH``."""
    from mos.recommended import systems_of

    for who in range(raters):
        session, rng = world.join(f"r{who}", name), Random(who)
        session.to_trials()
        while (shown := session.next())["stage"] == "trials":
            answer, by_slot = given(shown, rng), systems_of(world, shown["trial"]["trial"])[0]
            span = shown["screen"]["questions"][0]["high"] // 5 if shown["screen"]["questions"] else 1
            scores = [
                s.model_copy(update={"value": span * (WORTH[by_slot[s.slot]] + rng.randint(0, 1))})
                for s in answer.scores
            ]
            choices = [c.model_copy(update={"outcome": _choice(by_slot, rng)}) for c in answer.choices]
            sent = answer.model_copy(update={"scores": scores, "choices": choices})
            world.listening.answer(session.rater_id, sent).result(30)


def _choice(by_slot: dict[int, str], rng: Random) -> str:
    first, second = (WORTH[by_slot[slot]] for slot in (0, 1))
    return "a" if first > second else "b" if first < second else rng.choice(["tie", "a", "b", "tie"])


def results_of(world: World, name: str, **how: Any) -> dict[str, Any]:
    with world.store.read() as session:
        return results(session, find_campaign(session, name), **how)


def test_declared_margin_is_tested_and_said(world: World, tmp_path: Path) -> None:
    campaign(world, tmp_path, replace(MOS, baseline="osprey", margins=Margins(score=1.0)))
    rated(world, "first")
    found = results_of(world, "first")
    assert found["margins"]["is_declared"] and found["design"]["margins"] == {"score": 1.0, "share": None}
    assert [test["name"] for test in found["margins"]["tests"]] == ["naturalness", "coherence"]
    for test in found["margins"]["tests"]:
        assert [(p["a"], p["b"]) for p in test["pairs"]] == [("heron", "osprey"), ("teal", "osprey")], (
            "the baseline is b"
        )
        same, worse = test["pairs"]
        assert same["verdict"] == "equivalent" and worse["verdict"] == "worse"
        differences = found["tables"]["questions"][test["name"]]["differences"]
        means = {(d["a"], d["b"]): d["interval"]["mean"] for d in differences}
        assert same["interval"]["mean"] == pytest.approx(means["heron", "osprey"])
        assert worse["interval"]["mean"] == pytest.approx(-means["osprey", "teal"])
        assert worse["interval"]["low"] < worse["interval"]["mean"] < worse["interval"]["high"] < -1.0
        assert same["posterior_equivalent"] > 0.95 > 0.05 > worse["posterior_not_worse"]
    [first, second, *_] = margin_sentences(found)
    assert first.startswith("naturalness: heron and osprey are equivalent within 1.00 steps: the difference is ")
    assert second.startswith("naturalness: teal is worse than osprey by more than 1.00 steps")
    page = html(found)
    assert "heron and osprey are equivalent within 1.00 steps" in page and 'class="half"' in page
    assert "declared in the settings" in page
    for text in (latex(found), markdown(found)):
        assert "no worse by more than a margin of 1 steps" in text and "equivalent within 1.00 steps" in text
    drawn = margin_plot(found)
    assert drawn is not None and len(drawn.layout.shapes) == 3 and len(drawn.data[0].x) == 4
    assert drawn.data[0].x[0] == pytest.approx(found["margins"]["tests"][0]["pairs"][0]["interval"]["mean"])
    assert len(margin_figures(found)) == len(margin_tables(found)) == 2


def test_margin_may_be_chosen_later_and_the_report_says_so(world: World, tmp_path: Path) -> None:
    campaign(world, tmp_path, PAIRS)
    rated(world, "first")
    plain = results_of(world, "first")
    assert plain["margins"]["tests"] == [] and margin_plot(plain) is None and margin_tables(plain) == []
    found = results_of(world, "first", margins=Margins(share=0.2), baseline="heron")
    [test] = found["margins"]["tests"]
    assert (test["name"], test["unit"], found["margins"]["is_declared"]) == ("preference", "share", False)
    assert [p["b"] for p in test["pairs"]] == ["heron", "heron"]
    by_name = {p["a"]: p for p in test["pairs"]}
    [share] = [p["share"]["mean"] for p in found["tables"]["choices"]["pairs"]["two_way"] if p["b"] == "osprey"]
    assert by_name["osprey"]["interval"]["mean"] == pytest.approx(0.5 - share)
    # No vote for teal on three scripts: p is (1 - .7)^3, which two pairs make .054, too little.
    assert by_name["teal"]["p_not_better"] == pytest.approx(0.3**3)
    assert by_name["teal"]["p_not_better_holm"] == pytest.approx(2 * 0.3**3)
    assert by_name["teal"]["verdict"] == "undecided"
    assert "no worse than the other by more than 20.0 percentage points" in by_name["teal"]["sentence"]
    assert "fix a margin before the answers are seen" in " ".join(margin_tables(found)[0].notes)
    with pytest.raises(BadOption, match="not one of the systems"):
        results_of(world, "first", margins=Margins(share=0.1), baseline="wren")
    with pytest.raises(BadOption, match="needs a question with a scale"):
        results_of(world, "first", margins=Margins(score=0.1))


@SQLITE_ONLY
def test_command_line_takes_a_margin(world: World, tmp_path: Path) -> None:
    campaign(world, tmp_path, PAGE)
    rated(world, "first")
    where = ["--database", world.store.url]
    said = CliRunner().invoke(cli, ["campaign", "results", "first", "--margin", "20", "--json", *where])
    assert said.exit_code == 0, said.output
    found = json.loads(said.stdout)
    [test] = found["margins"]["tests"]
    assert (test["unit"], len(test["pairs"])) == ("points", 3)
    out = tmp_path / "report.html"
    given_options = ["--margin", "20", "--baseline", "heron", "-o", str(out)]
    said = CliRunner().invoke(cli, ["campaign", "report", "first", *given_options, *where])
    assert said.exit_code == 0, said.output
    assert "osprey and heron are equivalent within 20.0 points" in out.read_text(encoding="utf-8")
    wide = CliRunner().invoke(cli, ["campaign", "results", "first", "--margin", "100", *where])
    assert isinstance(wide.exception, BadOption) and "the largest difference on this scale" in wide.exception.do


def test_margins_are_checked_with_the_kind() -> None:
    assert from_json(to_json(replace(MOS, margins=Margins(score=0.2)))).margins.score == 0.2
    for wrong in ({"score": 0}, {"score": "0.2"}, {"share": 0.5}, {"steps": 1}):
        with pytest.raises(BadOption):
            from_json({**to_json(MOS), "margins": wrong})
    for config, match in (
        (replace(MOS, margins=Margins(score=4.0)), "the margin is 4"),
        (replace(MOS, margins=Margins(share=0.1)), "needs a test of preference"),
        (replace(PAIRS, margins=Margins(score=0.1)), "needs a question"),
    ):
        with pytest.raises(BadOption, match=match):
            kind_of(config.kind).check(config)
    ccr = replace(MOS, kind="ccr", questions=[Question("quality", "", -3, 3)])
    kind_of("ccr").check(replace(ccr, margins=Margins(score=2.9)))
    with pytest.raises(BadOption, match="below 3"):
        kind_of("ccr").check(replace(ccr, margins=Margins(score=3.0)))
    assert (margins_of(PAIRS, 0.1), margins_of(MOS, 0.1)) == (Margins(share=0.1), Margins(score=0.1))
    with pytest.raises(BadOption):
        margins_of(PAIRS, 0.6)


def mushra_answers() -> list[CountedAnswer]:
    """Eight raters, six scripts; the systems differ little, reference and anchor much."""
    worth = {"reference": 97, "heron": 70, "osprey": 68, "teal": 60, "anchor": 20}
    rng = Random(0)
    return [
        CountedAnswer(
            rater=f"r{r}",
            item=f"i{i}",
            systems=tuple(worth),
            scores={("quality", slot): min(100, w + rng.randint(-3, 3)) for slot, w in enumerate(worth.values())},
            outcomes={},
            reference="reference",
        )
        for r in range(8)
        for i in range(6)
    ]


def test_rank_tests_and_bias_stand_beside_mushras_means() -> None:
    from studio.mos.analysis.results import analysis

    config = replace(MOS, kind="mushra", questions=[Question("quality", "", 0, 100)], margins=Margins(score=10.0))
    roles = {"reference": "reference", "anchor": "anchor"}
    found = analysis(config, mushra_answers(), 0, roles)
    found |= {"systems": [{"name": n, "role": roles.get(n, "test")} for n in ("reference", "heron", "osprey", "teal")]}
    tests = found["rank_tests"]["quality"]
    assert (tests["rater"]["friedman"]["systems"], tests["systems"]["friedman"]["systems"]) == (5, 3)
    assert tests["rater"]["friedman"]["blocks"] == 8 and tests["item"]["friedman"]["blocks"] == 6
    assert len(tests["rater"]["pairs"]) == 10
    friedman, wilcoxon = rank_tables(found)
    assert [row[0].split(",")[0] for row in friedman.rows][-1] == "raters" and len(friedman.rows) == 3
    assert len(wilcoxon.rows) == 10 and "rank-biserial" in wilcoxon.notes[0]
    [bias] = subject_bias_tables(found)
    assert len(bias.rows) == 5 and "8 raters: bias" in bias.notes[1]
    pairs = {(p["a"], p["b"]) for t in found["margins"]["tests"] for p in t["pairs"]}
    assert not any("anchor" in pair for pair in pairs) and ("heron", "osprey") in pairs


def test_reason_stands_in_for_missing_tests() -> None:
    from studio.mos.analysis.results import analysis

    answers = [replace(a, systems=("heron",), scores={("quality", 0): 70}, reference=None) for a in mushra_answers()]
    config = replace(MOS, kind="scale", questions=[Question("quality", "", 1, 100)])
    found = analysis(config, answers, 0, {})
    assert "there are 1" in found["rank_tests"]["quality"]["reason"] and rank_tables(found) == []
    assert found["margins"] == {"score": None, "share": None, "is_declared": False, "tests": []}
