"""Numbers that come from outside: JSON knows integers of any length, which no double holds."""

import math
from typing import Any

MAX_WHOLE = 2**63 - 1


def is_number(value: Any) -> bool:
    """Whether this is a finite number that a double holds; a truth value is none, nor is an integer of 400 digits."""
    if type(value) is int:
        return abs(value) <= MAX_WHOLE
    return type(value) is float and math.isfinite(value)
