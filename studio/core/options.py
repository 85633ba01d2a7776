"""A family's options: what a card allows, and checks of what a caller asks for."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from studio.core.cards import OptionSpec
from studio.core.errors import BadOption


def default_options(specs: Sequence[OptionSpec]) -> dict[str, Any]:
    """The defaults of a card's options."""
    return {spec.name: spec.default for spec in specs}


def merge_options(specs: Sequence[OptionSpec], changes: Mapping[str, Any], base: Mapping[str, Any]) -> dict[str, Any]:
    """``base`` with ``changes``, each value checked against its card's range. Raises BadOption."""
    known = {spec.name: spec for spec in specs}
    for name, value in changes.items():
        if name not in known:
            raise BadOption(f"there is no option {name[:100]!r}", f"there are {', '.join(known)}")
        _check(known[name], value)
    return {**base, **changes}


def parse_options(specs: Sequence[OptionSpec], assignments: Sequence[str]) -> dict[str, Any]:
    """Parse ``name=value`` strings to the options' types; ``merge_options`` checks ranges. Raises BadOption."""
    known = {spec.name: spec for spec in specs}
    options: dict[str, Any] = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if name in known and not equals:
            raise BadOption(f"{name} has no value", f"write {name}=value, where the value is {_allowed(known[name])}")
        if name not in known:
            names = f"write name=value with one of {', '.join(known)}" if known else "this voice has none: leave it out"
            raise BadOption(f"{assignment[:100]!r} sets no option of this voice", names)
        try:
            options[name] = {"int": int, "float": float}.get(known[name].kind, str)(value)
        except ValueError as error:
            raise BadOption(f"{name} cannot be {value[:100]!r}", f"give {_allowed(known[name])}") from error
    return options


def options_from_flags(specs: Sequence[OptionSpec], flags: Mapping[str, tuple[str, object]]) -> list[str]:
    """``name=value`` strings of the options for which a command has flags: by flag, the option's name and its value.

    Raises:
        BadOption: a flag has a value, and the voice has no such option.
    """
    known = {spec.name for spec in specs}
    used = {flag: option for flag, option in flags.items() if option[1] is not None}
    for flag, (name, _) in used.items():
        if name not in known:
            rest = f"its options are {', '.join(sorted(known))}" if known else "it has no options"
            raise BadOption(f"this voice has no option for {flag}", f"leave it out: {rest}")
    return [f"{name}={value}" for name, value in used.values()]


def _allowed(spec: OptionSpec) -> str:
    if spec.kind == "choice":
        return f"one of {', '.join(spec.choices)}"
    kind = "a whole number" if spec.kind == "int" else "a number"
    low = "" if spec.low is None else f" from {spec.low:g}"
    return kind + low + ("" if spec.high is None else f" to {spec.high:g}")


def _check(spec: OptionSpec, value: Any) -> None:
    if spec.kind == "choice":
        if value not in spec.choices:
            raise BadOption(f"{spec.name} cannot be {_short_repr(value)}", f"choose {_allowed(spec)}")
        return
    is_number = type(value) is int if spec.kind == "int" else type(value) in (int, float)  # a bool is an int
    low, high = -math.inf if spec.low is None else spec.low, math.inf if spec.high is None else spec.high
    if not is_number or not low <= value <= high:
        raise BadOption(f"{spec.name} cannot be {_short_repr(value)}", f"give {_allowed(spec)}")


def _short_repr(value: Any) -> str:
    if isinstance(value, int) and abs(value) > 10**18:  # Python refuses to print a number of 5,000 digits
        return "a number that long"
    return repr(value)[:100]
