"""`campaign elo` of an export ranks exactly what the results rank."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, cycle
from pathlib import Path

import pytest
from mos.world import AB, World, items_of
from typer.testing import CliRunner

from studio.cli import cli
from studio.mos.analysis.results import results
from studio.mos.import_export.export_answers import write_export
from studio.mos.sessions.campaigns import find_campaign
from studio.mos.stats.columns import votes_from_csv
from studio.mos.stats.elo import elo_report

LITE = pytest.mark.parametrize("url", ["sqlite"], indirect=True)


def come(world: World, who: str, outcomes: Iterator[str]) -> None:
    rater_session = world.join(who)
    rater_session.to_trials()
    while (shown := rater_session.next())["stage"] == "trials":
        rater_session.answer(shown, next(outcomes))
    rater_session.send("comments", comment="none")


@LITE
def test_it_counts_what_the_analysis_counts(world: World, tmp_path: Path) -> None:
    """Repeats, practice, and a rater whom a gate excludes were votes too: 96 where the report had 42."""
    gates = replace(AB.gates, training=1, max_repeat_distance=0.25)
    config = replace(AB, repeats=2, gates=gates, raters_per_stimulus=9)
    world.campaign(config, items=[*items_of(4), *items_of(1, "training")])
    for who, outcomes in (("steady", "a"), ("another", "a"), ("third", "b")):
        come(world, who, cycle(outcomes))
    come(world, "fickle", chain("aaaaa", cycle("b")))  # practice and four screens, then the repeats of two of them
    with world.store.read() as session:
        campaign = find_campaign(session, "first")
        found = results(session, campaign)
        write_export(session, campaign, tmp_path / "votes.csv")
    table = found["tables"]["choices"]
    votes, left_out = votes_from_csv(tmp_path / "votes.csv")
    assert found["left_out"] == 1 and table["n"] == len(votes) == 12
    assert left_out == {"answers to practice": 4, "answers to repeats": 8, "votes of raters whom a gate excludes": 4}
    assert elo_report(votes)["systems"] == table["elo"]["gamma"]["systems"]
    assert elo_report(votes)["items"] == 4
    said = CliRunner().invoke(cli, ["campaign", "elo", str(tmp_path / "votes.csv")])
    assert said.exit_code == 0, said.output
    assert "12 votes, 3 raters, 4 scripts, interval: by rater and script" in said.output
    assert "8 rows left out: answers to repeats" in said.output and "differences" in said.output


def test_an_undefeated_system_has_a_bound_and_no_difference_of_the_priors(tmp_path: Path) -> None:
    """It was printed as ``x - y 597 above -291``, where the report has a dash."""
    rows = [f"x,y,a,r{r},i{i}" for r in range(6) for i in range(2)]
    (tmp_path / "v.csv").write_text("\n".join(["a,b,outcome,rater,item", *rows]), encoding="utf-8")
    said = CliRunner().invoke(cli, ["campaign", "elo", str(tmp_path / "v.csv")])
    [line] = [line for line in said.output.splitlines() if line.startswith("x - y")]
    assert line.split()[3:] == ["\N{EN DASH}", "above", "\N{MINUS SIGN}291", "0.500"]
