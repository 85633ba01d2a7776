"""What a lab is told before raters come: settings that judge nobody, parts that nobody will reach."""

from dataclasses import replace
from typing import Any

import pytest
from mos.world import AB, ACR, World, items_of

from studio.mos.analysis.advice import advice
from studio.mos.campaign.config import CampaignConfig, Gates
from studio.mos.rating.campaigns import find
from studio.mos.stats.planning import population


def told(world: World, config: CampaignConfig, name: str = "first", **more: Any) -> str:
    world.campaign(config, name, state="draft", **more)
    return said(world, name)


def said(world: World, name: str) -> str:
    with world.store.read() as session:
        return " ".join(str(one) for one in advice(session, find(session, name)))


def agreeing(config: CampaignConfig = ACR, **gates: Any) -> CampaignConfig:
    return replace(config, gates=Gates(level=False, **{"min_consensus": 0.3, **gates}))


def test_nothing_is_said_of_a_test_that_does_what_it_says(world: World) -> None:
    assert told(world, ACR, "plain") == ""
    assert told(world, replace(agreeing(), trials_per_sitting=40), "gate", items=items_of(30)) == ""


def test_a_gate_of_agreement_that_can_judge_nobody(world: World) -> None:
    assert "a sitting has 4 answers" in told(world, agreeing(), "few")
    assert told(world, agreeing(consensus_answers=4), "enough") == ""
    alone = replace(agreeing(consensus_answers=4), raters_per_stimulus=1)
    assert "nobody hears what another hears" in told(world, alone, "alone")
    assert told(world, replace(alone, gates=replace(alone.gates, consensus_by="system")), "by system") == ""
    abx = replace(agreeing(AB), kind="abx", choices=["a", "b"])
    assert "what is right is known" in told(world, abx, "abx")
    pairs = agreeing(AB)
    assert "a sitting has 4 answers" in told(world, pairs, "pairs")


def test_a_minimum_that_careful_raters_do_not_reach(world: World) -> None:
    some = replace(agreeing(min_consensus=0.9), trials_per_sitting=40)
    assert "% of careful raters would be below an agreement of 0.9" in told(world, some, "high", items=items_of(30))
    assert "nobody reaches an agreement of 1" in told(world, agreeing(min_consensus=1.0), "one")


def test_careful_raters_who_hear_alike_are_below_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The share that is told comes out of the simulated raters: without noise and taste everybody agrees."""
    quiet = population.Listeners(noise_sd=0.0, taste_sd=0.0, rater_sd=0.0)
    monkeypatch.setattr(
        "studio.mos.analysis.consensus_reach.usual", lambda test, systems: replace(quiet, systems=(2.0, 4.0))
    )
    some = replace(agreeing(min_consensus=0.95), trials_per_sitting=40)
    assert told(world, some, "quiet", items=items_of(30)) == ""


def test_a_test_is_told_who_goes_on_with_it_and_cannot(world: World) -> None:
    world.campaign(AB, "second")
    world.campaign(replace(ACR, then="second"), "first")
    assert said(world, "second") == "" == said(world, "first")
    other = replace(AB, texts=replace(AB.texts, consent="Another?", language="de"))
    world.campaign(replace(ACR, then="third"), "before", state="draft")
    assert "'before' goes on with this test, which has another language and another consent" in told(
        world, other, "third"
    )
    world.set_state("closed", "second")
    assert "'first' goes on with this test, which is closed" in said(world, "second")
