"""Inter-rater agreement: Krippendorff's alpha and Cohen's kappa."""

# pandas comes without types.
# pyright: reportMissingTypeStubs=false

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from studio.core.errors import BadOption

Measurement = Literal["nominal", "ordinal", "interval", "ratio"]


def krippendorff(matrix: npt.NDArray[np.float64], scale: Measurement = "ordinal") -> float | None:
    """Krippendorff's alpha of scores [raters, units], NaN where missing (Krippendorff 2018, chapter 12).

    1 is agreement, 0 is chance. None if undefined: nothing was scored twice, or all scores are equal.

    Raises:
        BadOption: unknown scale.
    """
    # Imported here: evalica loads pandas, which takes a second.
    import evalica
    import pandas as pd

    if scale not in ("nominal", "ordinal", "interval", "ratio"):
        raise BadOption(f"{scale!r} is not a scale", "known are nominal, ordinal, interval, ratio")
    paired = matrix[:, np.isfinite(matrix).sum(axis=0) > 1]
    values = paired[np.isfinite(paired)]
    if len(np.unique(values)) < 2:
        return None
    return float(evalica.alpha(pd.DataFrame(paired), distance=scale).alpha)


def cohen_kappa(
    one: Sequence[int] | npt.NDArray[np.int64], other: Sequence[int] | npt.NDArray[np.int64]
) -> float | None:
    """Cohen's kappa of two raters' categories: (p_o - p_e) / (1 - p_e) (Cohen 1960, eq. 1).

    p_o is the share of units with the same category, p_e its expectation by chance. None if undefined: there are no
    units, or both raters gave one category to all.

    Args:
        one, other: category number of each unit, in the same order.
    """
    assert len(one) == len(other), "both must rate every unit"
    if not len(one):
        return None
    _, codes = np.unique(np.concatenate([one, other]), return_inverse=True)
    first, second = codes[: len(one)], codes[len(one) :]
    shares = [np.bincount(each, minlength=codes.max() + 1) / len(one) for each in (first, second)]
    expected = float(shares[0] @ shares[1])
    if expected >= 1.0:
        return None
    return (float((first == second).mean()) - expected) / (1.0 - expected)
