"""Policy of incremental Tacotron 2 (paper 004, section 2.2): words per request, frames per response. Plain Python."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from studio.core.events import EOS_AT, Eos, Event, Frames, Segment
from studio.core.options import OptionSpec, merge_options
from studio.core.text.typography import MARKS, with_final_mark
from studio.core.text.words import ClauseRule
from studio.engine.families.base import RowOutput
from studio.engine.families.common.rows import ClauseCheckpoint, ClauseRow, RowSetup, WordTracker, check_finite
from studio.engine.families.common.text_tokens import END, STRESSES, Pronounce, counts_through, spell

INCREMENTAL, WHOLE = "incremental", "whole"
MODES = (INCREMENTAL, WHOLE)
MOST_CLAUSE_WORDS = 20
MOST_CHUNK_FRAMES = 32
MOST_WHOLE_WORDS = 60  # fewer than are committed ahead of what is spoken
MOST_LETTERS = 512  # of a clause: with three phonemes each they fit into a slot's encoder output
SENTENCE_ENDS = ".?!"


@dataclass(frozen=True)
class TacotronOptions:
    """Options of a Tacotron 2 voice.

    Attributes:
        mode: ``incremental``, or ``whole`` for the paper's non-incremental baseline: all the text is one request, and
            playback starts after its last frame is made.
        clause_words: live text is cut after so many words if no mark cuts it before.
        chunk_frames: frames handed out together; the paper's 372 ms are 15.
    """

    mode: str = INCREMENTAL
    clause_words: int = 8
    chunk_frames: int = 15

    def __post_init__(self) -> None:
        merge_options(OPTION_SPECS, vars(self), {})

    @property
    def clauses(self) -> ClauseRule:
        """The rule that cuts the text."""
        if self.mode == WHOLE:
            return ClauseRule(MOST_WHOLE_WORDS, MOST_LETTERS, marks="")
        return ClauseRule(self.clause_words, MOST_LETTERS)

    def ends_open(self, words: Sequence[str]) -> bool:
        """Whether only the text's end or a flush closes a clause of these words."""
        return self.clauses.length(words, is_all=False) is None

    @property
    def look_ahead_words(self) -> int:
        """Committed words that the first word of a clause without a mark waits for."""
        return (MOST_WHOLE_WORDS if self.mode == WHOLE else self.clause_words) - 1


OPTION_SPECS = (
    OptionSpec(
        "mode",
        "choice",
        TacotronOptions.mode,
        "Mode",
        "part by part, or the whole text at once for comparison",
        choices=MODES,
    ),
    OptionSpec(
        "clause_words",
        "int",
        TacotronOptions.clause_words,
        "Longest phrase",
        "words, if no comma or full stop comes before",
        low=1,
        high=MOST_CLAUSE_WORDS,
    ),
    OptionSpec(
        "chunk_frames",
        "int",
        TacotronOptions.chunk_frames,
        "Chunk",
        "frames of 25 ms made before the first is played",
        low=1,
        high=MOST_CHUNK_FRAMES,
    ),
)


def prosody_of(phonemes: str) -> int:
    """A word's prosodic boundaries (equation 1), from its stress and mark, as three bits.

    1: end of a prosodic word (it has a stress; "the" has none). 2: end of a phonological phrase (it has a mark). 4: end
    of an intonational phrase (a full stop, a question or an exclamation mark).
    """
    mark = phonemes[-1:] if phonemes[-1:] in MARKS else ""
    return any(one in STRESSES for one in phonemes) + 2 * bool(mark) + 4 * (bool(mark) and mark in SENTENCE_ENDS)


def repeat_by_symbol(values: Sequence[int], spelled: Sequence[Sequence[int]]) -> list[int]:
    """Repeat each word's value for its symbols (the paper's count_i); the clause's end has the last word's."""
    return [value for value, word in zip(values, spelled, strict=True) for _ in word] + [*values[-1:]]


_NO_FRAMES = np.zeros((0, 80), np.uint8)
_STEP_FRAMES = 4  # maximum per engine step: 10 ms of a CPU core


