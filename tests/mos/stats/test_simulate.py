"""Coverage in populations that obey no model; a few runs, so the bounds are wide. Seeds are fixed."""

import numpy as np
import pytest

from studio.core.errors import BadOption
from studio.mos.stats.population import Listeners, Voters, draw_ratings, draw_votes
from studio.mos.stats.simulate import elo_coverage, mos_coverage


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
    alike = Listeners(rater_sd=0, item_sd=0, taste_sd=0, item_system_sd=0, noise_spread=0, clickers=0)
    found = table(mos_coverage(alike, runs=60))
    assert found["plain", "systems"].mean > 0.9
    assert found["plain", "pairs"].mean > 0.9


def test_gamma_quantiles_are_too_narrow_and_the_rater_bootstrap_holds():
    seen = []
    found = table(elo_coverage(runs=30, replicates=100, progress=lambda done, of: seen.append((done, of))))
    assert found["gamma", "systems"].mean > 0.9
    assert found["mle", "pairs"].mean > 0.88
    assert found["dsm", "systems"].mean < 0.9
    assert found["gamma", "systems"].half_width > found["gamma by vote", "systems"].half_width
    assert len(found["gibbs", "pairs"].each) == 21
    assert seen == [(k + 1, 30) for k in range(30)]


def test_a_seed_repeats():
    assert mos_coverage(runs=3, seed=5) == mos_coverage(runs=3, seed=5)
    assert mos_coverage(runs=3, seed=5) != mos_coverage(runs=3, seed=6)


def test_what_a_population_is():
    rng = np.random.default_rng(0)
    ratings = draw_ratings(Listeners(), rng, 400, 20)
    assert set(np.unique(ratings.score)) == {1, 2, 3, 4, 5}
    assert len(ratings) == 400 * 20 * 4
    half = draw_ratings(Listeners(low=None), rng, 10, 20, share=0.5)
    assert (np.bincount(half.rater) == 10 * 4).all()
    assert len(draw_ratings(Listeners(), rng, 3, 5, own_items=True).items) == 15
    votes = draw_votes(Voters(), rng, 1000, 40)
    assert np.bincount(votes.outcome)[2:] / len(votes) == pytest.approx([0.1, 0.05], abs=0.01)
    assert np.bincount(votes.a).min() > 5000
    even = draw_votes(Voters(clickers=1, ties=0, both_bad=0), rng, 100, 100)
    assert (even.outcome == 0).mean() == pytest.approx(0.5, abs=0.02)


def test_mistakes_are_named():
    with pytest.raises(BadOption, match="raters is 1"):
        mos_coverage(raters=1)
    with pytest.raises(BadOption, match="systems is 1"):
        elo_coverage(Voters(systems=(0,)))
    with pytest.raises(BadOption, match="runs is 0"):
        mos_coverage(runs=0)
    with pytest.raises(BadOption, match="one system has no pairs"):
        draw_votes(Voters(systems=(0,)), np.random.default_rng(0), 2, 2)
