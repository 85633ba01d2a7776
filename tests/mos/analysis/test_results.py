"""Counts, funnel and tables of a campaign say what happened in it."""

import json
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from mos.rated import CHECKED, MOS, PAGE, PAIRS, campaign, given, rate
from mos.world import World

from studio.mos.analysis.results import campaigns_by_last_answer, funnel, overview, results
from studio.mos.analysis.results_cache import ResultsCache
from studio.mos.campaign.config import Gates, ScreeningQuestion, StopRule
from studio.mos.import_export.export_answers import export_rows
from studio.mos.sessions.campaigns import find_campaign, set_state
from studio.mos.sessions.erasure import delete_rater
from studio.mos.store.tables.answers import Answer

LITE = pytest.mark.parametrize("url", ["sqlite"], indirect=True)


def results_of(world: World, name: str = "first", **how: Any) -> dict[str, Any]:
    with world.store.read() as session:
        return results(session, find_campaign(session, name), **how)


def funnel_of(world: World) -> dict[str, int]:
    with world.store.read() as session:
        return {row["stage"]: row["raters"] for row in funnel(session, find_campaign(session, "first"))}


def test_an_empty_campaign_has_results_too(world: World, tmp_path: Path) -> None:
    campaign(world, tmp_path, MOS)
    campaign(world, tmp_path / "b", PAIRS, "second")
    found, choices = results_of(world), results_of(world, "second")
    json.dumps([found, choices], allow_nan=False)
    assert (found["raters"], found["answers"], found["wanted"]) == (0, 0, 9 * 9)
    assert found["tables"] == {"questions": {"naturalness": {"n": 0}, "coherence": {"n": 0}}}
    assert choices["tables"] == {"choices": {"n": 0}}


def test_the_tables_are_made_of_the_counted_test_answers(world: World, tmp_path: Path) -> None:
    campaign(world, tmp_path, CHECKED, checks=("trap", "gold"))
    for who in ("one", "two"):
        rate(world, who)
    looker = world.join("looker", role="preview")
    shown = looker.to_trials()
    world.listening.answer(looker.rater_id, given(shown, Random(3))).result(30)
    found = results_of(world)
    json.dumps(found, allow_nan=False)
    with world.store.read() as session:
        rows = [
            r for r in export_rows(session, find_campaign(session, "first")) if r["role"] == "test" and r["counted"]
        ]
    for question in ("naturalness", "coherence"):
        table = found["tables"]["questions"][question]
        scores = [r["score"] for r in rows if r["question"] == question]
        assert table["n"] == len(scores) == 12
        for system, interval in table["systems"]["two_way"].items():
            mine = [r["score"] for r in rows if r["question"] == question and r["system"] == system]
            assert interval["mean"] == pytest.approx(sum(mine) / len(mine))
            assert table["histogram"][system] == [mine.count(v) for v in range(1, 6)]
    assert found["effort"]["mean_plays"] == 1.0
    assert 1000 <= found["effort"]["median_response_ms"] <= 1500
    assert found["raters"] == found["finished"] == 2


@LITE
def test_raters_whom_a_gate_excludes_are_left_out_unless_everyone_is_asked_for(world: World, tmp_path: Path) -> None:
    campaign(world, tmp_path, replace(CHECKED, gates=replace(CHECKED.gates, golds=0)), checks=("trap",))
    rate(world, "good")
    rate(world, "bad", check=5)
    found, everyone = results_of(world), results_of(world, everyone=True)
    assert (found["left_out"], everyone["left_out"]) == (1, 0)
    assert found["gates"] == everyone["gates"]
    assert found["gates"]["all"]["traps"] == {"ok": 1, "fail": 1}
    counts = [f["tables"]["questions"]["coherence"]["n"] for f in (found, everyone)]
    assert counts == [6, 12]
    assert (found["raters"], found["answers"], found["aside"]) == (2, 12, 2)  # whoever is analysed


