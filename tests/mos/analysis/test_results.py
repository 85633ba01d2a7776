"""Results of a campaign: counts, funnel, tables, tables by tag."""

import json
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from mos.rated import CHECKED, MOS, PAGE, PAIRS, campaign, given, rate, write_sounds
from mos.world import SQLITE_ONLY, World
from typer.testing import CliRunner

from studio.cli import cli
from studio.core.errors import BadFile, BadOption
from studio.mos.analysis.results import ResultsCache, campaigns_by_last_answer, funnel, overview, results
from studio.mos.campaign.config import Gates, StopRule
from studio.mos.campaign.gates import ScreeningQuestion
from studio.mos.campaign.names import read_tags
from studio.mos.import_export.answer_files import FileOptions, read_votes
from studio.mos.import_export.export import export_rows, write_export
from studio.mos.report.page import html
from studio.mos.report.tables import markdown
from studio.mos.sessions.campaigns import find_campaign, set_state, tag_items
from studio.mos.sessions.erasure import delete_rater
from studio.mos.stats.elo import elo_report
from studio.mos.stimuli.building import build_campaign
from studio.mos.stimuli.derived import of_whole_scripts, with_excerpts
from studio.mos.stimuli.manifest_files import read_manifest, read_tag_file
from studio.mos.store.tables import Answer


def results_of(world: World, name: str = "first", **how: Any) -> dict[str, Any]:
    return world.read(results, name, **how)


def funnel_of(world: World) -> dict[str, int]:
    return {row["stage"]: row["raters"] for row in world.read(funnel)}


def test_empty_campaign_has_results(world: World, tmp_path: Path) -> None:
    campaign(world, tmp_path, MOS)
    campaign(world, tmp_path / "b", PAIRS, "second")
    found, choices = results_of(world), results_of(world, "second")
    json.dumps([found, choices], allow_nan=False)
    assert (found["raters"], found["answers"], found["wanted"]) == (0, 0, 9 * 9)
    assert found["tables"] == {"questions": {"naturalness": {"n": 0}, "coherence": {"n": 0}}}
    assert choices["tables"] == {"choices": {"n": 0}}


def test_tables_count_only_test_answers(world: World, tmp_path: Path) -> None:
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


@SQLITE_ONLY
def test_excluded_raters_are_left_out_unless_all_are_requested(world: World, tmp_path: Path) -> None:
    campaign(world, tmp_path, replace(CHECKED, gates=replace(CHECKED.gates, golds=0)), checks=("trap",))
    rate(world, "good")
    rate(world, "bad", check=5)
    found, everyone = results_of(world), results_of(world, everyone=True)
    assert (found["left_out"], everyone["left_out"]) == (1, 0)
    assert found["gates"] == everyone["gates"]
    assert found["gates"]["all"]["traps"] == {"ok": 1, "fail": 1}
    counts = [f["tables"]["questions"]["coherence"]["n"] for f in (found, everyone)]
    assert counts == [6, 12]
    assert (found["raters"], found["answers"], found["aside"]) == (2, 12, 2)  # independent of exclusion


@SQLITE_ONLY
def test_funnel_counts_completed_stages(world: World, tmp_path: Path) -> None:
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
    deaf = come("bad headphones", wrong=6)  # not required, so this rater continues
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


@SQLITE_ONLY
def test_full_campaigns_are_marked(world: World, tmp_path: Path) -> None:
    campaign(world, tmp_path, replace(PAGE, raters_per_stimulus=1))
    late = world.join("late").agree()
    rate(world, "first")
    assert late.send("instructions")["stage"] == "full"
    assert funnel_of(world)["full"] == 1
    assert funnel_of(world)["instructions"] == 2


@SQLITE_ONLY
def test_snapshot_is_rebuilt_after_a_change(world: World, tmp_path: Path) -> None:
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


@SQLITE_ONLY
def test_design_is_reported(world: World, tmp_path: Path) -> None:
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
    assert world.read(overview)["name"] == "first"


def test_campaign_with_the_newest_answer_comes_first(world: World) -> None:
    """Previews do not count as answers; campaigns without any come last, newest first."""
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


TEXTS = "item,text,tags\nitem0,Is it?,question; short\nitem1,It is.,short\nitem2,That is what it is.,\n"


def sounds(folder: Path) -> Path:
    write_sounds(folder)
    (folder / "texts.txt").unlink()
    (folder / "texts.csv").write_text(TEXTS, encoding="utf-8")
    return folder


def made(world: World, folder: Path, name: str, config: object) -> None:
    build_campaign(world.listening, name, config, read_manifest(sounds(folder)), seed=11)
    world.store.write_now(lambda session: set_state(session, name, "open").id)
    for k in range(5):
        rate(world, f"rater {k}", name)


