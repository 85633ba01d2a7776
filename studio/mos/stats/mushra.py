"""MUSHRA: means on the 0 to 100 scale after the post-screening of raters (ITU-R BS.1534-3)."""

from dataclasses import dataclass, field

import numpy as np

from studio.core.errors import BadOption
from studio.mos.stats.columns import Ratings
from studio.mos.stats.interval import Interval
from studio.mos.stats.means import by_stimulus, by_system

BELOW = 90.0
SHARE = 0.15


@dataclass(frozen=True)
class PostScreen:
    """What the hidden reference says about raters.

    Attributes:
        low_share: share of their hidden references that each rater put below 90; None where they heard none.
        dropped: raters with a share of more than 15%. A rater who heard none is not dropped.
    """

    low_share: dict[str, float | None] = field(default_factory=dict[str, float | None])
    dropped: list[str] = field(default_factory=list[str])


@dataclass(frozen=True)
class Row:
    """A mean with its interval, and the plus or minus one standard error that paper 002 prints (not 95%).

    Attributes:
        item: None in a row of a whole system.
        standard_error: s / sqrt(n), ratings taken as independent; None for one rating.
    """

    system: str
    item: str | None
    interval: Interval
    standard_error: float | None


@dataclass(frozen=True)
class Mushra:
    """A table by system, one by stimulus, and who was left out of both."""

    systems: list[Row]
    stimuli: list[Row]
    screen: PostScreen


def analyse(ratings: Ratings, reference: str | None = None, level: float = 0.95) -> Mushra:
    """Means by system (two-way interval) and by stimulus (clustered by rater).

    Args:
        ratings: scores of 0 to 100.
        reference: the system that is the hidden reference; None in a test without one, where nobody is dropped.
        level: nominal coverage.

    Raises:
        BadOption: an unknown reference, or nobody left after the screening.
    """
    screen = PostScreen() if reference is None else post_screen(ratings, reference)
    ratings = without(ratings, screen.dropped)
    if not len(ratings):
        raise BadOption("no ratings are left after the post-screening", "look at its low_share, rater by rater")
    plain = by_system(ratings, "plain", level)
    systems = [Row(name, None, found, plain[name].se) for name, found in by_system(ratings, level=level).items()]
    errors = by_stimulus(ratings, "plain", level)
    rows = [Row(*key, found, errors[key].se) for key, found in by_stimulus(ratings, level=level).items()]
    return Mushra(systems, rows, screen)


def post_screen(ratings: Ratings, reference: str, below: float = BELOW, share: float = SHARE) -> PostScreen:
    """Raters who put the hidden reference below 90 on more than 15% of the items (BS.1534-3, 4.1.2).

    Exactly 15% passes. Raises BadOption on a reference that is not a system.
    """
    if reference not in ratings.systems:
        raise BadOption(f"there is no system {reference!r}", f"known are {', '.join(ratings.systems)}")
    heard = ratings.system == ratings.systems.index(reference)
    count = np.bincount(ratings.rater[heard], minlength=len(ratings.raters))
    low = np.bincount(ratings.rater[heard & (ratings.score < below)], minlength=len(ratings.raters))
    shares = {
        name: float(low[r] / count[r]) if count[r] else None
        for r, name in enumerate(ratings.raters)
        if (ratings.rater == r).any()
    }
    return PostScreen(shares, [name for name, found in shares.items() if found is not None and found > share])


def without(ratings: Ratings, raters: list[str]) -> Ratings:
    """The ratings that none of these raters gave."""
    return ratings.where(~np.isin(ratings.rater, [ratings.raters.index(name) for name in raters]))
