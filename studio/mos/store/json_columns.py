"""JSON objects in database columns: bounded length, depth and numbers.

Writing and merging use the same rule, so that data sent by a rater's browser never makes a database unmergeable.
"""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter, ValidationError

from studio.core.checks import escape_unprintable, is_number
from studio.core.errors import BadOption

T = TypeVar("T")
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
        document = json.loads(text, parse_constant=_finite, parse_float=_finite, parse_int=_whole)
    except RecursionError as error:
        raise ValueError("it is too deep") from error
    level = [document]
    for _ in range(MAX_DEPTH):
        level = [inner for one in level for inner in _parts(one)]
    if level:
        raise ValueError(f"it is deeper than {MAX_DEPTH} levels")
    return document


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


def read_strict(adapter: TypeAdapter[T], text: str | bytes, where: str) -> T:
    """Parse JSON into a pydantic type without coercion. Raises BadOption: position, error, and what is allowed."""
    try:
        return adapter.validate_json(text, strict=True)
    except ValidationError as error:
        raise invalid(adapter, error, where) from error


def invalid(adapter: TypeAdapter[Any], error: ValidationError, where: str) -> BadOption:
    """A BadOption for the first error: position, error, and what is allowed there."""
    first = error.errors(include_url=False)[0]
    path, kind = first["loc"], first["type"]
    if kind == "json_invalid":
        return BadOption(
            f"{where} is not JSON: {first['msg'].removeprefix('Invalid JSON: '):.200}", "check it with a JSON tool"
        )
    if kind in ("extra_forbidden", "unexpected_keyword_argument", "missing", "missing_argument"):
        same = [e["loc"][-1] for e in error.errors() if e["type"] == kind and e["loc"][:-1] == path[:-1]]
        what = "lacks" if kind.startswith("missing") else "has unknown keys:"
        known = _keys(adapter.json_schema(), path[:-1])
        return BadOption(
            f"[{_path(where, path[:-1])}] {what} {escape_unprintable(', '.join(map(str, same))):.200}",
            f"known are {', '.join(sorted(known))}",
        )
    return BadOption(
        f"{_path(where, path)} is {first['input']!r:.80}", f"{first['msg'][:1].lower()}{first['msg'][1:]:.200}"
    )


def _path(where: str, steps: Sequence[int | str]) -> str:
    """``campaign.questions[0].low``."""
    return where + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)


def _keys(schema: Mapping[str, Any], steps: Sequence[int | str]) -> list[str]:
    """The known keys of the table at a path of a JSON schema."""
    part: Any = schema
    for step in (None, *steps):
        if step is not None:
            part = part["items"] if isinstance(step, int) else part["properties"][step]
        while "$ref" in part:
            part = schema["$defs"][part["$ref"].rpartition("/")[2]]
    return list(part["properties"])
