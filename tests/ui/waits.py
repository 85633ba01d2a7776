"""Waiting for a page's state: after input it changes in a later frame, task or message."""

import time
from collections.abc import Callable
from typing import Any

PATIENCE_S = 180.0  # on a machine that is busy with other test files
_EVERY_S = 0.02


def until(check: Callable[[], object]) -> None:
    """Repeat ``check``, which asserts, until it passes; finally raise its own failure."""
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
    """Assert that ``read()`` becomes ``wanted``, which may be an ``approx``."""

    def check() -> None:
        found = read()
        assert found == wanted, f"{found!r} is not {wanted!r}"

    until(check)
