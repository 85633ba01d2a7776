"""Texts that systems are to speak: one a line, ``name|text`` or the text alone."""

from dataclasses import dataclass
from pathlib import Path

from studio.core.errors import BadFile, BadOption
from studio.core.files import MAX_TEXTS_BYTES, read_bounded
from studio.mos.campaign.names import check_name


@dataclass(frozen=True)
class Line:
    """One text: its item's name, and whether that was written or follows from the line's number."""

    name: str
    text: str
    is_named: bool


def lines_of(written: str, source: str) -> list[Line]:
    """The texts of a file or a field; empty lines count and are left out.

    Args:
        source: what errors call it.

    Raises:
        BadFile: a name is not allowed, or there twice; it names the line.
    """
    found: dict[str, Line] = {}
    for number, line in enumerate(written.splitlines(), start=1):
        name, mark, text = line.partition("|")
        if not line.strip():
            continue
        key = name.strip() if mark else f"text{number:03}"
        if key in found:
            raise BadFile(f"line {number} of {source} names {key!r:.80} again", "give each text its own name")
        try:
            check_name(key)  # files are called so
        except BadOption as error:
            raise BadFile(f"line {number} of {source}: {error.what}", error.do) from error
        found[key] = Line(key, (text if mark else line).strip(), bool(mark))
    return list(found.values())


def read_texts(path: Path) -> dict[str, str]:
    """The texts of a file by item name. Raises BadFile."""
    try:
        written = read_bounded(path, MAX_TEXTS_BYTES).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadFile(f"the texts {path} cannot be read: {error}", "give a UTF-8 text file, one text a line") from error
    found = lines_of(written, path.name)
    if not found:
        raise BadFile(f"{path.name} has no text", "write one text a line")
    return {line.name: line.text for line in found}
