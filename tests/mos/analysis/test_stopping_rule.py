"""Stopping rule: published levels, planned looks only, closes the campaign when met, controls false positives."""

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mos.world import ACR, World
from scipy.stats import norm

from studio.core.errors import BadOption
from studio.mos.analysis.results import overview, results
from studio.mos.analysis.stopping_rule import ALPHA, alpha_spent, evaluate_rule, level_at, nominal_levels
from studio.mos.campaign.config import StopRule, from_json
from studio.mos.report.tables import stopping_rule_text
from studio.mos.sessions.campaigns import NotOpen, find_campaign
from studio.mos.stats.means import pairwise_differences
from studio.mos.stats.planner import RatingPopulation, draw_ratings
from studio.mos.store.tables import Look


def bounds(looks, alpha=0.05, spending="obrien_fleming"):
    return norm.isf(np.array(nominal_levels(looks, alpha, spending)) / 2)


def test_published_bounds():
    """Five looks, two-sided 5% (Lan & DeMets 1983; gsDesign's sfLDOF and sfLDPocock)."""
    assert bounds([1, 2, 3, 4, 5]) == pytest.approx([4.8769, 3.3570, 2.6803, 2.2898, 2.0310], abs=6e-5)
    assert bounds([20, 40, 60, 80, 100], spending="pocock") == pytest.approx(
        [2.4380, 2.4268, 2.4102, 2.3966, 2.3860], abs=6e-5
    )
    assert bounds([1, 2]) == pytest.approx([2.9626, 1.9686], abs=6e-5)


def test_one_look_is_the_plain_test():
    assert nominal_levels([30]) == [pytest.approx(0.05)]
    assert nominal_levels([30], 0.01, "pocock") == [pytest.approx(0.01)]


@pytest.mark.parametrize("spending", ["obrien_fleming", "pocock"])
@pytest.mark.parametrize("looks", [[10, 50], [5, 12, 30, 31, 60], list(range(4, 41))])
def test_random_walk_crosses_at_the_nominal_rate(looks, spending):
    rng = np.random.default_rng(0)
    at = np.array(looks) / looks[-1]
    steps = np.sqrt(np.diff(at, prepend=0.0)) * rng.standard_normal((60_000, len(at)))
    z = steps.cumsum(axis=1) / np.sqrt(at)
    crossed = (np.abs(z) >= bounds(looks, 0.05, spending)).any(axis=1)
    assert crossed.mean() == pytest.approx(0.05, abs=0.004)
    assert (np.abs(z) >= 1.96).any(axis=1).mean() > 0.075  # as it was without


@given(st.lists(st.integers(2, 200), min_size=1, max_size=8, unique=True), st.floats(0.001, 0.2))
@settings(deadline=None, max_examples=40)
def test_levels_stay_within_the_spent_alpha(looks, alpha):
    looks = sorted(looks)
    found = nominal_levels(looks, alpha)
    assert all(
        0 < level <= alpha_spent(n / looks[-1], alpha) * (1 + 1e-6) + 1e-12
        for level, n in zip(found, looks, strict=True)
    )
    assert found[0] == pytest.approx(alpha_spent(looks[0] / looks[-1], alpha), rel=1e-4, abs=1e-12)


def test_bad_arguments_are_named():
    with pytest.raises(BadOption, match="'evenly' is not a spending"):
        alpha_spent(0.5, spending="evenly")
    with pytest.raises(BadOption, match="the share is 0"):
        alpha_spent(0)


RULE = StopRule(half_width=0.5, looks=[2, 4])


def until(ready: Callable[[], bool]) -> None:
    """Wait for the thread that takes the looks."""
    limit = time.monotonic() + 30
    while not ready():
        assert time.monotonic() < limit, "condition not reached"
        time.sleep(0.02)


def complete_rater(world: World, who: str, value: int) -> None:
    """A rater from the link to the end."""
    rater_session = world.begin(who)
    rater_session.finish(value)


def test_met_rule_closes_the_campaign(world: World) -> None:
    """Raters on a screen finish, no new ones start, and the owner sees when and why it closed."""
    world.campaign(replace(ACR, raters_per_stimulus=9, stop=replace(RULE, half_width=9.0)))
    anna, idle = world.join("anna"), world.join("idle")
    shown = anna.to_trials()
    complete_rater(world, "bert", 4)
    complete_rater(world, "carl", 3)
    until(lambda: bool(world.all(Look)))
    with pytest.raises(NotOpen):
        world.join("late")
    with pytest.raises(NotOpen):
        idle.send("consent", agreed=True, version=3)
    assert anna.answer(shown).counted and len(anna.finish()) == 3
    with world.store.read() as session:
        campaign = find_campaign(session, "first")
        assert campaign.state == "closed"
        stopped, state = overview(session, campaign)["stopped"], stopping_rule_text(results(session, campaign))
    assert stopped["raters"] == 2 and stopped["met"]
    assert stopped["why"].startswith("every 95% interval at most ±9: widest ±1.")
    assert state is not None and "met, so the campaign was closed at the look at 2 raters" in state
    world.set_state("open")
    assert world.read(overview)["stopped"] is None


