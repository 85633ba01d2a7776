"""RichTTS's policy (paper 000, sections III.B, IV.A and IV.B): read a whole text, then speak it.

A sequence is [w_bos, w_1 .. w_t, w_eos, s_bos, s_1 .. s_t, s_eos]. To stream, the text is cut into pieces of n words,
each an independent sequence.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from studio.core.events import EOS_AT, Eos, Event, Segment, WordStart
from studio.core.options import OptionSpec, merge_options
from studio.core.text.words import ClauseRule
from studio.engine.families.base import RowOutput
from studio.engine.families.common.rows import ClauseRow, FrameOutput, RowSetup, estimate_word_events
from studio.engine.families.speakstream.policy import BOS as W_BOS
from studio.engine.families.speakstream.policy import LARGEST_WINDOW, W_EOS, spell
from studio.engine.families.speakstream.policy import SYMBOLS as _SPEAKSTREAM_SYMBOLS

WHOLE, NGRAM = "whole", "ngram"
MODES = (WHOLE, NGRAM)
S_BOS = _SPEAKSTREAM_SYMBOLS
SYMBOLS = S_BOS + 1
LARGEST_NGRAM = LARGEST_WINDOW  # Table I: hops of 1 to 6 words
MOST_WHOLE_WORDS = 60  # below the limit of committed words ahead of speech
MOST_LETTERS = 512  # of a piece, for the capacity of a slot


@dataclass(frozen=True)
class RichTtsOptions:
    """How text is cut into pieces.

    Attributes:
        mode: ``whole`` (the column "∞" of Table I) or ``ngram``, pieces of ``n`` words.
        n: words of a piece, 1 to 6; the last one may have fewer.
    """

    mode: str = WHOLE
    n: int = 4

    def __post_init__(self) -> None:
        merge_options(option_specs(self), vars(self), {})

    @property
    def pieces(self) -> ClauseRule:
        """The cutting rule."""
        return ClauseRule(MOST_WHOLE_WORDS if self.mode == WHOLE else self.n, MOST_LETTERS, marks="")

    @property
    def look_ahead_words(self) -> int:
        """Words that the first word of a piece waits for."""
        return self.pieces.most_words - 1


def option_specs(default: RichTtsOptions) -> tuple[OptionSpec, ...]:
    """The family's options with these defaults."""
    return (
        OptionSpec(
            "mode",
            "choice",
            default.mode,
            "Text read",
            "whole: the entire text before the first sound; ngram: independent pieces of n words",
            choices=MODES,
        ),
        OptionSpec(
            "n",
            "int",
            default.n,
            "Words of a piece",
            "in mode ngram: words read and spoken at once",
            low=1,
            high=LARGEST_NGRAM,
        ),
    )


def symbols(words: Sequence[str]) -> list[int]:
    """Symbols of a piece before its first frame: w_bos, characters, w_eos, s_bos (section III.B)."""
    return [W_BOS, *(symbol for word in words for symbol in spell(word)), W_EOS, S_BOS]


@dataclass(frozen=True)
class RichTtsInput:
    """Input of a piece, before its first frame.

    Attributes:
        symbols: from w_bos to s_bos.
        silence: uint8 [S, 80], the silence prompt that follows (section IV.D).
        frame: index of the frame to sample.
    """

    symbols: Sequence[int]
    silence: np.ndarray = field(repr=False)
    speaker: int
    temperature: float
    seed: int
    frame: int


@dataclass
class _Piece:
    """Progress of the current piece."""

    index: int
    words: range
    first_frame: int
    limit_frames: int
    frames: int = 0


class RichTtsRow(ClauseRow[RichTtsOptions, _Piece]):
    """One request of RichTTS, one frame a step; see ``studio.engine.families.base.RevisableRow``.

    Args:
        silence: uint8 [S, 80], the prompt of every piece; not part of the output.
        longest_word_frames: a piece is cut at this many frames per word.
    """

    PREFILL = "prefill"

    def __init__(self, setup: RowSetup, silence: np.ndarray, longest_word_frames: int) -> None:
        super().__init__(setup, RichTtsOptions)
        self._silence, self._longest = silence, longest_word_frames

    @property
    def planned(self) -> range:
        """Words of the planned piece."""
        assert self._next is not None, "no piece is planned"
        return self._next.words

    def on_output(self, outputs: FrameOutput) -> RowOutput:
        """Take a piece's first frame, next frame or end. Raises NotFinite."""
        pending = self._pop_pending()
        outputs.check()
        if isinstance(pending.inputs, RichTtsInput):
            return self._start_piece(outputs)
        return self._continue_piece(outputs)

    def on_cancel(self) -> list[Event]:
        """The last frame, whose p_eos remains unknown."""
        return [] if self._clause is None else [self._report_last(math.nan)]

    def _rule(self) -> ClauseRule:
        return self._options.pieces

    def _plan(self, words: range) -> RichTtsInput:
        self._next = _Piece(self._clauses, words, self._frames, self._longest * len(words))
        sampling = (self._speaker, self._temperature, self._seed, self._frames)
        return RichTtsInput(symbols(self._texts_of(words)), self._silence, *sampling)

    def _start_piece(self, output: FrameOutput) -> RowOutput:
        piece = self._begin()
        self._spoken, self._clauses = piece.words.stop, piece.index + 1
        words, sample = [*piece.words], self._time_base.samples(self._frames)
        before: list[Event] = [
            Segment(index=piece.index, words=words, seen=words, sample=sample, frame=self._frames),
            WordStart(i=words[0], sample=sample, source="eos"),
        ]
        return RowOutput(self._add_frame(piece, output), before)

    def _continue_piece(self, output: FrameOutput) -> RowOutput:
        piece, p = self._clause, output.p_eos
        assert piece is not None, "no piece is being spoken"
        frames = self._report_last(p)
        forced = p < EOS_AT and piece.frames >= piece.limit_frames
        if p < EOS_AT and not forced:
            return RowOutput(self._add_frame(piece, output), [frames])
        self._clause = None
        texts = self._texts_of(piece.words)
        ends = estimate_word_events(self._time_base, piece.words, texts, piece.first_frame, piece.frames)
        ended = Eos(segment=piece.index, frame=self._frames, p=p, forced=forced)
        return RowOutput(output.levels[:0], [frames], [*ends, ended], is_clause_end=True)

    def _add_frame(self, piece: _Piece, output: FrameOutput) -> np.ndarray:
        self._last = output.levels
        self._frames += 1
        piece.frames += 1
        return output.levels
