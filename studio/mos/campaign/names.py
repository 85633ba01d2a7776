"""Validation of names, tags and expected scores, and parsing of scripts to synthesise."""

import re
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from studio.core.errors import BadFile, BadOption
from studio.core.files import MAX_TEXTS_BYTES, read_bounded

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._,:=+?()\-]*")
_EACH = re.compile(r"(\w{1,40}=-?\d{1,4})(;\w{1,40}=-?\d{1,4})*", re.ASCII)
LONGEST = 80
MAX_TAGS = 20  # of one script


@contextmanager
def blaming(where: str) -> Generator[None]:
    """Turn a BadOption into a BadFile that names the place in a file."""
    try:
        yield
    except BadOption as error:
        raise BadFile(f"{where}: {error.what}", error.do) from error


def check_name(name: str) -> None:
    """Raises BadOption for a name that a spreadsheet or page could interpret as code."""
    if not _NAME.fullmatch(name) or len(name) > LONGEST:
        raise BadOption(
            f"the name {name[:LONGEST]!r} is not allowed",
            f"begin with a letter or digit; then letters, digits, spaces and ._,:=+?()- ; {LONGEST} characters at most",
        )


def read_tags(text: str) -> tuple[str, ...]:
    """Tags of a script from a semicolon-separated list; sorted and unique. Raises BadOption if invalid or over 20."""
    tags = tuple(sorted({tag.strip() for tag in text.split(";")} - {""}))
    for tag in tags:
        check_name(tag)
    if len(tags) > MAX_TAGS:
        raise BadOption(f"a script has {len(tags)} tags", f"{MAX_TAGS} are allowed")
    return tags


def expected_scores(text: str) -> dict[str, int]:
    """Expected scores by question, parsed from ``SIG=4;BAK=1``; empty for any other text."""
    if not _EACH.fullmatch(text):
        return {}
    return {question: int(score) for question, score in (one.split("=") for one in text.split(";"))}


@dataclass(frozen=True)
class TextLine:
    """A text with its item's name, and whether the name was given or derived from the line number."""

    name: str
    text: str
    is_named: bool


def parse_texts(written: str, source: str) -> list[TextLine]:
    """Parse the texts of a file or form field; empty lines are skipped but counted.

    ``source``: its name in error messages. Raises BadFile: a name is invalid or duplicate; the message has the line
    number.
    """
    found: dict[str, TextLine] = {}
    for number, line in enumerate(written.splitlines(), start=1):
        name, mark, text = line.partition("|")
        if not line.strip():
            continue
        key = name.strip() if mark else f"text{number:03}"
        if key in found:
            raise BadFile(f"line {number} of {source} names {key!r:.80} again", "give each text its own name")
        with blaming(f"line {number} of {source}"):
            check_name(key)  # it becomes a file name
        found[key] = TextLine(key, (text if mark else line).strip(), bool(mark))
    return list(found.values())


def read_texts(path: Path) -> dict[str, str]:
    """Read the texts of a file by item name. Raises BadFile."""
    try:
        written = read_bounded(path, MAX_TEXTS_BYTES).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadFile(f"the texts {path} cannot be read: {error}", "give a UTF-8 text file, one text a line") from error
    found = parse_texts(written, path.name)
    if not found:
        raise BadFile(f"{path.name} has no text", "write one text a line")
    return {line.name: line.text for line in found}
