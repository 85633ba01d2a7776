"""One utterance of RichTTS (paper 000, sections III.B and IV.B): plain Python, no net.

A piece of text is read whole, then spoken until the net ends it. Between two pieces nothing is kept: each is a text of
its own, which is what SpeakStream is compared with.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from studio.core.events import EOS_AT, Eos, Event, Frames, Segment, WordStart
from studio.core.time import TimeBase
from studio.engine.families.base import Turn, Want
from studio.engine.families.drawn import Drawn
from studio.engine.families.requests import RequestRow
from studio.engine.families.richtts.rule import Options, symbols
from studio.engine.families.shared_out import shared_out


@dataclass(frozen=True)
class Piece:
    """A text to be read: what is fed before its first frame is drawn.

    Attributes:
        symbols: from w_bos to s_bos.
        silence: uint8 [S, 80], the prompt of silence that follows (section IV.D).
        frame: index of the frame to draw.
    """

    symbols: Sequence[int]
    silence: np.ndarray = field(repr=False)
    speaker: int
    temperature: float
    seed: int
    frame: int
    start: int = 0  # a piece stands at the beginning of its slot: what was there is forgotten
    at: int = 0


@dataclass
class _Speaking:
    """The piece that is being spoken: its words, where it began, and how many frames it has made of how many."""

    index: int
    words: range
    first_frame: int
    limit_frames: int
    frames: int = 0


class RichTtsRow(RequestRow[Options, _Speaking]):
    """Words in, one frame a turn out; see ``studio.engine.families.base.Revisable``.

    Args:
        silence: uint8 [S, 80], fed before every piece and never heard.
        longest_word_frames: a piece is cut at so many frames for each of its words.
    """

    def __init__(
        self,
        slots: tuple[int, ...],
        time_base: TimeBase,
        silence: np.ndarray,
        longest_word_frames: int,
        *,
        speaker: int,
        options: Mapping[str, Any],
        temperature: float,
        seed: int,
    ) -> None:
        super().__init__(slots, time_base, Options, options, temperature, seed)
        self._silence, self._longest, self._speaker = silence, longest_word_frames, speaker
        self._last: np.ndarray | None = None  # the frame drawn last, whose p_eos is not known yet

    @property
    def planned(self) -> range:
        """The words of the piece that is wanted."""
        assert self._next is not None, "no piece is wanted"
        return self._next.words

    def want(self) -> Want | None:
        """A piece to be read where one is whole, or a frame more of the present one."""
        if self._wanted is None:
            if self._speaking is not None:
                self._wanted = Want("decode", None)
            elif (words := self._due(self._options.pieces)) is not None:
                self._wanted = Want("prefill", self._piece(words))
        return self._wanted

    def took(self, outputs: Drawn) -> Turn:
        """A piece's first frame, its next, or its end. Raises NotFinite."""
        wanted, self._wanted = self._wanted, None
        assert wanted is not None, "nothing was wanted"
        outputs.check()
        if isinstance(wanted.inputs, Piece):
            return self._begun(outputs)
        return self._gone_on(outputs)

    def broken_off(self) -> list[Event]:
        """The frame drawn last, of which no p_eos will be known."""
        if self._speaking is None or self._last is None:
            return []
        return [Frames(first_frame=self._frames - 1, p_eos=[math.nan], levels=self._last)]

    def _piece(self, words: range) -> Piece:
        self._next = _Speaking(self._requests, words, self._frames, self._longest * len(words))
        sampling = (self._speaker, self._temperature, self._seed, self._frames)
        return Piece(symbols(self._texts(words)), self._silence, *sampling)

    def _begun(self, drawn: Drawn) -> Turn:
        self._speaking, self._next = self._next, None
        speaking = self._speaking
        assert speaking is not None, "a piece was wanted"
        self._spoken, self._requests = speaking.words.stop, speaking.index + 1
        words, sample = [*speaking.words], self._time_base.samples(self._frames)
        before: list[Event] = [
            Segment(index=speaking.index, words=words, seen=words, sample=sample, frame=self._frames),
            WordStart(i=words[0], sample=sample, source="eos"),
        ]
        return Turn(self._drawn(speaking, drawn), before)

    def _gone_on(self, drawn: Drawn) -> Turn:
        speaking, p = self._speaking, drawn.p_eos
        assert speaking is not None and self._last is not None, "a frame was fed back"
        made = Frames(first_frame=self._frames - 1, p_eos=[p], levels=self._last)
        forced = p < EOS_AT and speaking.frames >= speaking.limit_frames
        if p < EOS_AT and not forced:
            return Turn(self._drawn(speaking, drawn), [made])
        self._speaking = None
        texts = self._texts(speaking.words)
        ends = shared_out(self._time_base, speaking.words, texts, speaking.first_frame, speaking.frames)
        ended = Eos(segment=speaking.index, frame=self._frames, p=p, forced=forced)
        return Turn(drawn.levels[:0], [made], [*ends, ended], is_request_end=True)

    def _drawn(self, speaking: _Speaking, drawn: Drawn) -> np.ndarray:
        self._last = drawn.levels
        self._frames += 1
        speaking.frames += 1
        return drawn.levels
