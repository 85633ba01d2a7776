"""CSV is read back as it was, row for row, and nothing in it runs, however a program divides it into cells."""

import csv
import io
import re

import pytest
from hypothesis import given as draws
from hypothesis import strategies as st

from studio.measure.tables import csv_text, plain_text, safe_cell

RUNS = re.compile(r"[\s\0\u200b\ufeff]*[=+\-@＝＋－＠]")
TYPED = (
    "nice\r=1+1",
    "x\r@SUM(1)",
    "a\n+1",
    "a\r\n-1",
    "nice;=1+1;",
    "a\t=1",
    "\t=1",
    "\n=1",
    "a\u2028=1",
    "＝1+1",
    " =1+1",
    "\xa0=1",
    "\u200b=1",
    "\ufeff=1",
    "\0=cmd|' /C calc'!A0",
    "\x0b=1",
    "'=1",
    "a\n'=1",
    "\r",
    '"\r=1',
    "",
)
NASTY = st.text(st.sampled_from("a1=+@;,'\"\t\r\n\v \0\u2028＝"), max_size=12)


def read(text: str) -> list[list[str]]:
    return [[plain_text(cell) for cell in row] for row in csv.reader(io.StringIO(text, newline=""), strict=True)]


@pytest.mark.parametrize("typed", TYPED)
def test_what_was_typed_is_one_cell_of_one_row(typed: str) -> None:
    rows = [["first", "comment", "last"], ["a", typed, "b"], ["c", "d", "e"]]
    assert read(csv_text(rows)) == rows


@pytest.mark.parametrize("typed", TYPED)
def test_no_cell_runs_however_it_is_divided(typed: str) -> None:
    """By our own separator, or by another one, or line for line with no eye for quotes."""
    text = csv_text([["a", typed, "b"]])
    (row,) = csv.reader(io.StringIO(text, newline=""))
    pieces = [*row, *re.split(r"[;\t\r\n\u2028]", row[1]), *re.split(r"[;\t]|\r\n|\r|\n", text)]
    assert not [piece for piece in pieces if RUNS.match(piece)]


@draws(st.text() | NASTY)
def test_a_safe_cell_is_text_and_its_own_inverse(text: str) -> None:
    cell = safe_cell(text)
    assert isinstance(cell, str)
    assert not cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n")) and not RUNS.match(cell)
    assert plain_text(cell) == text
    assert read(csv_text([["x", text]])) == [["x", text]]


def test_names_of_columns_are_cells_too() -> None:
    """What a browser tells of itself names columns of its own in the export of raters."""
    assert csv_text([["device_a\r=1"]]) == '"device_a\r\'=1"\n'


def test_numbers_are_left_alone() -> None:
    assert csv_text([["score", "none"], [-3, None]]) == "score,none\n-3,\n"


def test_a_long_comment_takes_no_time() -> None:
    """Every place where a cell may begin is looked at once."""
    for typed in (" " * 4000, "\t" * 4000, "\n \t" * 1300, "\0" * 4000):
        assert plain_text(str(safe_cell(typed))) == typed
