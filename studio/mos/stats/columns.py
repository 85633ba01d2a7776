"""Answers of a listening test as columns: ratings (one score each) and votes (one choice between two systems)."""

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from studio.core.errors import BadFile, BadOption
from studio.core.files import read_bounded

F8 = NDArray[np.float64]
I8 = NDArray[np.int64]
Mask = NDArray[np.bool_]

MAX_VOTES_BYTES = 1 << 28
A, B, TIE, BOTH_BAD = range(4)
OUTCOMES = ("a", "b", "tie", "both_bad")


@dataclass(frozen=True)
class Ratings:
    """Scores, one row each; the index columns point into the lists of names.

    A score of a comparison (CMOS, DCR) arrives sign-corrected: positive is in favour of the row's system.

    Attributes:
        score: [N]; any scale.
        rater: [N] into ``raters``.
        item: [N] into ``items``, the scripts.
        system: [N] into ``systems``.
    """

    score: F8
    rater: I8
    item: I8
    system: I8
    raters: list[str]
    items: list[str]
    systems: list[str]

    def __post_init__(self) -> None:
        """Raises BadOption on columns of unequal length, indices without a name, or scores that are not numbers."""
        rows = len(self.score)
        _index("rater", self.rater, self.raters, rows)
        _index("item", self.item, self.items, rows)
        _index("system", self.system, self.systems, rows)
        if not np.isfinite(self.score).all():
            raise BadOption("a score is not a finite number", "leave unanswered rows out")

    def __len__(self) -> int:
        """Number of ratings."""
        return len(self.score)

    def where(self, rows: Mask | I8) -> "Ratings":
        """Some of the rows, by a mask [N] or by their indices; the lists of names stay as they are."""
        return replace(
            self, score=self.score[rows], rater=self.rater[rows], item=self.item[rows], system=self.system[rows]
        )


@dataclass(frozen=True)
class Votes:
    """Choices between two systems, one row each.

    Attributes:
        a: [N] into ``systems``; which of the two was played first is not kept here.
        b: [N] into ``systems``, never the same as ``a``.
        outcome: [N] of A, B, TIE, BOTH_BAD.
        rater: [N] into ``raters``, or None where raters are not known.
    """

    a: I8
    b: I8
    outcome: NDArray[np.uint8]
    rater: I8 | None
    systems: list[str]
    raters: list[str]

    def __post_init__(self) -> None:
        """Raises BadOption on columns of unequal length, indices without a name, or a system against itself."""
        rows = len(self.outcome)
        _index("a", self.a, self.systems, rows)
        _index("b", self.b, self.systems, rows)
        if self.rater is not None:
            _index("rater", self.rater, self.raters, rows)
        if rows and int(self.outcome.max()) > BOTH_BAD:
            raise BadOption(f"an outcome has code {self.outcome.max()}", "codes are 0 a, 1 b, 2 tie, 3 both_bad")
        if (self.a == self.b).any():
            row = int(np.flatnonzero(self.a == self.b)[0])
            raise BadOption(f"vote {row + 1} compares {self.systems[self.a[row]]} with itself", "give two systems")

    def __len__(self) -> int:
        """Number of votes."""
        return len(self.outcome)

    def where(self, rows: Mask | I8) -> "Votes":
        """Some of the rows, by a mask [N] or by their indices; the lists of names stay as they are."""
        rater = None if self.rater is None else self.rater[rows]
        return replace(self, a=self.a[rows], b=self.b[rows], outcome=self.outcome[rows], rater=rater)


def ratings_from_rows(rows: Iterable[tuple[str, str, str, float]], systems: Sequence[str] | None = None) -> Ratings:
    """Ratings from rows of (rater, item, system, score); ``systems`` sets their order, else they are sorted.

    Raises:
        BadOption: a system that is not in ``systems``, or a score that is not a finite number.
    """
    listed = list(rows)
    rater, raters = _coded([r[0] for r in listed])
    item, items = _coded([r[1] for r in listed])
    system, names = _coded([r[2] for r in listed], systems)
    return Ratings(np.array([r[3] for r in listed], np.float64), rater, item, system, raters, items, names)


