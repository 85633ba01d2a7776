"""Options of families: the values that a card allows, and checks of a caller's values."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from studio.core.checks import PRINTABLE, Rule, check_keys, check_values, list_of, number, one_of, short_repr, whole
from studio.core.errors import BadOption, BadVoice

_LIMIT = Rule(lambda value: value is None or number().fits(value), "a number or null")
_RULES = {
    **dict.fromkeys(("name", "label", "help"), PRINTABLE),
    "kind": one_of(("int", "float", "choice")),
    "choices": list_of(PRINTABLE),
    "low": _LIMIT,
    "high": _LIMIT,
}
_LANGUAGE = "leave language out: voices without this option read English"


@dataclass(frozen=True)
class OptionSpec:
    """One option of a family, shown by the page and checked by the engine."""

    name: str
    kind: str  # "int" | "choice" | "float"
    default: Any
    label: str
    help: str = ""
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()

    @property
    def rule(self) -> Rule:
        """The allowed values."""
        if self.kind == "choice":
            return one_of(self.choices)
        low, high = -math.inf if self.low is None else self.low, math.inf if self.high is None else self.high
        return whole(low, high) if self.kind == "int" else number(low, high)

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> "OptionSpec":
        """An option from a card's JSON form. Raises BadVoice: it is invalid, or its default is outside its range."""
        check_keys(OptionSpec, data, "an option of the card", BadVoice)
        name = data["name"]
        what = f"{{}} of the card's option {name!r:.80} is"
        check_values(data, _RULES, what, BadVoice)
        values: dict[str, Any] = {**data, "choices": tuple(data.get("choices", ()))}
        spec = OptionSpec(**values)
        if (spec.low is None) != (spec.high is None):
            raise BadVoice(f"the card's option {name!r} has only one of low and high", "give both or neither")
        check_values(data, {"default": spec.rule}, what, BadVoice)
        return spec


def default_options(specs: Sequence[OptionSpec]) -> dict[str, Any]:
    """The defaults of a card's options."""
    return {spec.name: spec.default for spec in specs}


def merge_options(specs: Sequence[OptionSpec], changes: Mapping[str, Any], base: Mapping[str, Any]) -> dict[str, Any]:
    """``base`` with ``changes``, each value checked against its card's range. Raises BadOption."""
    known = {spec.name: spec for spec in specs}
    for name, value in changes.items():
        if name == "language" and name not in known:
            raise BadOption("this voice has no choice of language", _LANGUAGE)
        if name not in known:
            raise BadOption(f"there is no option {name[:100]!r}", f"there are {', '.join(known)}")
        if not known[name].rule.fits(value):
            raise BadOption(f"{name} cannot be {short_repr(value)}", f"give {known[name].rule.expected}")
    return {**base, **changes}


def parse_options(specs: Sequence[OptionSpec], assignments: Sequence[str]) -> dict[str, Any]:
    """Parse ``name=value`` strings to the options' types; ``merge_options`` checks ranges. Raises BadOption."""
    known = {spec.name: spec for spec in specs}
    options: dict[str, Any] = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if name == "language" and name not in known:
            raise BadOption("this voice has no choice of language", _LANGUAGE)
        if name in known and not equals:
            raise BadOption(
                f"{name} has no value", f"write {name}=value, where the value is {known[name].rule.expected}"
            )
        if name not in known:
            names = f"write name=value with one of {', '.join(known)}" if known else "this voice has none: leave it out"
            raise BadOption(f"{assignment[:100]!r} sets no option of this voice", names)
        try:
            options[name] = {"int": int, "float": float}.get(known[name].kind, str)(value)
        except ValueError as error:
            raise BadOption(f"{name} cannot be {value[:100]!r}", f"give {known[name].rule.expected}") from error
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
