"""JSON objects in database columns: bounded length, depth and numbers.

Writing and merging use the same rule, so that data sent by a rater's browser never makes a database unmergeable.
"""

import json
import math
from collections.abc import Mapping
from typing import Any, cast

from studio.core.checks import is_number

MAX_CHARS = 65_536
MAX_DEPTH = 32


def write_json(value: Mapping[str, Any]) -> str:
    """Serialise an object. Raises ValueError if ``is_object`` would reject the result."""
    try:
        text = json.dumps(value, allow_nan=False)
    except (TypeError, RecursionError) as error:
        raise ValueError("it cannot be written as JSON") from error
    if len(text) > MAX_CHARS:
        raise ValueError(f"it has more than {MAX_CHARS} characters")
    read_json(text)
    return text


def is_object(value: Any) -> bool:
    """Whether a column value is an object that ``write_json`` could have written."""
    try:
        return isinstance(value, str) and len(value) <= MAX_CHARS and isinstance(read_json(value), dict)
    except ValueError:
        return False


def read_json(text: str) -> Any:
    """Parse JSON. Raises ValueError if it is invalid, too deep, or has numbers beyond a double or 64-bit integer."""
    try:
        found = json.loads(text, parse_constant=_finite, parse_float=_finite, parse_int=_whole)
    except RecursionError as error:
        raise ValueError("it is too deep") from error
    level = [found]
    for _ in range(MAX_DEPTH):
        level = [inner for one in level for inner in _parts(one)]
    if level:
        raise ValueError(f"it is deeper than {MAX_DEPTH} levels")
    return found


def _parts(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(cast("dict[str, Any]", value).values())
    return cast("list[Any]", value) if isinstance(value, list) else []


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:20]} is no finite number")
    return number


def _whole(text: str) -> int:
    if len(text) > 20 or not is_number(number := int(text)):
        raise ValueError(f"{text[:20]} is beyond 64 bits")
    return number
