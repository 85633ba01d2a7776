"""The few distribution functions that the intervals need: scipy's, typed. All take arrays or numbers."""

# scipy comes without types.
# pyright: reportMissingTypeStubs=false, reportUnknownVariableType=false

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from studio.mos.stats.columns import F8


def t_cdf(df: ArrayLike, x: ArrayLike) -> F8:
    """P(T <= x) of Student's t."""
    return np.asarray(special.stdtr(df, x), np.float64)


def t_inverse(df: ArrayLike, q: ArrayLike) -> F8:
    """Quantile q of Student's t."""
    return np.asarray(special.stdtrit(df, q), np.float64)


def normal_cdf(x: ArrayLike) -> F8:
    """P(X <= x) of the standard normal."""
    return np.asarray(special.ndtr(x), np.float64)


def normal_inverse(q: ArrayLike) -> F8:
    """Quantile q of the standard normal."""
    return np.asarray(special.ndtri(q), np.float64)


def beta_cdf(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> F8:
    """P(X <= x) of Beta(a, b)."""
    return np.asarray(special.betainc(a, b, x), np.float64)


def beta_inverse(a: ArrayLike, b: ArrayLike, q: ArrayLike) -> F8:
    """Quantile q of Beta(a, b)."""
    return np.asarray(special.betaincinv(a, b, q), np.float64)


def gamma_inverse(shape: ArrayLike, q: ArrayLike) -> F8:
    """Quantile q of Gamma(shape, rate 1)."""
    return np.asarray(special.gammaincinv(shape, q), np.float64)


def log_gamma_ratio_inverse(a: ArrayLike, b: ArrayLike, q: ArrayLike) -> F8:
    """Quantile q of ln(X / Y), with independent X ~ Gamma(a) and Y ~ Gamma(b) of rate 1: X / (X + Y) is Beta(a, b)."""
    share = beta_inverse(a, b, q)
    return np.log(share) - np.log(beta_inverse(b, a, 1 - np.asarray(q, np.float64)))


def logistic(x: ArrayLike) -> F8:
    """P(X <= x) of the standard logistic."""
    return np.asarray(special.expit(x), np.float64)


def logit(q: ArrayLike) -> F8:
    """Quantile q of the standard logistic."""
    return np.asarray(special.logit(q), np.float64)
