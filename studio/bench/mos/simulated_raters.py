"""Simulated raters of the benches, whose answers violate the assumptions of every interval.

They share no code with the population of ``studio.mos.stats.planner`` and ``campaign simulate``. Percepts are
continuous; scores result from thresholds that differ between raters, votes from the difference of two percepts and an
individual indifference band. Noise has heavier tails than normal, raters use narrow or wide ranges of the scale,
scripts favour systems, and some raters answer at random.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from studio.mos.stats.columns import BOTH_BAD, F8, I8, TIE, A, B, Ratings, ScoreScale, Votes

_TAILS = 5.0  # degrees of freedom of the noise
_TO_SD_1 = (1 - 2 / _TAILS) ** 0.5


@dataclass(frozen=True)
class SimulatedRaters:
    """Raters and scripts. Standard deviations are in steps of a five-point scale."""

    systems: tuple[float, ...]  # quality of each system
    rater_sd: float = 0.4  # raters
    taste_sd: float = 0.2  # rater x system
    script_sd: float = 0.3  # scripts
    favour_sd: float = 0.2  # script x system
    noise_sd: float = 0.7  # single answers of a median rater
    reach_sd: float = 0.15  # standard deviation of ln of the raters' range on the scale
    band: float = 0.15  # indifference band of a median rater (votes)
    both_bad: float = 0.3  # share of ties given as 'both bad'
    clickers: float = 0.05  # share of raters who answer at random

    def ratings(self, rng: np.random.Generator, raters: int, scripts: int, own_scripts: bool = False) -> Ratings:
        """Scores 1 to 5 of every system on every script by every rater.

        Args:
            rng: random generator.
            raters: number of raters.
            scripts: number of scripts.
            own_scripts: whether each rater has different scripts.

        Returns:
            raters * scripts * systems rows.
        """
        percept = self._percepts(rng, raters, scripts, own_scripts)
        borders = np.array([1.5, 2.5, 3.5, 4.5]) + rng.normal(0, 0.15, (raters, 1, 1, 4))
        reach = self._reach(rng, raters)[..., None]
        score: F8 = 1.0 + (percept[..., None] > 3 + reach * (borders - 3)).sum(axis=-1)
        return self._rows(rng, score, ScoreScale(1, 5), own_scripts)

    def sliders(self, rng: np.random.Generator, raters: int, scripts: int, own_scripts: bool = False) -> Ratings:
        """The same on a scale of 0 to 100, in steps of 5."""
        percept = self._percepts(rng, raters, scripts, own_scripts)
        score = 50 + 25 * (percept - 3) / self._reach(rng, raters)
        return self._rows(rng, np.clip(5 * np.rint(score / 5), 0, 100), ScoreScale(0, 100), own_scripts)

    def comparisons(self, rng: np.random.Generator, raters: int, scripts: int, own_scripts: bool = False) -> Ratings:
        """Sign-corrected scores -3 to 3 of each other system against the first (CMOS)."""
        percept = self._percepts(rng, raters, scripts, own_scripts)
        gap = 2 * (percept[..., 1:] - percept[..., :1]) / self._reach(rng, raters)
        return self._rows(rng, np.clip(np.rint(gap), -3, 3), ScoreScale(-3, 3), own_scripts)

    def votes(
        self,
        rng: np.random.Generator,
        raters: int,
        pairs: int | Sequence[int],
        scripts: int,
        own_scripts: bool = False,
        top_script: float = 0.0,
    ) -> Votes:
        """Votes of every rater on random pairs, without repeating a script while others are left.

        Args:
            rng: random generator.
            raters: number of raters.
            pairs: votes of each rater, one number for all or one each.
            scripts: number of scripts.
            own_scripts: whether every vote has another script.
            top_script: additional share of the votes on the first script.
        """
        systems, count = len(self.systems), np.broadcast_to(pairs, raters)
        rater, n = np.repeat(np.arange(raters), count), int(count.sum())
        nth = np.arange(n) - (np.cumsum(count) - count)[rater]  # vote of the rater
        a = rng.integers(systems, size=n)
        b = (a + rng.integers(1, systems, size=n)) % systems
        each = rng.permuted(np.tile(np.arange(scripts), (raters, 1)), axis=1)
        script: I8 = np.arange(n) if own_scripts else each[rater, nth % scripts]
        script = np.where(rng.random(n) < top_script, 0, script) if top_script else script
        percept = np.array(self.systems)
        taste = rng.normal(0, self.taste_sd, (raters, systems))
        favour = rng.normal(0, self.favour_sd, (n if own_scripts else scripts, systems))
        gap = percept[a] - percept[b] + taste[rater, a] - taste[rater, b] + favour[script, a] - favour[script, b]
        gap = gap + self._scatter(rng, (raters,))[rater] * 2**0.5 * self._noise(rng, (n,))
        band = (self.band * np.exp(rng.normal(0, 0.5, raters)))[rater]
        outcome = np.where(gap > band, A, np.where(gap < -band, B, TIE))
        outcome = np.where((outcome == TIE) & (rng.random(n) < self.both_bad), BOTH_BAD, outcome)
        clicks = (rng.random(raters) < self.clickers)[rater]
        outcome = np.where(clicks, rng.integers(3, size=n), outcome).astype(np.uint8)
        names = _names("s", systems), _names("r", raters)
        return Votes(a, b, outcome, rater, *names, script, _names("i", n if own_scripts else scripts))

    def _percepts(self, rng: np.random.Generator, raters: int, scripts: int, own_scripts: bool) -> F8:
        """Percepts [raters, scripts, systems]."""
        shape = (raters, scripts, len(self.systems))
        each = raters if own_scripts else 1
        percept = np.array(self.systems) + rng.normal(0, self.rater_sd, (raters, 1, 1))
        percept = percept + rng.normal(0, self.taste_sd, (raters, 1, shape[2]))
        percept = percept + rng.normal(0, self.script_sd, (each, scripts, 1))
        percept = percept + rng.normal(0, self.favour_sd, (each, scripts, shape[2]))
        return percept + self._scatter(rng, (raters, 1, 1)) * self._noise(rng, shape)

    def _reach(self, rng: np.random.Generator, raters: int) -> F8:
        return np.exp(rng.normal(0, self.reach_sd, (raters, 1, 1)))

    def _rows(self, rng: np.random.Generator, score: F8, scale: ScoreScale, own_scripts: bool) -> Ratings:
        """Scores [raters, scripts, systems] as rows; those of random raters are redrawn."""
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
