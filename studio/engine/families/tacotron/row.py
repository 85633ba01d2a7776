"""One utterance of incremental Tacotron 2 (paper 004, section 2.2.1): plain Python, no net.

The encoder runs once for a clause, the decoder once for each chunk of its frames. Between two clauses nothing is kept
but the last frame.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np

from studio.core.events import EOS_AT, Eos, Event, Frames, Segment
from studio.core.text.typography import closed
from studio.core.time import TimeBase
from studio.engine.families.attended import AttendedWords
from studio.engine.families.base import Turn, Want
from studio.engine.families.drawn import check_finite
from studio.engine.families.requests import RequestMark, RequestRow
from studio.engine.families.spelling import END, Pronounce, counts_through, spell
from studio.engine.families.tacotron.rule import WHOLE, Options, prosody_of, repeated

_NO_FRAMES = np.zeros((0, 80), np.uint8)
_TURN_FRAMES = 4  # at most, made in a turn: 10 ms of a CPU's core


@dataclass(frozen=True)
class Clause:
    """A request: what the encoder reads, and what the decoder begins with.

    Attributes:
        symbols, prosody: of each step of the encoder; the clause's end is the last one.
        last: uint8 [80], the frame before.
        frame: index of the first frame to draw.
    """

    symbols: Sequence[int]
    prosody: Sequence[int]
    last: np.ndarray = field(repr=False)
    speaker: int
    temperature: float
    seed: int
    frame: int


@dataclass(frozen=True)
class Chunk:
    """A response: at most so many frames of the clause in the slot, fewer where it ends.

    None are asked for when all are made: the twin's are then heard, a chunk at a time.
    """

    frames: int


@dataclass(frozen=True)
class Made:
    """Frames uint8 [k, 80], how sure the net was after each that the clause is over, and where each attended.

    Attributes:
        p_stop: [k]; only the last one may be ``EOS_AT`` or more.
        attended: int64 [k], the encoder's step with the largest share.
        is_finite: whether what they were drawn from were numbers.
    """

    levels: np.ndarray
    p_stop: list[float]
    attended: np.ndarray
    is_finite: bool

    def split(self, count: int) -> tuple["Made", "Made"]:
        """The first frames, and those after them."""
        parts = (slice(count), slice(count, None))
        first, rest = (Made(self.levels[at], self.p_stop[at], self.attended[at], self.is_finite) for at in parts)
        return first, rest

    def joined(self, more: "Made") -> "Made":
        """These frames and more after them."""
        return Made(
            np.concatenate((self.levels, more.levels)),
            self.p_stop + more.p_stop,
            np.concatenate((self.attended, more.attended)),
            self.is_finite and more.is_finite,
        )


_NOTHING = Made(_NO_FRAMES, [], np.zeros(0, np.int64), is_finite=True)


@dataclass
class _Speaking:
    """The clause that is being spoken.

    Attributes:
        made: how many frames of it there are; ``held`` those of them that were not told yet.
        p: of the last one; is_over: whether that ends the clause.
    """

    index: int
    words: AttendedWords
    options: Options
    limit_frames: int
    made: int = 0
    held: Made = field(default=_NOTHING, repr=False)
    p: float = 0.0

    @property
    def is_forced(self) -> bool:
        """Whether it is cut."""
        return self.p < EOS_AT and self.made >= self.limit_frames

    @property
    def is_over(self) -> bool:
        """Whether all its frames are made."""
        return self.p >= EOS_AT or self.is_forced

    @property
    def chunk(self) -> Chunk:
        """What is wanted next: of a chunk's frames a few, since in a turn the others get one."""
        missing = self.options.chunk_frames - (0 if self.options.mode == WHOLE else len(self.held.levels))
        return Chunk(0 if self.is_over else min(_TURN_FRAMES, missing, self.limit_frames - self.made))

    def take(self, made: Made) -> None:
        """Keep frames that were made."""
        self.made, self.held = self.made + len(made.levels), self.held.joined(made)
        self.p = self.held.p_stop[-1] if made.p_stop else self.p

    def hand_out(self) -> Made:
        """What is told now: a chunk once it is there, of the twin once all is there."""
        waits = not self.is_over and (self.options.mode == WHOLE or len(self.held.levels) < self.options.chunk_frames)
        count = 0 if waits else self.options.chunk_frames
        told, self.held = self.held.split(count)
        return told


@dataclass(frozen=True)
class Mark(RequestMark):
    """A mark with the frame before it, which the next clause begins with."""

    last: np.ndarray = field(repr=False)