@LITE
def test_the_funnel_counts_completed_stages(world: World, tmp_path: Path) -> None:
    screen = ScreeningQuestion("native", "Your language?", ["English", "Another"], ["English"])
    gates = Gates(level=False, screening=[screen], headphones="woods")
    campaign(world, tmp_path, replace(MOS, gates=gates, trials_per_sitting=1))

    def come(who: str, language: str = "English", wrong: int = 0) -> Any:
        rater_session = world.join(who)
        rater_session.send("consent", agreed=True, version=3)
        if rater_session.send("screening", answers={"native": language})["stage"] == "instructions":
            rater_session.send("instructions")
            rater_session.send("headphones", answers=rater_session.headphones("woods", wrong))
        return rater_session

    world.join("only comes")
    world.join("refuses").send("consent", agreed=False, version=3)
    come("foreign", "Another")
    world.listening.withdraw(come("goes").rater_id).result(30)
    come("listens")
    deaf = come("bad headphones", wrong=6)  # which is asked for information only, so that this one goes on
    world.listening.answer(deaf.rater_id, given(deaf.next(), Random(0))).result(30)
    deaf.send("comments", comment="")
    assert funnel_of(world) == {
        "consent": 4,
        "screening": 3,
        "instructions": 3,
        "headphones": 3,
        "trials": 1,
        "comments": 1,
        "done": 1,
        "screened_out": 1,
        "withdrawn": 1,
    }


@LITE
def test_full_campaigns_show_it(world: World, tmp_path: Path) -> None:
    campaign(world, tmp_path, replace(PAGE, raters_per_stimulus=1))
    late = world.join("late").agree()
    rate(world, "first")
    assert late.send("instructions")["stage"] == "full"
    assert funnel_of(world)["full"] == 1
    assert funnel_of(world)["instructions"] == 2


@LITE
def test_a_snapshot_is_made_anew_when_something_changed(world: World, tmp_path: Path) -> None:
    campaign(world, tmp_path, MOS)
    snapshots = ResultsCache(world.store)
    first = snapshots.get("first")
    assert snapshots.get("first")[1] is first[1]
    assert snapshots.get("first", everyone=True)[1] is not first[1]
    seen = [first]

    def changed() -> dict[str, Any]:
        seen.append(snapshots.get("first"))
        assert seen[-1][0] != seen[-2][0]
        assert seen[-1][1] is not seen[-2][1]
        return seen[-1][1]

    rater_session = world.join("one").agree()
    assert changed()["raters"] == 1
    shown = rater_session.to_trials()
    assert changed()["funnel"][1]["raters"] == 1
    world.listening.answer(rater_session.rater_id, given(shown, Random(0))).result(30)
    assert changed()["answers"] == 1
    world.store.write_now(lambda session: set_state(session, "first", "closed").id)
    assert changed()["state"] == "closed"
    name = rater_session.row().pseudonym
    world.store.write_now(lambda session: delete_rater(session, find_campaign(session, "first"), name))
    assert changed()["raters"] == 0


@LITE
def test_the_design_is_reported(world: World, tmp_path: Path) -> None:
    campaign(world, tmp_path, replace(MOS, stop=StopRule(0.2)))
    found = results_of(world)
    assert found["seed"] == 11
    assert found["rule"] == {
        "level": 0.95,
        "half_width": 0.2,
        "decided": False,
        "looks": [20, 40, 60, 80, 100],
        "spending": "obrien_fleming",
    }
    assert (found["design"]["raters_per_stimulus"], found["design"]["trials_per_sitting"]) == (9, 6)
    assert [s["name"] for s in found["systems"]] == ["heron", "osprey", "teal"]
    assert found["loudness"]["lufs"] == pytest.approx(-23.0, abs=0.2)
    with world.store.read() as session:
        assert overview(session, find_campaign(session, "first"))["name"] == "first"


def test_the_campaign_with_the_newest_answer_comes_first(world: World) -> None:
    """Previews are no answers; campaigns without any stand behind, the newest before the older."""
    names = ("older", "answered early", "answered late", "looked at", "newest")
    for name in names:
        world.campaign(name=name)

    def order() -> list[str]:
        with world.store.read() as session:
            return campaigns_by_last_answer(session)

    assert order() == [*reversed(names)]
    for name in ("answered late", "answered early", "answered late"):
        rater_session = world.join(f"somebody {len(world.all(Answer))}", name)
        rater_session.answer(rater_session.to_trials())
    preview = world.join("looker", "looked at", role="preview")
    preview.answer(preview.to_trials())
    assert order() == ["answered late", "answered early", "newest", "looked at", "older"]
    late = world.join("last", "older")
    late.answer(late.to_trials())
    assert order()[0] == "older"
