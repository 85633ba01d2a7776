"""How much one more vote on a pair of systems would sharpen a ladder: the choice of a standing arena's next battle.

Scores are those of ``fit`` with its Gamma prior. Their inverse covariance is the curvature of the posterior in ln p,
H = sum over pairs of n_ij w_ij (e_i - e_j)(e_i - e_j)' + diag(b0 p), where w_ij = P(i beats j) P(j beats i). One more
vote on (i, j) adds w_ij d d', d = e_i - e_j, whatever its outcome, so the covariance C becomes
C - w C d d' C / (1 + w d' C d) (Sherman & Morrison 1950). Of each standard error on the ladder, around its mean, the
difference is what the vote is expected to gain.
"""

import numpy as np

from studio.mos.stats.bradley_terry.fit import ELO_PER_E
from studio.mos.stats.bradley_terry.strength import solve
from studio.mos.stats.columns import F8


def expected_gain(wins: F8, waiting: F8, a0: float = 0.1, b0: float = 0.1) -> F8:
    """By how much a vote on each pair is expected to shorten the ladder's standard errors, all together, in Elo.

    Votes are taken as independent: clusters of raters and texts lengthen every interval by much the same factor, which
    changes no order. A tie counts as one vote, for the curvature is the same.

    Args:
        wins: [S, S], row beats column, a tie half a win each.
        waiting: [S, S], symmetric: battles that are on, whose votes are still to come.
        a0: shape of the prior on strengths.
        b0: its rate, above nought, so that there is an error before the first vote, too.

    Returns:
        [S, S], symmetric, nought on the diagonal.
    """
    log_p = solve(wins, a0, b0)
    chance = 1 / (1 + np.exp(log_p[None, :] - log_p[:, None]))
    weight = chance * (1 - chance)
    bend = -(wins + wins.T + waiting) * weight
    np.fill_diagonal(bend, 0.0)
    np.fill_diagonal(bend, b0 * np.exp(log_p) - bend.sum(axis=1))
    error: F8 = np.asarray(np.linalg.inv(bend), np.float64)
    error = error - error.mean(axis=0) - error.mean(axis=1)[:, None] + error.mean()  # around the ladder's mean
    own = np.diag(error)
    apart = error[:, :, None] - error[:, None, :]  # [k, i, j]: how far system k moves with the difference of i and j
    across = own[:, None] + own[None, :] - 2 * error
    after = own[:, None, None] - weight * apart**2 / (1 + weight * across)
    gain = np.sqrt(own)[:, None, None] - np.sqrt(np.maximum(after, 0.0))
    return ELO_PER_E * gain.sum(axis=0)
