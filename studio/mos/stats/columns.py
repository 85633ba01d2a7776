"""Answers of a listening test as columns: ratings (one score each) and votes (one choice between two systems)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from studio.core.errors import BadOption

F8 = NDArray[np.float64]
I8 = NDArray[np.int64]
Mask = NDArray[np.bool_]

A, B, TIE, BOTH_BAD = range(4)
OUTCOMES = ("a", "b", "tie", "both_bad")


@dataclass(frozen=True)
class Scale:
    """The lowest and the highest answer that there is."""

    low: float
    high: float

    @property
    def step(self) -> float:
        """What raters tell apart: one, or a twentieth of a long scale, on which sliders are set to round numbers."""
        return max(1.0, (self.high - self.low) / 20)

    @property
    def of_shares(self) -> bool:
        """Whether answers are one way or the other, so that a mean is a share."""
        return self.high - self.low <= self.step

    @property
    def of_differences(self) -> "Scale":
        """The scale of differences between two answers."""
        return Scale(self.low - self.high, self.high - self.low)


@dataclass(frozen=True)
class Ratings:
    """Scores, one row each; the index columns point into the lists of names.

    A score of a comparison (CMOS, DCR) arrives sign-corrected: positive is in favour of the row's system.

    Attributes:
        score: [N]; any scale.
        rater: [N] into ``raters``.
        item: [N] into ``items``, the scripts.
        system: [N] into ``systems``.
        scale: what scores there may be; None where that is not known.
    """

    score: F8
    rater: I8
    item: I8
    system: I8
    raters: list[str]
    items: list[str]
    systems: list[str]
    scale: Scale | None = None

    def __post_init__(self) -> None:
        """Raises BadOption on columns of unequal length, indices without a name, or scores that are not numbers."""
        rows = len(self.score)
        _index("rater", self.rater, self.raters, rows)
        _index("item", self.item, self.items, rows)
        _index("system", self.system, self.systems, rows)
        if not np.isfinite(self.score).all():
            raise BadOption("a score is not a finite number", "leave unanswered rows out")
        if rows and self.scale and not self.scale.low <= self.score.min() <= self.score.max() <= self.scale.high:
            ends = f"{self.scale.low:g} to {self.scale.high:g}"
            raise BadOption("a score is outside the scale", f"it goes from {ends}")

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
        item: [N] into ``items``, the scripts, or None where scripts are not known.
    """

    a: I8
    b: I8
    outcome: NDArray[np.uint8]
    rater: I8 | None
    systems: list[str]
    raters: list[str]
    item: I8 | None = None
    items: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        """Raises BadOption on columns of unequal length, indices without a name, or a system against itself."""
        rows = len(self.outcome)
        _index("a", self.a, self.systems, rows)
        _index("b", self.b, self.systems, rows)
        if self.rater is not None:
            _index("rater", self.rater, self.raters, rows)
        if self.item is not None:
            _index("item", self.item, self.items, rows)
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
        rater, item = (None if c is None else c[rows] for c in (self.rater, self.item))
        return replace(self, a=self.a[rows], b=self.b[rows], outcome=self.outcome[rows], rater=rater, item=item)


def ratings_from_rows(
    rows: Iterable[tuple[str, str, str, float]], systems: Sequence[str] | None = None, scale: Scale | None = None
) -> Ratings:
    """Ratings from rows of (rater, item, system, score); ``systems`` sets their order, else they are sorted.

    Raises:
        BadOption: a system that is not in ``systems``, or a score that is not a finite number or outside the scale.
    """
    listed = list(rows)
    rater, raters = _coded([r[0] for r in listed])
    item, items = _coded([r[1] for r in listed])
    system, names = _coded([r[2] for r in listed], systems)
    score = np.array([r[3] for r in listed], np.float64)
    return Ratings(score, rater, item, system, raters, items, names, scale)


class Vote(NamedTuple):
    """One choice by names; rater and item are known in all votes or in none."""

    a: str
    b: str
    outcome: str
    rater: str | None = None
    item: str | None = None


def votes_from_rows(
    rows: Iterable[Vote | tuple[str, str, str, str | None]], systems: Sequence[str] | None = None
) -> Votes:
    """Votes by names; ``systems`` sets their order, else they are sorted.

    Raises:
        BadOption: an outcome or a system that is not known, or a rater (an item) in some rows only.
    """
    listed = [row if isinstance(row, Vote) else Vote(row[0], row[1], row[2], row[3]) for row in rows]
    codes = {name: code for code, name in enumerate(OUTCOMES)}
    unknown = {v.outcome for v in listed} - set(codes)
    if unknown:
        raise BadOption(f"{sorted(unknown)[0]!r} is not an outcome", f"it may be {', '.join(OUTCOMES)}")
    both, names = _coded([v.a for v in listed] + [v.b for v in listed], systems)
    rater, raters = _known("rater", [v.rater for v in listed])
    item, items = _known("item", [v.item for v in listed])
    outcome = np.array([codes[v.outcome] for v in listed], np.uint8)
    return Votes(both[: len(listed)], both[len(listed) :], outcome, rater, names, raters, item, items)


def _coded(names: Sequence[str], order: Sequence[str] | None = None) -> tuple[I8, list[str]]:
    known = sorted(set(names)) if order is None else list(order)
    codes = {name: code for code, name in enumerate(known)}
    strange = set(names) - set(codes)
    if strange:
        raise BadOption(f"{sorted(strange)[0]!r} is not among the systems", f"known are {', '.join(known)}")
    return np.array([codes[name] for name in names], np.int64), known


def _known(what: str, names: Sequence[str | None]) -> tuple[I8 | None, list[str]]:
    """Codes of a column that all rows have, or none."""
    given = [name for name in names if name is not None]
    if not given:
        return None, []
    if len(given) < len(names):
        raise BadOption(f"{len(names) - len(given)} votes have no {what}", f"give every vote its {what}, or none")
    return _coded(given)


def _index(what: str, index: I8, names: list[str], rows: int) -> None:
    if index.shape != (rows,):
        raise BadOption(f"column {what} has {len(index)} rows of {rows}", "give columns of equal length")
    if rows and not 0 <= int(index.min()) <= int(index.max()) < len(names):
        raise BadOption(f"column {what} points outside its {len(names)} names", "indices start at 0")
    if len(set(names)) < len(names):
        raise BadOption(f"two names of {what} are the same", "give each its own")
