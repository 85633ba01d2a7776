"""T5-TTS's policy, the full-context baseline of paper 001: read a whole sentence, then stream it in chunks.

T5-TTS "has to wait for the full sentence"; the paper vocodes chunks of 30 decoding steps ("Subjective quality and
latency"). Frames are sampled one per step, so that rows share a batch.
"""

import math
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from studio.core.events import EOS_AT, Eos, Event, Frames, Segment
from studio.core.options import OptionSpec, merge_options
from studio.core.text.words import ClauseRule
from studio.engine.families.base import RowOutput
from studio.engine.families.common.rows import ClauseRow, RowSetup, WordTracker
from studio.engine.families.common.text_tokens import END, Pronounce, counts_through, spell
from studio.engine.families.s5.policy import S5Output, S5StepInput, SpeakerReference

SENTENCE_ENDS = ".?!"
MOST_WORDS = 60  # of a sentence; below the limit of committed words ahead of speech
MOST_LETTERS = 512  # of a sentence: at most three phonemes each fit into the encoder's slot
MOST_CHUNK_FRAMES = 60


@dataclass(frozen=True)
class T5Options:
    """Sentence and chunk sizes.

    Attributes:
        sentence_words: longer sentences are split into independent parts of this many words.
        chunk_frames: frames of an output chunk. The paper's 30 steps of 11.6 ms are 14 of 25 ms.
    """

    sentence_words: int = MOST_WORDS
    chunk_frames: int = 14

    def __post_init__(self) -> None:
        merge_options(OPTION_SPECS, vars(self), {})

    @property
    def sentences(self) -> ClauseRule:
        """The cutting rule."""
        return ClauseRule(self.sentence_words, MOST_LETTERS, marks=SENTENCE_ENDS)

    @property
    def look_ahead_words(self) -> int:
        """Words that the first word waits for, unless punctuation ends the sentence earlier."""
        return self.sentence_words - 1


OPTION_SPECS = (
    OptionSpec(
        "sentence_words",
        "int",
        T5Options.sentence_words,
        "Longest sentence",
        "a sentence is read whole before it is spoken; longer ones are split into parts of this many words",
        low=1,
        high=MOST_WORDS,
    ),
    OptionSpec(
        "chunk_frames",
        "int",
        T5Options.chunk_frames,
        "Chunk",
        "frames of 25 ms made before the first is played",
        low=1,
        high=MOST_CHUNK_FRAMES,
    ),
)


_NO_LOOK_AHEAD = 0  # the whole text is seen


@dataclass
class _Sentence:
    """Progress of the current sentence.

    Attributes:
        words: position of the attention among its words.
        levels: its frames, each uint8 [1, 80]; the first ``sent`` were sent to the vocoder.
        p: probability of the end after each frame; the first ``reported`` are in Frames events.
        events: of frames not sent yet.
    """

    index: int
    words: WordTracker
    chunk_frames: int
    limit_frames: int
    first_frame: int
    events: list[Event]
    levels: list[np.ndarray] = field(default_factory=list[np.ndarray], repr=False)
    p: list[float] = field(default_factory=list[float], repr=False)
    sent: int = 0
    reported: int = 0

    @property
    def unsent(self) -> int:
        """Number of frames that wait for their chunk."""
        return len(self.levels) - self.sent

    def pop_chunk(self) -> tuple[np.ndarray, list[Event]]:
        """All unsent frames, uint8 [n, 80], and their events."""
        frames = np.concatenate([np.zeros((0, *self.levels[0].shape[1:]), np.uint8), *self.levels[self.sent :]])
        self.sent = len(self.levels)
        events, self.events = self.events, []
        return frames, events

    def pop_report(self) -> list[Event]:
        """A Frames event for the sent frames whose p became known."""
        first, self.reported = self.reported, min(self.sent, len(self.p))
        if first == self.reported:
            return []
        levels = np.concatenate(self.levels[first : self.reported])
        return [Frames(first_frame=self.first_frame + first, p_eos=self.p[first : self.reported], levels=levels)]


