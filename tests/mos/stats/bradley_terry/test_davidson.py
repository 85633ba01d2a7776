"""Davidson's model: its own equations, the worked case in which half wins mislead, an optimiser as the oracle."""

import numpy as np
import pytest
from mos.stats.bradley_terry.games import FOUR
from scipy.optimize import minimize

from studio.mos.stats.bradley_terry.fit import centred, fit
from studio.mos.stats.bradley_terry.strength import information
from studio.mos.stats.columns import votes_from_rows
from studio.mos.stats.planning.population import VotePopulation, draw_votes


@pytest.mark.parametrize(("ties", "halved"), [(0.0, 120), (0.3, 83), (0.6, 47), (0.8, 23)])
def test_ties_do_not_draw_systems_together(ties, halved):
    """Wins of 2 : 1 are 120 Elo however many ties stand beside; half wins make 83, 47 and 23 of them."""
    decided, tied = round(600 * (1 - ties)), round(600 * ties)
    rows = [("x", "y", "a", None)] * (decided * 2 // 3) + [("x", "y", "b", None)] * (decided // 3)
    votes = votes_from_rows(rows + [("x", "y", "tie", None)] * tied)
    found = fit(votes, "davidson")
    assert found.elo()[0] - found.elo()[1] == pytest.approx(400 * np.log10(2))
    assert found.tie == pytest.approx(tied / np.sqrt(decided * 2 / 3 * decided / 3))  # n_tie^2 = nu^2 n_x n_y
    assert fit(votes, "mle").elo() @ [1, -1] == pytest.approx(halved, abs=0.7)


def test_an_optimiser_finds_no_more():
    votes = draw_votes(VotePopulation(systems=(-200, 0, 50, 150), ties=0.3), np.random.default_rng(0), 10, 60, 10)
    fitted = fit(votes, "davidson")

    def unlikely(at):
        strength, nu = np.exp(at[:4]), np.exp(at[4])
        a, b = strength[votes.a], strength[votes.b]
        tie = nu * np.sqrt(a * b)
        seen = np.select([votes.outcome == 0, votes.outcome == 1], [a, b], tie)
        return -np.log(seen / (a + b + tie)).sum()

    best = minimize(unlikely, np.zeros(5), method="BFGS", options={"gtol": 1e-7})
    assert fitted.log_p == pytest.approx(centred(best.x[:4]), abs=1e-4)
    assert np.log(fitted.tie) == pytest.approx(best.x[4], abs=1e-4)
    curved = information(fitted.log_p, fitted.tie, (fitted.wins + fitted.wins.T))
    step = 1e-4
    for k in range(5):
        bump = np.eye(5)[k] * step
        at = np.append(fitted.log_p, np.log(fitted.tie))
        second = (unlikely(at + bump) - 2 * unlikely(at) + unlikely(at - bump)) / step**2
        assert curved[k, k] == pytest.approx(second, rel=1e-3)


def test_without_ties_it_is_bradley_and_terry():
    assert fit(FOUR, "davidson").log_p == pytest.approx(fit(FOUR, "mle").log_p, abs=1e-9)
    assert fit(FOUR, "davidson").tie == 0.0


def test_ties_connect_nothing():
    """Of two systems one of which never lost, ties say only how readily a tie is said."""
    votes = votes_from_rows([("x", "y", "a", None)] * 2 + [("x", "y", "tie", None)] * 3)
    assert "y never won against" in str(fit(votes, "davidson").reason)
    assert fit(votes, "mle").reason is None
