"""Gibbs sampling of Bradley-Terry strengths under a Gamma prior (Caron & Doucet 2010, section 3)."""

import numpy as np

from studio.core.errors import BadOption
from studio.mos.stats.bradley_terry.fit import ELO_PER_E, EloIntervals, Fit, centred
from studio.mos.stats.bradley_terry.strength import groups, solve
from studio.mos.stats.columns import F8
from studio.mos.stats.interval import tail_probabilities

CHAINS = 8
_MAX_STEPPED_GROUPS = 4  # per iteration
_STEPS = (0.5, 2.0, 8.0)  # of ln p; large ones because the prior is wide
BETTER_LABEL = "posterior probability under the prior, votes as independent"


def posterior_draws(
    wins: F8, a0: float = 0.1, b0: float = 0.1, samples: int = 500, burn_in: int = 100, seed: int = 0
) -> F8:
    """Centred Elo scores drawn from the posterior, [8 * samples, S].

    Each iteration draws a latent Z_ij ~ Gamma(n_ij, rate p_i + p_j) for every compared pair, then p_i ~ Gamma(a0 +
    wins_i, rate b0 + sum_j Z_ij). Two further moves improve mixing: the common scale is redrawn, because the sum of all
    p is Gamma(S a0, rate b0) for any votes (section 5), and if wins do not connect all systems, the distances between
    groups take Metropolis steps. Eight chains start at the posterior mode of ln p.

    Args:
        wins: [S, S], row beats column; ties are half a win each.
        a0: shape of the prior.
        b0: rate of the prior.
        samples: iterations stored per chain.
        burn_in: iterations before them.
        seed: of the generator.
    """
    if samples < 1:
        raise BadOption(f"samples is {samples}", "it must be at least 1")
    rng = np.random.default_rng(seed)
    games, parts = wins + wins.T, groups(wins)
    first, second = np.nonzero(np.triu(games))
    met = games[first, second]
    ends = np.zeros((len(first), len(wins)))
    ends[np.arange(len(first)), first] = ends[np.arange(len(first)), second] = 1.0
    won = a0 + wins.sum(axis=1)
    p = np.broadcast_to(np.exp(solve(wins, a0, b0)), (CHAINS, len(wins)))
    out = np.empty((samples, CHAINS, len(wins)))
    for iteration in range(-burn_in, samples):
        latent = rng.standard_gamma(met, (CHAINS, len(met))) / (p[:, first] + p[:, second])
        p = rng.standard_gamma(won, p.shape) / (b0 + latent @ ends)
        for group in rng.permutation(len(parts))[:_MAX_STEPPED_GROUPS] if len(parts) > 1 else ():
            p = _metropolis_step(p, parts[int(group)], wins, a0, b0, rng)
        scale = rng.standard_gamma(len(wins) * a0, (CHAINS, 1)) / b0
        p = p * (scale / p.sum(axis=1, keepdims=True))
        if iteration >= 0:
            out[iteration] = p
    return centred(ELO_PER_E * np.log(out)).reshape(-1, len(wins))


def _metropolis_step(p: F8, group: list[int], wins: F8, a0: float, b0: float, rng: np.random.Generator) -> F8:
    """p [chains, S] with one group moved relative to the others where the step is accepted."""
    proposal = p.copy()
    proposal[:, group] *= np.exp(rng.choice(_STEPS) * rng.standard_normal((len(p), 1)))
    gain = _log_posterior(proposal, wins, a0, b0) - _log_posterior(p, wins, a0, b0)
    return np.where((np.log(rng.random(len(p))) < gain)[:, None], proposal, p)


def _log_posterior(p: F8, wins: F8, a0: float, b0: float) -> F8:
    """Log posterior density of ln p up to a constant, [chains]."""
    lost = np.log1p(p[:, None, :] / p[:, :, None])
    return (a0 * np.log(p) - b0 * p).sum(axis=1) - (wins * lost).sum(axis=(1, 2))


def posterior_intervals(
    fitted: Fit, c: float = 2000.0, samples: int = 500, seed: int = 0, level: float = 0.95
) -> EloIntervals:
    """Quantiles of the centred posterior on the scale of ``fitted``; votes are taken as independent.

    ``fitted`` is of method gamma. The interval is centred on the posterior, so it need not be symmetric.
    """
    assert fitted.method == "gamma", "the sampler needs the prior and its fixed point"
    elo = posterior_draws(fitted.wins, fitted.a0, fitted.b0, samples, seed=seed)
    middle = fitted.elo(c).mean()
    low, high = middle + np.quantile(elo, tail_probabilities(level), axis=0)
    apart = elo[:, :, None] - elo[:, None, :]
    difference_low, difference_high = np.quantile(apart, tail_probabilities(level), axis=0)
    better = (apart > 0).mean(axis=0)
    np.fill_diagonal(better, 0.5)
    label = "posterior: quantiles of Gibbs draws, votes taken as independent"
    return EloIntervals(low, high, difference_low, difference_high, better, label, BETTER_LABEL)
