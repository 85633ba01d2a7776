"""Validation of values from outside (JSON, TOML, cards, command lines), and text that a terminal can show."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints
from unicodedata import category

from studio.core.errors import BadOption, StudioError

T = TypeVar("T")
Bounds = tuple[float, float]

MAX_WHOLE = 2**63 - 1
_BIDI_CONTROLS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def is_number(value: Any) -> bool:
    """Whether this is a finite number that fits a double; not a bool, and not a JSON integer of 400 digits."""
    if type(value) is int:
        return abs(value) <= MAX_WHOLE
    return type(value) is float and math.isfinite(value)


def is_printable(value: Any) -> bool:
    """Whether this is text without lone surrogates, control characters and bidirectional controls."""
    return isinstance(value, str) and all(map(is_visible, value))


def is_file_name(value: Any) -> bool:
    """Whether this names a card's file or a voice's folder: letters, digits, ``_``, ``-`` and dots, without a path."""
    return isinstance(value, str) and re.fullmatch(r"\w[\w.-]{0,79}", value) is not None


def to_printable(value: object, max_chars: int = 1_000) -> str:
    """At most ``max_chars`` characters of a value as text, without unprintable ones."""
    return "".join(filter(str.isprintable, str(value)[:max_chars]))


def escape_unprintable(text: str) -> str:
    """A message with Python escapes in place of unprintable characters, except line breaks and tabs."""
    return "".join(char if is_visible(char) or char in "\n\t" else ascii(char)[1:-1] for char in text)


def is_visible(char: str) -> bool:
    """Whether a character is neither a control character, a lone surrogate nor a bidirectional control."""
    return category(char) not in ("Cc", "Cs") and char not in _BIDI_CONTROLS


@dataclass(frozen=True)
class Rule:
    """The allowed values: a test, and their description ("a whole number from 1 to 6")."""

    fits: Callable[[Any], bool]
    expected: str


ANYTHING = Rule(lambda value: True, "any value")
FLAG = Rule(lambda value: type(value) is bool, "true or false")
TEXT = Rule(lambda value: isinstance(value, str), "text")
PRINTABLE = Rule(is_printable, "text")
OBJECT = Rule(lambda value: isinstance(value, dict), "an object")


def whole(low: float = -math.inf, high: float = math.inf) -> Rule:
    """A whole number within limits; not a bool."""
    least, most = max(low, -MAX_WHOLE), min(high, MAX_WHOLE)
    return Rule(lambda value: type(value) is int and least <= value <= most, "a whole number" + _limits(low, high))


def number(low: float = -math.inf, high: float = math.inf) -> Rule:
    """A finite number within limits."""
    if math.isinf(low) and math.isinf(high):
        return Rule(is_number, "a number")
    return Rule(lambda value: is_number(value) and low <= value <= high, "a number" + _limits(low, high))


def one_of(names: Mapping[str, Any] | tuple[str, ...]) -> Rule:
    """One of these texts."""
    return Rule(lambda value: isinstance(value, str) and value in names, f"one of {', '.join(names) or 'its choices'}")


def list_of(item: Rule, fewest: int = 0, most: int | None = None) -> Rule:
    """A list of values that fit a rule."""

    def fits(value: Any) -> bool:
        if not isinstance(value, list | tuple):
            return False
        values = cast("list[Any]", value)
        return fewest <= len(values) and (most is None or len(values) <= most) and all(map(item.fits, values))

    count = "" if most is None else f"{fewest} " if fewest == most else f"{fewest} to {most} "
    return Rule(fits, f"a list of {count}values, each {item.expected}")


def object_of(names: Callable[[Any], bool], values: Rule, expected: str, most: int | None = None) -> Rule:
    """An object with up to ``most`` keys."""

    def fits(value: Any) -> bool:
        if not isinstance(value, dict) or (most is not None and len(cast("dict[Any, Any]", value)) > most):
            return False
        table = cast("dict[Any, Any]", value)
        return all(map(names, table)) and all(map(values.fits, table.values()))

    return Rule(fits, expected)


def rule_of(hint: Any, bounds: Bounds | None = None) -> Rule:
    """The rule of a type hint for a JSON or TOML value; ``bounds`` limit its numbers."""
    if hint in (int, float):
        of = whole if hint is int else number
        return of() if bounds is None else of(*bounds)
    if plain := {Any: ANYTHING, bool: FLAG, str: TEXT, Path: TEXT}.get(hint):
        return plain
    if isinstance(hint, type) and not get_args(hint):  # a dataclass was checked when it was built
        return Rule(lambda value: isinstance(value, hint), "a table")
    if get_origin(hint) is Literal:
        return one_of(get_args(hint))
    origin, parts = (
        get_origin(hint) or hint,
        [rule_of(one, bounds) for one in get_args(hint) if one not in (..., NoneType)],
    )
    if origin in (UnionType, Union):
        optional = NoneType in get_args(hint)
        expected = " or ".join(one.expected for one in parts)
        return Rule(lambda value: (optional and value is None) or any(one.fits(value) for one in parts), expected)
    if origin in (dict, Mapping):
        return object_of(TEXT.fits, parts[1], f"a table of values, each {parts[1].expected}")
    if origin is tuple and ... not in get_args(hint):
        return Rule(
            lambda value: (
                isinstance(value, list | tuple)
                and len(cast("list[Any]", value)) == len(parts)
                and all(part.fits(one) for part, one in zip(parts, cast("list[Any]", value), strict=True))
            ),
            f"a list of {len(parts)} values: {', '.join(one.expected for one in parts)}",
        )
    return list_of(parts[0])


def rules_of(kind: Any, bounds: Callable[[str, Any], Bounds | None] = lambda name, hint: None) -> dict[str, Rule]:
    """A rule for each field of a dataclass; ``bounds`` of a field's name and type limit its numbers."""
    hints = get_type_hints(kind)
    return {one.name: rule_of(hints[one.name], bounds(one.name, hints[one.name])) for one in fields(kind)}


