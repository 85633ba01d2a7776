"""MUSHRA: post-screening of raters and quartiles of scores (ITU-R BS.1534-3)."""

from dataclasses import dataclass, field

import numpy as np

from studio.core.errors import BadOption
from studio.mos.stats.columns import Mask, Ratings

MID_ANCHOR_HZ = 7000
LIMIT = 90.0  # a hidden reference below it, or a mid anchor above it, was not detected
SHARE = 0.15
UNHARMED = 0.25  # share of raters above the limit that makes an item's mid anchor uninformative

Shares = dict[str, float | None]


@dataclass(frozen=True)
class PostScreen:
    """Result of the post-screening by hidden reference and mid anchor.

    Attributes:
        low_share: share of each rater's hidden references scored below 90; None without any.
        high_share: share of each rater's mid anchors scored above 90; None without any.
        unharmed: items whose mid anchor more than a quarter of the raters scored above 90; not counted.
        by_reference: raters with a low share above 15%.
        by_anchor: raters with a high share above 15%.
    """

    low_share: Shares = field(default_factory=Shares)
    high_share: Shares = field(default_factory=Shares)
    unharmed: list[str] = field(default_factory=list[str])
    by_reference: list[str] = field(default_factory=list[str])
    by_anchor: list[str] = field(default_factory=list[str])

    @property
    def dropped(self) -> list[str]:
        """Raters excluded by either criterion."""
        return [*self.by_reference, *(name for name in self.by_anchor if name not in self.by_reference)]


@dataclass(frozen=True)
class Quartiles:
    """Quartiles of scores, which BS.1534-3 reports beside means."""

    low: float
    median: float
    high: float


def post_screen(ratings: Ratings, reference: str, mid_anchor: str | None = None) -> PostScreen:
    """Find raters who fail the post-screening (BS.1534-3, 4.1.2).

    They score the hidden reference below 90 on more than 15% of the items, or the mid anchor above 90 on more than 15%;
    exactly 15% passes. Items whose mid anchor more than 25% of the raters score above 90 are not counted.

    Raises:
        BadOption: the reference or the anchor is not a system.
    """
    scored = ratings.where(_is_system(ratings, reference))
    low = _shares(scored, scored.score < LIMIT, ratings)
    if mid_anchor is None:
        return PostScreen(low, by_reference=_above_limit(low))
    scored = ratings.where(_is_system(ratings, mid_anchor))
    not_impaired = scored.score > LIMIT
    count, bad = (np.bincount(scored.item, of, len(ratings.items)) for of in (None, not_impaired))
    unharmed = np.flatnonzero(bad > UNHARMED * count)
    counted = ~np.isin(scored.item, unharmed)
    high = _shares(scored.where(counted), not_impaired[counted], ratings)
    return PostScreen(low, high, [ratings.items[i] for i in unharmed], _above_limit(low), _above_limit(high))


def quartiles(ratings: Ratings) -> dict[str, Quartiles]:
    """Quartiles of each rated system, in the order of ``ratings.systems``."""
    table: dict[str, Quartiles] = {}
    for code, name in enumerate(ratings.systems):
        if (mine := ratings.score[ratings.system == code]).size:
            low, median, high = np.percentile(mine, (25, 50, 75))
            table[name] = Quartiles(float(low), float(median), float(high))
    return table


def _is_system(ratings: Ratings, name: str) -> Mask:
    if name not in ratings.systems:
        raise BadOption(f"there is no system {name!r}", f"choose {', '.join(ratings.systems)}")
    return ratings.system == ratings.systems.index(name)


def _shares(scored: Ratings, wrong: Mask, ratings: Ratings) -> Shares:
    """Share of wrong answers of every rater in ``everybody``."""
    count, bad = (np.bincount(scored.rater, of, len(ratings.raters)) for of in (None, wrong))
    present = np.unique(ratings.rater)
    return {ratings.raters[r]: float(bad[r] / count[r]) if count[r] else None for r in present}


def _above_limit(shares: Shares) -> list[str]:
    return [name for name, share in shares.items() if share is not None and share > SHARE]


def exclude_raters(ratings: Ratings, raters: list[str]) -> Ratings:
    """Ratings without those of the given raters."""
    return ratings.where(~np.isin(ratings.rater, [ratings.raters.index(name) for name in raters]))
