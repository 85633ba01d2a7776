"""What a pilot says of people and scripts: the variances that decide how many raters a test needs.

By moments: products of two residuals, averaged over the pairs of answers that share a rater, a script, a system, or two
of these, are covariances, and differences of those are the variances (Henderson's first method; any design will do).
"""

from dataclasses import dataclass, replace

import numpy as np

from studio.core.errors import BadOption
from studio.mos.stats.bradley_terry.fit import ELO_PER_E, fit
from studio.mos.stats.bradley_terry.strength import points
from studio.mos.stats.columns import BOTH_BAD, F8, I8, Ratings, Votes
from studio.mos.stats.interval import present
from studio.mos.stats.planning.population import Listeners, Voters, draw_votes

_MANY, _PAIRS, _ROUNDS = 3000, 40, 2  # raters, and votes of each, that show what is seen of a population; corrections
_LEAST = 3  # raters and scripts; of fewer, variances would be guesses


def listeners_of(ratings: Ratings) -> Listeners:
    """A population with the variances of these scores; scores are not rounded, so that variances are those seen.

    The systems of a test of pairs are its pairs. A variance that comes out below nought is nought.

    Raises:
        BadOption: fewer than three raters or scripts.
    """
    _enough(ratings.rater, ratings.item)
    used = np.unique(ratings.system)
    means = np.array([ratings.score[ratings.system == s].mean() for s in used])
    system = np.searchsorted(used, ratings.system)
    residual = ratings.score - means[system]
    moments = _Moments(residual, ratings.rater, ratings.item, system)
    rater, script = moments.shared("rater"), moments.shared("item")
    taste, favour = moments.shared("rater", "system") - rater, moments.shared("item", "system") - script
    rater, script, taste, favour = (max(0.0, v) for v in (rater, script, taste, favour))
    total = float(residual @ residual) / len(residual) + moments.of_means
    noise = max(0.0, total - rater - script - taste - favour)
    return Listeners(
        systems=tuple(means.tolist()),
        rater_sd=rater**0.5,
        item_sd=script**0.5,
        taste_sd=taste**0.5,
        item_system_sd=favour**0.5,
        noise_sd=noise**0.5,
        noise_spread=0.0,
        clickers=0.0,
        low=None,
    )


