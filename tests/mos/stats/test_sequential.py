"""Nominal levels of several looks: published bounds (R's ldbounds and gsDesign), and simulated walks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from studio.core.errors import BadOption
from studio.mos.stats.sequential import alpha_spent, nominal_levels


def bounds(looks, alpha=0.05, spending="obrien_fleming"):
    return norm.isf(np.array(nominal_levels(looks, alpha, spending)) / 2)


def test_the_published_bounds():
    """Five looks, two-sided 5% (Lan & DeMets 1983; gsDesign's sfLDOF and sfLDPocock)."""
    assert bounds([1, 2, 3, 4, 5]) == pytest.approx([4.8769, 3.3570, 2.6803, 2.2898, 2.0310], abs=6e-5)
    assert bounds([20, 40, 60, 80, 100], spending="pocock") == pytest.approx(
        [2.4380, 2.4268, 2.4102, 2.3966, 2.3860], abs=6e-5
    )
    assert bounds([1, 2]) == pytest.approx([2.9626, 1.9686], abs=6e-5)


def test_one_look_is_the_test_itself():
    assert nominal_levels([30]) == [pytest.approx(0.05)]
    assert nominal_levels([30], 0.01, "pocock") == [pytest.approx(0.01)]


@pytest.mark.parametrize("spending", ["obrien_fleming", "pocock"])
@pytest.mark.parametrize("looks", [[10, 50], [5, 12, 30, 31, 60], list(range(4, 41))])
def test_a_walk_crosses_as_seldom_as_said(looks, spending):
    rng = np.random.default_rng(0)
    at = np.array(looks) / looks[-1]
    steps = np.sqrt(np.diff(at, prepend=0.0)) * rng.standard_normal((60_000, len(at)))
    z = steps.cumsum(axis=1) / np.sqrt(at)
    crossed = (np.abs(z) >= bounds(looks, 0.05, spending)).any(axis=1)
    assert crossed.mean() == pytest.approx(0.05, abs=0.004)
    assert (np.abs(z) >= 1.96).any(axis=1).mean() > 0.075  # as it was without


@given(st.lists(st.integers(2, 200), min_size=1, max_size=8, unique=True), st.floats(0.001, 0.2))
@settings(deadline=None, max_examples=40)
def test_levels_are_within_what_is_spent(looks, alpha):
    looks = sorted(looks)
    found = nominal_levels(looks, alpha)
    assert all(
        0 < level <= alpha_spent(n / looks[-1], alpha) * (1 + 1e-6) + 1e-12
        for level, n in zip(found, looks, strict=True)
    )
    assert found[0] == pytest.approx(alpha_spent(looks[0] / looks[-1], alpha), rel=1e-4, abs=1e-12)


def test_mistakes_are_named():
    with pytest.raises(BadOption, match="'evenly' is not a spending"):
        alpha_spent(0.5, spending="evenly")
    with pytest.raises(BadOption, match="the share is 0"):
        alpha_spent(0)
