"""The ordinal model: R's values, recovery of known parameters, ends of the scale, misspecified intervals."""

from dataclasses import replace

import numpy as np
import pytest

from studio.core.errors import BadOption
from studio.mos.stats.columns import Ratings, ScoreScale, ratings_from_rows
from studio.mos.stats.ordinal import MOST_LEVELS, TERMS, ordinal_model
from studio.mos.stats.ordinal_likelihood import OrdinalLikelihood

FIVE = ScoreScale(1, 5)
# Bitterness of wine (Randall 1989), as in R's ordinal: 9 judges, two bottles of each of four treatments.
WINE = "233444551213235423325544323232532343333332322454112223232223333412323244"
TREATMENTS = ["cold", "cold", "cold, contact", "cold, contact", "warm", "warm", "warm, contact", "warm, contact"]


def wine() -> Ratings:
    rows = [(f"judge {k // 8}", f"bottle {k % 8}", TREATMENTS[k % 8], float(score)) for k, score in enumerate(WINE)]
    return ratings_from_rows(rows, scale=FIVE)


def worked() -> Ratings:
    """8 raters, 6 scripts, 3 systems, all ratings from integers: R read the same table."""
    rows: list[tuple[str, str, str, float]] = []
    for r, i, s in np.ndindex(8, 6, 3):
        mixed = 7919 * (r + 1) + 104729 * (i + 1) + 1299709 * (s + 1)
        mixed += 15485863 * (r + 1) * (i + 1) + 32452843 * (i + 1) * (s + 1) * (r + 2)
        heard = 1.6 + 0.8 * s + (r * 5 % 8 - 3.5) / 4 + 0.4 * (i * 3 % 6 - 2.5) / 1.5 + 3 * (mixed % 1009 / 1009 - 0.5)
        rows.append((f"r{r}", f"i{i}", f"s{s}", float(np.clip(np.floor(heard), 1, 5))))
    return ratings_from_rows(rows, scale=FIVE)


def relative_to_first(ratings: Ratings, terms, first: str):
    """As R prints it: thresholds and locations with the first system at zero, and standard errors."""
    said = ordinal_model(ratings, terms, prior=False)
    gaps = {d.b: d.interval for d in said.differences if d.a == first}
    shift = said.locations[first].mean
    return said, [t - shift for t in said.thresholds], gaps


@pytest.mark.parametrize(
    ("ratings", "terms", "thresholds", "gaps", "sd", "log_likelihood"),
    [
        (
            wine(),
            ("rater",),
            [-1.6628, 1.4439, 4.1687, 6.0440],
            {"cold, contact": (1.7174, 0.7020), "warm": (2.9467, 0.7611), "warm, contact": (4.8957, 0.8856)},
            {"rater": 1.1296},
            -81.53596,
        ),
        (
            worked(),
            ("rater", "script"),
            [0.88396, 2.40380, 4.50004],
            {"s1": (0.97280, 0.44393), "s2": (2.37865, 0.46674)},
            {"rater": 1.13788, "script": 0.87437},
            -152.04407,
        ),
        (
            worked(),
            TERMS,
            [0.95862, 2.54987, 4.71919],
            {"s1": (1.03987, 0.55773), "s2": (2.52803, 0.59397)},
            {"rater": 1.16779, "script": 0.90170, "taste": 0.52123, "favour": 0.27253},
            -151.60598,
        ),
    ],
    ids=["wine, judges", "raters and scripts", "with interactions"],
)
def test_maximum_likelihood_equals_r(ratings, terms, thresholds, gaps, sd, log_likelihood):
    """ordinal 2022.11.16: clmm(score ~ system + (1 | rater) ...), Laplace; its printed digits."""
    first = ratings.systems[0]
    said, found, apart = relative_to_first(ratings, terms, first)
    assert found == pytest.approx(thresholds, abs=2e-3)
    for name, (gap, se) in gaps.items():
        assert -apart[name].mean == pytest.approx(gap, abs=1e-3)
        assert apart[name].se == pytest.approx(se, rel=5e-3)
    assert said.sd == pytest.approx(sd, abs=2e-3)
    assert said.log_likelihood == pytest.approx(log_likelihood, abs=1e-4)


def test_gradient_is_that_of_the_likelihood():
    ratings, rng = worked(), np.random.default_rng(3)
    level = np.unique(ratings.score, return_inverse=True)[1]
    taste = np.unique(ratings.rater * 3 + ratings.system, return_inverse=True)[1]
    likelihood = OrdinalLikelihood(level, [ratings.rater, ratings.item, taste])
    at = [np.array([-1.5, 0.2, 1.9]), rng.normal(0, 0.5, len(ratings)), np.array([-0.2, 0.1, -0.5])]
    _, by = likelihood.at(*at)
    for part, slope in enumerate((by.thresholds, by.eta, by.log_sd)):
        for k in range(3):
            ends = [[x.copy() for x in at] for _ in range(2)]
            ends[0][part][k] -= 1e-5
            ends[1][part][k] += 1e-5
            low, high = (likelihood.at(*end)[0] for end in ends)
            assert slope[k] == pytest.approx((high - low) / 2e-5, abs=1e-4)


