"""Strengths: published values, choix and an optimiser as oracles, exact posteriors, missing estimates."""

from dataclasses import replace

import choix
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mos.stats.games import FOUR, TWO
from scipy.optimize import minimize
from scipy.stats import beta, gamma

from studio.core.errors import BadOption
from studio.mos.stats.bradley_terry import centred, fit, gamma_quantiles, groups, information, solve, win_matrix
from studio.mos.stats.columns import OUTCOMES, votes_from_rows
from studio.mos.stats.elo_intervals import CHAINS, posterior_draws, posterior_intervals
from studio.mos.stats.planner import VotePopulation, draw_votes


def test_published_maximum_likelihood():
    p = np.exp(fit(FOUR, "mle").log_p)
    assert p == pytest.approx([0.63983, 1.04331, 0.65981, 2.27038], abs=6e-6)
    assert np.prod(p) == pytest.approx(1)


def test_published_gamma_scores():
    dsm, converged = fit(FOUR, "dsm"), fit(FOUR, "gamma")
    assert dsm.elo() == pytest.approx([1909.500, 1995.449, 1915.649, 2119.573], abs=5e-4)
    assert converged.elo() == pytest.approx([1902.056, 1987.804, 1908.087, 2112.379], abs=5e-4)
    spread = gamma_quantiles(dsm)
    assert [spread.low[0], spread.high[0]] == pytest.approx([1641.361, 2060.247], abs=1e-3)
    assert fit(TWO, "gamma").elo() == pytest.approx([2057.4753, 1913.5166], abs=5e-5)
    assert fit(TWO, "dsm").elo() == pytest.approx([2057.4753, 1913.5166], abs=5e-5)


def test_maximum_likelihood_equals_choix():
    pairs = [(int(a), int(b)) for a, b in zip(FOUR.a, FOUR.b, strict=True)]
    for method, alpha in (("mle", 0.0), ("gamma", 0.1)):
        oracle = choix.mm_pairwise(4, pairs, alpha=alpha, max_iter=100_000, tol=1e-12)
        assert centred(fit(FOUR, method).log_p) == pytest.approx(oracle, abs=1e-6)


def test_two_systems_are_a_beta():
    spread = gamma_quantiles(fit(TWO, "dsm"))
    # Rates are equal, so the ratio of the Gammas is exact.
    exact = beta(7.1, 3.1)
    odds = exact.ppf([0.025, 0.975])
    assert [spread.difference_low[0, 1], spread.difference_high[0, 1]] == pytest.approx(
        400 * np.log10(odds / (1 - odds))
    )
    assert spread.better[0, 1] == pytest.approx(exact.sf(0.5))
    assert spread.better + spread.better.T == pytest.approx(np.ones((2, 2)))


def test_gamma_quantiles_match_the_posterior():
    fitted = fit(FOUR, "dsm")
    spread = gamma_quantiles(fitted, c=0.0, level=0.8)
    posterior = gamma(fitted.shape, scale=1 / fitted.rate)
    assert posterior.mean() == pytest.approx(np.exp(fitted.log_p))
    assert 10 ** (spread.low / 400) == pytest.approx(posterior.ppf(0.1))
    rng = np.random.default_rng(0)
    draws = posterior.rvs((100_000, 4), random_state=rng)
    share = (draws[:, :, None] > draws[:, None, :]).mean(axis=0)
    assert spread.better[~np.eye(4, dtype=bool)] == pytest.approx(share[~np.eye(4, dtype=bool)], abs=0.01)
    ratio = 400 * np.log10(draws[:, 0] / draws[:, 3])
    assert [spread.difference_low[0, 3], spread.difference_high[0, 3]] == pytest.approx(
        np.quantile(ratio, [0.1, 0.9]), abs=3
    )


def test_tie_is_half_a_win_each():
    tied = votes_from_rows(
        [("x", "y", "a", None), ("x", "y", "tie", None), ("y", "x", "both_bad", None), ("y", "x", "a", None)]
    )
    assert win_matrix(tied).tolist() == [[0, 2], [2, 0]]
    assert fit(tied, "mle").elo(1500) == pytest.approx([1500, 1500])


def test_bad_arguments_are_named():
    with pytest.raises(BadOption, match="'elo' is not a scoring method"):
        fit(FOUR, "elo")
    with pytest.raises(BadOption, match="the prior is 0"):
        fit(FOUR, "gamma", a0=0)
    with pytest.raises(BadOption, match="level is 2"):
        gamma_quantiles(fit(FOUR), level=2)


