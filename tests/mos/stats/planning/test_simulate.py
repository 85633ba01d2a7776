"""Coverage in populations that obey no model; a few runs, so the bounds are wide. Seeds are fixed."""

from dataclasses import replace

import numpy as np
import pytest

from studio.core.errors import BadOption
from studio.mos.stats.planning.population import RatingPopulation, VotePopulation, draw_ratings, draw_votes
from studio.mos.stats.planning.simulate import elo_coverage, mos_coverage, preference_coverage


def table(rows):
    return {(r.method, r.over): r for r in rows}


def test_plain_mos_intervals_fail_and_clustered_ones_hold():
    found = table(mos_coverage(runs=60))
    for over in ("systems", "pairs"):
        assert found["two_way", over].mean > 0.9
        assert found["two_way", over].mean > found["by_rater", over].mean > found["plain", over].mean
    assert found["plain", "systems"].mean < 0.65
    assert found["two_way", "systems"].worst <= found["two_way", "systems"].mean
    assert (len(found["plain", "systems"].each), len(found["plain", "pairs"].each)) == (4, 6)


def test_without_rater_and_item_effects_the_plain_interval_holds():
    alike = RatingPopulation(rater_sd=0, item_sd=0, taste_sd=0, item_system_sd=0, noise_spread=0, clickers=0)
    found = table(mos_coverage(alike, runs=60))
    assert found["plain", "systems"].mean > 0.9
    assert found["plain", "pairs"].mean > 0.9


def test_on_few_scripts_intervals_by_rater_fail_and_those_by_rater_and_script_hold():
    """Ten scripts, each of which favours a system: other scripts might favour another."""
    favour = VotePopulation(item_system_sd=120, systems=(-100, 0, 100))
    seen = []
    found = table(elo_coverage(favour, runs=60, progress=lambda done, of: seen.append((done, of))))
    assert found["gamma", "systems"].mean > 0.9 and found["gamma", "pairs"].mean > 0.9
    for wrong in ("gamma by rater", "gamma by vote", "dsm", "posterior"):
        assert found[wrong, "pairs"].mean < 0.85, wrong
    assert found["mle", "pairs"].mean > 0.88
    assert len(found["posterior", "pairs"].each) == 3
    assert seen == [(k + 1, 60) for k in range(60)]
    share = table(preference_coverage(replace(favour, systems=(0, 60)), runs=60))
    assert share["two_way", "pairs"].mean > 0.88 > 0.75 > share["by_rater", "pairs"].mean
    assert share["exact", "pairs"].mean < 0.6


def test_a_seed_repeats():
    assert mos_coverage(runs=3, seed=5) == mos_coverage(runs=3, seed=5)
    assert mos_coverage(runs=3, seed=5) != mos_coverage(runs=3, seed=6)


def test_what_a_population_is():
    rng = np.random.default_rng(0)
    ratings = draw_ratings(RatingPopulation(), rng, 400, 20)
    assert set(np.unique(ratings.score)) == {1, 2, 3, 4, 5}
    assert len(ratings) == 400 * 20 * 4
    half = draw_ratings(RatingPopulation(low=None), rng, 10, 20, share=0.5)
    assert (np.bincount(half.rater) == 10 * 4).all()
    assert len(draw_ratings(RatingPopulation(), rng, 3, 5, own_items=True).items) == 15
    votes = draw_votes(VotePopulation(systems=(0, 0, 0), taste_sd=0, item_system_sd=0), rng, 1000, 40)
    assert np.bincount(votes.outcome)[2:] / len(votes) == pytest.approx([0.1, 0.05], abs=0.01)
    assert np.bincount(votes.a).min() > 13_000
    apart = draw_votes(VotePopulation(systems=(-300, 300)), rng, 1000, 40)
    assert (apart.outcome == 2).mean() < 0.07
    few = draw_votes(VotePopulation(), rng, 10, 40, 10)
    assert len(few.items) == 10 and set(few.item) == set(range(10))
    even = draw_votes(VotePopulation(clickers=1, ties=0, both_bad=0), rng, 100, 100)
    assert (even.outcome == 0).mean() == pytest.approx(0.5, abs=0.02)


def test_mistakes_are_named():
    with pytest.raises(BadOption, match="raters is 1"):
        mos_coverage(raters=1)
    with pytest.raises(BadOption, match="systems is 1"):
        elo_coverage(VotePopulation(systems=(0,)))
    with pytest.raises(BadOption, match="scripts is 1"):
        preference_coverage(scripts=1)
    with pytest.raises(BadOption, match="runs is 0"):
        mos_coverage(runs=0)
    with pytest.raises(BadOption, match="one system has no pairs"):
        draw_votes(VotePopulation(systems=(0,)), np.random.default_rng(0), 2, 2)
