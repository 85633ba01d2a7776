"""Hostile values as Hypothesis strategies."""

import json
from typing import Any

from hypothesis import strategies as st

_TEXTS = (
    "", "\x00", "\ud800", "é" * 100, "../../../../etc/passwd", "/etc/passwd", "/dev/zero", "http://127.0.0.1:9/x",
    "file:///etc/passwd", "%00", "%2e%2e%2f", "' OR 1=1 --", "<script>alert(1)</script>", "${7*7}", "{{7*7}}", "=cmd()",
    "x" * 5000, "\u202e", "a\r\nSet-Cookie: x=1", "NaN", "1e999", "-0", "9" * 400,
)  # fmt: skip
_NUMBERS = (0, -1, 1, 2**31, 2**32, 2**53, 2**63, 2**64, -(2**63) - 1, 10**400, 0.5, -0.0, 1e308, 1e-308)


def texts() -> st.SearchStrategy[str]:
    """Any text, and texts that caused failures before."""
    return st.one_of(st.sampled_from(_TEXTS), st.text(max_size=40), st.text(st.characters(), max_size=8))


def numbers() -> st.SearchStrategy[Any]:
    """Any number."""
    return st.one_of(st.sampled_from(_NUMBERS), st.integers(), st.floats(allow_nan=False, allow_infinity=False))


def values() -> st.SearchStrategy[Any]:
    """Any JSON value."""
    leaves = st.one_of(texts(), numbers(), st.none(), st.booleans(), st.integers(0, 10))
    return st.recursive(
        leaves,
        lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(texts(), inner, max_size=4)),
        max_leaves=8,
    )


def changed(like: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """A valid object with some values replaced, removed or added."""

    @st.composite
    def build(draw: st.DrawFn) -> dict[str, Any]:
        out = dict(like)
        for name in draw(st.sets(st.sampled_from([*like, "unknown"]), max_size=3)):
            if draw(st.booleans()):
                out[name] = draw(values())
            else:
                out.pop(name, None)
        return out

    return build()


def raw_json(value: Any) -> str:
    """JSON with lone surrogates."""
    return json.dumps(value, ensure_ascii=True)


def noise() -> st.SearchStrategy[str]:
    """Invalid JSON, or JSON of another shape."""
    return st.one_of(
        st.sampled_from(["", "{", "[" * 5000, "[]", "null", "7", '"x"', "9" * 5000, '{"type":', "\x00", "{}" * 100]),
        st.text(max_size=60),
        values().map(raw_json),
    )
