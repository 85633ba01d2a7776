"""Bias and inconsistency of raters against the recommendation's program and a general optimiser."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from studio.bench.mos.simulated_raters import SimulatedRaters
from studio.core.errors import BadOption
from studio.mos.stats.columns import ScoreScale, ratings_from_rows
from studio.mos.stats.means import by_system
from studio.mos.stats.subject_bias import subject_bias

# 16 stimuli x 9 raters, "-" is a missing vote
VOTES = """121122-21 212133133 111133322 2-1134122 323144133 334132333 332124343 333135343
333243343 43324-333 333355543 534253543 544254554 443355545 454354455 454455354""".split()
# The program of ITU-T P.913, 12.6 (github.com/Netflix/sureal, itut_p913_demo), for this table
QUALITY = [
    1.50043,
    2.27905,
    1.68791,
    1.83267,
    2.71132,
    2.8402,
    2.9287,
    3.14962,
    3.24788,
    3.0584,
    3.5462,
    3.68466,
    4.28607,
    4.04097,
    4.50535,
    4.45612,
]
ERROR = [
    0.16528,
    0.1982,
    0.21147,
    0.24179,
    0.23833,
    0.2508,
    0.22014,
    0.19898,
    0.10404,
    0.13405,
    0.23093,
    0.28844,
    0.19092,
    0.17977,
    0.17022,
    0.21366,
]
BIAS = [0.01528, -0.19486, -0.29722, -1.29722, 0.70278, 0.62019, -0.01701, 0.45278, 0.01528]
INCONSISTENCY = [0.55416, 0.5036, 0.52952, 0.57997, 0.60147, 0.91482, 0.99135, 0.30829, 0.45514]


def published():
    rows = [
        (f"r{r}", f"i{i:02}", "s", float(vote))
        for i, votes in enumerate(VOTES)
        for r, vote in enumerate(votes)
        if vote != "-"
    ]
    return ratings_from_rows(rows, scale=ScoreScale(1, 5))


def test_figures_are_those_of_the_recommendations_program():
    found = subject_bias(published())
    assert not found.is_shrunk and found.left_out == 0
    assert [s.mos for s in found.stimuli] == pytest.approx(QUALITY, abs=2e-5)
    assert [s.ci95 / 1.96 for s in found.stimuli] == pytest.approx(ERROR, abs=2e-5)
    assert [r.bias for r in found.raters] == pytest.approx(BIAS, abs=2e-5)
    assert [r.inconsistency for r in found.raters] == pytest.approx(INCONSISTENCY, abs=2e-5)
    assert sum(r.bias for r in found.raters) == pytest.approx(0, abs=1e-9)
    assert found.systems["s"].mean == pytest.approx(np.mean(QUALITY), abs=2e-5)


def test_maximum_is_found_by_another_optimiser_too():
    """L-BFGS on the likelihood of a test in which raters rate different scripts."""
    drawn = SimulatedRaters(systems=(2.8, 3.4, 3.6), clickers=0.0).ratings(np.random.default_rng(1), 12, 10)
    ratings = drawn.where(np.random.default_rng(2).random(len(drawn)) < 0.8)
    found = subject_bias(ratings)
    keys = ratings.system * 10 + ratings.item

    def loss(x):
        quality, bias, log_sd = x[:30], x[30:42], x[42:]
        z = (ratings.score - quality[keys] - bias[ratings.rater]) / np.exp(log_sd[ratings.rater])
        return log_sd[ratings.rater].sum() + z @ z / 2

    start = np.concatenate([np.full(30, 3.0), np.zeros(24)])
    best = minimize(loss, start, method="L-BFGS-B", options={"maxiter": 9999, "maxfun": 10**6, "ftol": 1e-15})
    common = best.x[30:42].mean()
    key = [ratings.systems.index(s.system) * 10 + ratings.items.index(s.item) for s in found.stimuli]
    assert [s.mos for s in found.stimuli] == pytest.approx(best.x[key] + common, abs=1e-3)
    assert [r.bias for r in found.raters] == pytest.approx(best.x[30:42] - common, abs=1e-3)
    assert [r.inconsistency for r in found.raters] == pytest.approx(np.exp(best.x[42:]), abs=1e-3)


def test_unbalanced_biased_raters_do_not_move_the_means():
    """Half of the raters score a step higher and hear mostly one system: its plain mean is too high."""
    rng = np.random.default_rng(0)
    rows = [
        (f"r{r}", f"i{i}", name, 3.0 + (r % 2) + 0.3 * rng.standard_normal())
        for r in range(20)
        for i in range(20)
        for name in ("x", "y")
        if rng.random() < (0.9 if (name == "x") == (r % 2 == 1) else 0.3)
    ]
    ratings = ratings_from_rows(rows)
    plain, free = by_system(ratings), subject_bias(ratings).systems
    assert plain["x"].mean - plain["y"].mean > 0.4
    assert abs(free["x"].mean - free["y"].mean) < 0.1
    assert free["x"].half_width < plain["x"].half_width


def test_collapsing_likelihood_is_drawn_towards_the_mean_variance():
    """Twelve raters and 24 stimuli: without the pull the answers of one rater become the scores."""
    ratings = SimulatedRaters(systems=(2.8, 3.4, 3.6)).ratings(np.random.default_rng(0), 12, 8)
    found = subject_bias(ratings)
    assert found.is_shrunk
    assert min(r.inconsistency for r in found.raters) > 0.3
    for name, plain in by_system(ratings).items():
        assert found.systems[name].mean == pytest.approx(plain.mean, abs=0.15)


def test_interval_covers_the_panels_quality():
    """The mean over scripts that were not heard, for raters without a common bias."""
    population = SimulatedRaters(systems=(3.0, 3.5), rater_sd=0.0, clickers=0.0)
    rng = np.random.default_rng(3)
    everyone = population.ratings(rng, 20_000, 10, own_scripts=True)
    truth = everyone.score[everyone.system == 0].mean()
    runs = [subject_bias(population.ratings(rng, 20, 20)).systems["s1"] for _ in range(200)]
    assert np.mean([i.low <= truth <= i.high for i in runs]) >= 0.9


def test_what_has_no_bias_is_refused():
    rows = [(f"r{r}", f"i{i}", "s", 1.0 + r) for r in range(2) for i in range(2)]
    with pytest.raises(BadOption, match="0 raters have 3 answers"):
        subject_bias(ratings_from_rows(rows))
    apart = [(f"r{r}", f"i{r // 2}-{i}", "s", 3.0 + r % 2) for r in range(4) for i in range(4)]
    with pytest.raises(BadOption, match="2 groups that share no stimuli"):
        subject_bias(ratings_from_rows(apart))
    joined = replace(ratings_from_rows([*apart, ("r0", "i1-0", "s", 3.0)]))
    assert len(subject_bias(joined).raters) == 4
