"""Tags of scripts: from files into tables by tag, the export and its Elo; set anew at any time."""

from dataclasses import replace
from pathlib import Path

import pytest
from mos.rated import MOS, PAIRS, rate, write_sounds
from mos.world import World
from typer.testing import CliRunner

from studio.cli import cli
from studio.core.errors import BadFile, BadOption
from studio.mos.analysis.results import results
from studio.mos.analysis.results_cache import ResultsCache
from studio.mos.campaign.names import read_tags
from studio.mos.import_export.export_answers import export_rows, write_export
from studio.mos.report.formats import html, markdown
from studio.mos.sessions.campaigns import find_campaign, set_state, tag_items
from studio.mos.stats.elo import elo_report
from studio.mos.stats.votes_file import votes_from_csv
from studio.mos.stimuli.building import build_campaign
from studio.mos.stimuli.derived import of_whole_scripts, with_excerpts
from studio.mos.stimuli.manifest_files import read_manifest, read_tag_file

LITE = pytest.mark.parametrize("url", ["sqlite"], indirect=True)
TEXTS = "item,text,tags\nitem0,Is it?,question; short\nitem1,It is.,short\nitem2,That is what it is.,\n"


def sounds(folder: Path) -> Path:
    write_sounds(folder)
    (folder / "texts.txt").unlink()
    (folder / "texts.csv").write_text(TEXTS, encoding="utf-8")
    return folder


def results_of(world: World, name: str) -> dict:
    with world.store.read() as session:
        return results(session, find_campaign(session, name))


def made(world: World, folder: Path, name: str, config: object) -> None:
    build_campaign(world.listening, name, config, read_manifest(sounds(folder)), seed=11)
    world.store.write_now(lambda session: set_state(session, name, "open").id)
    for k in range(5):
        rate(world, f"rater {k}", name)


@LITE
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
    with world.store.read() as session:
        write_export(session, find_campaign(session, "pairs"), tmp_path / "votes.csv")
    votes, left_out = votes_from_csv(tmp_path / "votes.csv", tag="short")
    assert len(votes) == pairs["tables"]["choices"]["tags"]["short"]["n"] == 30
    assert left_out == {"of scripts without the tag short": 15}
    assert elo_report(votes)["systems"] == pairs["tables"]["choices"]["tags"]["short"]["elo"]["systems"]
    for found, caption in ((mos, "naturalness, by tag"), (pairs, "Elo by tag")):
        for text in (html(found), markdown(found)):
            assert "Only 1 script: below 5 an interval depends more on assumptions" in text
            assert caption in text and "question (1 script)" in text and "short (2 scripts)" in text
    said = CliRunner().invoke(cli, ["campaign", "elo", str(tmp_path / "votes.csv"), "--tag", "short"])
    assert said.exit_code == 0 and "30 votes" in said.output


@LITE
def test_tags_can_be_set_anew_while_raters_answer(world: World, tmp_path: Path) -> None:
    made(world, tmp_path / "a", "pairs", PAIRS)
    snapshots = ResultsCache(world.store)
    first = snapshots.get("pairs")
    (tmp_path / "tags.csv").write_text("item,tags\nitem0,long\nitem1,\n", encoding="utf-8")
    where = ["--database", world.store.url, "--data", str(tmp_path)]
    said = CliRunner().invoke(cli, ["campaign", "tag", "pairs", str(tmp_path / "tags.csv"), *where])
    assert said.exit_code == 0 and "2 scripts tagged anew, of 2 listed" in said.output
    again = snapshots.get("pairs")
    assert again[0] != first[0] and list(again[1]["tables"]["choices"]["tags"]) == ["long"]
    with pytest.raises(BadOption, match="no script 'other'"):
        world.store.write_now(lambda session: tag_items(session, find_campaign(session, "pairs"), {"other": ("x",)}))


def test_files_of_tags(tmp_path: Path) -> None:
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
        ("item\na\n", "has the columns item"),
        ("item,tags\na," + ";".join(f"t{k}" for k in range(21)) + "\n", "21 tags"),
    ):
        (tmp_path / "t.csv").write_text(text, encoding="utf-8")
        with pytest.raises(BadFile, match=said):
            read_tag_file(tmp_path / "t.csv")


def test_excerpts_are_tagged_by_the_side_they_are_of(tmp_path: Path) -> None:
    """So that the first and the last seconds, which paper 002 rates apart, have tables of their own."""
    whole = read_manifest(sounds(tmp_path / "a"))
    cut, _ = with_excerpts(whole, 5.0)
    assert [i.tags for i in cut.items[:2]] == [("first", "question", "short"), ("last", "question", "short")]
    assert [(i.name, i.tags) for i in of_whole_scripts(cut).items] == [(i.name, i.tags) for i in whole.items]
