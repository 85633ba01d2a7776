"""CSV that stays text in a spreadsheet and whole in every reader, whatever somebody typed into a cell."""

import csv
import io
import re
from collections.abc import Iterable, Sequence

# Where a program may see a cell begin: after a line break, and after a separator that ours is not. Excel takes the
# semicolon in half of Europe, and some programs divide the lines before they look at quotes.
_BEGINS = r"(?:^|(?<=[;\t\r\n\v\f\x1c-\x1e\x85\u2028\u2029]))"
_BLANKS = r"[ \0-\x08\x0e-\x1b\x1f\x7f\xa0\xad\u1680\u180e\u2000-\u200f\u202a-\u202f\u205f-\u2064\u3000\ufeff]*"
_FORMULA = r"[=+\-@\uff1d\uff0b\uff0d\uff20]"
_RISKY = re.compile(rf"(?:^(?=[\t\r\n]))|{_BEGINS}(?='|{_BLANKS}{_FORMULA})")
_CRLF = "\r\n"
_ESCAPED = re.compile(rf"{_BEGINS}'")


def safe_cell(value: object) -> object:
    """Text in which a spreadsheet could see a formula gets an apostrophe before it; numbers stay as they are.

    Also behind a line break, a semicolon and a tab, and where blanks come first. An apostrophe of the text's own in
    such a place is doubled, so that ``plain_text`` is the exact inverse.
    """
    return _RISKY.sub("'", value) if isinstance(value, str) else value


def plain_text(cell: str) -> str:
    """The text behind a cell that ``safe_cell`` wrote."""
    return _ESCAPED.sub("", cell)


def csv_text(rows: Iterable[Sequence[object]]) -> str:
    """Rows as CSV with lines that end in a line feed; each text is a ``safe_cell``, the names in the first row too."""
    out = _Lines()
    # Before 3.13 csv quotes a carriage return only where it ends lines, and an open one would divide a row.
    csv.writer(out, lineterminator=_CRLF).writerows(map(safe_cell, row) for row in rows)
    return out.getvalue()


class _Lines(io.StringIO):
    """Takes whole rows, as csv writes them, and ends them in a line feed."""

    def write(self, row: str, /) -> int:
        return super().write(row.removesuffix(_CRLF) + "\n")
