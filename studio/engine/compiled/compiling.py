"""How functions of this folder are compiled."""

from collections.abc import Callable
from typing import Any

from numba import njit

# Sums may be reordered within a loop, but NaN stays NaN: whoever reads what is no number says so.
_HOW: dict[str, Any] = {
    "nogil": True,
    "boundscheck": False,
    "error_model": "numpy",
    "fastmath": {"reassoc", "contract", "nsz"},
}


def compiled(function: Callable[..., Any]) -> Any:
    """Compiled for each kind of arguments at the first call with it, and kept on disk where there is a place for it.

    What is kept goes by the file of the function, not by what it calls: a compiled function calls none of another file.
    """
    try:
        return njit(cache=True, **_HOW)(function)
    except RuntimeError:  # nothing may be written beside the code, nor in the user's cache
        return njit(**_HOW)(function)
