"""Distribution functions of scipy, typed; all accept arrays or numbers."""

# scipy has no type stubs.
# pyright: reportMissingTypeStubs=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from studio.mos.stats.columns import F8


def _typed(function: Any) -> Callable[..., F8]:
    def typed(*args: ArrayLike) -> F8:
        return np.asarray(function(*args), np.float64)

    return typed


t_cdf = _typed(special.stdtr)  # (df, x)
t_inverse = _typed(special.stdtrit)  # (df, q)
normal_cdf = _typed(special.ndtr)
normal_inverse = _typed(special.ndtri)
beta_cdf = _typed(special.betainc)  # (a, b, x)
beta_inverse = _typed(special.betaincinv)  # (a, b, q)
gamma_inverse = _typed(special.gammaincinv)  # (shape, q), rate 1
logistic = _typed(special.expit)
logit = _typed(special.logit)


def log_gamma_ratio_inverse(a: ArrayLike, b: ArrayLike, q: ArrayLike) -> F8:
    """Quantile q of ln(X / Y) for independent X ~ Gamma(a), Y ~ Gamma(b) of rate 1: X / (X + Y) is Beta(a, b)."""
    return np.log(beta_inverse(a, b, q)) - np.log(beta_inverse(b, a, 1 - np.asarray(q, np.float64)))