@dataclass(frozen=True)
class TacotronClause:
    """Inputs of a clause: what the encoder reads, and the decoder's initial state.

    Attributes:
        symbols, prosody: for each encoder step; the last one is the clause's end.
        last: uint8 [80], the frame before.
        frame: index of the first frame to sample.
    """

    symbols: Sequence[int]
    prosody: Sequence[int]
    last: np.ndarray = field(repr=False)
    speaker: int
    temperature: float
    seed: int
    frame: int


@dataclass(frozen=True)
class TacotronChunk:
    """Request for at most ``frames`` frames of the clause in the slot; fewer if it ends.

    0 when all are made, while the ``whole`` mode hands them out chunk by chunk.
    """

    frames: int


@dataclass(frozen=True)
class TacotronFrames:
    """Frames uint8 [k, 80], with the probability that the clause ends after each, and the attended steps.

    Attributes:
        p_stop: [k]; only the last one may be ``EOS_AT`` or more.
        attended: int64 [k], the encoder step with the largest attention.
        is_finite: whether all logits were finite.
    """

    levels: np.ndarray
    p_stop: list[float]
    attended: np.ndarray
    is_finite: bool

    def split(self, count: int) -> tuple["TacotronFrames", "TacotronFrames"]:
        """The first frames, and those after them."""
        parts = (slice(count), slice(count, None))
        first, rest = (
            TacotronFrames(self.levels[at], self.p_stop[at], self.attended[at], self.is_finite) for at in parts
        )
        return first, rest

    def joined(self, more: "TacotronFrames") -> "TacotronFrames":
        """These frames followed by more."""
        return TacotronFrames(
            np.concatenate((self.levels, more.levels)),
            self.p_stop + more.p_stop,
            np.concatenate((self.attended, more.attended)),
            self.is_finite and more.is_finite,
        )


_NOTHING = TacotronFrames(_NO_FRAMES, [], np.zeros(0, np.int64), is_finite=True)


@dataclass
class _ClauseProgress:
    """Progress of the clause that is being spoken.

    Attributes:
        frame_count: number of frames; held: those that were not handed out yet.
        p: stop probability of the last one.
    """

    index: int
    words: WordTracker
    options: TacotronOptions
    limit_frames: int
    frame_count: int = 0
    held: TacotronFrames = field(default=_NOTHING, repr=False)
    p: float = 0.0

    @property
    def is_forced(self) -> bool:
        """Whether the limit cuts it."""
        return self.p < EOS_AT and self.frame_count >= self.limit_frames

    @property
    def is_over(self) -> bool:
        """Whether all its frames are made."""
        return self.p >= EOS_AT or self.is_forced

    @property
    def chunk(self) -> TacotronChunk:
        """The next request: a few of a chunk's frames, since other rows make one per engine step."""
        missing = self.options.chunk_frames - (0 if self.options.mode == WHOLE else len(self.held.levels))
        return TacotronChunk(0 if self.is_over else min(_STEP_FRAMES, missing, self.limit_frames - self.frame_count))

    def take(self, frames: TacotronFrames) -> None:
        """Add new frames."""
        self.frame_count, self.held = self.frame_count + len(frames.levels), self.held.joined(frames)
        self.p = self.held.p_stop[-1] if frames.p_stop else self.p

    def hand_out(self) -> TacotronFrames:
        """Frames to hand out: a chunk once it is complete; in ``whole`` mode once all frames are made."""
        waits = not self.is_over and (self.options.mode == WHOLE or len(self.held.levels) < self.options.chunk_frames)
        count = 0 if waits else self.options.chunk_frames
        out, self.held = self.held.split(count)
        return out


@dataclass(frozen=True)
class TacotronCheckpoint(ClauseCheckpoint):
    """A mark with the frame before it, which the next clause begins with."""

    last: np.ndarray = field(repr=False)


