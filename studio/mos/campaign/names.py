"""Validation of names, tags and expected scores, and parsing of scripts to synthesise."""

import re
import unicodedata
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from studio.core.errors import BadFile, BadOption
from studio.core.files import MAX_TEXTS_BYTES, decode_text, read_bounded
from studio.core.sound_files import SUFFIXES

_MARKS = frozenset(" _.,:=+?()-")
_SCORE_BY_QUESTION = re.compile(r"(\w{1,40}=-?\d{1,4})(;\w{1,40}=-?\d{1,4})*", re.ASCII)
LONGEST = 80
LONGEST_BYTES = 240  # names become file names
MAX_TAGS = 20  # of one script


@contextmanager
def blaming(where: str) -> Generator[None]:
    """Turn a BadOption into a BadFile that names the position in a file."""
    try:
        yield
    except BadOption as error:
        raise BadFile(f"{where}: {error.what}", error.do) from error


def check_name(name: str) -> None:
    """Raises BadOption for a name that a spreadsheet or page could interpret as code."""
    is_short = 0 < len(name) <= LONGEST and len(name.encode("utf-8", "replace")) <= LONGEST_BYTES
    if (
        not is_short
        or not name[0].isalnum()
        or not all(c in _MARKS or unicodedata.category(c)[0] in "LMN" for c in name)
    ):
        raise BadOption(
            f"the name {name[:LONGEST]!r} is not allowed",
            f"begin with a letter or digit; then letters, digits, spaces and ._,:=+?()- ; {LONGEST} characters at most",
        )


def composed(name: str) -> str:
    """A name in the form NFC: macOS stores accents in file names as separate characters."""
    return unicodedata.normalize("NFC", name)


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
    if not _SCORE_BY_QUESTION.fullmatch(text):
        return {}
    return {question: int(score) for question, score in (one.split("=") for one in text.split(";"))}


@dataclass(frozen=True)
class TextLine:
    """A text with its item's name, and whether the name was given or derived from the line number."""

    name: str
    text: str
    is_named: bool


def named_texts(written: str) -> Iterator[tuple[int, str, str | None]]:
    """Line number, item and text of each non-empty line ``item|text``; the separator is a tab if every line has one.

    Where most lines are ``item|text|spoken``, as in LJSpeech's metadata, the raw text is used: raters see it as
    written, and voices normalise it themselves. Folder and suffix are removed from items that name sound files. A line
    without a separator gives (number, line, None).
    """
    lines = [(number, line) for number, line in enumerate(written.splitlines(), start=1) if line.strip()]
    mark = "\t" if lines and all("\t" in line and "|" not in line for _, line in lines) else "|"
    has_spoken = mark == "|" and 2 * sum(line.count(mark) >= 2 for _, line in lines) > len(lines)
    for number, line in lines:
        item, separator, text = line.partition(mark)
        if not separator:
            yield number, line.strip(), None
            continue
        if has_spoken:
            raw, _, spoken = text.partition(mark)
            text = raw if raw.strip() else spoken.partition(mark)[0]
        path = PurePosixPath(item.strip())
        yield number, path.stem if path.suffix.lower() in SUFFIXES else item.strip(), text.strip()


def parse_texts(written: str, source: str) -> list[TextLine]:
    """Parse the texts of a file or form field; empty lines are skipped but counted.

    ``source``: its name in error messages. Raises BadFile: a name is invalid or duplicate; the message has the line
    number.
    """
    lines: dict[str, TextLine] = {}
    for number, name, text in named_texts(written):
        key = f"text{number:03}" if text is None else composed(name)
        if key in lines:
            raise BadFile(f"line {number} of {source} names {key!r:.80} again", "give each text its own name")
        with blaming(f"line {number} of {source}"):
            check_name(key)  # it becomes a file name
        lines[key] = TextLine(key, name if text is None else text, text is not None)
    return list(lines.values())


def read_texts(path: Path) -> dict[str, str]:
    """Read the texts of a file by item name. Raises BadFile."""
    try:
        written = decode_text(read_bounded(path, MAX_TEXTS_BYTES), path.name)
    except OSError as error:
        raise BadFile(f"the texts {path} cannot be read: {error}", "give a text file, one text a line") from error
    lines = parse_texts(written, path.name)
    if not lines:
        raise BadFile(f"{path.name} has no text", "write one text a line")
    return {line.name: line.text for line in lines}