def test_batch_equals_its_parts():
    wins = np.random.default_rng(0).integers(0, 4, (20, 5, 5)) * (1 - np.eye(5))
    together = solve(wins, 0.3, 0.2)
    for k, one in enumerate(wins):
        assert solve(one, 0.3, 0.2) == pytest.approx(together[k])


votes_drawn = st.lists(
    st.tuples(st.integers(0, 4), st.integers(1, 4), st.sampled_from(OUTCOMES), st.integers(1, 10_000)),
    min_size=1,
    max_size=30,
)


def draw_wins(drawn):
    rows = [(f"s{a}", f"s{(a + d) % 5}", o, None) for a, d, o, _ in drawn]
    return votes_from_rows(rows, [f"s{k}" for k in range(5)])


@given(votes_drawn, st.floats(0.001, 10))
@settings(deadline=None, max_examples=60)
def test_mean_strength_is_one_if_shape_equals_rate(drawn, a0):
    assert np.exp(fit(draw_wins(drawn), "gamma", a0, a0).log_p).mean() == pytest.approx(1)


@given(votes_drawn, st.permutations(range(5)))
@settings(deadline=None, max_examples=50)
def test_renaming_permutes_the_scores(drawn, order):
    votes = draw_wins(drawn)
    other = replace(votes, a=np.array(order)[votes.a], b=np.array(order)[votes.b])
    for method in ("gamma", "dsm", "mle", "davidson"):
        there = fit(other, method).elo()[list(order)]
        assert there == pytest.approx(fit(votes, method).elo(), nan_ok=True, abs=1e-6)


@given(votes_drawn, st.floats(0.001, 10), st.floats(0.001, 10))
@settings(deadline=None, max_examples=100)
def test_solver_reaches_the_fixed_point(drawn, a0, b0):
    wins = np.zeros((5, 5))
    for a, d, _, times in drawn:
        wins[a, (a + d) % 5] += times
    p = np.exp(solve(wins, a0, b0))
    rate = b0 + ((wins + wins.T) / (p[:, None] + p)).sum(axis=1)
    assert p == pytest.approx((a0 + wins.sum(axis=1)) / rate, rel=1e-6)
    assert np.isfinite(fit(draw_wins(drawn), "mle").log_p).all() == (len(groups(win_matrix(draw_wins(drawn)))) < 2)


