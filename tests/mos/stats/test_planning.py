"""Pilots, numbers of raters, and coverage in simulated populations, with fixed seeds."""

from dataclasses import replace

import numpy as np
import pytest

from studio.core.errors import BadOption
from studio.mos.stats.columns import ratings_from_rows
from studio.mos.stats.pilot import conservative_ratings, conservative_votes, rating_population, vote_population
from studio.mos.stats.planner import (
    ASSURANCE,
    RatingPopulation,
    VotePopulation,
    default_population,
    draw_ratings,
    draw_votes,
    elo_half_widths,
    half_widths,
    monotone_widths,
    raters_for_elo,
    raters_for_means,
)
from studio.mos.stats.simulate import elo_coverage, mos_coverage, preference_coverage

WHO3 = RatingPopulation(systems=(3.0, 3.2, 3.5), low=None, noise_spread=0.0, clickers=0.0)
NAMES = ("rater_sd", "taste_sd", "item_sd", "item_system_sd", "noise_sd")


@pytest.mark.parametrize(("raters", "items", "share"), [(8, 8, 1.0), (16, 20, 0.4)])
def test_score_variances_are_unbiased(raters, items, share):
    rng = np.random.default_rng(0)
    found = [rating_population(draw_ratings(WHO3, rng, raters, items, share=share)) for _ in range(150)]
    for name in NAMES:
        mean = np.mean([getattr(one, name) ** 2 for one in found])
        assert mean == pytest.approx(getattr(WHO3, name) ** 2, abs=0.022), name
    assert np.mean([one.systems for one in found], axis=0) == pytest.approx(WHO3.systems, abs=0.1)


def test_classic_analysis_of_variance_agrees():
    """One system, every rater on every script: (MS_r - MS_e) / I and (MS_i - MS_e) / R, up to 1 / R."""
    ratings = draw_ratings(RatingPopulation(systems=(3.0,), low=None, clickers=0), np.random.default_rng(1), 60, 80)
    score = ratings.score.reshape(60, 80)
    rows, columns = score.mean(axis=1), score.mean(axis=0)
    error = ((score - rows[:, None] - columns + score.mean()) ** 2).sum() / (59 * 79)
    found = rating_population(ratings)
    assert found.taste_sd**2 == pytest.approx(rows.var(ddof=1) - error / 80, rel=0.05)
    assert found.item_system_sd**2 == pytest.approx(columns.var(ddof=1) - error / 60, rel=0.05)
    assert found.noise_sd**2 == pytest.approx(error, rel=0.05)
    assert (found.rater_sd, found.item_sd) == (0.0, 0.0)  # one system cannot show what systems have in common


def test_voter_population_is_recovered():
    who = VotePopulation(systems=(-200, 0, 60, 140), taste_sd=70, item_system_sd=50, noise_spread=0.3, ties=0.15)
    rng = np.random.default_rng(0)
    found = vote_population(draw_votes(who, rng, 600, 40, 100))
    assert np.array(found.systems) == pytest.approx(np.array(who.systems) - np.mean(who.systems), abs=25)
    assert found.taste_sd == pytest.approx(70, rel=0.25)
    assert found.item_system_sd == pytest.approx(50, rel=0.35)
    assert found.ties == pytest.approx(0.15, abs=0.03) and found.both_bad == pytest.approx(0.05, abs=0.01)


def test_variance_bound_of_a_small_pilot_holds_in_four_of_five():
    rng = np.random.default_rng(2)
    pilots = [draw_ratings(WHO3, rng, 10, 12) for _ in range(200)]
    shown = [rating_population(pilot) for pilot in pilots]
    bounds = [conservative_ratings(who, pilot) for who, pilot in zip(shown, pilots, strict=True)]
    large = draw_ratings(WHO3, rng, 200, 200)
    of_large = conservative_ratings(rating_population(large), large)
    for name in ("rater_sd", "taste_sd", "item_system_sd"):
        truth = getattr(WHO3, name)
        above, as_shown = (np.mean([getattr(who, name) >= truth for who in some]) for some in (bounds, shown))
        assert 0.65 <= above <= 0.93 and as_shown < 0.6, (name, above, as_shown)
        assert getattr(of_large, name) < 1.1 * truth


def test_preference_bound_of_a_small_pilot():
    who = VotePopulation(
        systems=(-100, 0, 100), taste_sd=60, item_system_sd=60, noise_spread=0.0, ties=0.0, both_bad=0.0
    )
    rng = np.random.default_rng(0)
    for raters, above in ((10, 1.05), (300, 1.0)):
        votes = draw_votes(who, rng, raters, 20, raters)
        for name in ("taste_sd", "item_system_sd"):
            ratio = getattr(conservative_votes(who, votes), name) / 60
            assert above <= ratio < (2.2 if raters == 10 else 1.2), (raters, name, ratio)


def test_pilot_of_two_is_refused():
    with pytest.raises(BadOption, match="the pilot has 2 raters"):
        rating_population(ratings_from_rows([(r, f"i{i}", "s", i) for r in "ab" for i in range(5)]))
    votes = draw_votes(VotePopulation(), np.random.default_rng(0), 10, 10, 2)
    with pytest.raises(BadOption, match="2 scripts"):
        vote_population(votes)


