"""Warnings before raters come: gates that judge nobody, parts that cannot be reached."""

from dataclasses import replace
from typing import Any

import pytest
from mos.world import AB, ACR, World, items_of

from studio.mos.analysis.advice import advice
from studio.mos.campaign.config import CampaignConfig, Gates
from studio.mos.sessions.campaigns import find_campaign
from studio.mos.stats.planning import population


def told(world: World, config: CampaignConfig, name: str = "first", **more: Any) -> str:
    world.campaign(config, name, state="draft", **more)
    return said(world, name)


def said(world: World, name: str) -> str:
    with world.store.read() as session:
        return " ".join(str(one) for one in advice(session, find_campaign(session, name)))


def agreeing(config: CampaignConfig = ACR, **gates: Any) -> CampaignConfig:
    return replace(config, gates=Gates(level=False, **{"min_consensus": 0.3, **gates}))


def test_valid_settings_give_no_warning(world: World) -> None:
    assert told(world, ACR, "plain") == ""
    assert told(world, replace(agreeing(), trials_per_sitting=40), "gate", items=items_of(30)) == ""


def test_a_gate_of_agreement_that_can_judge_nobody(world: World) -> None:
    assert "a session has 4 comparable answers" in told(world, agreeing(), "few")
    assert told(world, agreeing(consensus_answers=4), "enough") == ""
    alone = replace(agreeing(consensus_answers=4), raters_per_stimulus=1)
    assert "raters share no stimuli" in told(world, alone, "alone")
    assert told(world, replace(alone, gates=replace(alone.gates, consensus_by="system")), "by system") == ""
    abx = replace(agreeing(AB), kind="abx", choices=["a", "b"])
    assert "ABX trials have correct answers" in told(world, abx, "abx")
    pairs = agreeing(AB)
    assert "a session has 4 comparable answers" in told(world, pairs, "pairs")


def test_a_minimum_that_careful_raters_do_not_reach(world: World) -> None:
    some = replace(agreeing(min_consensus=0.9), trials_per_sitting=40)
    assert "% of careful raters would be below an agreement of 0.9" in told(world, some, "high", items=items_of(30))
    assert "nobody reaches an agreement of 1" in told(world, agreeing(min_consensus=1.0), "one")


def test_raters_without_noise_and_taste_reach_the_minimum(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The share that is told comes out of the simulated raters: without noise and taste everybody agrees."""
    quiet = population.RatingPopulation(noise_sd=0.0, taste_sd=0.0, rater_sd=0.0)
    monkeypatch.setattr(
        "studio.mos.analysis.advice.default_population", lambda test, systems: replace(quiet, systems=(2.0, 4.0))
    )
    some = replace(agreeing(min_consensus=0.95), trials_per_sitting=40)
    assert told(world, some, "quiet", items=items_of(30)) == ""


def test_a_test_whose_raters_cannot_continue_is_reported(world: World) -> None:
    world.campaign(AB, "second")
    world.campaign(replace(ACR, then="second"), "first")
    assert said(world, "second") == "" == said(world, "first")
    other = replace(AB, texts=replace(AB.texts, consent="Another?", language="de"))
    world.campaign(replace(ACR, then="third"), "before", state="draft")
    assert "'before' continues with this test, which has another language and another consent" in told(
        world, other, "third"
    )
    world.set_state("closed", "second")
    assert "'first' continues with this test, which is closed" in said(world, "second")
