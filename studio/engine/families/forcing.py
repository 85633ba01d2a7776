"""The contract of families whose nets can be given frames: teacher forcing, segment by segment.

The family's own row says what is fed, as when it speaks; only the frames are not drawn. So what is heard of a segment
(what it saw, how much is remembered) is the same rule in both.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np

from studio.core.errors import BadFile
from studio.core.events import Eos, Event, Segment
from studio.engine.families.base import Row, Want

FAR = 1 << 30  # frames: a limit for rows that are to have none
MOST_FRAMES = 2000  # of a segment: an attention that is looked into holds frames by frames, half a gigabyte of these


@dataclass(frozen=True)
class Spoken:
    """A segment as a trace tells of it.

    Attributes:
        words, seen: spoken words, and those that the net saw.
        first, stop: its first frame, and the one before which it ended.
        spoke: the frame before which its last word ended, so that what follows is a pause; None where that is not told.
        options: in force when it was planned.
        flushed: whether a flush, not the text's end, let it speak with fewer words in view.
    """

    words: range
    seen: range
    first: int
    stop: int
    spoke: int | None
    options: Mapping[str, Any]
    flushed: bool


@dataclass(frozen=True)
class Given:
    """Frames, and the words that are said in them.

    Attributes:
        words: spoken words.
        frames: [F, ...] of the voice's alphabet.
        spoken: the segments of a trace; empty where the text is there from the start, whole.
        word_starts, word_ends: the frame in which each word begins, and before which it ends; empty where the net
            decides.
        lead: frames before speech, in which no segment ends.
        seed: what was drawn with, for nets that draw beside their frames.
    """

    words: Sequence[str]
    frames: np.ndarray = field(repr=False)
    speaker: int
    options: Mapping[str, Any]
    spoken: Sequence[Spoken] = ()
    word_starts: Sequence[int] = ()
    word_ends: Sequence[int] = ()
    lead: int = 0
    seed: int = 0


@dataclass(frozen=True, eq=False)
class ForcedSegment:
    """What a net said of one segment of n frames.

    Attributes:
        first: index of its first frame.
        word: the spoken word of column 0 of ``by_layer``.
        by_layer: float32 [L, n, K], see ``studio.core.traces.forced.Attended``.
        p_eos, log_likelihood: float32 [n].
        forced: whether a limit, or who placed the words, ended it, not the net.
        events: segment, words and end, as the family's row tells them; no frames.
    """

    index: int
    first: int
    word: int
    by_layer: np.ndarray
    p_eos: np.ndarray
    log_likelihood: np.ndarray
    forced: bool
    events: Sequence[Event]


@runtime_checkable
class Forcible(Protocol):
    """A family that can be given frames.

    Attributes:
        attends_to: what the columns of its attention are, in words.
    """

    attends_to: str

    def force(self, given: Given) -> Iterator[ForcedSegment]:
        """Segment by segment, until the frames or the words are at their end. Raises BadFile, BadOption."""
        ...


class Arrivals:
    """Lets a row have its text as the utterance had it that is to be followed."""

    def __init__(self, row: Row, given: Given) -> None:
        self._row, self._given = row, given
        self._committed = self._segment = 0
        if not given.spoken:
            row.commit(given.words)
            row.end()

    def want(self) -> Want | None:
        """What the row wants for its next segment; None where there is none."""
        given, row = self._given, self._row
        if not given.spoken:
            return row.want()
        if self._segment == len(given.spoken):
            return None
        one = given.spoken[self._segment]
        row.set_options(one.options, None)
        row.commit(given.words[self._committed : one.seen.stop])
        self._committed = max(self._committed, one.seen.stop)
        want = row.want()
        if want is None:
            if one.flushed:
                row.flush()
            else:
                row.end()
            want = row.want()
        if want is None:
            raise another(self._segment)
        return want

    def stop(self, first: int, words: range, least: int = 1) -> int | None:
        """The frame before which a segment ends that speaks these words; None where the net decides.

        Args:
            least: frames that it has at least.
        """
        given, total = self._given, len(self._given.frames)
        if given.spoken:
            return min(total, max(first + least, given.spoken[self._segment].stop))
        if words.stop == len(given.words):
            return total  # what follows the last word is nobody else's
        if not given.word_ends:
            return None
        return min(total, max(first + least, given.word_ends[words.stop - 1]))

    def begun(self, events: Sequence[Event]) -> None:
        """A segment began as the row said. Raises BadFile where the trace says otherwise."""
        if self._given.spoken:
            one = self._given.spoken[self._segment]
            begun = next(event for event in events if isinstance(event, Segment))
            if (begun.words, begun.seen) != ([*one.words], [*one.seen]):
                raise another(self._segment)
        self._segment += 1


def another(segment: int) -> BadFile:
    """A segment of the trace is not the one that the family's rule makes."""
    return BadFile(
        f"segment {segment} of the trace saw other words than its options and its text allow",
        "it was changed in a way that the trace does not tell",
    )


class ForcedPass(ABC):
    """One pass over given frames, segment by segment; the row says what is fed, as when it speaks.

    Args:
        row: of no slots, and without a limit of a segment's frames: ``given`` may hold a long pause.
    """

    def __init__(self, row: Row, given: Given) -> None:
        self._given, self._arrivals = given, Arrivals(row, given)

    def segments(self) -> Iterator[ForcedSegment]:
        """See ``Forcible``."""
        first, index = 0, 0
        while first < len(self._given.frames) and (want := self._arrivals.want()) is not None:
            one, begun = self._segment(index, first, want.inputs)
            self._arrivals.begun(begun)
            yield one
            first, index = first + len(one.p_eos), index + 1

    @abstractmethod
    def _segment(self, index: int, first: int, fed: Any) -> tuple[ForcedSegment, Sequence[Event]]:
        """The segment that begins at a frame with what the row wants to be fed, and what the row tells of it."""

    def _frames(self, first: int, stop: int | None, longest: int, most: int | None = MOST_FRAMES) -> np.ndarray:
        """The frames that a segment may take [n, ...]: up to ``stop``, or so many where the net decides.

        Raises BadFile where they are more than ``most``, which is for nets whose frames attend to frames.
        """
        frames = self._given.frames[first : first + longest if stop is None else stop]
        if most is not None and len(frames) > most:
            raise BadFile(
                f"the words that begin with frame {first} would have {len(frames):,} frames, and {most:,} is the most",
                "give the text of all that is said, and cut long pauses out",
            )
        return frames

    def _end(self, ended: np.ndarray, first: int) -> int:
        """How many frames a segment takes where the net decides: bool [n], whether it is over after each."""
        may = np.flatnonzero(ended & (np.arange(first, first + len(ended)) >= self._given.lead))
        return int(may[0]) + 1 if len(may) else len(ended)


def with_end(events: Sequence[Event], p: float, *, forced: bool) -> list[Event]:
    """Events of a row that was told when to end, with what the net said of that end."""
    return [replace(one, p=p, forced=forced) if isinstance(one, Eos) else one for one in events]


def by_word(shares: np.ndarray, words: np.ndarray, columns: range) -> np.ndarray:
    """Shares of tokens [L, n, T] summed by the word of each token int [T]: float32 [L, n, K] for words ``columns``."""
    found = np.zeros((*shares.shape[:2], len(columns)), np.float32)
    for k, word in enumerate(columns):
        found[..., k] = shares[..., words == word].sum(-1)
    return found