def votes_from_rows(rows: Iterable[tuple[str, str, str, str | None]], systems: Sequence[str] | None = None) -> Votes:
    """Votes from rows of (a, b, outcome, rater); the rater is None in all rows or in none.

    Raises:
        BadOption: an outcome or a system that is not known, or a rater in some rows only.
    """
    listed = list(rows)
    codes = {name: code for code, name in enumerate(OUTCOMES)}
    unknown = {r[2] for r in listed} - set(codes)
    if unknown:
        raise BadOption(f"{sorted(unknown)[0]!r} is not an outcome", f"it may be {', '.join(OUTCOMES)}")
    both, names = _coded([r[0] for r in listed] + [r[1] for r in listed], systems)
    given = [r[3] for r in listed if r[3] is not None]
    if given and len(given) < len(listed):
        raise BadOption(f"{len(listed) - len(given)} votes have no rater", "give every vote its rater, or none")
    rater, raters = _coded(given)
    outcome = np.array([codes[r[2]] for r in listed], np.uint8)
    return Votes(both[: len(listed)], both[len(listed) :], outcome, rater if given else None, names, raters)


def votes_from_csv(path: Path) -> Votes:
    """Votes from a CSV file with a header: a, b, outcome (a, b, tie, both_bad) and, optionally, rater.

    An export of this studio names the systems ``system_a`` and ``system_b``; its rows without an outcome are scores.

    Other columns are left alone.

    Raises:
        BadFile: the file is absent, is not UTF-8, lacks a column, or has a line that is not a vote (named by number).
    """
    try:
        text = read_bounded(path, MAX_VOTES_BYTES).decode("utf-8-sig")
        rows = _vote_lines(csv.DictReader(io.StringIO(text, newline=""), strict=True), path.name)
    except FileNotFoundError as error:
        raise BadFile(f"there is no file {path}", "check the path") from error
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadFile(f"{path.name} cannot be read as CSV: {error}", "save it as UTF-8 text with commas") from error
    if not rows:
        raise BadFile(f"{path.name} has no votes", "one line a vote, under the header a,b,outcome,rater")
    return votes_from_rows(rows)


def _vote_lines(reader: "csv.DictReader[str]", name: str) -> list[tuple[str, str, str, str | None]]:
    columns = reader.fieldnames or []
    exported = "a" not in columns and "system_a" in columns
    first, second = ("system_a", "system_b") if exported else ("a", "b")
    missing = [c for c in (first, second, "outcome") if c not in columns]
    if missing:
        raise BadFile(f"{name} has no column {', '.join(missing)}", "line 1 must be a,b,outcome or a,b,outcome,rater")
    rows: list[tuple[str, str, str, str | None]] = []
    for line in reader:
        a, b, outcome = line[first], line[second], line["outcome"]
        if exported and not outcome:
            continue
        rater = line["rater"] if "rater" in columns else None
        where = f"line {reader.line_num} of {name}"
        if not a or not b:
            raise BadFile(f"{where} does not name two systems", "fill the columns a and b")
        if a == b:
            raise BadFile(f"{where} compares {a!r} with itself", "a and b must differ")
        if outcome not in OUTCOMES:
            raise BadFile(f"{where} has the outcome {outcome!r}", f"it may be {', '.join(OUTCOMES)}")
        if "rater" in columns and not rater:
            raise BadFile(f"{where} has no rater", "fill the column rater in every line, or leave the column out")
        rows.append((a, b, outcome, rater))
    return rows


def _coded(names: Sequence[str], order: Sequence[str] | None = None) -> tuple[I8, list[str]]:
    known = sorted(set(names)) if order is None else list(order)
    codes = {name: code for code, name in enumerate(known)}
    strange = set(names) - set(codes)
    if strange:
        raise BadOption(f"{sorted(strange)[0]!r} is not among the systems", f"known are {', '.join(known)}")
    return np.array([codes[name] for name in names], np.int64), known


def _index(what: str, index: I8, names: list[str], rows: int) -> None:
    if index.shape != (rows,):
        raise BadOption(f"column {what} has {len(index)} rows of {rows}", "give columns of equal length")
    if rows and not 0 <= int(index.min()) <= int(index.max()) < len(names):
        raise BadOption(f"column {what} points outside its {len(names)} names", "indices start at 0")
    if len(set(names)) < len(names):
        raise BadOption(f"two names of {what} are the same", "give each its own")
