"""A family's options: what a card allows, and what a caller asked for, checked in one place."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from studio.core.cards import OptionSpec
from studio.core.errors import BadOption


def default_options(specs: Sequence[OptionSpec]) -> dict[str, Any]:
    """What is in force where nobody asked for anything."""
    return {spec.name: spec.default for spec in specs}


def merge_options(specs: Sequence[OptionSpec], given: Mapping[str, Any], base: Mapping[str, Any]) -> dict[str, Any]:
    """``base`` changed by ``given``, each value within its card's range. Raises BadOption."""
    known = {spec.name: spec for spec in specs}
    for name, value in given.items():
        if name not in known:
            raise BadOption(f"there is no option {name[:100]!r}", f"there are {', '.join(known)}")
        _check(known[name], value)
    return {**base, **given}


def parse_options(specs: Sequence[OptionSpec], written: Sequence[str]) -> dict[str, Any]:
    """Options written as ``name=value``, each as its kind; ``merge_options`` checks ranges. Raises BadOption."""
    known = {spec.name: spec for spec in specs}
    found: dict[str, Any] = {}
    for one in written:
        name, mark, value = one.partition("=")
        if name in known and not mark:
            raise BadOption(f"{name} has no value", f"write {name}=value, where the value is {_allowed(known[name])}")
        if name not in known:
            names = f"write name=value with one of {', '.join(known)}" if known else "this voice has none: leave it out"
            raise BadOption(f"{one[:100]!r} sets no option of this voice", names)
        try:
            found[name] = {"int": int, "float": float}.get(known[name].kind, str)(value)
        except ValueError as error:
            raise BadOption(f"{name} cannot be {value[:100]!r}", f"give {_allowed(known[name])}") from error
    return found


def flagged_options(specs: Sequence[OptionSpec], flags: Mapping[str, tuple[str, object]]) -> list[str]:
    """Options that a command has flags for, as ``name=value``: by flag, the name and what was given or None.

    Raises BadOption where a flag was given whose option these are without.
    """
    known = {spec.name for spec in specs}
    given = {flag: one for flag, one in flags.items() if one[1] is not None}
    for flag, (name, _) in given.items():
        if name not in known:
            rest = f"its options are {', '.join(sorted(known))}" if known else "it has no options"
            raise BadOption(f"{flag} is nothing that this voice can be told", f"leave it out: {rest}")
    return [f"{name}={value}" for name, value in given.values()]


def _allowed(spec: OptionSpec) -> str:
    """What an option may be, in words."""
    if spec.kind == "choice":
        return f"one of {', '.join(spec.choices)}"
    kind = "a whole number" if spec.kind == "int" else "a number"
    low = "" if spec.low is None else f" from {spec.low:g}"
    return kind + low + ("" if spec.high is None else f" to {spec.high:g}")


def _check(spec: OptionSpec, value: Any) -> None:
    if spec.kind == "choice":
        if value not in spec.choices:
            raise BadOption(f"{spec.name} cannot be {_shown(value)}", f"choose {_allowed(spec)}")
        return
    whole = spec.kind == "int"
    fits = type(value) is int if whole else type(value) in (int, float)  # True is an int, and no number of words
    low, high = -math.inf if spec.low is None else spec.low, math.inf if spec.high is None else spec.high
    if not fits or not low <= value <= high:
        raise BadOption(f"{spec.name} cannot be {_shown(value)}", f"give {_allowed(spec)}")


def _shown(value: Any) -> str:
    if isinstance(value, int) and abs(value) > 10**18:  # Python refuses to print a number of 5,000 digits
        return "a number that long"
    return repr(value)[:100]