class TacotronRow(RequestRow[Options, _Speaking]):
    """Words in, chunks of frames out, a few made in a turn; see ``studio.engine.families.base.Revisable``.

    Args:
        silence: uint8 [S, 80], what comes before the first frame.
        longest_word_frames: a clause is cut at so many frames for each of its words.
    """

    def __init__(
        self,
        slots: tuple[int, ...],
        time_base: TimeBase,
        silence: np.ndarray,
        longest_word_frames: int,
        pronounce: Pronounce,
        *,
        speaker: int,
        options: Mapping[str, Any],
        temperature: float,
        seed: int,
    ) -> None:
        super().__init__(slots, time_base, Options, options, temperature, seed)
        self._longest, self._pronounce, self._speaker = longest_word_frames, pronounce, speaker
        self._last: np.ndarray = silence[-1]

    @property
    def planned(self) -> range:
        """The words of the clause that is wanted."""
        assert self._next is not None, "no clause is wanted"
        return self._next.words.words

    def want(self) -> Want | None:
        """A clause to be encoded where one is whole, or a chunk more of the present one."""
        if self._wanted is None:
            if self._speaking is not None:
                self._wanted = Want("decode", self._speaking.chunk)
            elif (words := self._due(self._options.clauses)) is not None:
                self._wanted = Want("encode", self._clause(words))
        return self._wanted

    def took(self, outputs: Made | None) -> Turn:
        """A clause was encoded, or some frames of it were made. Raises NotFinite."""
        wanted, self._wanted = self._wanted, None
        assert wanted is not None, "nothing was wanted"
        if outputs is None:
            self._speaking, self._next = self._next, None
            assert self._speaking is not None, "a clause was wanted"
            self._spoken = self._speaking.words.words.stop
            return Turn(_NO_FRAMES)
        check_finite(outputs.is_finite and all(map(math.isfinite, outputs.p_stop)))
        assert self._speaking is not None, "a clause was encoded"
        self._speaking.take(outputs)
        return self._told(self._speaking)

    def broken_off(self) -> list[Event]:
        """Nothing: each frame was told with its sound."""
        return []

    def mark(self) -> Mark | None:
        """Where the row stands between two clauses; None within one."""
        mark = super().mark()
        return mark and Mark(mark.spoken, mark.requests, mark.frames, self._last)

    def back(self, mark: RequestMark) -> None:
        """Return to a mark: its clause begins with nothing but the frame before it."""
        assert isinstance(mark, Mark), "a mark of this row's own"
        super().back(mark)
        self._last = mark.last

    def _clause(self, words: range) -> Clause:
        texts = self._texts(words)
        said = self._pronounce(texts)
        if self._options.rests(texts):  # else the net speaks it as the middle of a sentence: its last vowel breaks off
            said = [*said[:-1], closed(said[-1])]
        spelled = [spell(phonemes) for phonemes in said]
        through = AttendedWords(self._time_base, words, counts_through(spelled), self._frames)
        self._next = _Speaking(self._requests, through, self._options, self._longest * len(words))
        return Clause(
            symbols=[*chain.from_iterable(spelled), END],
            prosody=repeated([prosody_of(phonemes) for phonemes in said], spelled),
            last=self._last,
            speaker=self._speaker,
            temperature=self._temperature,
            seed=self._seed,
            frame=self._frames,
        )

    def _told(self, clause: _Speaking) -> Turn:
        """Frames with what happens in them."""
        made, words, before = clause.hand_out(), clause.words, list[Event]()
        if not len(made.levels):
            return Turn(_NO_FRAMES)
        if self._requests == clause.index:
            spoken = [*words.words]
            sample = self._time_base.samples(self._frames)
            before.append(Segment(index=clause.index, words=spoken, seen=spoken, sample=sample, frame=self._frames))
            before.append(words.begun())
            self._requests += 1
        before.append(Frames(first_frame=self._frames, p_eos=made.p_stop, levels=made.levels))
        for k, attended in enumerate(made.attended.tolist()):
            before += words.passed(attended, self._frames + k)
        self._frames, self._last = self._frames + len(made.levels), made.levels[-1]
        is_end = clause.is_over and not len(clause.held.levels)
        return Turn(made.levels, before, self._over(clause) if is_end else [], is_request_end=is_end)

    def _over(self, clause: _Speaking) -> list[Event]:
        self._speaking = None
        ends = clause.words.over(self._frames, self._texts(clause.words.words))
        return [*ends, Eos(segment=clause.index, frame=self._frames, p=clause.p, forced=clause.is_forced)]
