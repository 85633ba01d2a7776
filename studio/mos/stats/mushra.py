"""MUSHRA: means and medians on the 0 to 100 scale after the post-screening of raters (ITU-R BS.1534-3)."""

from dataclasses import dataclass, field

import numpy as np

from studio.core.errors import BadOption
from studio.mos.stats.columns import Mask, Ratings
from studio.mos.stats.interval import Interval
from studio.mos.stats.means import by_stimulus, by_system

MID_ANCHOR_HZ = 7000
LIMIT = 90.0  # below it a hidden reference was not heard, above it a mid anchor was not
SHARE = 0.15
UNHARMED = 0.25  # share of raters above the limit from which on an item's mid anchor says nothing about them

Shares = dict[str, float | None]


@dataclass(frozen=True)
class PostScreen:
    """What the hidden reference and the mid anchor say about raters.

    Attributes:
        low_share: share of their hidden references that each rater put below 90; None where they heard none.
        high_share: share of their mid anchors that each put above 90; likewise, and where there is no mid anchor.
        unharmed: items that the mid anchor did not impair to more than a quarter of the raters; they are not counted.
        by_reference: raters with a low share of more than 15%.
        by_anchor: those with a high share of more than 15%.
    """

    low_share: Shares = field(default_factory=Shares)
    high_share: Shares = field(default_factory=Shares)
    unharmed: list[str] = field(default_factory=list[str])
    by_reference: list[str] = field(default_factory=list[str])
    by_anchor: list[str] = field(default_factory=list[str])

    @property
    def dropped(self) -> list[str]:
        """Who is left out for either."""
        return [*self.by_reference, *(name for name in self.by_anchor if name not in self.by_reference)]


@dataclass(frozen=True)
class Quartiles:
    """The quarter points of scores, as BS.1534-3 prints them beside means."""

    low: float
    median: float
    high: float


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


def analyse(
    ratings: Ratings, reference: str | None = None, mid_anchor: str | None = None, level: float = 0.95
) -> Mushra:
    """Means by system (two-way interval) and by stimulus (clustered by rater).

    Args:
        ratings: scores of 0 to 100.
        reference: the system that is the hidden reference; None in a test without one, where nobody is dropped.
        mid_anchor: the system that is the mid anchor; None where there is none.
        level: nominal coverage.

    Raises:
        BadOption: an unknown reference or anchor, or nobody left after the screening.
    """
    screen = PostScreen() if reference is None else post_screen(ratings, reference, mid_anchor)
    ratings = without(ratings, screen.dropped)
    if not len(ratings):
        raise BadOption("no ratings are left after the post-screening", "look at its low_share, rater by rater")
    plain = by_system(ratings, "plain", level)
    systems = [Row(name, None, found, plain[name].se) for name, found in by_system(ratings, level=level).items()]
    errors = by_stimulus(ratings, "plain", level)
    rows = [Row(*key, found, errors[key].se) for key, found in by_stimulus(ratings, level=level).items()]
    return Mushra(systems, rows, screen)


def post_screen(ratings: Ratings, reference: str, mid_anchor: str | None = None) -> PostScreen:
    """Raters who did not hear the hidden reference, or not the mid anchor's impairment (BS.1534-3, 4.1.2).

    That is, who put the reference below 90 on more than 15% of the items, or the mid anchor above 90 on more than 15%.
    Exactly 15% passes. Items whose mid anchor more than 25% of the raters put above 90 say nothing of raters.

    Raises:
        BadOption: a reference or an anchor that is not a system.
    """
    heard = ratings.where(_system(ratings, reference))
    low = _shares(heard, heard.score < LIMIT, ratings)
    if mid_anchor is None:
        return PostScreen(low, by_reference=_beyond(low))
    heard = ratings.where(_system(ratings, mid_anchor))
    missed = heard.score > LIMIT
    count, bad = (np.bincount(heard.item, of, len(ratings.items)) for of in (None, missed))
    unharmed = np.flatnonzero(bad > UNHARMED * count)
    counted = ~np.isin(heard.item, unharmed)
    high = _shares(heard.where(counted), missed[counted], ratings)
    return PostScreen(low, high, [ratings.items[i] for i in unharmed], _beyond(low), _beyond(high))


def quartiles(ratings: Ratings) -> dict[str, Quartiles]:
    """The quarter points of each system that has ratings, in the order of ``ratings.systems``."""
    found: dict[str, Quartiles] = {}
    for code, name in enumerate(ratings.systems):
        if (mine := ratings.score[ratings.system == code]).size:
            low, median, high = np.percentile(mine, (25, 50, 75))
            found[name] = Quartiles(float(low), float(median), float(high))
    return found


def _system(ratings: Ratings, name: str) -> Mask:
    if name not in ratings.systems:
        raise BadOption(f"there is no system {name!r}", f"known are {', '.join(ratings.systems)}")
    return ratings.system == ratings.systems.index(name)


def _shares(heard: Ratings, wrong: Mask, everybody: Ratings) -> Shares:
    """The share of what each rater heard that they judged wrongly; of every rater who is there."""
    count, bad = (np.bincount(heard.rater, of, len(everybody.raters)) for of in (None, wrong))
    there = np.unique(everybody.rater)
    return {everybody.raters[r]: float(bad[r] / count[r]) if count[r] else None for r in there}


def _beyond(shares: Shares) -> list[str]:
    return [name for name, share in shares.items() if share is not None and share > SHARE]


def without(ratings: Ratings, raters: list[str]) -> Ratings:
    """The ratings that none of these raters gave."""
    return ratings.where(~np.isin(ratings.rater, [ratings.raters.index(name) for name in raters]))
