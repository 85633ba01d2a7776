"""What is written into a column is what a merge knows again, and nothing else is written."""

import math
from typing import Any

import pytest
from hypothesis import given as draws
from hypothesis import strategies as st

from studio.mos.store.json_columns import MAX_CHARS, MAX_DEPTH, is_object, read_json, write_json


def nested(levels: int) -> dict[str, Any]:
    inner: list[Any] = []
    for _ in range(levels - 2):
        inner = [inner]
    return {"a": inner}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@draws(st.dictionaries(st.text(), JSON, max_size=4))
def test_what_is_written_is_known_again(value: dict[str, Any]) -> None:
    try:
        text = write_json(value)
    except ValueError:
        return
    assert is_object(text) and read_json(text) == value


@pytest.mark.parametrize(
    "value",
    [
        {"a": math.inf},
        {"a": [math.nan]},
        {"a": 10**400},
        {"a": 10**5000},
        {"a": 2**63},
        {"a": object()},
        {"a": "x" * MAX_CHARS},
        nested(MAX_DEPTH + 1),
        nested(100_000),
    ],
    ids=range(9),
)
def test_what_no_reader_holds_is_not_written(value: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        write_json(value)


def test_bounds_themselves_are_kept() -> None:
    for value in (nested(MAX_DEPTH), {"a": 2**63 - 1, "b": 1e308}, {"a": "x" * (MAX_CHARS - 9)}):
        assert read_json(write_json(value)) == value


@pytest.mark.parametrize("text", ["[]", "1", "", "{", '{"a": 1e999}', '{"a": NaN}', '{"a": -Infinity}', None, b"{}", 7])
def test_what_no_studio_writes_is_no_object(text: Any) -> None:
    assert not is_object(text)