def voters_of(votes: Votes) -> Voters:
    """A population whose votes show the Elo, the leanings and the ties of these, found by drawing from it.

    Leanings and ties make votes show less of what is behind them; so what a first guess shows is held against the
    pilot, and the guess is corrected (method of simulated moments).

    Raises:
        BadOption: raters or scripts that are not known, or fewer than three.
    """
    if votes.rater is None or votes.item is None:
        raise BadOption("the votes do not say who gave them on which script", "plan without a pilot")
    _enough(votes.rater, votes.item)
    tie = fit(votes, "davidson").tie or 0.0
    both_bad = float((votes.outcome == BOTH_BAD).mean())
    wanted = _Shown.of(votes)
    who = Voters(
        systems=tuple(wanted.elo.tolist()),
        taste_sd=wanted.taste,
        item_system_sd=wanted.favour,
        noise_spread=wanted.sharpness,
        clickers=0.0,
        ties=max(0.0, tie / (2 + tie) - both_bad),  # Davidson's are both
        both_bad=both_bad,
    )
    for _ in range(_ROUNDS):
        shown = _Shown.of(draw_votes(who, np.random.default_rng(0), _MANY, _PAIRS, _MANY // 10))
        along = float(shown.elo @ wanted.elo) / max(1e-9, float(wanted.elo @ wanted.elo))
        who = replace(
            who,
            systems=tuple((np.array(who.systems) / (along if 0.3 < along < 3 else 1.0)).tolist()),
            taste_sd=who.taste_sd * _ratio(wanted.taste, shown.taste),
            item_system_sd=who.item_system_sd * _ratio(wanted.favour, shown.favour),
            noise_spread=who.noise_spread * _ratio(wanted.sharpness, shown.sharpness),
        )
    return who


def _ratio(wanted: float, shown: float) -> float:
    return float(np.clip(wanted / shown, 0.3, 3.0)) if shown > 0 else 1.0


@dataclass(frozen=True)
class _Shown:
    """What votes show, ties being half a win each: centred Elo [S], leanings in Elo, sharpness in ln."""

    elo: F8
    taste: float
    favour: float
    sharpness: float

    @staticmethod
    def of(votes: Votes) -> "_Shown":
        assert votes.rater is not None and votes.item is not None, "they are known here"
        log_p = fit(votes).log_p
        gap = log_p[votes.a] - log_p[votes.b]
        chance = 1 / (1 + np.exp(-gap))
        slopes = _Slopes(votes, points(votes) - chance, chance * (1 - chance), gap)
        taste, sharpness = slopes.spread(votes.rater)
        favour, _ = slopes.spread(votes.item)
        return _Shown(
            ELO_PER_E * (log_p - log_p.mean()), float(ELO_PER_E * taste), float(ELO_PER_E * favour), sharpness
        )


class _Slopes:
    """Votes' residuals r, which two votes of one rater (or on one script) have in common where it leans or is sharp.

    The covariance of two such is w w' (s^2 (d . d') + k^2 g g'), where w is p(1 - p), d has 1 at the first system and
    -1 at the second, g is the gap in ln p; s is how it leans towards systems, k how much more or less it makes of gaps.
    Both are fitted by least squares to all pairs of votes that share the one and not the other.
    """

    def __init__(self, votes: Votes, residual: F8, weight: F8, gap: F8) -> None:
        assert votes.rater is not None and votes.item is not None, "they are known here"
        self._votes, self._residual, self._weight, self._gap = votes, residual, weight, gap
        self._both = votes.rater * (int(votes.item.max()) + 1) + votes.item

    def spread(self, codes: I8) -> tuple[float, float]:
        """s and k over raters or scripts, given by their codes [N]; both in ln p."""
        seen, could = np.zeros(2), np.zeros((2, 2))
        for sign, group in ((1, codes), (-1, self._both)):
            leaning = self._by_system(group, self._residual * self._weight)
            sharp = np.bincount(group, self._residual * self._weight * self._gap)
            seen += sign * np.array([(leaning**2).sum(), sharp @ sharp])
            mixed = self._by_system(group, self._weight**2 * self._gap)
            gaps = np.bincount(group, (self._weight * self._gap) ** 2)
            cross = (mixed**2).sum()
            could += sign * np.array([[self._squares(group), cross], [cross, gaps @ gaps]])
        found = np.linalg.lstsq(could, seen, rcond=None)[0]
        if found[1] < 0:
            found = np.array([seen[0] / could[0, 0] if could[0, 0] > 0 else 0.0, 0.0])
        return float(np.sqrt(max(0.0, found[0]))), float(np.sqrt(max(0.0, found[1])))

    def _by_system(self, group: I8, values: F8) -> F8:
        """Sums of values times d within groups, [G, S]."""
        size, count = len(self._votes.systems), int(group.max()) + 1
        first, second = (np.bincount(group * size + of, values, count * size) for of in (self._votes.a, self._votes.b))
        return (first - second).reshape(count, size).astype(np.float64)

    def _squares(self, group: I8) -> float:
        """Sum over pairs of votes of one group of (w w' (d . d'))^2."""
        size, count = len(self._votes.systems), int(group.max()) + 1
        first, second = np.minimum(self._votes.a, self._votes.b), np.maximum(self._votes.a, self._votes.b)
        cells = np.bincount((group * size + first) * size + second, self._weight**2, count * size * size)
        half = cells.reshape(count, size, size)
        whole = half + half.swapaxes(1, 2)
        return float((whole**2).sum() + (whole.sum(axis=2) ** 2).sum())


class _Moments:
    """Mean products of the residuals of two answers, by what they share."""

    def __init__(self, residual: F8, rater: I8, item: I8, system: I8) -> None:
        self._residual = residual
        self._codes = {"rater": rater, "item": item, "system": system}
        answers, systems = np.bincount(system)[system], int(system.max()) + 1
        each = np.array([self._of_mean(np.where(system == s, residual / answers, 0.0)) for s in range(systems)])
        together = self._of_mean(residual / answers / systems)
        self.of_means = float(each.mean())
        # Residuals are taken from means of the same answers, so they lack what these means have in common.
        self._of_two = 0.0 if systems < 2 else (systems**2 * together - each.sum()) / (systems * (systems - 1))

    def shared(self, *what: str) -> float:
        """Covariance of two answers that share ``what`` and nothing else."""
        others = [name for name in ("rater", "item", "system") if name not in what]
        total, pairs = 0.0, 0.0
        for mask in range(2 ** len(others)):  # inclusion and exclusion of what must differ
            also = [name for bit, name in enumerate(others) if mask >> bit & 1]
            sums, counts = self._sums(self._residual, *what, *also), self._sums(None, *what, *also)
            total, pairs = total + (-1) ** len(also) * float(sums @ sums), pairs + (-1) ** len(also) * counts @ counts
        return total / pairs + (self.of_means if "system" in what else self._of_two) if pairs > 0 else 0.0

    def _of_mean(self, influence: F8) -> float:
        """Variance of a mean over raters and scripts (``interval.clustered`` without its small-sample factors)."""
        by_rater, by_item, both = (self._sums(influence, *w) for w in (("rater",), ("item",), ("rater", "item")))
        return max(0.0, float(by_rater @ by_rater + by_item @ by_item - both @ both))

    def _sums(self, values: F8 | None, *what: str) -> F8:
        group = np.zeros(len(self._residual), np.int64)
        for name in what:
            group = group * (int(self._codes[name].max()) + 1) + self._codes[name]
        return np.bincount(np.unique(group, return_inverse=True)[1], values).astype(np.float64)


def _enough(rater: I8, item: I8) -> None:
    for name, count in (("raters", present(rater)), ("scripts", present(item))):
        if count < _LEAST:
            raise BadOption(f"the pilot has {count} {name}", f"{_LEAST} at the least; more say more")
