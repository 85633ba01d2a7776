"""Counted answers as columns: rater, script and mark of each answer; answers can share a mark.

A file has up to millions of answers, but few distinct marks: scores 1 to 5 of five systems give 25.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar, overload

import numpy as np

from studio.mos.kinds.base import CountedAnswer
from studio.mos.stats.columns import I8

_Name = TypeVar("_Name", bound=Hashable)
_Row = TypeVar("_Row")


@dataclass(frozen=True)
class MarkedAnswers(Sequence[CountedAnswer]):
    """Counted answers [N] by columns.

    Attributes:
        raters: names; ``rater``: [N] codes into them; ``items`` and ``item`` likewise for scripts.
        marks: answers without rater and script; ``mark``: [N] indices into them.
    """

    raters: Sequence[str]
    items: Sequence[str]
    marks: Sequence[CountedAnswer]
    rater: I8
    item: I8
    mark: I8

    def __len__(self) -> int:
        return len(self.mark)

    @overload
    def __getitem__(self, index: int) -> CountedAnswer: ...
    @overload
    def __getitem__(self, index: slice) -> list[CountedAnswer]: ...
    def __getitem__(self, index: int | slice) -> CountedAnswer | list[CountedAnswer]:
        if isinstance(index, slice):
            return [self[one] for one in range(*index.indices(len(self)))]
        rater, item = self.raters[int(self.rater[index])], self.items[int(self.item[index])]
        return replace(self.marks[int(self.mark[index])], rater=rater, item=item)

    def __iter__(self) -> Iterator[CountedAnswer]:
        return map(self.__getitem__, range(len(self)))

    def rows(self, rows_of: Callable[[CountedAnswer], Sequence[_Row]]) -> tuple[I8, list[_Row], I8]:
        """Rows of all answers, in answer order; ``rows_of`` is called once per mark.

        Returns:
            Answer index [M] of each row; the rows of all marks; index [M] into these.
        """
        by_mark = [rows_of(mark) for mark in self.marks]
        count = np.array([len(rows) for rows in by_mark], np.int64)
        start, number = np.cumsum(count) - count, count[self.mark]
        answer = np.repeat(np.arange(len(self)), number)
        within = np.arange(len(answer)) - np.repeat(np.cumsum(number) - number, number)
        return answer, [row for rows in by_mark for row in rows], start[self.mark[answer]] + within

    def where(self, rows: I8) -> "MarkedAnswers":
        """The answers at these indices, in this order; unused marks are dropped."""
        used, mark = np.unique(self.mark[rows], return_inverse=True)
        marks = list(map(self.marks.__getitem__, used.tolist()))
        return replace(self, marks=marks, rater=self.rater[rows], item=self.item[rows], mark=mark)

    def having(self, test: Callable[[CountedAnswer], bool]) -> "MarkedAnswers":
        """The answers whose marks pass a test."""
        passed = np.array([test(mark) for mark in self.marks], np.bool_)
        return self if passed.all() else self.where(np.flatnonzero(passed[self.mark]))

    def names_of(self, rows: I8 | slice = slice(None)) -> tuple[I8, list[str], I8, list[str]]:
        """Rater codes [M], sorted rater names, script codes [M] and sorted script names of the answers at ``rows``."""
        return (*sorted_codes(self.rater[rows], self.raters), *sorted_codes(self.item[rows], self.items))


def marked(answers: Sequence[CountedAnswer]) -> MarkedAnswers:
    """Answers as columns: unchanged if they are columns already, else with one mark per answer."""
    if isinstance(answers, MarkedAnswers):
        return answers
    (rater, raters), (item, items) = (codes_of([getattr(a, of) for a in answers]) for of in ("rater", "item"))
    return MarkedAnswers(raters, items, answers, rater, item, np.arange(len(answers)))


def codes_of(names: Sequence[_Name]) -> tuple[I8, list[_Name]]:
    """Code [N] of each name, and the names in order of appearance."""
    known = list(dict.fromkeys(names))
    codes = dict(zip(known, range(len(known)), strict=True))
    return np.fromiter(map(codes.__getitem__, names), np.int64, len(names)), known


def sorted_codes(codes: I8, names: Sequence[str]) -> tuple[I8, list[str]]:
    """Recode ``codes`` [N] as indices into the sorted names that occur; ``names`` may contain duplicates."""
    occur = np.flatnonzero(np.bincount(codes, minlength=len(names))).tolist()
    known = sorted({names[code] for code in occur})
    rank = dict(zip(known, range(len(known)), strict=True))
    ranks = np.zeros(len(names), np.int64)
    ranks[occur] = [rank[names[code]] for code in occur]
    return ranks[codes], known