WHO = RatingPopulation(systems=(3.0,), low=None, noise_spread=0.0, clickers=0.0)
FOUR = RatingPopulation(systems=(3.0,) * 4, low=None)


def test_fewest_sufficient_raters():
    shown = []
    plan = raters_for_means(0.3, WHO, items=40, runs=60, show=lambda raters, width: shown.append((raters, width)))
    assert plan.half_width <= 0.3
    curve = dict(plan.curve)
    assert curve[plan.raters - 1] > 0.3
    assert [raters for raters, _ in plan.curve] == sorted(raters for raters, _ in shown)
    assert raters_for_means(0.3, WHO, items=40, runs=60) == plan


def test_power_is_not_the_median_and_covers_all_systems():
    """Half of the tests miss the median, and with four systems most tests miss it for one of them."""
    plan = raters_for_means(0.3, FOUR, items=30, runs=100)
    met = (half_widths(FOUR, plan.raters, 30, 1.0, 100, 0) <= 0.3).mean()
    assert ASSURANCE <= met < 0.95
    fewer = raters_for_means(0.3, WHO, items=30, runs=100).raters
    assert fewer < plan.raters
    by_median = next(r for r in range(2, 99) if np.median(half_widths(WHO, r, 30, 1.0, 60, 0)) <= 0.3)
    assert by_median < fewer and (half_widths(FOUR, by_median, 30, 1.0, 100, 0) <= 0.3).mean() < 0.4


@pytest.mark.parametrize("seed", range(4))
def test_more_raters_never_widen_the_planned_interval(seed):
    """Two runs are mostly noise; the list decreases, and the answer is read from it."""
    shown = {}
    plan = raters_for_means(0.3, WHO, items=8, runs=2, seed=seed, show=shown.__setitem__)
    widths = [width for _, width in plan.curve]
    assert widths == sorted(widths, reverse=True)
    assert widths == monotone_widths([shown[raters] for raters, _ in plan.curve])
    assert plan.raters == min(raters for raters, width in shown.items() if width <= 0.3)
    assert plan.half_width == dict(plan.curve)[plan.raters] <= 0.3


def test_isotonic_pooling_pools_only_increases():
    assert monotone_widths([5.0, 4.0, 4.0, 1.0]) == [5.0, 4.0, 4.0, 1.0]
    assert monotone_widths([5.0, 2.0, 4.0, 3.0, 1.0, 2.0]) == [5.0, 3.0, 3.0, 3.0, 1.5, 1.5]
    assert monotone_widths([1.0, 2.0, 3.0]) == [2.0, 2.0, 2.0]
    assert monotone_widths([np.inf, 2.0, 3.0]) == [np.inf, 2.5, 2.5] and monotone_widths([]) == []


def test_simulation_agrees_with_theory():
    """Var(mean) = (rater + taste) / R + (item + item by system) / I + noise / (R I)."""
    raters, items = 60, 60
    found = np.mean(half_widths(WHO, raters, items, 1.0, 60, 0))
    variance = (0.4**2 + 0.2**2) / raters + (0.3**2 + 0.2**2) / items + 0.7**2 / (raters * items)
    assert found == pytest.approx(2.001 * np.sqrt(variance), rel=0.05)


def test_fewest_raters_for_elo():
    who = VotePopulation(systems=(-100, 0, 100))
    plan = raters_for_elo(60, who, pairs=12, runs=20)
    curve = dict(plan.curve)
    assert plan.half_width <= 60 < curve[plan.raters - 1]
    more = raters_for_elo(60, who, pairs=48, runs=20)
    assert more.raters < plan.raters  # more pairs per rater are more informative
    few_scripts = elo_half_widths(who, plan.raters, 12, 5, 20, 0)
    assert np.median(few_scripts) > 60  # and five scripts less
    for bad in ({"half_width": 0}, {"half_width": 30, "pairs": 0}, {"half_width": 30, "scripts": 1}):
        with pytest.raises(BadOption):
            raters_for_elo(**bad)


@pytest.mark.parametrize(
    ("test", "width", "named"), [("mos", 0.3, 4), ("mushra", 7, 4), ("cmos", 0.4, 6), ("preference", 0.1, 6)]
)
def test_every_kind_has_default_variances(test, width, named):
    who = default_population(test, 4)
    assert len(who.systems) == named
    assert 8 < raters_for_means(width, who, items=20, runs=20).raters < 60


def test_unreachable_targets():
    with pytest.raises(BadOption, match="use more than 5 items"):
        raters_for_means(0.05, WHO, items=5, runs=2)
    for bad in (
        {"half_width": 0},
        {"half_width": 1, "items": 1},
        {"half_width": 1, "share": 0},
        {"half_width": 1, "runs": 0},
    ):
        with pytest.raises(BadOption):
            raters_for_means(population=WHO, **bad)
    for test, systems in (("cmos", 1), ("elo", 5)):
        with pytest.raises(BadOption):
            default_population(test, systems)


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


def test_few_scripts_need_intervals_by_rater_and_script():
    """Ten scripts that each favour a system; other scripts might favour another."""
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


def test_seed_is_reproducible():
    assert mos_coverage(runs=3, seed=5) == mos_coverage(runs=3, seed=5)
    assert mos_coverage(runs=3, seed=5) != mos_coverage(runs=3, seed=6)


def test_population_properties():
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


def test_bad_arguments_are_named():
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
