"""What one more vote gains, against worked values and against inverting the curvature anew."""

import numpy as np
import pytest

from studio.mos.stats.bradley_terry.fit import ELO_PER_E
from studio.mos.stats.bradley_terry.sharpening import expected_gain
from studio.mos.stats.bradley_terry.strength import solve

TINY = 1e-3  # a prior that says next to nothing


def errors(games: np.ndarray, log_p: np.ndarray, b0: float) -> np.ndarray:
    """Standard errors around the ladder's mean, by the definition: one game after the other."""
    size = len(log_p)
    bend = np.diag(b0 * np.exp(log_p))
    for i in range(size):
        for j in range(i):
            chance = 1 / (1 + np.exp(log_p[j] - log_p[i]))
            d = np.eye(size)[i] - np.eye(size)[j]
            bend += games[i, j] * chance * (1 - chance) * np.outer(d, d)
    centre = np.eye(size) - 1 / size
    return ELO_PER_E * np.sqrt(np.diag(centre @ np.linalg.inv(bend) @ centre))


def test_two_level_systems() -> None:
    """After n votes each score around the mean has the variance 1 / n: half of the difference, whose is 4 / n."""
    wins = np.array([[0.0, 8.0], [8.0, 0.0]])
    gain = expected_gain(wins, np.zeros((2, 2)), TINY, TINY)
    assert gain[0, 1] == pytest.approx(2 * ELO_PER_E * (1 / 16**0.5 - 1 / 17**0.5), rel=1e-3)
    assert gain[0, 1] == gain[1, 0] and gain[0, 0] == gain[1, 1] == 0


def test_a_battle_that_is_on_counts_as_a_vote() -> None:
    level, waiting = np.array([[0.0, 8.0], [8.0, 0.0]]), np.array([[0.0, 2.0], [2.0, 0.0]])
    more = np.array([[0.0, 9.0], [9.0, 0.0]])
    assert expected_gain(level, waiting)[0, 1] == pytest.approx(expected_gain(more, 0 * waiting)[0, 1])


def test_it_is_what_inverting_anew_gives() -> None:
    rng = np.random.default_rng(3)
    wins = np.triu(rng.integers(0, 9, (5, 5)), 1) + np.tril(rng.integers(0, 9, (5, 5)), -1).astype(float)
    waiting = np.zeros((5, 5))
    waiting[0, 3] = waiting[3, 0] = 2
    games, log_p = wins + wins.T + waiting, solve(wins, 0.1, 0.1)
    gain = expected_gain(wins, waiting, 0.1, 0.1)
    before = errors(games, log_p, 0.1)
    for i in range(5):
        for j in range(i):
            one = games.copy()
            one[i, j] += 1
            assert gain[i, j] == pytest.approx((before - errors(one, log_p, 0.1)).sum(), rel=1e-9)


def test_a_newcomer_is_wanted_and_meets_its_like() -> None:
    """Of four systems, one without a vote: every battle with it gains more than any without."""
    wins = np.full((4, 4), 10.0)
    wins[3, :] = wins[:, 3] = 0
    np.fill_diagonal(wins, 0)
    gain = expected_gain(wins, np.zeros((4, 4)))
    assert min(gain[3, :3]) > 5 * max(gain[0, 1], gain[0, 2], gain[1, 2]) > 0
    # a vote between the level ones says more than one whose outcome is all but known
    far = np.array([[0, 10, 30.0], [10, 0, 30], [1, 1, 0]]) + 0.0
    known = expected_gain(far + 0, np.zeros((3, 3)))
    even = expected_gain(np.array([[0, 10, 15.5], [10, 0, 15.5], [15.5, 15.5, 0]]), np.zeros((3, 3)))
    assert even[0, 2] < known[0, 2]  # its score is less sure, for so one-sided votes say little
    assert (known >= 0).all() and np.isfinite(known).all()


def test_before_the_first_vote_all_pairs_are_alike() -> None:
    gain = expected_gain(np.zeros((4, 4)), np.zeros((4, 4)))
    assert gain[np.triu_indices(4, 1)] == pytest.approx(gain[0, 1]) and gain[0, 1] > 0