@SQLITE_ONLY
def test_scores_and_elo_have_tables_by_tag(world: World, tmp_path: Path) -> None:
    made(world, tmp_path / "a", "mos", replace(MOS, trials_per_sitting=9))
    made(world, tmp_path / "b", "pairs", PAIRS)
    mos, pairs = results_of(world, "mos"), results_of(world, "pairs")
    table = mos["tables"]["questions"]["naturalness"]["tags"]
    with world.store.read() as session:
        rows = list(export_rows(session, find_campaign(session, "mos")))
    assert {r["tags"] for r in rows} == {"question;short", "short", ""}
    for tag, items in (("question", 1), ("short", 2)):
        mine = [r["score"] for r in rows if r["question"] == "naturalness" and tag in r["tags"].split(";")]
        assert (table[tag]["n"], table[tag]["items"]) == (len(mine), items)
        seen = [r["score"] for r in rows if r["system"] == "teal" and r["question"] == "naturalness"]
        assert table["short"]["systems"]["teal"]["n"] < len(seen)
    world.read(write_export, "pairs", tmp_path / "votes.csv")
    votes, left_out = read_votes(tmp_path / "votes.csv", FileOptions(tag="short"))
    assert len(votes) == pairs["tables"]["choices"]["tags"]["short"]["n"] == 30
    assert left_out == {"of scripts without the tag short": 15}
    assert elo_report(votes)["systems"] == pairs["tables"]["choices"]["tags"]["short"]["elo"]["systems"]
    for found, caption in ((mos, "naturalness, by tag"), (pairs, "Elo by tag")):
        for text in (html(found), markdown(found)):
            assert "Only 1 script: below 5 an interval depends more on assumptions" in text
            assert caption in text and "question (1 script)" in text and "short (2 scripts)" in text
    said = CliRunner().invoke(cli, ["campaign", "elo", str(tmp_path / "votes.csv"), "--tag", "short"])
    assert said.exit_code == 0 and "30 votes" in said.output


@SQLITE_ONLY
def test_tags_can_be_replaced_while_raters_answer(world: World, tmp_path: Path) -> None:
    made(world, tmp_path / "a", "pairs", PAIRS)
    snapshots = ResultsCache(world.store)
    first = snapshots.get("pairs")
    (tmp_path / "tags.csv").write_text("item,tags\nitem0,long\nitem1,\n", encoding="utf-8")
    where = ["--database", world.store.url, "--data", str(tmp_path)]
    said = CliRunner().invoke(cli, ["campaign", "tag", "pairs", str(tmp_path / "tags.csv"), *where])
    assert said.exit_code == 0 and "2 scripts tagged again, of 2 listed" in said.output
    again = snapshots.get("pairs")
    assert again[0] != first[0] and list(again[1]["tables"]["choices"]["tags"]) == ["long"]
    with pytest.raises(BadOption, match="no script 'other'"):
        world.store.write_now(lambda session: tag_items(session, find_campaign(session, "pairs"), {"other": ("x",)}))


def test_tag_files(tmp_path: Path) -> None:
    whole = read_manifest(sounds(tmp_path / "a"))
    assert [i.tags for i in whole.items] == [("question", "short"), ("short",), ()]
    assert read_tags(" b; a;;b ") == ("a", "b")
    lines = [
        f"{s},item{k},{s}/item{k}.wav,{tags}" for s in ("heron", "teal") for k, tags in enumerate(("x;y", "", "y"))
    ]
    (tmp_path / "a" / "all.csv").write_text("\n".join(["system,item,file,tags", *lines]), encoding="utf-8")
    assert [i.tags for i in read_manifest(tmp_path / "a" / "all.csv").items] == [("x", "y"), (), ("y",)]
    for text, said in (
        ("item,tags\na,=1+1\n", "line 2 of t.csv: the name '=1.1'"),
        ("item,tags\na,x\na,y\n", "is there twice"),
        ("item\na\n", "has no column tags"),
        ("item,tags\na," + ";".join(f"t{k}" for k in range(21)) + "\n", "21 tags"),
    ):
        (tmp_path / "t.csv").write_text(text, encoding="utf-8")
        with pytest.raises(BadFile, match=said):
            read_tag_file(tmp_path / "t.csv")


def test_excerpts_are_tagged_by_side(tmp_path: Path) -> None:
    """The first and the last seconds, which paper 002 rates separately, get tables of their own."""
    whole = read_manifest(sounds(tmp_path / "a"))
    cut, _ = with_excerpts(whole, 5.0)
    assert [i.tags for i in cut.items[:2]] == [("first", "question", "short"), ("last", "question", "short")]
    assert [(i.name, i.tags) for i in of_whole_scripts(cut).items] == [(i.name, i.tags) for i in whole.items]
