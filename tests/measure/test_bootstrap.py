"""Bootstrap intervals of means: seeded, paired, and honest where there is one sentence."""

import math

import numpy as np
import pytest

from studio.measure.bootstrap import bootstrap_mean, bootstrap_mean_difference


def test_an_interval_holds_the_truth_about_as_often_as_it_says():
    rng = np.random.default_rng(3)
    hits = 0
    for seed in range(200):
        interval = bootstrap_mean(list(rng.normal(3.5, 0.4, 40)), repeats=500, seed=seed)
        hits += interval.low <= 3.5 <= interval.high
    assert 178 <= hits <= 199


def test_pairing_takes_out_what_sentences_share():
    rng = np.random.default_rng(0)
    base = rng.normal(3.5, 0.5, 30)
    one, other = list(base + 0.1 + rng.normal(0, 0.02, 30)), list(base)
    paired = bootstrap_mean_difference(one, other, paired=True)
    apart = bootstrap_mean_difference(one, other, paired=False)
    assert paired.value == pytest.approx(apart.value) == pytest.approx(0.1, abs=0.02)
    assert 0 < paired.low < paired.high < 0.13
    assert apart.low < 0 < apart.high
    assert paired == bootstrap_mean_difference(one, other, paired=True)
    assert paired != bootstrap_mean_difference(one, other, paired=True, seed=1)


def test_two_sides_are_not_drawn_alike():
    """The same figures on both sides, unpaired: the difference is 0 and not sure."""
    each = list(np.random.default_rng(0).normal(3.0, 0.5, 30))
    interval = bootstrap_mean_difference(each, each, paired=False)
    assert interval.value == 0.0
    assert interval.high - interval.low > 0.3


def test_one_sentence_has_no_interval():
    interval = bootstrap_mean([3.2])
    assert interval.value == 3.2 and math.isnan(interval.low) and math.isnan(interval.high)
    assert math.isnan(bootstrap_mean_difference([3.0], [2.0, 2.5], paired=False).low)
