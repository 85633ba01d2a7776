"""Scripts to synthesise: one per line, ``name|text`` or only the text."""

from dataclasses import dataclass
from pathlib import Path

from studio.core.errors import BadFile, BadOption
from studio.core.files import MAX_TEXTS_BYTES, read_bounded
from studio.mos.campaign.names import check_name


@dataclass(frozen=True)
class TextLine:
    """A text with its item's name, and whether the name was given or derived from the line number."""

    name: str
    text: str
    is_named: bool


def parse_texts(written: str, source: str) -> list[TextLine]:
    """Parse the texts of a file or form field; empty lines are skipped but counted.

    Args:
        source: its name in error messages.

    Raises:
        BadFile: a name is invalid or duplicate; the message has the line number.
    """
    found: dict[str, TextLine] = {}
    for number, line in enumerate(written.splitlines(), start=1):
        name, mark, text = line.partition("|")
        if not line.strip():
            continue
        key = name.strip() if mark else f"text{number:03}"
        if key in found:
            raise BadFile(f"line {number} of {source} names {key!r:.80} again", "give each text its own name")
        try:
            check_name(key)  # it becomes a file name
        except BadOption as error:
            raise BadFile(f"line {number} of {source}: {error.what}", error.do) from error
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
