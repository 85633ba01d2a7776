"""A campaign as a pilot: the right answers, test and population."""

import json
from pathlib import Path

import numpy as np
import pytest
from mos import recommended
from mos.rated import MOS, PAIRS, campaign, rate
from mos.recommended import begin, screens, send, systems_of
from mos.world import World
from typer.testing import CliRunner

from studio.cli import cli
from studio.core.errors import BadOption
from studio.mos.analysis.planning import campaign_pilot
from studio.mos.analysis.results import analysed_answers
from studio.mos.kinds.tables import ratings_of, votes_of
from studio.mos.sessions.campaigns import find_campaign
from studio.mos.stats.planning.pilot import rating_population, vote_population
from studio.mos.stats.planning.population import RatingPopulation
from studio.mos.stats.preference import pairwise_preferences

LITE = pytest.mark.parametrize("url", ["sqlite"], indirect=True)


def of(world: World, name: str, *how: str) -> tuple:
    with world.store.read() as session:
        found = campaign_pilot(session, find_campaign(session, name), *how)
    return found.test, found.who


def answers(world: World, name: str) -> list:
    with world.store.read() as session:
        return analysed_answers(session, find_campaign(session, name))


@LITE
def test_scores_and_votes_are_those_that_are_analysed(world: World, tmp_path: Path) -> None:
    campaign(world, tmp_path / "a", MOS, "mos")
    campaign(world, tmp_path / "b", PAIRS, "pairs")
    for k in range(6):
        rate(world, f"rater {k}", "mos")
        rate(world, f"rater {k}", "pairs")
    natural = rating_population(ratings_of(answers(world, "mos"), "naturalness"))
    assert of(world, "mos", None, "naturalness") == ("mos", natural)
    assert of(world, "mos", "mos", "coherence")[1] == rating_population(ratings_of(answers(world, "mos"), "coherence"))
    votes = votes_of(answers(world, "pairs"))
    assert of(world, "pairs", "elo") == ("elo", vote_population(votes))
    test, who = of(world, "pairs")
    assert test == "preference" and isinstance(who, RatingPopulation)
    assert who.systems == pytest.approx([pair.share.mean for pair in pairwise_preferences(votes)])
    several = "several questions: naturalness, coherence"  # the first of them was taken, and not named
    for wrong, said in (
        (("mos", "elo"), "plans mos"),
        (("mos", None, "speed"), "no question 'speed'"),
        (("mos",), several),
    ):
        with pytest.raises(BadOption, match=said):
            of(world, *wrong)


@LITE
def test_comparisons_have_the_sign_of_their_pair_and_sliders_are_screened(world: World, tmp_path: Path) -> None:
    recommended.campaign(world, tmp_path / "a", "ccr", raters_per_stimulus=4, trials_per_sitting=12)
    recommended.campaign(world, tmp_path / "b", "mushra", raters_per_stimulus=4)
    worth = {"reference": 100, "osprey": 70, "teal": 40, "anchor 7 kHz": 30, "anchor 3.5 kHz": 10}
    for who in range(4):
        rater_session = begin(world, f"rater {who}", "ccr")
        for shown in screens(rater_session):
            by_slot, _ = systems_of(world, shown["trial"]["trial"])
            gap = worth[by_slot[1]] - worth[by_slot[0]]
            send(world, rater_session, shown, {1: int(np.sign(gap)) * (3 if abs(gap) > 50 else 1)}, None)
        rater_session = begin(world, f"rater {who}", "mushra")
        for shown in screens(rater_session):
            by_slot, _ = systems_of(world, shown["trial"]["trial"])
            deaf = {"reference": 10} if who == 0 else {}
            send(world, rater_session, shown, {s: (worth | deaf)[name] for s, name in by_slot.items()}, None)
    test, who = of(world, "ccr")
    assert test == "cmos" and who.systems == (-1.0, 1.0, 3.0)  # osprey : reference, osprey : teal, reference : teal
    test, who = of(world, "mushra")
    assert test == "mushra" and sorted(who.systems) == sorted(map(float, worth.values()))


@LITE
def test_the_command_plans_from_a_pilot(world: World, tmp_path: Path) -> None:
    campaign(world, tmp_path / "a", MOS, "mos")
    for k in range(4):
        rate(world, f"rater {k}", "mos")
    where = ["--database", world.store.url, "--data", str(tmp_path)]
    plan = ["campaign", "plan", "0.8", "--pilot", "mos", "--runs", "20", *where]
    said = CliRunner().invoke(cli, plan)
    assert said.exit_code != 0 and "naturalness, coherence; choose one with --question" in str(said.exception)
    said = CliRunner().invoke(cli, [*plan, "--question", "coherence"])
    assert said.exit_code == 0, said.output
    assert "mos, from pilot mos, question coherence: 4 raters, 3 scripts" in said.output
    assert "or less for all 3 systems in 80% of tests" in said.output and "usual" not in said.output
    assert "a small pilot" in said.output and "variances at their upper 80% bounds" in said.output
    found = json.loads(CliRunner().invoke(cli, [*plan, "--question", "coherence", "--json"]).output)
    assert found["pilot"]["question"] == "coherence" and found["raters"] >= found["raters_as_shown"]
    said = CliRunner().invoke(cli, ["campaign", "plan", "0.3", "--test", "cmos", "--systems", "3", "--runs", "20"])
    assert "for all 3 pairs" in said.output and "the variances are usual ones" in said.output


def test_no_width_beyond_the_scale_is_planned() -> None:
    """Two raters were said to give +- 11.185 on 1 to 5, "for all 1 pairs"."""
    said = CliRunner().invoke(cli, ["campaign", "plan", "0.4", "--test", "cmos", "--systems", "2", "--runs", "20"])
    assert "2 raters  +- 3.000 (the whole scale)" in said.output and "or less for the pair in" in said.output
    refused = CliRunner().invoke(cli, ["campaign", "plan", "2"])
    assert refused.exit_code != 0 and "below 2, which covers the whole scale" in str(refused.exception)
