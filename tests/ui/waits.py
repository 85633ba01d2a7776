"""Waiting for what a page comes to show: after a click or a key it comes with a later frame, task or message."""

import time
from collections.abc import Callable
from typing import Any

PATIENCE_S = 60.0  # a machine half as fast, with three files of tests at a time
_EVERY_S = 0.02


def until(check: Callable[[], object]) -> None:
    """Repeat ``check``, which asserts, until it holds; at last its own failure is told."""
    end_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            check()
            return
        except AssertionError:
            if time.monotonic() > end_s:
                raise
        time.sleep(_EVERY_S)


def comes_to(read: Callable[[], Any], wanted: Any) -> None:
    """Assert that what is read comes to equal ``wanted``, which may be an ``approx``."""

    def check() -> None:
        found = read()
        assert found == wanted, f"{found!r} is not {wanted!r}"

    until(check)