def check_keys(
    kind: Any, data: Any, what: str, error: Callable[[str, str], StudioError] = BadOption, *, is_partial: bool = False
) -> None:
    """Raises ``error`` unless ``data`` is an object with the keys of a dataclass; those with a default are optional.

    Args:
        is_partial: keys may be missing.
    """
    known = {one.name: one for one in fields(kind)}
    if not isinstance(data, dict):
        raise error(f"{what} is {data!r:.40}", f"it is an object (a table) with the keys {', '.join(sorted(known))}")
    keys = cast("dict[str, Any]", data).keys()
    if unknown := sorted(keys - known.keys()):
        names = escape_unprintable(", ".join(unknown))
        raise error(f"{what} has unknown keys: {names:.200}", f"known are {', '.join(sorted(known))}")
    required = [name for name, one in known.items() if one.default is MISSING and one.default_factory is MISSING]
    if (missing := [name for name in required if name not in keys]) and not is_partial:
        raise error(f"{what} is not complete: it has no {', '.join(missing)}", f"it needs {', '.join(required)}")


def check_values(
    values: Mapping[str, Any],
    rules: Mapping[str, Rule],
    what: str,
    error: Callable[[str, str], StudioError] = BadOption,
) -> None:
    """Raises ``error`` if a value breaks the rule of its name; ``what`` describes it, with ``{}`` for the name.

    Values without a rule, and rules without a value, are skipped.
    """
    for name, rule in rules.items():
        if name in values and not rule.fits(values[name]):
            of = what.replace("{}", name, 1)
            raise error(f"{of} {short_repr(values[name])}", f"it is {rule.expected}")


def build(kind: type[T], data: Any, where: str, rules: Mapping[str, Rule] | None = None) -> T:
    """Build a dataclass from a table of a TOML file. Raises BadOption on wrong keys and values.

    Args:
        rules: of fields whose type does not define the allowed values.
    """
    check_keys(kind, data, f"[{where}]")
    check_values(data, rules_of(kind) | dict(rules or {}), f"[{where}] {{}} cannot be")
    return kind(**data)


def short_repr(value: Any) -> str:
    """At most 80 characters of a value for a message."""
    if type(value) is int and abs(value) > 10**30:  # Python refuses to print a number of 5,000 digits
        return "a number that long"
    return f"{value!r:.80}"


def _limits(low: float, high: float) -> str:
    return ("" if math.isinf(low) else f" from {_plain(low)}") + ("" if math.isinf(high) else f" to {_plain(high)}")


def _plain(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.10g}"
