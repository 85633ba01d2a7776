"""A crowd of the bench's own: people who hear a quality and say what is nearest to it. No interval assumes any of this.

It shares nothing with ``studio.mos.stats.planning.population``, which planner and ``campaign simulate`` draw from: what
people perceive is continuous; scores are cut from it at borders of each rater's own, votes from the difference of
two, with a band of each rater's own inside which they say that there is none. Noise has heavier tails than a normal
one, raters use the scale narrowly or widely, scripts favour systems, and some raters click at random.
"""

from dataclasses import dataclass

import numpy as np

from studio.mos.stats.columns import BOTH_BAD, F8, I8, TIE, A, B, Ratings, Scale, Votes

_TAILS = 5.0  # degrees of freedom of the noise
_TO_SD_1 = (1 - 2 / _TAILS) ** 0.5


@dataclass(frozen=True)
class Crowd:
    """Raters and scripts. All deviations are in the unit of ``systems``: steps of a five-point scale.

    Attributes:
        systems: the quality of each system.
        rater_sd: how raters differ in level.
        taste_sd: how a rater likes one system more than others do.
        script_sd: how scripts differ, for all systems alike.
        favour_sd: how a script favours one system.
        noise_sd: a rater's own scatter, on the median.
        reach_sd: standard deviation of ln of how widely raters use the scale.
        band: the difference that a median rater does not count as one (votes).
        both_bad: share of a rater's ties that are said as 'both bad'.
        clickers: share of raters who answer at random.
    """

    systems: tuple[float, ...]
    rater_sd: float = 0.4
    taste_sd: float = 0.2
    script_sd: float = 0.3
    favour_sd: float = 0.2
    noise_sd: float = 0.7
    reach_sd: float = 0.15
    band: float = 0.15
    both_bad: float = 0.3
    clickers: float = 0.05

    def ratings(self, rng: np.random.Generator, raters: int, scripts: int, own_scripts: bool = False) -> Ratings:
        """Every rater scores every system on every script, 1 to 5; ``own_scripts``: on as many that nobody else hears.

        Returns:
            raters * scripts * systems rows.
        """
        heard = self._heard(rng, raters, scripts, own_scripts)
        borders = np.array([1.5, 2.5, 3.5, 4.5]) + rng.normal(0, 0.15, (raters, 1, 1, 4))
        reach = self._reach(rng, raters)[..., None]
        score: F8 = 1.0 + (heard[..., None] > 3 + reach * (borders - 3)).sum(axis=-1)
        return self._rows(rng, score, Scale(1, 5), own_scripts)

    def sliders(self, rng: np.random.Generator, raters: int, scripts: int, own_scripts: bool = False) -> Ratings:
        """The same on a scale of 0 to 100, set to round numbers."""
        heard = self._heard(rng, raters, scripts, own_scripts)
        score = 50 + 25 * (heard - 3) / self._reach(rng, raters)
        return self._rows(rng, np.clip(5 * np.rint(score / 5), 0, 100), Scale(0, 100), own_scripts)

    def comparisons(self, rng: np.random.Generator, raters: int, scripts: int, own_scripts: bool = False) -> Ratings:
        """Every rater compares each other system with the first on every script, -3 to 3, signs corrected (CMOS)."""
        heard = self._heard(rng, raters, scripts, own_scripts)
        gap = 2 * (heard[..., 1:] - heard[..., :1]) / self._reach(rng, raters)
        return self._rows(rng, np.clip(np.rint(gap), -3, 3), Scale(-3, 3), own_scripts)

    def votes(
        self, rng: np.random.Generator, raters: int, pairs: int, scripts: int, own_scripts: bool = False
    ) -> Votes:
        """Every rater judges so many pairs of random systems, no script again while there are others.

        Returns:
            raters * pairs votes.
        """
        systems, n = len(self.systems), raters * pairs
        rater = np.repeat(np.arange(raters), pairs)
        a = rng.integers(systems, size=n)
        b = (a + rng.integers(1, systems, size=n)) % systems
        each = rng.permuted(np.tile(np.arange(scripts), (raters, 1)), axis=1)
        script: I8 = np.arange(n) if own_scripts else np.tile(each, pairs // scripts + 1)[:, :pairs].ravel()
        heard = np.array(self.systems)
        taste = rng.normal(0, self.taste_sd, (raters, systems))
        favour = rng.normal(0, self.favour_sd, (n if own_scripts else scripts, systems))
        gap = heard[a] - heard[b] + taste[rater, a] - taste[rater, b] + favour[script, a] - favour[script, b]
        gap = gap + self._scatter(rng, (raters,))[rater] * 2**0.5 * self._noise(rng, (n,))
        band = (self.band * np.exp(rng.normal(0, 0.5, raters)))[rater]
        outcome = np.where(gap > band, A, np.where(gap < -band, B, TIE))
        outcome = np.where((outcome == TIE) & (rng.random(n) < self.both_bad), BOTH_BAD, outcome)
        clicks = (rng.random(raters) < self.clickers)[rater]
        outcome = np.where(clicks, rng.integers(3, size=n), outcome).astype(np.uint8)
        names = _names("s", systems), _names("r", raters)
        return Votes(a, b, outcome, rater, *names, script, _names("i", n if own_scripts else scripts))

    def _heard(self, rng: np.random.Generator, raters: int, scripts: int, own_scripts: bool) -> F8:
        """What is perceived, [raters, scripts, systems]."""
        shape = (raters, scripts, len(self.systems))
        each = raters if own_scripts else 1
        heard = np.array(self.systems) + rng.normal(0, self.rater_sd, (raters, 1, 1))
        heard = heard + rng.normal(0, self.taste_sd, (raters, 1, shape[2]))
        heard = heard + rng.normal(0, self.script_sd, (each, scripts, 1))
        heard = heard + rng.normal(0, self.favour_sd, (each, scripts, shape[2]))
        return heard + self._scatter(rng, (raters, 1, 1)) * self._noise(rng, shape)

    def _reach(self, rng: np.random.Generator, raters: int) -> F8:
        return np.exp(rng.normal(0, self.reach_sd, (raters, 1, 1)))

    def _rows(self, rng: np.random.Generator, score: F8, scale: Scale, own_scripts: bool) -> Ratings:
        """Scores [raters, scripts, systems] as rows, those of people who click at random drawn anew."""
        raters, scripts, systems = score.shape
        clicks = rng.random(raters) < self.clickers
        score[clicks] = rng.integers(int(scale.low), int(scale.high) + 1, (int(clicks.sum()), scripts, systems))
        rater, script, system = (axis.ravel() for axis in np.indices(score.shape))
        script = rater * scripts + script if own_scripts else script
        names = _names("r", raters), _names("i", scripts * (raters if own_scripts else 1)), _names("s", systems)
        return Ratings(score.ravel(), rater, script, system, *names, scale)

    def _scatter(self, rng: np.random.Generator, shape: tuple[int, ...]) -> F8:
        return self.noise_sd * np.exp(rng.normal(0, 0.3, shape))

    def _noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> F8:
        return rng.standard_t(_TAILS, shape) * _TO_SD_1


def _names(letter: str, count: int) -> list[str]:
    return [f"{letter}{k + 1}" for k in range(count)]
