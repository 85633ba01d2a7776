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
class ScoreScale:
    """Lowest and highest possible score."""

    low: float
    high: float

    @property
    def step(self) -> float:
        """Resolution of the scale: 1, or a twentieth of a long (slider) scale."""
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

    Scores of comparisons (CMOS, DCR) are sign-corrected: positive favours the row's system.

    Attributes:
        score: [N].
        rater: [N] into ``raters``.
        item: [N] into ``items``, the scripts.
        system: [N] into ``systems``.
        scale: possible scores; None if unknown.
    """

    score: F8
    rater: I8
    item: I8
    system: I8
    raters: list[str]
    items: list[str]
    systems: list[str]
    scale: ScoreScale | None = None

    def __post_init__(self) -> None:
        """Raises BadOption for columns of unequal length, indices out of range, or scores that are not finite."""
        rows = len(self.score)
        _check_index("rater", self.rater, self.raters, rows)
        _check_index("item", self.item, self.items, rows)
        _check_index("system", self.system, self.systems, rows)
        if not np.isfinite(self.score).all():
            raise BadOption("a score is not a finite number", "omit unanswered rows")
        if rows and self.scale and not self.scale.low <= self.score.min() <= self.score.max() <= self.scale.high:
            ends = f"{self.scale.low:g} to {self.scale.high:g}"
            raise BadOption("a score is outside the scale", f"it ranges from {ends}")

    def __len__(self) -> int:
        return len(self.score)

    def where(self, rows: Mask | I8) -> "Ratings":
        """Select rows by a mask [N] or by indices; the lists of names are unchanged."""
        return replace(
            self, score=self.score[rows], rater=self.rater[rows], item=self.item[rows], system=self.system[rows]
        )


@dataclass(frozen=True)
class Votes:
    """Choices between two systems as columns.

    Attributes:
        a: [N] into ``systems``; the order of presentation is not stored.
        b: [N] into ``systems``, different from ``a``.
        outcome: [N] of A, B, TIE, BOTH_BAD.
        rater: [N] into ``raters``; None if unknown.
        item: [N] into ``items``, the scripts; None if unknown.
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
        """Raises BadOption for columns of unequal length, indices out of range, or a system paired with itself."""
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
        rater, item = (None if c is None else c[rows] for c in (self.rater, self.item))
        return replace(self, a=self.a[rows], b=self.b[rows], outcome=self.outcome[rows], rater=rater, item=item)


def ratings_from_rows(
    rows: Iterable[tuple[str, str, str, float]], systems: Sequence[str] | None = None, scale: ScoreScale | None = None
) -> Ratings:
    """Ratings from rows of (rater, item, system, score).

    Args:
        rows: one per score.
        systems: order of the systems; sorted by name if None.
        scale: possible scores.

    Raises:
        BadOption: a system is not in ``systems``, or a score is not finite or outside the scale.
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


def votes_from_rows(
    rows: Iterable[Vote | tuple[str, str, str, str | None]], systems: Sequence[str] | None = None
) -> Votes:
    """Votes by names; ``systems`` sets their order (default: sorted).

    Raises:
        BadOption: an unknown outcome or system, or a rater (item) that only some rows have.
    """
    listed = [row if isinstance(row, Vote) else Vote(row[0], row[1], row[2], row[3]) for row in rows]
    codes = {name: code for code, name in enumerate(OUTCOMES)}
    unknown = {v.outcome for v in listed} - set(codes)
    if unknown:
        raise BadOption(f"{sorted(unknown)[0]!r} is not an outcome", f"choose {', '.join(OUTCOMES)}")
    both, names = _encode([v.a for v in listed] + [v.b for v in listed], systems)
    rater, raters = _encode_optional("rater", [v.rater for v in listed])
    item, items = _encode_optional("item", [v.item for v in listed])
    outcome = np.array([codes[v.outcome] for v in listed], np.uint8)
    return Votes(both[: len(listed)], both[len(listed) :], outcome, rater, names, raters, item, items)


def _encode(names: Sequence[str], order: Sequence[str] | None = None) -> tuple[I8, list[str]]:
    known = sorted(set(names)) if order is None else list(order)
    codes = {name: code for code, name in enumerate(known)}
    unknown = set(names) - set(codes)
    if unknown:
        raise BadOption(f"{sorted(unknown)[0]!r} is not among the systems", f"systems are {', '.join(known)}")
    return np.array([codes[name] for name in names], np.int64), known


def _encode_optional(what: str, names: Sequence[str | None]) -> tuple[I8 | None, list[str]]:
    """Codes of a column that is complete; None if it is empty."""
    known = [name for name in names if name is not None]
    if not known:
        return None, []
    if len(known) < len(names):
        raise BadOption(f"{len(names) - len(known)} votes have no {what}", f"give every vote a {what}, or none")
    return _encode(known)


def _check_index(what: str, index: I8, names: list[str], rows: int) -> None:
    if index.shape != (rows,):
        raise BadOption(f"column {what} has {len(index)} rows of {rows}", "all columns need the same length")
    if rows and not 0 <= int(index.min()) <= int(index.max()) < len(names):
        raise BadOption(f"column {what} points outside its {len(names)} names", "indices start at 0")
    if len(set(names)) < len(names):
        raise BadOption(f"two names of {what} are the same", "names must be unique")
