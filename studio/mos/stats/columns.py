"""Answers of a listening test as columns: ratings (one score each) and votes (one choice between two systems)."""

from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from studio.core.errors import BadOption

F8 = NDArray[np.float64]
I8 = NDArray[np.int64]
Mask = NDArray[np.bool_]

A, B, TIE, BOTH_BAD = range(4)
_Columns = TypeVar("_Columns", "Ratings", "Votes")
OUTCOMES = ("a", "b", "tie", "both_bad")


@dataclass(frozen=True)
class ScoreScale:
    """Lowest and highest possible score."""

    low: float
    high: float

    @property
    def step(self) -> float:
        """Resolution: 1, or a twentieth of a long (slider) scale."""
        return max(1.0, (self.high - self.low) / 20)

    @property
    def is_binary(self) -> bool:
        """Whether there are only two answers, so that a mean is a share."""
        return self.high - self.low <= self.step

    @property
    def difference_scale(self) -> "ScoreScale":
        """Scale of the difference of two scores."""
        return ScoreScale(self.low - self.high, self.high - self.low)


@dataclass(frozen=True)
class Ratings:
    """Scores as columns; the index columns refer to the lists of names.

    Scores of comparisons (CMOS, DCR) are sign-corrected: positive favours the row's system. Raises BadOption for
    columns of unequal length, indices out of range, and scores that are not finite or outside the scale.
    """

    score: F8  # [N]; ``rater``, ``item`` (the script) and ``system``: [N], codes
    rater: I8
    item: I8
    system: I8
    raters: list[str]
    items: list[str]
    systems: list[str]
    scale: ScoreScale | None = None  # possible scores; None if unknown

    def __post_init__(self) -> None:
        rows = len(self.score)
        for what, index, names in (
            ("rater", self.rater, self.raters),
            ("item", self.item, self.items),
            ("system", self.system, self.systems),
        ):
            _check_index(what, index, names, rows)
        if not np.isfinite(self.score).all():
            raise BadOption("a score is not a finite number", "omit unanswered rows")
        if rows and self.scale and not self.scale.low <= self.score.min() <= self.score.max() <= self.scale.high:
            raise BadOption("a score is outside the scale", f"it ranges from {self.scale.low:g} to {self.scale.high:g}")

    def __len__(self) -> int:
        return len(self.score)

    def where(self, rows: Mask | I8) -> "Ratings":
        """Select rows by a mask [N] or by indices; the lists of names are unchanged."""
        return _chosen(self, rows, ("score", "rater", "item", "system"))

    def code_of(self, system: str) -> int:
        """Code of a system. Raises BadOption if it is unknown."""
        if system not in self.systems:
            raise BadOption(f"there is no system {system!r}", f"choose {', '.join(self.systems)}")
        return self.systems.index(system)


@dataclass(frozen=True)
class Votes:
    """Choices between two systems as columns; raises BadOption as ``Ratings``, or for a system against itself."""

    a: I8  # [N] codes into ``systems``, as ``b``; the order of presentation is not stored
    b: I8
    outcome: NDArray[np.uint8]  # [N] of A, B, TIE, BOTH_BAD
    rater: I8 | None  # [N] codes into ``raters``; None if unknown
    systems: list[str]
    raters: list[str]
    item: I8 | None = None  # [N] codes into ``items`` (scripts); None if unknown
    items: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        rows = len(self.outcome)
        _check_index("a", self.a, self.systems, rows)
        _check_index("b", self.b, self.systems, rows)
        if self.rater is not None:
            _check_index("rater", self.rater, self.raters, rows)
        if self.item is not None:
            _check_index("item", self.item, self.items, rows)
        if rows and int(self.outcome.max()) > BOTH_BAD:
            raise BadOption(f"an outcome has code {self.outcome.max()}", "codes are 0 a, 1 b, 2 tie, 3 both_bad")
        if (self.a == self.b).any():
            row = int(np.flatnonzero(self.a == self.b)[0])
            raise BadOption(f"vote {row + 1} compares {self.systems[self.a[row]]} with itself", "give two systems")

    def __len__(self) -> int:
        return len(self.outcome)

    def where(self, rows: Mask | I8) -> "Votes":
        """Select rows by a mask [N] or by indices; the lists of names are unchanged."""
        return _chosen(self, rows, ("a", "b", "outcome", "rater", "item"))


