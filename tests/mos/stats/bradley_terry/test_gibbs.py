"""The Gibbs sampler against an exact posterior and against the fixed point."""

import numpy as np
import pytest
from scipy.stats import beta

from studio.core.errors import BadOption
from studio.mos.stats.bradley_terry import gibbs
from studio.mos.stats.bradley_terry.fit import fit
from studio.mos.stats.columns import votes_from_rows
from studio.mos.stats.planning.population import VotePopulation, draw_votes

TWO = votes_from_rows([("x", "y", "a", None)] * 7 + [("x", "y", "b", None)] * 3)


def test_two_systems_are_a_beta():
    elo = gibbs.posterior_draws(np.array([[0, 7.0], [3.0, 0]]), samples=4000)
    share = 1 / (1 + 10 ** ((elo[:, 1] - elo[:, 0]) / 400))
    exact = beta(7.1, 3.1)
    assert share.mean() == pytest.approx(exact.mean(), abs=0.005)
    assert np.quantile(share, [0.025, 0.5, 0.975]) == pytest.approx(exact.ppf([0.025, 0.5, 0.975]), abs=0.01)
    spread = gibbs.posterior_intervals(fit(TWO), samples=4000)
    odds = exact.ppf([0.025, 0.975])
    assert [spread.difference_low[0, 1], spread.difference_high[0, 1]] == pytest.approx(
        400 * np.log10(odds / (1 - odds)), abs=8
    )
    assert spread.better[0, 1] == pytest.approx(exact.sf(0.5), abs=0.01)


def test_a_system_that_never_lost_is_where_the_prior_has_it():
    """Of two systems it is a Beta, all but one end of it."""
    elo = gibbs.posterior_draws(np.array([[0, 7.0], [0, 0]]), samples=2000)
    share = 1 / (1 + 10 ** ((elo[:, 1] - elo[:, 0]) / 400))
    assert np.quantile(share, [0.025, 0.1, 0.5]) == pytest.approx(beta(7.1, 0.1).ppf([0.025, 0.1, 0.5]), abs=0.015)


@pytest.mark.parametrize(
    "wins", [[[0, 20, 20], [0, 0, 12], [0, 8, 0]], [[0, 9, 0, 0], [3, 0, 0, 0], [0, 0, 0, 5], [0, 1, 6, 0]]]
)
def test_chains_find_the_same_also_where_wins_connect_little(wins):
    """Gelman and Rubin's R-hat; without a move of its own an undefeated system's chains were each where they began."""
    kept, size = 500, len(wins)
    elo = gibbs.posterior_draws(np.array(wins, float), samples=kept).reshape(kept, gibbs.CHAINS, size)
    halves = np.concatenate([elo[: kept // 2], elo[kept // 2 :]], axis=1)
    within, between = halves.var(axis=0, ddof=1).mean(axis=0), halves.mean(axis=0).var(axis=0, ddof=1)
    assert np.sqrt(1 + between / within) == pytest.approx(np.ones(size), abs=0.1)


def test_many_votes_leave_the_fixed_point():
    votes = draw_votes(VotePopulation(), np.random.default_rng(0), 200, 100)
    fitted = fit(votes)
    spread = gibbs.posterior_intervals(fitted)
    assert ((spread.low < fitted.elo()) & (fitted.elo() < spread.high)).all()
    assert (spread.low + spread.high) / 2 == pytest.approx(fitted.elo(), abs=2)
    assert np.allclose(spread.better + spread.better.T, 1)


def test_a_seed_repeats_and_draws_are_centred():
    wins = fit(TWO).wins
    assert np.array_equal(
        gibbs.posterior_draws(wins, samples=10, seed=1), gibbs.posterior_draws(wins, samples=10, seed=1)
    )
    assert not np.array_equal(
        gibbs.posterior_draws(wins, samples=10, seed=1), gibbs.posterior_draws(wins, samples=10, seed=2)
    )
    assert gibbs.posterior_draws(wins, samples=10).mean(axis=1) == pytest.approx(np.zeros(80), abs=1e-9)
    assert np.isfinite(gibbs.posterior_draws(np.zeros((3, 3)), samples=100)).all()
    with pytest.raises(BadOption, match="samples is 0"):
        gibbs.posterior_draws(wins, samples=0)