def test_unanimous_raters_do_not_close_a_campaign(world: World) -> None:
    """Two raters with constant scores give the interval of two votes, which is wide."""
    world.campaign(replace(ACR, raters_per_stimulus=9, stop=replace(RULE, decided=True)))
    for who in ("anna", "bert"):
        complete_rater(world, who, 4)
    until(lambda: bool(world.all(Look)))
    [look] = world.all(Look)
    assert not look.met and "widest ±0.842" in look.why  # 1 - 0.025^(1/2)


def test_looks_are_taken_only_as_planned(world: World) -> None:
    """A look uses the first N raters, is stored whatever its result, and is taken once."""
    world.campaign(replace(ACR, raters_per_stimulus=9, stop=RULE))
    for n, value in enumerate((1, 5, 3)):
        complete_rater(world, f"rater {n}", value)
        until(lambda n=n: len(world.all(Look)) == (n > 0))
    [look] = world.all(Look)
    assert (look.raters, look.met) == (2, 0) and "widest" in look.why
    complete_rater(world, "rater 3", 3)
    until(lambda: len(world.all(Look)) == 2)
    with world.store.read() as session:
        campaign = find_campaign(session, "first")
        found = results(session, campaign)
        assert campaign.state == "open" and found["stopped"] is None
    assert [seen["raters"] for seen in found["looks"]] == [2, 4]
    assert "not met at the look at 4 raters" in str(stopping_rule_text(found))


def stops(rng: np.random.Generator, rule: StopRule, who: RatingPopulation) -> tuple[bool, bool]:
    """Whether a campaign stops for a difference at any look; and whether it would with uncorrected p values."""
    drawn = draw_ratings(who, rng, rule.looks[-1], 20)
    seen = []
    for raters in rule.looks:
        pairs = pairwise_differences(drawn.where(drawn.rater < raters))
        rows = [{"a": d.a, "b": d.b, "p_holm": d.p_holm} for d in pairs]
        is_met, _ = evaluate_rule(rule, {"questions": {"q": {"differences": rows}}}, raters)
        seen.append((is_met, all(d.p is not None and d.p <= ALPHA for d in pairs)))
    return any(s for s, _ in seen), any(s for _, s in seen)


def test_repeated_looks_keep_the_false_positive_rate() -> None:
    """Two equal systems, five looks: at most 5% of campaigns stop; without correction more do."""
    rng, rule = np.random.default_rng(5), StopRule(decided=True, looks=[10, 20, 30, 40, 50])
    alike = RatingPopulation(systems=(3.3, 3.3), item_system_sd=0.0)
    found = np.array([stops(rng, rule, alike) for _ in range(200)]).mean(axis=0)
    assert found[0] <= 0.05 < found[1]
    assert stops(rng, rule, RatingPopulation(systems=(2.8, 3.8)))[0]


def test_early_look_needs_a_lower_p_than_a_late_one() -> None:
    """O'Brien-Fleming levels; equal levels for all looks wasted four fifths of the last look's error."""
    rule = StopRule(decided=True, looks=[10, 20, 30, 40, 50])
    found = [level_at(rule, raters) for raters in rule.looks]
    assert found == sorted(found) and found[0] < 1e-5 and 0.04 < found[-1] < ALPHA
    watched = StopRule(decided=True, looks=list(range(5, 51)))
    assert 0.02 < level_at(watched, 50) < found[-1]
    tables = {"questions": {"q": {"differences": [{"a": "x", "b": "y", "p_holm": 0.03}]}}}
    assert not evaluate_rule(rule, tables, 10)[0] and evaluate_rule(rule, tables, 50)[0]
    assert evaluate_rule(
        replace(rule, spending="pocock"),
        {"questions": {"q": {"differences": [{"a": "x", "b": "y", "p_holm": 0.014}]}}},
        10,
    )[0]


def test_every_pair_of_every_kind_must_be_decided() -> None:
    """Differences, comparisons, identities and shares; an unknown result is undecided."""
    rule = StopRule(decided=True, looks=[20])
    sure, unsure = {"a": "x", "b": "y", "p_holm": 0.001}, {"a": "x", "b": "z", "p_holm": None}
    close = {"a": "x", "b": "y", "p_holm": 0.4, "share": {"low": 0.48, "high": 0.56}}
    for tables, wanted in (
        ({"questions": {"q": {"differences": [sure]}}}, True),
        ({"questions": {"q": {"differences": [sure, unsure]}}}, False),
        ({"comparisons": {"q": {"pairs": [sure]}}}, True),
        ({"identity": {"pairs": [unsure]}}, False),
        ({"choices": {"pairs": {"two_way": [sure]}}}, True),
        ({"choices": {"pairs": {"two_way": [sure, close]}}}, False),
        ({}, False),
    ):
        assert evaluate_rule(rule, tables, 20)[0] is wanted, tables
    rigid = {"questions": {"q": {"systems": {"two_way": {"x": {"low": 5.0, "high": 5.0}}}}}}
    assert not evaluate_rule(StopRule(half_width=0.1, looks=[20]), rigid, 20)[0]
    assert evaluate_rule(
        StopRule(half_width=0.1, decided=True, looks=[20]), {"choices": {"pairs": {"two_way": [close]}}}, 20
    )[0]


@pytest.mark.parametrize(
    "bad", [{"half_width": 0.0}, {"looks": []}, {"looks": [1, 5]}, {"looks": [20, 20]}, {"spending": "bonferroni"}]
)
def test_invalid_rules_are_refused(bad: dict[str, object]) -> None:
    with pytest.raises(BadOption):
        from_json({"kind": "acr", "stop": bad})