def ratings_from_rows(
    rows: Iterable[tuple[str, str, str, float]], systems: Sequence[str] | None = None, scale: ScoreScale | None = None
) -> Ratings:
    """Ratings from rows of (rater, item, system, score); systems are sorted by name, or in the given order.

    Raises BadOption if a system is not among ``systems``, or a score is not finite or outside the scale.
    """
    listed = list(rows)
    rater, raters = _encode([r[0] for r in listed])
    item, items = _encode([r[1] for r in listed])
    system, names = _encode([r[2] for r in listed], systems)
    score = np.array([r[3] for r in listed], np.float64)
    return Ratings(score, rater, item, system, raters, items, names, scale)


class Vote(NamedTuple):
    """One choice by names; rater and item are given for all votes or for none."""

    a: str
    b: str
    outcome: str
    rater: str | None = None
    item: str | None = None


def votes_from_rows(rows: Iterable[tuple[str | None, ...]], systems: Sequence[str] | None = None) -> Votes:
    """Votes from rows as ``Vote``; ``systems`` sets their order (default: sorted).

    Raises BadOption for an unknown outcome or system, or a rater (item) that only some rows have.
    """
    votes = [Vote(*row) for row in rows]  # type: ignore[arg-type]
    codes = {name: code for code, name in enumerate(OUTCOMES)}
    if unknown := {v.outcome for v in votes} - set(codes):
        raise BadOption(f"{min(unknown)!r} is not an outcome", f"choose {', '.join(OUTCOMES)}")
    both, names = _encode([v.a for v in votes] + [v.b for v in votes], systems)
    rater, raters = _encode_optional("rater", [v.rater for v in votes])
    item, items = _encode_optional("item", [v.item for v in votes])
    outcome = np.array([codes[v.outcome] for v in votes], np.uint8)
    return Votes(both[: len(votes)], both[len(votes) :], outcome, rater, names, raters, item, items)


def distinct(codes: I8) -> I8:
    """Distinct codes, sorted. ``np.unique`` fills a hash table, which takes up to a hundred times as long."""
    ordered = np.sort(codes)
    return ordered[np.append(np.ones(len(codes[:1]), np.bool_), ordered[1:] != ordered[:-1])]


def distinct_rows(*columns: I8) -> int:
    """Number of distinct rows of columns of codes [N] from 0."""
    key = np.zeros(len(columns[0]), np.int64)
    for codes in columns:
        size = int(codes.max(initial=0)) + 1
        if int(key.max(initial=0)) >= np.iinfo(np.int64).max // size - 1:
            key = np.unique(key, return_inverse=True)[1].astype(np.int64)
        key = key * size + codes
    return len(distinct(key))


def _encode(names: Sequence[str], order: Sequence[str] | None = None) -> tuple[I8, list[str]]:
    known = sorted(set(names)) if order is None else list(order)
    codes = {name: code for code, name in enumerate(known)}
    if unknown := set(names) - set(codes):
        raise BadOption(f"{min(unknown)!r} is not among the systems", f"systems are {', '.join(known)}")
    return np.array([codes[name] for name in names], np.int64), known


def _encode_optional(what: str, names: Sequence[str | None]) -> tuple[I8 | None, list[str]]:
    """Codes of a complete column; None for an empty one. Raises BadOption for gaps."""
    known = [name for name in names if name is not None]
    if not known:
        return None, []
    if len(known) < len(names):
        raise BadOption(f"{len(names) - len(known)} votes have no {what}", f"give every vote a {what}, or none")
    return _encode(known)


def _chosen(columns: _Columns, rows: Mask | I8, names: Sequence[str]) -> _Columns:
    """Select rows without validation: rows of valid columns are valid, and checking all names is slow."""
    chosen = copy(columns)
    for name in names:
        if (column := getattr(columns, name)) is not None:
            object.__setattr__(chosen, name, column[rows])
    return chosen


def _check_index(what: str, index: I8, names: list[str], rows: int) -> None:
    if index.shape != (rows,):
        raise BadOption(f"column {what} has {len(index)} rows of {rows}", "all columns need the same length")
    if rows and not 0 <= int(index.min()) <= int(index.max()) < len(names):
        raise BadOption(f"column {what} points outside its {len(names)} names", "indices start at 0")
    if len(set(names)) < len(names):
        raise BadOption(f"two names of {what} are the same", "names must be unique")
