"""Answers of a listening test as columns: ratings (one score each) and votes (one choice between two systems)."""

import csv
import io
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from studio.core.errors import BadFile, BadOption
from studio.core.files import read_bounded

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
        return replace(self, **{name: getattr(self, name)[rows] for name in ("score", "rater", "item", "system")})

    def code_of(self, system: str) -> int:
        """Raises BadOption for an unknown system."""
        if system not in self.systems:
            raise BadOption(f"there is no system {system!r}", f"choose {', '.join(self.systems)}")
        return self.systems.index(system)


@dataclass(frozen=True)
class Votes:
    """Choices between two systems as columns; raises BadOption as ``Ratings`` and if a system meets itself."""

    a: I8  # [N] into ``systems``, like ``b``; the order of presentation is not stored
    b: I8
    outcome: NDArray[np.uint8]  # [N] of A, B, TIE, BOTH_BAD
    rater: I8 | None  # [N] into ``raters``; None if unknown, like ``item`` into ``items``, the scripts
    systems: list[str]
    raters: list[str]
    item: I8 | None = None
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
        rater, item = (None if c is None else c[rows] for c in (self.rater, self.item))
        return replace(self, a=self.a[rows], b=self.b[rows], outcome=self.outcome[rows], rater=rater, item=item)


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


def _encode(names: Sequence[str], order: Sequence[str] | None = None) -> tuple[I8, list[str]]:
    known = sorted(set(names)) if order is None else list(order)
    codes = {name: code for code, name in enumerate(known)}
    if unknown := set(names) - set(codes):
        raise BadOption(f"{min(unknown)!r} is not among the systems", f"systems are {', '.join(known)}")
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


EXPORTED = ("role", "counted", "use", "question", "system_a", "system_b", "outcome", "rater", "item", "campaign")
_LINE_1 = "line 1 must be a,b,outcome and optionally rater and item"
MAX_VOTES_BYTES = 1 << 28


def votes_from_csv(path: Path, campaign: str = "", tag: str = "") -> tuple[Votes, dict[str, int]]:
    """Votes from a CSV file with a header: a, b, outcome (a, b, tie, both_bad) and optionally rater and item (script).

    From an export of the studio, which has ``system_a`` and ``system_b``, only rows that the analysis counts are read:
    counted answers to the preference question on test trials, of raters that no gate excludes. In other files every
    line counts, and further columns are ignored. ``campaign``: name of the campaign to read from an export of several;
    ``tag``: only votes on scripts with this tag (column ``tags``, separated by semicolons). Raises BadFile: the file is
    missing, not UTF-8, lacks a column, has an invalid line (reported by number), or contains several campaigns, whose
    scores are not comparable.

    Returns:
        The votes, and the number of skipped rows by reason.
    """
    try:
        text = read_bounded(path, MAX_VOTES_BYTES).decode("utf-8-sig")
        rows, left_out = _lines(csv.DictReader(io.StringIO(text, newline=""), strict=True), path.name, campaign, tag)
    except FileNotFoundError as error:
        raise BadFile(f"there is no file {path}", "check the path") from error
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadFile(f"{path.name} cannot be read as CSV: {error}", "save it as UTF-8 text with commas") from error
    if not rows:
        why = "; ".join(f"{count} left out: {reason}" for reason, count in left_out.items())
        raise BadFile(
            f"{path.name} has no votes" + (f" that count ({why})" if why else ""),
            "write one line per vote under the header a,b,outcome,rater,item",
        )
    return votes_from_rows(rows), dict(left_out)


def _lines(reader: "csv.DictReader[str]", name: str, campaign: str, tag: str) -> tuple[list[Vote], Counter[str]]:
    columns = reader.fieldnames or []
    exported = "a" not in columns and "system_a" in columns
    needed = [*(EXPORTED if exported else ("a", "b", "outcome")), *(["tags"] if tag else [])]
    if missing := [c for c in needed if c not in columns]:
        do = "export the campaign again" if exported else _LINE_1
        raise BadFile(f"{name} has no column {', '.join(missing)}", do)
    rows: list[Vote] = []
    left_out: Counter[str] = Counter()
    campaigns: set[str] = set()
    for line in reader:
        if exported and campaign and line["campaign"] != campaign:
            left_out["of another campaign"] += 1
        elif exported and (reason := _why_not(line)):
            left_out[reason] += 1
        elif tag and tag not in line["tags"].split(";"):
            left_out[f"of scripts without the tag {tag}"] += 1
        else:
            rows.append(_vote(line, exported, f"line {reader.line_num} of {name}"))
            campaigns |= {line["campaign"]} if exported else set()
    if len(campaigns) > 1:
        named = ", ".join(sorted(campaigns))
        raise BadFile(
            f"{name} holds several campaigns ({named}), whose scores cannot be compared", "choose one with --campaign"
        )
    return rows, left_out


def _why_not(line: Mapping[str, str]) -> str | None:
    """Reason why the analysis does not count a row of an export; None if it does."""
    if line["role"] != "test":
        return f"answers to {_ROLES.get(line['role'], line['role'])}"
    if line["counted"] not in ("True", "true", "1"):
        return "repeated attempts, which do not count"
    if not line["outcome"]:
        return "scores, not choices"
    if line["question"] != "preference":
        return "answers to other questions than preference"
    return "votes of raters whom a gate excludes" if line["use"] == "fail" else None


_ROLES = {"training": "practice", "trap": "traps", "gold": "golds", "repeat": "repeats"}


def _vote(line: Mapping[str, str], exported: bool, where: str) -> Vote:
    first, second = ("system_a", "system_b") if exported else ("a", "b")
    a, b, outcome = line[first], line[second], line["outcome"]
    if not a or not b:
        raise BadFile(f"{where} does not name two systems", f"fill the columns {first} and {second}")
    if a == b:
        raise BadFile(f"{where} compares {a!r} with itself", f"{first} and {second} must differ")
    if outcome not in OUTCOMES:
        raise BadFile(f"{where} has the outcome {outcome!r}", f"choose {', '.join(OUTCOMES)}")
    known = {what: line[what] for what in ("rater", "item") if what in line}
    if empty := [what for what, value in known.items() if not value]:
        do = f"fill the column {empty[0]} in every line, or leave the column out"
        raise BadFile(f"{where} has no {empty[0]}", do)
    return Vote(a, b, outcome, **known)
