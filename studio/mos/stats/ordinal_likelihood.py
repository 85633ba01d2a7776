"""Laplace-approximated likelihood of a cumulative logit mixed model, and its gradient.

A row's score lies between thresholds a and b, both minus the linear predictor eta; P = F(a) - F(b) with the logistic
function F. The random effects u with precisions Lambda are integrated out by the curvature at their mode (Tierney &
Kadane 1986):

    L = sum ln P(u) - u' Lambda u / 2 + ln |Lambda| / 2 - ln |Z' D Z + Lambda| / 2,   D = -d2 ln P / d eta2

ln P is concave (Pratt 1981), so the mode is unique and Newton's method finds it. Effects of one grouping do not share
rows, so their block of the Hessian is diagonal; the largest grouping is eliminated first.
"""

# scipy has no type stubs.
# pyright: reportMissingTypeStubs=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy

from studio.mos.stats.columns import F8, I8

_MAX_STEPS = 200  # of Newton
_MAX_STALE_STEPS = 8  # with the same Hessian
_MIN_GAIN = 1e-16  # expected gain at convergence
_ROUNDING_GAIN = 1e-6  # below it the line search cannot measure the gain, and the full step is taken
_MIN_PROBABILITY = 1e-300  # keeps its logarithm finite


@dataclass(frozen=True)
class LikelihoodGradient:
    """Gradient of L by thresholds [K - 1], each row's eta [N], and ln of each grouping's standard deviation [G]."""

    thresholds: F8
    eta: F8
    log_sd: F8


class OrdinalLikelihood:
    """L as a function of thresholds, fixed parts of eta, and standard deviations; warm-starts at the last mode."""

    def __init__(self, level: I8, groupings: Sequence[I8]) -> None:
        """Codes of the levels [N] and of each grouping's groups [N], without gaps."""
        self._level, self._levels = level, int(level.max()) + 1
        sizes = [int(g.max()) + 1 for g in groupings]
        self._last = int(np.argmax(sizes))
        rest = [g for g in range(len(sizes)) if g != self._last]
        self._columns = np.cumsum([0, *(sizes[g] for g in rest)])
        self._of_row = np.array([groupings[g] + at for g, at in zip(rest, self._columns[:-1], strict=True)], np.int64)
        self._of_row = self._of_row.reshape(len(rest), len(level))
        self._cell = groupings[self._last]
        self._order, self._sizes = [*rest, self._last], np.array(sizes)
        self._u: F8 = np.zeros(int(self._columns[-1]) + sizes[self._last])
        self._curve: _BlockHessian | None = None

    def at(self, thresholds: F8, fixed: F8, log_sd: F8) -> tuple[float, LikelihoodGradient]:
        """L and its gradient at thresholds [K - 1], fixed parts of eta [N] and ln standard deviations [G]."""
        bounds = np.concatenate([[-np.inf], thresholds, [np.inf]])
        upper, lower = bounds[self._level + 1] - fixed, bounds[self._level] - fixed
        precision = np.exp(-2 * log_sd)
        each = np.repeat(precision[self._order], self._sizes[self._order])
        self._u, row, curve = self._mode(upper, lower, each)
        value = row.log_p.sum() - 0.5 * (each @ self._u**2 - np.log(each).sum()) - 0.5 * curve.log_determinant
        return float(value), self._gradient(row, curve, each)

    def _mode(self, upper: F8, lower: F8, precision: F8) -> "tuple[F8, _RowTerms, _BlockHessian]":
        """Mode by Newton steps; the Hessian is reused while steps succeed, because it is the most expensive part."""
        u, curve, steps = self._u, self._curve, 0
        row = _RowTerms(upper - self._eta(u), lower - self._eta(u))
        joint = row.log_p.sum() - 0.5 * precision @ u**2
        while steps < _MAX_STEPS:
            if curve is None:
                curve, steps = self._curvature(row.curvature, precision), 0
            slope = self._gathered(row.slope) - precision * u
            step = curve.solve(slope)
            gain, length = float(slope @ step), 1.0
            if gain < _MIN_GAIN:
                break
            while True:
                tried = u + length * step
                row = _RowTerms(upper - self._eta(tried), lower - self._eta(tried))
                reached = row.log_p.sum() - 0.5 * precision @ tried**2
                if gain < _ROUNDING_GAIN or reached >= joint + 1e-4 * length * gain or length < 1e-9:
                    break
                length /= 2
            u, joint, steps = tried, reached, steps + 1
            if length < 1 or steps == _MAX_STALE_STEPS:
                curve = None
        self._curve = self._curvature(row.curvature, precision)
        return u, row, self._curve

    def _gradient(self, row: "_RowTerms", curve: "_BlockHessian", precision: F8) -> LikelihoodGradient:
        """Chain rule including the movement of the mode."""
        weight = -0.5 * curve.leverage()
        moved = curve.solve(self._gathered(weight * (row.curvature_by_upper + row.curvature_by_lower)))
        along = self._eta(moved)
        by_upper = row.by_upper + weight * row.curvature_by_upper - along * row.slope_by_upper
        by_lower = row.by_lower + weight * row.curvature_by_lower - along * row.slope_by_lower
        below, above = (_sums(self._level, by, self._levels) for by in (by_upper, by_lower))
        each = precision * (self._u**2 + curve.variance() - 2 * moved * self._u) - 1
        log_sd, at = np.empty(len(self._order)), 0
        for grouping in self._order:
            log_sd[grouping] = each[at : at + self._sizes[grouping]].sum()
            at += self._sizes[grouping]
        return LikelihoodGradient(below[:-1] + above[1:], -(by_upper + by_lower), log_sd)

    def _eta(self, u: F8) -> F8:
        """Z u."""
        rest = self._columns[-1]
        return u[self._of_row].sum(axis=0) + u[rest + self._cell]

    def _gathered(self, row: F8) -> F8:
        """Z' row."""
        rest = int(self._columns[-1])
        many = np.tile(row, len(self._of_row))
        return np.concatenate([_sums(self._of_row, many, rest), _sums(self._cell, row, len(self._u) - rest)])

    def _curvature(self, d: F8, precision: F8) -> "_BlockHessian":
        """Z' D Z + Lambda."""
        rest, cells = int(self._columns[-1]), len(self._u) - int(self._columns[-1])
        several = len(self._of_row)
        pairs = self._of_row[:, None, :] * rest + self._of_row[None, :, :]
        square = _sums(pairs, np.tile(d, several**2), rest**2).reshape(rest, rest)
        square[np.diag_indices(rest)] += precision[:rest]
        across = _sums(self._of_row * cells + self._cell, np.tile(d, several), rest * cells).reshape(rest, cells)
        own = _sums(self._cell, d, cells) + precision[rest:]
        return _BlockHessian(square, across, own, self._of_row, self._cell)


