"""Variances out of a pilot: unbiased on average, whatever was not heard; and what votes show is shown again."""

import numpy as np
import pytest

from studio.core.errors import BadOption
from studio.mos.stats.columns import ratings_from_rows
from studio.mos.stats.planning.pilot import conservative_ratings, conservative_votes, rating_population, vote_population
from studio.mos.stats.planning.population import RatingPopulation, VotePopulation, draw_ratings, draw_votes

WHO = RatingPopulation(systems=(3.0, 3.2, 3.5), low=None, noise_spread=0.0, clickers=0.0)
NAMES = ("rater_sd", "taste_sd", "item_sd", "item_system_sd", "noise_sd")


@pytest.mark.parametrize(("raters", "items", "share"), [(8, 8, 1.0), (16, 20, 0.4)])
def test_variances_of_scores_are_right_on_average(raters, items, share):
    rng = np.random.default_rng(0)
    found = [rating_population(draw_ratings(WHO, rng, raters, items, share=share)) for _ in range(150)]
    for name in NAMES:
        mean = np.mean([getattr(one, name) ** 2 for one in found])
        assert mean == pytest.approx(getattr(WHO, name) ** 2, abs=0.022), name
    assert np.mean([one.systems for one in found], axis=0) == pytest.approx(WHO.systems, abs=0.1)


def test_the_classic_analysis_of_variance_agrees():
    """One system, every rater on every script: mean squares (MS_r - MS_e) / I and (MS_i - MS_e) / R, but for 1 / R."""
    ratings = draw_ratings(RatingPopulation(systems=(3.0,), low=None, clickers=0), np.random.default_rng(1), 60, 80)
    score = ratings.score.reshape(60, 80)
    rows, columns = score.mean(axis=1), score.mean(axis=0)
    error = ((score - rows[:, None] - columns + score.mean()) ** 2).sum() / (59 * 79)
    found = rating_population(ratings)
    assert found.taste_sd**2 == pytest.approx(rows.var(ddof=1) - error / 80, rel=0.05)
    assert found.item_system_sd**2 == pytest.approx(columns.var(ddof=1) - error / 60, rel=0.05)
    assert found.noise_sd**2 == pytest.approx(error, rel=0.05)
    assert (found.rater_sd, found.item_sd) == (0.0, 0.0)  # what is common to systems, one cannot show


def test_what_a_population_of_voters_shows_is_found_again():
    who = VotePopulation(systems=(-200, 0, 60, 140), taste_sd=70, item_system_sd=50, noise_spread=0.3, ties=0.15)
    rng = np.random.default_rng(0)
    found = vote_population(draw_votes(who, rng, 600, 40, 100))
    assert np.array(found.systems) == pytest.approx(np.array(who.systems) - np.mean(who.systems), abs=25)
    assert found.taste_sd == pytest.approx(70, rel=0.25)
    assert found.item_system_sd == pytest.approx(50, rel=0.35)
    assert found.ties == pytest.approx(0.15, abs=0.03) and found.both_bad == pytest.approx(0.05, abs=0.01)


def test_the_bound_of_a_small_pilots_variance_is_above_the_truth_in_four_of_five():
    rng = np.random.default_rng(2)
    pilots = [draw_ratings(WHO, rng, 10, 12) for _ in range(200)]
    shown = [rating_population(pilot) for pilot in pilots]
    bounds = [conservative_ratings(who, pilot) for who, pilot in zip(shown, pilots, strict=True)]
    large = draw_ratings(WHO, rng, 200, 200)
    of_large = conservative_ratings(rating_population(large), large)
    for name in ("rater_sd", "taste_sd", "item_system_sd"):
        truth = getattr(WHO, name)
        above, as_shown = (np.mean([getattr(who, name) >= truth for who in some]) for some in (bounds, shown))
        assert 0.65 <= above <= 0.93 and as_shown < 0.6, (name, above, as_shown)
        assert getattr(of_large, name) < 1.1 * truth


def test_the_bound_of_a_small_pilots_leanings():
    who = VotePopulation(
        systems=(-100, 0, 100), taste_sd=60, item_system_sd=60, noise_spread=0.0, ties=0.0, both_bad=0.0
    )
    rng = np.random.default_rng(0)
    for raters, above in ((10, 1.05), (300, 1.0)):
        votes = draw_votes(who, rng, raters, 20, raters)
        for name in ("taste_sd", "item_system_sd"):
            ratio = getattr(conservative_votes(who, votes), name) / 60
            assert above <= ratio < (2.2 if raters == 10 else 1.2), (raters, name, ratio)


def test_a_pilot_of_two_is_none():
    with pytest.raises(BadOption, match="the pilot has 2 raters"):
        rating_population(ratings_from_rows([(r, f"i{i}", "s", i) for r in "ab" for i in range(5)]))
    votes = draw_votes(VotePopulation(), np.random.default_rng(0), 10, 10, 2)
    with pytest.raises(BadOption, match="2 scripts"):
        vote_population(votes)
