"""Plans that a small pilot may be trusted with: its variances at an upper bound instead of as they came out.

A variance of ten raters is half or twice the true one by luck, and whoever plans with the lower half falls short. So
every component is raised to the upper end of its one-sided interval: its mean square times df / chi2_{1 - sure}(df),
less what else is in that mean square (Burdick & Graybill 1992, section 2.4). A large pilot's hardly move.
"""

from dataclasses import replace

import numpy as np

from studio.mos.stats.bradley_terry.fit import ELO_PER_E, fit
from studio.mos.stats.columns import Ratings, Votes
from studio.mos.stats.distributions import gamma_inverse
from studio.mos.stats.interval import present
from studio.mos.stats.planning.planner import SURE
from studio.mos.stats.planning.population import Listeners, Voters

SMALL = 30  # raters or scripts of a pilot, under which its variances say little


def cautious_listeners(who: Listeners, ratings: Ratings, sure: float = SURE) -> Listeners:
    """``who``, as these scores showed it (``pilot.listeners_of``), with variances that are surely no larger."""
    raters, items, systems = (present(codes) for codes in (ratings.rater, ratings.item, ratings.system))
    n = len(ratings)
    noise = _at_most(who.noise_sd**2, 0.0, n - systems * (raters + items), sure)
    own = max(1, systems - 1)  # of one system all that raters differ by is in its taste
    taste = _at_most(who.taste_sd**2, who.noise_sd**2 * raters * systems / n, own * (raters - 1), sure)
    favour = _at_most(who.item_system_sd**2, who.noise_sd**2 * items * systems / n, own * (items - 1), sure)
    level, script = who.rater_sd, who.item_sd
    if systems > 1:
        level = _at_most(level**2, who.taste_sd**2 / systems + who.noise_sd**2 * raters / n, raters - 1, sure) ** 0.5
        script = (
            _at_most(script**2, who.item_system_sd**2 / systems + who.noise_sd**2 * items / n, items - 1, sure) ** 0.5
        )
    return replace(
        who, rater_sd=level, item_sd=script, taste_sd=taste**0.5, item_system_sd=favour**0.5, noise_sd=noise**0.5
    )


def cautious_voters(who: Voters, votes: Votes, sure: float = SURE) -> Voters:
    """``who``, as these votes showed it (``pilot.voters_of``), with leanings that are surely no larger."""
    assert votes.rater is not None and votes.item is not None, "a pilot's are known"
    log_p = fit(votes).log_p
    chance = 1 / (1 + np.exp(log_p[votes.b] - log_p[votes.a]))
    systems = len(votes.systems)
    known = 2 * float((chance * (1 - chance)).sum()) / systems / ELO_PER_E**2  # of a system's Elo, by all votes
    raters, items = present(votes.rater), present(votes.item)
    taste = _at_most(who.taste_sd**2, raters / known, (systems - 1) * (raters - 1), sure)
    favour = _at_most(who.item_system_sd**2, items / known, (systems - 1) * (items - 1), sure)
    return replace(who, taste_sd=taste**0.5, item_system_sd=favour**0.5)


def _at_most(variance: float, beside: float, df: int, sure: float) -> float:
    """The upper bound of a variance whose mean square, of ``df``, has ``beside`` in it too, in its unit."""
    df = max(1, df)
    quantile = 2 * float(gamma_inverse(df / 2, 1 - sure))
    return max(variance, (variance + beside) * df / quantile - beside)