class T5Row(ClauseRow[T5Options, _Sentence]):
    """One request of T5-TTS, a chunk every few steps; see ``studio.engine.families.base.RevisableRow``.

    Args:
        silence: uint8 [S, 80], the prompt of every sentence; not part of the output.
        reference: the speaker's recording, before the silence.
        longest_word_frames: a sentence is cut at this many frames per word.
    """

    PREFILL = "word"

    def __init__(
        self,
        setup: RowSetup,
        silence: np.ndarray,
        reference: SpeakerReference,
        longest_word_frames: int,
        pronounce: Pronounce,
    ) -> None:
        super().__init__(setup, T5Options)
        self._prompt = np.concatenate((reference.frames, silence))
        self._transcript = reference.spelled
        self._longest, self._pronounce = longest_word_frames, pronounce

    @property
    def planned(self) -> range:
        """Words of the planned sentence."""
        assert self._next is not None, "no sentence is planned"
        return self._next.words.words

    def on_output(self, outputs: S5Output) -> RowOutput:
        """Take a sentence's first frame, next frame or end. Raises NotFinite."""
        pending = self._pop_pending()
        outputs.check()
        if isinstance(pending.inputs, S5StepInput):
            return self._start_sentence(outputs)
        return self._continue_sentence(outputs)

    def on_cancel(self) -> list[Event]:
        """The last sent frame, whose p_eos remains unknown."""
        one = self._clause
        if one is None or one.reported == one.sent:
            return []
        levels = one.levels[one.reported]
        return [Frames(first_frame=one.first_frame + one.reported, p_eos=[math.nan], levels=levels)]

    def _rule(self) -> ClauseRule:
        return self._options.sentences

    def _plan(self, words: range) -> S5StepInput:
        spelled = [*self._transcript, *map(spell, self._pronounce(self._texts_of(words))), [END]]
        through = counts_through(spelled)[len(self._transcript) : -1]
        spoken, at = [*words], self._frames
        attended = WordTracker(self._time_base, words, through, at)
        sample = self._time_base.samples(at)
        begin: list[Event] = [
            Segment(index=self._clauses, words=spoken, seen=spoken, sample=sample, frame=at),
            attended.start(),
        ]
        limit = self._longest * len(words)
        self._next = _Sentence(self._clauses, attended, self._options.chunk_frames, limit, at, begin)
        return S5StepInput(
            symbols=[*chain.from_iterable(spelled)],
            words=[i for i, word in enumerate(spelled) for _ in word],
            position=0,
            k=_NO_LOOK_AHEAD,
            start=0,  # every sentence starts from an empty slot
            at=0,
            begins=True,
            frames=self._prompt,
            speaker=self._speaker,
            temperature=self._temperature,
            seed=self._seed,
            frame=at,
        )

    def _start_sentence(self, output: S5Output) -> RowOutput:
        sentence = self._begin()
        self._spoken, self._clauses = sentence.words.words.stop, self._clauses + 1
        return self._add_frame(sentence, output, [])

    def _continue_sentence(self, output: S5Output) -> RowOutput:
        one, p = self._clause, output.p_stop
        assert one is not None, "no sentence is being spoken"
        one.p.append(p)
        reports = one.pop_report()
        forced = p < EOS_AT and len(one.levels) >= one.limit_frames
        if p < EOS_AT and not forced:
            one.events += one.words.advance(int(output.shares.argmax()), self._frames)
            return self._add_frame(one, output, reports)
        self._clause = None
        frames, events = one.pop_chunk()
        ends = one.words.finish(self._frames, self._texts_of(one.words.words))
        ended = Eos(segment=one.index, frame=self._frames, p=p, forced=forced)
        return RowOutput(frames, [*reports, *events, *one.pop_report()], [*ends, ended], is_clause_end=True)

    def _add_frame(self, one: _Sentence, output: S5Output, before: list[Event]) -> RowOutput:
        """Add a frame; the output is empty until its chunk is full."""
        one.levels.append(output.levels)
        self._frames += 1
        if one.unsent < one.chunk_frames:
            return RowOutput(output.levels[:0], before)
        frames, events = one.pop_chunk()
        return RowOutput(frames, [*before, *events, *one.pop_report()])
