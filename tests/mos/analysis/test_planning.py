"""Planning a test: a campaign as pilot data, and warnings about settings without effect."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mos import recommended
from mos.rated import MOS, PAIRS, campaign, rate
from mos.recommended import screens, send, systems_of
from mos.world import AB, ACR, SQLITE_ONLY, World, items_of
from typer.testing import CliRunner

from studio.cli import cli
from studio.core.errors import BadOption
from studio.mos.analysis.planning import advice, campaign_pilot
from studio.mos.analysis.results import analysed_answers
from studio.mos.campaign.config import CampaignConfig, Gates
from studio.mos.kinds.tables import ratings_of, votes_of
from studio.mos.stats.pilot import rating_population, vote_population
from studio.mos.stats.planner import RatingPopulation
from studio.mos.stats.preference import pairwise_preferences


def of(world: World, name: str, *how: str) -> tuple:
    found = world.read(campaign_pilot, name, *how)
    return found.test, found.who


def answers(world: World, name: str) -> list:
    return world.read(analysed_answers, name)


@SQLITE_ONLY
def test_pilot_uses_the_analysed_scores_and_votes(world: World, tmp_path: Path) -> None:
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
    several = "several questions: naturalness, coherence"  # the first system is taken when none is named
    for wrong, said in (
        (("mos", "elo"), "plans mos"),
        (("mos", None, "speed"), "no question 'speed'"),
        (("mos",), several),
    ):
        with pytest.raises(BadOption, match=said):
            of(world, *wrong)


@SQLITE_ONLY
def test_comparisons_are_signed_by_pair_and_sliders_are_screened(world: World, tmp_path: Path) -> None:
    recommended.campaign(world, tmp_path / "a", "ccr", raters_per_stimulus=4, trials_per_sitting=12)
    recommended.campaign(world, tmp_path / "b", "mushra", raters_per_stimulus=4)
    worth = {"reference": 100, "osprey": 70, "teal": 40, "anchor 7 kHz": 30, "anchor 3.5 kHz": 10}
    for who in range(4):
        rater_session = world.begin(f"rater {who}", "ccr")
        for shown in screens(rater_session):
            by_slot, _ = systems_of(world, shown["trial"]["trial"])
            gap = worth[by_slot[1]] - worth[by_slot[0]]
            send(world, rater_session, shown, {1: int(np.sign(gap)) * (3 if abs(gap) > 50 else 1)}, None)
        rater_session = world.begin(f"rater {who}", "mushra")
        for shown in screens(rater_session):
            by_slot, _ = systems_of(world, shown["trial"]["trial"])
            deaf = {"reference": 10} if who == 0 else {}
            send(world, rater_session, shown, {s: (worth | deaf)[name] for s, name in by_slot.items()}, None)
    test, who = of(world, "ccr")
    assert test == "cmos" and who.systems == (-1.0, 1.0, 3.0)  # osprey : reference, osprey : teal, reference : teal
    test, who = of(world, "mushra")
    assert test == "mushra" and sorted(who.systems) == sorted(map(float, worth.values()))


@SQLITE_ONLY
def test_command_plans_from_a_pilot(world: World, tmp_path: Path) -> None:
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


def test_planned_width_stays_within_the_scale() -> None:
    """A pilot of two raters once planned +- 11.185 on a scale of 1 to 5, "for all 1 pairs"."""
    said = CliRunner().invoke(cli, ["campaign", "plan", "0.4", "--test", "cmos", "--systems", "2", "--runs", "20"])
    assert "2 raters  +- 3.000 (the whole scale)" in said.output and "or less for the pair in" in said.output
    refused = CliRunner().invoke(cli, ["campaign", "plan", "2"])
    assert refused.exit_code != 0 and "below 2, which covers the whole scale" in str(refused.exception)


def notes_of(world: World, config: CampaignConfig, name: str = "first", **more: Any) -> str:
    world.campaign(config, name, state="draft", **more)
    return said(world, name)


def said(world: World, name: str) -> str:
    return " ".join(str(one) for one in world.read(advice, name))


def agreeing(config: CampaignConfig = ACR, **gates: Any) -> CampaignConfig:
    return replace(config, gates=Gates(level=False, **{"min_consensus": 0.3, **gates}))


def test_valid_settings_give_no_warning(world: World) -> None:
    assert notes_of(world, ACR, "plain") == ""
    assert notes_of(world, replace(agreeing(), trials_per_sitting=40), "gate", items=items_of(30)) == ""


def test_agreement_gate_that_can_exclude_nobody_is_warned_about(world: World) -> None:
    assert "a session has 4 comparable answers" in notes_of(world, agreeing(), "few")
    assert notes_of(world, agreeing(consensus_answers=4), "enough") == ""
    alone = replace(agreeing(consensus_answers=4), raters_per_stimulus=1)
    assert "raters share no stimuli" in notes_of(world, alone, "alone")
    assert notes_of(world, replace(alone, gates=replace(alone.gates, consensus_by="system")), "by system") == ""
    abx = replace(agreeing(AB), kind="abx", choices=["a", "b"])
    assert "ABX trials have correct answers" in notes_of(world, abx, "abx")
    pairs = agreeing(AB)
    assert "a session has 4 comparable answers" in notes_of(world, pairs, "pairs")


def test_minimum_that_careful_raters_miss_is_warned_about(world: World) -> None:
    some = replace(agreeing(min_consensus=0.9), trials_per_sitting=40)
    assert "% of careful raters would be below an agreement of 0.9" in notes_of(world, some, "high", items=items_of(30))
    assert "no rater reaches an agreement of 1" in notes_of(world, agreeing(min_consensus=1.0), "one")


def test_raters_without_noise_and_taste_reach_the_minimum(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reported share comes from simulated raters; without noise and taste all of them agree."""
    quiet = RatingPopulation(noise_sd=0.0, taste_sd=0.0, rater_sd=0.0)
    monkeypatch.setattr(
        "studio.mos.analysis.planning.default_population", lambda test, systems: replace(quiet, systems=(2.0, 4.0))
    )
    some = replace(agreeing(min_consensus=0.95), trials_per_sitting=40)
    assert notes_of(world, some, "quiet", items=items_of(30)) == ""


def test_campaign_whose_raters_cannot_continue_is_reported(world: World) -> None:
    world.campaign(AB, "second")
    world.campaign(replace(ACR, then="second"), "first")
    assert said(world, "second") == "" == said(world, "first")
    other = replace(AB, texts=replace(AB.texts, consent="Another?", language="de"))
    world.campaign(replace(ACR, then="third"), "before", state="draft")
    assert "'before' continues with this test, which has another language and another consent" in notes_of(
        world, other, "third"
    )
    world.set_state("closed", "second")
    assert "'first' continues with this test, which is closed" in said(world, "second")
