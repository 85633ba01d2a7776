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
        shape = (raters, scripts, len(self.systems))
        each = raters if own_scripts else 1
        heard = np.array(self.systems) + rng.normal(0, self.rater_sd, (raters, 1, 1))
        heard = heard + rng.normal(0, self.taste_sd, (raters, 1, shape[2]))
        heard = heard + rng.normal(0, self.script_sd, (each, scripts, 1))
        heard = heard + rng.normal(0, self.favour_sd, (each, scripts, shape[2]))
        heard = heard + self._scatter(rng, (raters, 1, 1)) * self._noise(rng, shape)
        borders = np.array([1.5, 2.5, 3.5, 4.5]) + rng.normal(0, 0.15, (raters, 1, 1, 4))
        reach = np.exp(rng.normal(0, self.reach_sd, (raters, 1, 1, 1)))
        score: F8 = 1.0 + (heard[..., None] > 3 + reach * (borders - 3)).sum(axis=-1)
        clicks = rng.random(raters) < self.clickers
        score[clicks] = rng.integers(1, 6, (int(clicks.sum()), *shape[1:]))
        rater, script, system = (axis.ravel() for axis in np.indices(shape))
        script = rater * scripts + script if own_scripts else script
        names = _names("r", raters), _names("i", scripts * each), _names("s", shape[2])
        return Ratings(score.ravel(), rater, script, system, *names, Scale(1, 5))

    def votes(
        self, rng: np.random.Generator, raters: int, pairs: int, scripts: int, own_scripts: bool = False
    ) -> Votes:
        """Every rater judges so many pairs of random systems, each script as often as the others as far as it goes.

        Returns:
            raters * pairs votes.
        """
        systems, n = len(self.systems), raters * pairs
        rater = np.repeat(np.arange(raters), pairs)
        a = rng.integers(systems, size=n)
        b = (a + rng.integers(1, systems, size=n)) % systems
        script: I8 = rng.permuted(np.tile(np.arange(pairs) % scripts, (raters, 1)), axis=1).ravel()
        script = np.arange(n) if own_scripts else script
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

    def _scatter(self, rng: np.random.Generator, shape: tuple[int, ...]) -> F8:
        return self.noise_sd * np.exp(rng.normal(0, 0.3, shape))

    def _noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> F8:
        return rng.standard_t(_TAILS, shape) * _TO_SD_1


def _names(letter: str, count: int) -> list[str]:
    return [f"{letter}{k + 1}" for k in range(count)]