def _sums(codes: I8, weights: F8, size: int) -> F8:
    """Sum of the weights of each code, [size]."""
    return np.bincount(codes.ravel(), weights, size)[:size].astype(np.float64)


class _RowTerms:
    """ln P of each row and its derivatives by eta and by the two bounds; f is F', and so on."""

    def __init__(self, upper: F8, lower: F8) -> None:
        above, below = scipy.special.expit(upper), scipy.special.expit(lower)
        chance = np.where(lower > 0, scipy.special.expit(-lower) - scipy.special.expit(-upper), above - below)
        chance = np.maximum(chance, _MIN_PROBABILITY)
        f_a, f_b = above * scipy.special.expit(-upper), below * scipy.special.expit(-lower)
        f1_a, f1_b = f_a * (1 - 2 * above), f_b * (1 - 2 * below)
        f2_a, f2_b = f_a * (1 - 6 * f_a), f_b * (1 - 6 * f_b)
        self.log_p: F8 = np.log(chance)
        self.by_upper, self.by_lower = f_a / chance, -f_b / chance
        self.slope: F8 = -(self.by_upper + self.by_lower)
        bend = (f1_a - f1_b) / chance
        self.curvature: F8 = np.maximum(self.slope**2 - bend, 0.0)
        self.slope_by_upper = -f1_a / chance - self.by_upper * self.slope
        self.slope_by_lower = f1_b / chance - self.by_lower * self.slope
        self.curvature_by_upper = 2 * self.slope * self.slope_by_upper - f2_a / chance + bend * self.by_upper
        self.curvature_by_lower = 2 * self.slope * self.slope_by_lower + f2_b / chance + bend * self.by_lower


class _BlockHessian:
    """Symmetric matrix [[square, across], [across', diag(own)]], factorised by elimination of the diagonal block."""

    def __init__(self, square: F8, across: F8, own: F8, of_row: I8, cell: I8) -> None:
        self._own, self._of_row, self._cell, self._across = own, of_row, cell, across
        self._scaled = across / own
        self._factor: Any = scipy.linalg.cho_factor(square - self._scaled @ across.T, lower=True, check_finite=False)
        self.log_determinant = float(2 * np.log(np.diag(self._factor[0])).sum() + np.log(own).sum())

    def solve(self, right: F8) -> F8:
        rest = len(self._across)
        head = scipy.linalg.cho_solve(self._factor, right[:rest] - self._scaled @ right[rest:], check_finite=False)
        return np.concatenate([head, (right[rest:] - self._across.T @ head) / self._own])

    def variance(self) -> F8:
        """Diagonal of the inverse."""
        inverse, moved = self._inverse
        return np.concatenate([np.diag(inverse), 1 / self._own + (self._scaled * moved).sum(axis=0)])

    def leverage(self) -> F8:
        """z' inverse z of each row."""
        inverse, moved = self._inverse
        rest = len(self._across)
        inner = sum((inverse[a, b] for a in self._of_row for b in self._of_row), np.zeros(len(self._cell)))
        cross = sum((moved[a, self._cell] for a in self._of_row), np.zeros(len(self._cell)))
        return inner - 2 * cross + self.variance()[rest + self._cell]

    @cached_property
    def _inverse(self) -> tuple[F8, F8]:
        inverse: F8 = scipy.linalg.cho_solve(self._factor, np.eye(len(self._across)), check_finite=False)
        return inverse, inverse @ self._scaled
