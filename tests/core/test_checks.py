"""Validation of values by limits, and of JSON and TOML values by type hints."""

from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from studio.core.checks import MAX_WHOLE, build, number, rule_of, whole
from studio.core.errors import BadOption


@dataclass(frozen=True)
class Table:
    name: str
    sizes: list[int] = field(default_factory=list[int])


@pytest.mark.parametrize(
    ("hint", "fitting", "others"),
    [
        (int, [0, -1, MAX_WHOLE], [True, 1.0, "1", None, 10**400]),
        (float, [0, 1.5, -2], [True, float("nan"), float("inf"), 10**400, "1"]),
        (str, ["", "\x1b"], [1, None, ["a"]]),
        (bool, [True, False], [0, 1, "true"]),
        (list[int], [[], [1, 2], (3,)], [1, "12", [1.5], [True]]),
        (tuple[int, ...], [[], [1, 2, 3]], [1, ["a"]]),
        (tuple[str, float], [["a", 1], ("b", 0.5)], [["a"], ["a", "b"], ["a", 1, 2], "ab"]),
        (dict[str, float], [{}, {"a": 1}], [[], {"a": "b"}, {1: 1.0}]),
        (dict[str, dict[str, Any]], [{"a": {"b": [1]}}], [{"a": 1}]),
        (int | None, [None, 3], [False, "3"]),
        (tuple[int, int] | None, [None, [1, 2]], [[1], 5]),
        (Literal["a", "b"], ["a"], ["c", ["a"], None]),
        (Table, [Table("x")], [{"name": "x"}, None]),
        (Any, [None, {}, 3], []),
    ],
    ids=str,
)
def test_type_hint_defines_valid_values(hint: Any, fitting: list[Any], others: list[Any]) -> None:
    rule = rule_of(hint)
    assert all(map(rule.fits, fitting)) and not any(map(rule.fits, others)) and rule.expected


def test_limits_are_enforced_and_named() -> None:
    assert whole(1, 20_000).expected == "a whole number from 1 to 20,000" and number().expected == "a number"
    assert number(0, 0.99).expected == "a number from 0 to 0.99" and whole(0).expected == "a whole number from 0"
    assert [value for value in (0, 1, 6, 7, 2.0) if rule_of(list[int], (1, 6)).fits([value])] == [1, 6]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (3, r"\[net\] is 3; it is an object"),
        ({}, r"\[net\] is not complete: it has no name; it needs name"),
        ({"name": "a", "\x1b": 1}, r"\[net\] has unknown keys: \\x1b; known are name, sizes"),
        (
            {"name": "a", "sizes": ["b"]},
            r"\[net\] sizes cannot be \['b'\]; it is a list of values, each a whole number",
        ),
    ],
)
def test_tables_are_built_strictly(data: Any, message: str) -> None:
    assert build(Table, {"name": "a", "sizes": [1]}, "net") == Table("a", [1])
    with pytest.raises(BadOption, match=message):
        build(Table, data, "net")
