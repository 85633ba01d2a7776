"""Strict reading of TOML settings: unknown keys, missing keys and wrong types are errors."""

import json
import tomllib
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar, cast, get_type_hints

from studio.core.checks import escape_unprintable
from studio.core.errors import BadOption
from studio.core.files import MAX_SETTINGS_BYTES, read_bounded

T = TypeVar("T")


def read_toml(path: Path) -> dict[str, Any]:
    """Parse a TOML file. Raises OSError, ValueError."""
    try:
        return tomllib.loads(read_bounded(path, MAX_SETTINGS_BYTES).decode("utf-8"))
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def strict(kind: type[T], data: Any, where: str) -> T:
    """Build a dataclass from a table. Raises BadOption on unknown or missing keys, and on wrong types."""
    known = check_keys(kind, data, where)
    try:
        return kind(**data)
    except TypeError as error:
        raise BadOption(f"[{where}] is not complete: {error}", f"it needs {', '.join(known)}") from error


def check_keys(kind: type, data: Any, where: str) -> list[str]:
    """The keys of a dataclass, sorted. Raises BadOption on unknown keys, and on wrong types."""
    if not isinstance(data, dict):
        raise BadOption(f"[{where}] is {data!r:.40}", "it is a table of keys and values")
    hints = get_type_hints(kind)
    known = {f.name: hints[f.name] for f in fields(kind)}
    table = cast("dict[str, Any]", data)
    if unknown := [escape_unprintable(key) for key in sorted({*table} - {*known})]:
        raise BadOption(f"[{where}] has unknown keys: {', '.join(unknown)}", f"known are {', '.join(sorted(known))}")
    for name, value in table.items():
        _check_type(known[name], value, f"[{where}] {name}")
    return sorted(known)


def _check_type(hint: Any, value: Any, what: str) -> None:
    """Raises BadOption unless a TOML value has the type of the dataclass field."""
    from pydantic import TypeAdapter, ValidationError

    if is_dataclass(value) or (isinstance(value, list) and any(map(is_dataclass, cast("list[Any]", value)))):
        return  # already checked
    try:
        TypeAdapter(hint).validate_json(json.dumps(value), strict=True)
    except ValidationError as error:
        at = error.errors()[0]
        raise BadOption(f"{what} cannot be {value!r:.80}", f"{at['msg'][:1].lower()}{at['msg'][1:]:.150}") from error
    except TypeError as error:
        raise BadOption(
            f"{what} cannot be {value!r:.80}", "write numbers, texts, or lists and tables of them"
        ) from error