THRESHOLDS = np.array([-2.5, -0.8, 0.7, 2.4])
LOCATIONS = np.array([-1.0, 0.0, 1.0])
SD = {"rater": 1.0, "script": 0.7, "taste": 0.5, "favour": 0.6}


def drawn(rng: np.random.Generator, raters: int, scripts: int, favour: float = SD["favour"]) -> Ratings:
    """Scores from the model itself, with known thresholds, locations and deviations."""
    shape = (raters, scripts, 3)
    heard = LOCATIONS + rng.normal(0, SD["rater"], (raters, 1, 1)) + rng.normal(0, SD["script"], (1, scripts, 1))
    heard = heard + rng.normal(0, SD["taste"], (raters, 1, 3)) + rng.normal(0, favour, (1, scripts, 3))
    score = 1.0 + ((heard + rng.logistic(0, 1, shape))[..., None] > THRESHOLDS).sum(axis=-1)
    rater, script, system = (axis.ravel() for axis in np.indices(shape))
    names = [[f"{letter}{k}" for k in range(n)] for letter, n in zip("ris", shape, strict=True)]
    return Ratings(score.ravel(), rater, script, system, *names, FIVE)


def test_known_parameters_are_recovered():
    said = ordinal_model(drawn(np.random.default_rng(0), 60, 40))
    assert said.levels == [1, 2, 3, 4, 5]
    assert np.diff(said.thresholds) == pytest.approx(np.diff(THRESHOLDS), rel=0.12)
    assert [-d.interval.mean for d in said.differences] == pytest.approx([1.0, 2.0, 1.0], abs=0.35)
    assert said.sd == pytest.approx(SD, abs=0.25)


def test_intervals_cover_the_truth_only_with_the_script_by_system_effect():
    """Without that random effect the intervals hold for these five scripts only."""
    rng, truth, runs = np.random.default_rng(1), [-1.0, -2.0, -1.0], 20
    held = np.zeros(2)
    for _ in range(runs):
        ratings = drawn(rng, 24, 5, favour=1.2)
        for k, terms in enumerate((TERMS, ("rater",))):
            found = [d.interval for d in ordinal_model(ratings, terms).differences]
            held[k] += sum(i.low <= true <= i.high for i, true in zip(found, truth, strict=True))
    right, wrong = held / (3 * runs)
    assert right >= 0.9
    assert wrong <= 0.8


def test_system_with_only_best_scores_is_bounded():
    rows = [(f"r{r}", f"i{i}", "top", 5.0) for r in range(4) for i in range(5)]
    rows += [(f"r{r}", f"i{i}", "other", float(2 + (r + i) % 3)) for r in range(4) for i in range(5)]
    said = ordinal_model(ratings_from_rows(rows, ["top", "other"], FIVE))
    top = said.systems["top"]
    assert top.low is not None and top.high is not None
    assert 3.0 < top.low < 4.9 < top.high < 5.0
    [gap] = said.differences
    assert gap.interval.low is not None and gap.interval.low > 0 and gap.p is not None and gap.p < 0.05


def test_only_the_order_of_levels_matters():
    """The step from 4 to 5 may have any length: locations stay, means move."""
    ratings = worked()
    longer = replace(ratings, score=np.where(ratings.score == 4, 9.0, ratings.score), scale=ScoreScale(1, 9))
    one, other = ordinal_model(ratings), ordinal_model(longer)
    for name, location in one.locations.items():
        assert other.locations[name].mean == pytest.approx(location.mean, abs=1e-6)
    assert other.systems["s2"].mean > one.systems["s2"].mean + 0.5
    turned = replace(ratings, score=6 - ratings.score)
    back = ordinal_model(turned)
    for name, location in one.locations.items():
        assert back.locations[name].mean == pytest.approx(-location.mean, abs=1e-3)
        assert back.systems[name].mean == pytest.approx(6 - one.systems[name].mean, abs=1e-3)


def test_random_effects_widen_the_mean_with_the_degrees_of_freedom_of_means():
    said = ordinal_model(worked())
    for interval in said.systems.values():
        assert (interval.df, interval.raters, interval.items, interval.n) == (5, 8, 6, 48)
        assert interval.method == "ordinal"


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ([], "no ratings"),
        ([("r", "i", "s", 3.0), ("r", "j", "s", 4.0)], "the answers are of 1 rater and 2 scripts"),
        ([("r", "i", "s", 3.0), ("q", "i", "s", 4.0)], "the answers are of 2 raters and 1 script"),
        ([(r, i, "s", 5.0) for r in "qr" for i in "ij"], "all scores are equal"),
        ([(r, f"i{k}", "s", float(k)) for r in "qr" for k in range(MOST_LEVELS + 1)], "12 levels"),
        ([(f"r{k}", f"i{k % 2}", "s", float(k % 2)) for k in range(4100)], "4102 effects"),
    ],
)
def test_unsuitable_scores_are_refused_with_a_reason(rows, why):
    with pytest.raises(BadOption, match=why):
        ordinal_model(ratings_from_rows(rows))