class TacotronRow(ClauseRow[TacotronOptions, _ClauseProgress]):
    """Words in, chunks of frames out, a few made per engine step; see ``studio.engine.families.base.RevisableRow``.

    Args:
        silence: uint8 [S, 80], precedes the first frame.
        longest_word_frames: a clause is cut at this many frames per word.
    """

    PREFILL = "encode"

    def __init__(self, setup: RowSetup, silence: np.ndarray, longest_word_frames: int, pronounce: Pronounce) -> None:
        super().__init__(setup, TacotronOptions)
        self._longest, self._pronounce = longest_word_frames, pronounce
        self._fed: np.ndarray = silence[-1]  # the frame before the next clause

    @property
    def planned(self) -> range:
        """The words of the pending clause."""
        assert self._next is not None, "no clause is pending"
        return self._next.words.words

    def on_output(self, outputs: TacotronFrames | None) -> RowOutput:
        """Process an encoded clause, or frames of it. Raises NotFinite."""
        self._pop_pending()
        if outputs is None:
            self._spoken = self._begin().words.words.stop
            return RowOutput(_NO_FRAMES)
        check_finite(outputs.is_finite and all(map(math.isfinite, outputs.p_stop)))
        assert self._clause is not None, "a clause was encoded"
        self._clause.take(outputs)
        return self._hand_out(self._clause)

    def checkpoint(self) -> TacotronCheckpoint | None:
        """State between two clauses; None within one."""
        checkpoint = super().checkpoint()
        return checkpoint and TacotronCheckpoint(checkpoint.spoken, checkpoint.clauses, checkpoint.frames, self._fed)

    def restore(self, checkpoint: ClauseCheckpoint) -> None:
        """See ``Row``."""
        assert isinstance(checkpoint, TacotronCheckpoint), "a checkpoint of another family"
        super().restore(checkpoint)
        self._fed = checkpoint.last

    def _rule(self) -> ClauseRule:
        return self._options.clauses

    def _decode_input(self, clause: _ClauseProgress) -> TacotronChunk:
        return clause.chunk

    def _plan(self, words: range) -> TacotronClause:
        texts = self._texts_of(words)
        pronounced = self._pronounce(texts)
        if self._options.ends_open(texts):  # else its last vowel is cut off, as in the middle of a sentence
            pronounced = [*pronounced[:-1], with_final_mark(pronounced[-1])]
        spelled = [spell(phonemes) for phonemes in pronounced]
        tracker = WordTracker(self._time_base, words, counts_through(spelled), self._frames)
        self._next = _ClauseProgress(self._clauses, tracker, self._options, self._longest * len(words))
        return TacotronClause(
            symbols=[*chain.from_iterable(spelled), END],
            prosody=repeat_by_symbol([prosody_of(phonemes) for phonemes in pronounced], spelled),
            last=self._fed,
            speaker=self._speaker,
            temperature=self._temperature,
            seed=self._seed,
            frame=self._frames,
        )

    def _hand_out(self, clause: _ClauseProgress) -> RowOutput:
        """Frames that are due, with their events."""
        frames, words, before = clause.hand_out(), clause.words, list[Event]()
        if not len(frames.levels):
            return RowOutput(_NO_FRAMES)
        if self._clauses == clause.index:
            spoken = [*words.words]
            sample = self._time_base.samples(self._frames)
            before.append(Segment(index=clause.index, words=spoken, seen=spoken, sample=sample, frame=self._frames))
            before.append(words.start())
            self._clauses += 1
        before.append(Frames(first_frame=self._frames, p_eos=frames.p_stop, levels=frames.levels))
        for k, attended in enumerate(frames.attended.tolist()):
            before += words.advance(attended, self._frames + k)
        self._frames, self._fed = self._frames + len(frames.levels), frames.levels[-1]
        is_end = clause.is_over and not len(clause.held.levels)
        return RowOutput(frames.levels, before, self._over(clause) if is_end else [], is_clause_end=is_end)

    def _over(self, clause: _ClauseProgress) -> list[Event]:
        self._clause = None
        ends = clause.words.finish(self._frames, self._texts_of(clause.words.words))
        return [*ends, Eos(segment=clause.index, frame=self._frames, p=clause.p, forced=clause.is_forced)]
