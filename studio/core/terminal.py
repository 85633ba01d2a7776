"""Lines on a terminal: the only functions that print, so that no text from outside can send escape sequences to it."""

import json
import os
import sys
from typing import Any, Literal

from studio.core.checks import escape_unprintable, is_visible

_COLOURS = {"red": 31, "yellow": 33}


def print_line(
    message: object = "", *, err: bool = False, colour: Literal["red", "yellow", ""] = "", end: str = "\n"
) -> None:
    """Print a message with escapes in place of control characters and of what the stream cannot encode.

    Args:
        err: print to stderr.
        colour: used on a terminal, unless NO_COLOR is set.
    """
    stream = sys.stderr if err else sys.stdout
    text = escape_unprintable(str(message))
    if colour and stream.isatty() and not os.environ.get("NO_COLOR"):
        text = f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m"
    encoding = stream.encoding or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding), end=end, file=stream, flush=True)


def print_json(value: Any, *, indent: int | None = None) -> None:
    """Print JSON on one line (or indented), readable, with JSON escapes in place of control characters."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    print_line("".join(char if is_visible(char) or char == "\n" else f"\\u{ord(char):04x}" for char in text))


def print_data(text: str) -> None:
    """Print the content of a file: exactly to a pipe or a file, as ``print_line`` to a terminal."""
    if sys.stdout.isatty():
        print_line(text, end="")
    else:
        print(text, end="", flush=True)  # noqa: T201