@pytest.mark.parametrize(("ties", "halved"), [(0.0, 120), (0.3, 83), (0.6, 47), (0.8, 23)])
def test_ties_do_not_shrink_differences(ties, halved):
    """Wins of 2 : 1 are 120 Elo for any number of ties; counted as half wins they gave 83, 47 and 23."""
    decided, tied = round(600 * (1 - ties)), round(600 * ties)
    rows = [("x", "y", "a", None)] * (decided * 2 // 3) + [("x", "y", "b", None)] * (decided // 3)
    votes = votes_from_rows(rows + [("x", "y", "tie", None)] * tied)
    found = fit(votes, "davidson")
    assert found.elo()[0] - found.elo()[1] == pytest.approx(400 * np.log10(2))
    assert found.tie == pytest.approx(tied / np.sqrt(decided * 2 / 3 * decided / 3))  # n_tie^2 = nu^2 n_x n_y
    assert fit(votes, "mle").elo() @ [1, -1] == pytest.approx(halved, abs=0.7)


def test_optimiser_finds_no_better_fit():
    votes = draw_votes(VotePopulation(systems=(-200, 0, 50, 150), ties=0.3), np.random.default_rng(0), 10, 60, 10)
    fitted = fit(votes, "davidson")

    def loss(at):
        strength, nu = np.exp(at[:4]), np.exp(at[4])
        a, b = strength[votes.a], strength[votes.b]
        tie = nu * np.sqrt(a * b)
        seen = np.select([votes.outcome == 0, votes.outcome == 1], [a, b], tie)
        return -np.log(seen / (a + b + tie)).sum()

    best = minimize(loss, np.zeros(5), method="BFGS", options={"gtol": 1e-7})
    assert fitted.log_p == pytest.approx(centred(best.x[:4]), abs=1e-4)
    assert np.log(fitted.tie) == pytest.approx(best.x[4], abs=1e-4)
    curved = information(fitted.log_p, fitted.tie, (fitted.wins + fitted.wins.T))
    step = 1e-4
    for k in range(5):
        bump = np.eye(5)[k] * step
        at = np.append(fitted.log_p, np.log(fitted.tie))
        second = (loss(at + bump) - 2 * loss(at) + loss(at - bump)) / step**2
        assert curved[k, k] == pytest.approx(second, rel=1e-3)


def test_without_ties_the_model_is_bradley_terry():
    assert fit(FOUR, "davidson").log_p == pytest.approx(fit(FOUR, "mle").log_p, abs=1e-9)
    assert fit(FOUR, "davidson").tie == 0.0


def test_ties_do_not_connect_systems():
    """If one of two systems never lost, ties only estimate the tie rate."""
    votes = votes_from_rows([("x", "y", "a", None)] * 2 + [("x", "y", "tie", None)] * 3)
    assert "y never won against" in str(fit(votes, "davidson").reason)
    assert fit(votes, "mle").reason is None


def test_draws_of_two_systems_are_a_beta():
    elo = posterior_draws(np.array([[0, 7.0], [3.0, 0]]), samples=4000)
    share = 1 / (1 + 10 ** ((elo[:, 1] - elo[:, 0]) / 400))
    exact = beta(7.1, 3.1)
    assert share.mean() == pytest.approx(exact.mean(), abs=0.005)
    assert np.quantile(share, [0.025, 0.5, 0.975]) == pytest.approx(exact.ppf([0.025, 0.5, 0.975]), abs=0.01)
    spread = posterior_intervals(fit(TWO), samples=4000)
    odds = exact.ppf([0.025, 0.975])
    assert [spread.difference_low[0, 1], spread.difference_high[0, 1]] == pytest.approx(
        400 * np.log10(odds / (1 - odds)), abs=8
    )
    assert spread.better[0, 1] == pytest.approx(exact.sf(0.5), abs=0.01)


def test_undefeated_system_follows_the_prior():
    """For two systems it is a Beta with one bound."""
    elo = posterior_draws(np.array([[0, 7.0], [0, 0]]), samples=2000)
    share = 1 / (1 + 10 ** ((elo[:, 1] - elo[:, 0]) / 400))
    assert np.quantile(share, [0.025, 0.1, 0.5]) == pytest.approx(beta(7.1, 0.1).ppf([0.025, 0.1, 0.5]), abs=0.015)


@pytest.mark.parametrize(
    "wins", [[[0, 20, 20], [0, 0, 12], [0, 8, 0]], [[0, 9, 0, 0], [3, 0, 0, 0], [0, 0, 0, 5], [0, 1, 6, 0]]]
)
def test_chains_converge_even_if_few_wins_connect(wins):
    """Gelman-Rubin R-hat; without a dedicated move, chains of an undefeated system stayed where they began."""
    kept, size = 500, len(wins)
    elo = posterior_draws(np.array(wins, float), samples=kept).reshape(kept, CHAINS, size)
    halves = np.concatenate([elo[: kept // 2], elo[kept // 2 :]], axis=1)
    within, between = halves.var(axis=0, ddof=1).mean(axis=0), halves.mean(axis=0).var(axis=0, ddof=1)
    assert np.sqrt(1 + between / within) == pytest.approx(np.ones(size), abs=0.1)


def test_many_votes_approach_the_fixed_point():
    votes = draw_votes(VotePopulation(), np.random.default_rng(0), 200, 100)
    fitted = fit(votes)
    spread = posterior_intervals(fitted)
    assert ((spread.low < fitted.elo()) & (fitted.elo() < spread.high)).all()
    assert (spread.low + spread.high) / 2 == pytest.approx(fitted.elo(), abs=2)
    assert np.allclose(spread.better + spread.better.T, 1)


def test_seed_is_reproducible_and_draws_are_centred():
    wins = fit(TWO).wins
    assert np.array_equal(posterior_draws(wins, samples=10, seed=1), posterior_draws(wins, samples=10, seed=1))
    assert not np.array_equal(posterior_draws(wins, samples=10, seed=1), posterior_draws(wins, samples=10, seed=2))
    assert posterior_draws(wins, samples=10).mean(axis=1) == pytest.approx(np.zeros(80), abs=1e-9)
    assert np.isfinite(posterior_draws(np.zeros((3, 3)), samples=100)).all()
    with pytest.raises(BadOption, match="samples is 0"):
        posterior_draws(wins, samples=0)
