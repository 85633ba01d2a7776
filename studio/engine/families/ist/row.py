"""Row of IST-LM (paper 003, section 3): plain Python, no torch.

Text is spoken in *passages*: one interleaved sequence from the first text token to the end frame. A short text is one
passage. In a longer one a passage ends at a full stop past ``IstLimits.stretch_words``; a flush ends it at once.

Text runs ahead of its sound by an unknown amount: a word counts as spoken as soon as a token of it was fed.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from studio.core.events import EOS_AT, Eos, Event, Segment, WordEnd, WordStart
from studio.core.text.typography import MAX_WORD_LETTERS
from studio.engine.families.base import ModuleInput, RowOutput
from studio.engine.families.common.rows import ALL_WORDS, FrameOutput, RowSetup, TextRow, estimate_word_events
from studio.engine.families.common.word_alignment import LetterNet, WordAlignment
from studio.engine.families.ist.policy import IstCheckpoint, IstLayout, IstOptions, IstPassage, IstSymbols

FULL_STOPS = (".", "?", "!")
_NO_FRAMES = np.zeros((0, 80), np.uint8)


@dataclass(frozen=True)
class IstLimits:
    """Capacity of a row, and limits of a passage.

    Attributes:
        context_frames: a new passage starts again from the prompt after more frames than these, or if the longest
            passage might not fit into ``capacity_tokens``.
        longest_word_frames: a passage without an end is cut at this many frames per word.
        stretch_words: after so many words, the next full stop closes a passage;
        most_words, most_tokens: after so many, any word does.
        letter_frames: average length of a letter, to estimate word times.
    """

    context_frames: int
    longest_word_frames: int
    stretch_words: int
    most_words: int
    most_tokens: int
    letter_frames: float
    capacity_tokens: int

    @property
    def passage_tokens(self) -> int:
        """Maximum number of tokens of a passage, text and frames."""
        return self.most_tokens + MAX_WORD_LETTERS + 4 + self.most_words * self.longest_word_frames


@dataclass(frozen=True)
class IstPrompt:
    """A speaker's prompt: text tokens with the closing symbol, and their speech, uint8 [S, 80]."""

    tokens: Sequence[int]
    frames: np.ndarray = field(repr=False)


@dataclass(frozen=True)
class IstPrefill:
    """What is fed before the next frame is sampled.

    Attributes:
        start, at: tokens before ``start`` are dropped; these are fed from position ``at`` on.
        ratio: index into ``RATIOS``, for the start of each passage.
        frame: index of the frame to sample; position: its index in the passage.
    """

    start: int
    at: int
    layout: IstLayout
    ratio: int
    position: int
    frame: int
    temperature: float
    seed: int


@dataclass(frozen=True)
class ChunkPlan:
    """What a prefill feeds, in words.

    Attributes:
        tokens: the word of each of its tokens, -1 for none.
        words: of the passage, as far as they are known; ``started`` those of which a token was fed by now.
        frames: spoken of the passage; ``chunk_frames`` are to follow, None where the rest of the passage does.
    """

    tokens: Sequence[int]
    words: range
    started: range
    frames: int
    chunk_frames: int | None


class IstRow(TextRow[IstOptions]):
    """Words in, one frame per engine step out; see ``studio.engine.families.base.RevisableRow``."""

    def __init__(
        self,
        setup: RowSetup,
        limits: IstLimits,
        symbols: IstSymbols,
        encode: Callable[[str, Sequence[str]], Sequence[int]],
        prompt: IstPrompt,
        letter_net: LetterNet | None = None,
    ) -> None:
        super().__init__(setup, IstOptions)
        self._limits, self._symbols = limits, symbols
        self._encode, self._prompt = encode, prompt
        self._letter_net = letter_net
        self._next_word = 0  # the first word after the last passage
        self._saw_end = False  # the net was fed the text's end, and no text since
        self._passage: IstPassage | None = None
        self._pending_segment: Segment | None = None  # of the pending prefill
        self._planned: ChunkPlan | None = None  # of the same
        self._segments = 0
        self._start = self._length = 0  # tokens: the oldest in the slot, and the number fed
        self._reached = 0  # maximum of the length before rewinds
        self._since_prompt: int | None = None  # frames since the prompt; None before the first
        self._owes_end: int | None = None  # frames of the last passage, whose end frame is not fed yet

    @property
    def is_finished(self) -> bool:
        """Whether everything was spoken and nothing can follow."""
        return self._ended and self._passage is None and self._next_word == len(self._words)

    @property
    def unspoken(self) -> int:
        """Committed words that were not fed completely."""
        passage = self._passage
        return len(self._words) - (self._next_word if passage is None else passage.first_word + passage.words_fed)

    @property
    def spoken(self) -> int:
        """Words of which a token was fed: it is unknown which of them were spoken."""
        return self._next_word if self._passage is None else self._passage.first_word + self._passage.words_started

    @property
    def fed(self) -> int:
        """Words that the net has seen a token of; ALL_WORDS once it has seen the text's end."""
        return ALL_WORDS if self._saw_end else self.spoken

    @property
    def planned(self) -> ChunkPlan:
        """What the pending or latest prefill feeds."""
        assert self._planned is not None, "no prefill is pending"
        return self._planned

    def next_input(self) -> ModuleInput | None:
        """The next chunk of text if it is complete, or another frame."""
        if self._pending is None:
            passage = self._passage or self._new_passage()
            if passage.rule.speaks_next:
                self._pending = ModuleInput("decode", None)
                return self._pending
            self._encode_words(passage)
            chunk = self._chunk(passage)
            if chunk is not None:
                self._pending = ModuleInput("prefill", self._prefill(passage, chunk))
        return self._pending

    def on_output(self, outputs: FrameOutput) -> RowOutput:
        """Process a frame or a passage's end. Raises NotFinite."""
        pending, passage = self._pop_pending(), self._passage
        assert passage is not None, "no passage is being spoken"
        outputs.check()
        self._length += len(pending.inputs.layout) if isinstance(pending.inputs, IstPrefill) else 1
        self._reached = max(self._reached, self._length)
        p_eos = outputs.p_eos if passage.rule.is_closed else 0.0  # masked until the text is consumed
        before: list[Event] = []
        if self._last is not None:
            before.append(self._report_last(p_eos))
        if self._pending_segment is not None:
            before.append(self._pending_segment)
            self._pending_segment = None
        spoken = passage.rule.spoken
        forced = p_eos < EOS_AT and spoken >= self._limits.longest_word_frames * len(passage.ends)
        if spoken and passage.rule.is_closed and (p_eos >= EOS_AT or forced):
            return RowOutput(_NO_FRAMES, before, self._end_passage(passage, p_eos, forced))
        return RowOutput(outputs.levels, before + self._add_frame(passage, outputs.levels))

    def on_cancel(self) -> list[Event]:
        """The last frame, which was not fed back."""
        return [] if self._last is None else [self._report_last(math.nan)]

    def checkpoint(self) -> IstCheckpoint | None:
        """State between two chunks, before a word begins, or between two passages; None elsewhere."""
        passage = self._passage
        if self._pending is not None or (passage is not None and not passage.is_before_word):
            return None
        return IstCheckpoint(
            self.spoken,
            self.fed,
            passage and passage.copy(),
            self._last,
            self._next_word,
            self._saw_end,
            self._segments,
            self._frames,
            self._start,
            self._length,
            self._since_prompt,
            self._owes_end,
        )

    def can_restore(self, checkpoint: IstCheckpoint) -> bool:
        """Whether the slot still holds the tokens of a checkpoint."""
        return self._reached - checkpoint.start <= self._limits.capacity_tokens

    def restore(self, checkpoint: IstCheckpoint) -> None:
        """See ``Row``."""
        assert self.can_restore(checkpoint), "the slot has overwritten what the checkpoint needs"
        self._passage = checkpoint.passage and checkpoint.passage.copy()
        self._last, self._next_word, self._saw_end = checkpoint.last, checkpoint.next_word, checkpoint.saw_end
        self._segments, self._frames = checkpoint.segments, checkpoint.frames
        self._start, self._length = checkpoint.start, checkpoint.length
        self._since_prompt, self._owes_end = checkpoint.since_prompt, checkpoint.owes_end
        self._pending = self._pending_segment = None

    def rewrite(self, i: int, words: Sequence[str]) -> None:
        """Replace the committed words from ``i`` on, of which no token was fed; the text goes on."""
        assert i >= self.spoken, "the word was fed already: restore a checkpoint first"
        passage = self._passage
        if passage is not None and not passage.rule.is_closed and i <= passage.first_word + len(passage.ends):
            passage.reopen(i - passage.first_word)
            self._close_if_long(passage)
        self._replace_words(i, words)
        self._saw_end = False

    # ------------------------------------------------------------ text

    def _encode_words(self, passage: IstPassage) -> None:
        """Encode committed words, up to the passage's end."""
        while not passage.is_closed and (i := passage.first_word + len(passage.ends)) < len(self._words):
            passage.text += self._encode(self._words[i], self._words_before(i))
            passage.ends.append(len(passage.text))
            self._close_if_long(passage)
        if self._ended and passage.text and not passage.is_closed:
            self._close(passage, self._symbols.end)
            passage.is_end = True

    def _close_if_long(self, passage: IstPassage) -> None:
        """Close a passage that has reached a limit."""
        limits, count = self._limits, len(passage.ends)
        stopped = count >= limits.stretch_words and self._words[passage.first_word + count - 1].endswith(FULL_STOPS)
        if stopped or count >= limits.most_words or len(passage.text) >= limits.most_tokens:
            self._close(passage, self._symbols.end if stopped else self._symbols.flush)

    def _chunk(self, passage: IstPassage) -> range | None:
        chunk = passage.rule.chunk(len(passage.text), is_all=passage.is_closed)
        if chunk is None and passage.text and passage.first_word < self._flushed:
            self._close(passage, self._symbols.flush)
            chunk = passage.rule.chunk(len(passage.text), is_all=True)
        return chunk

    @staticmethod
    def _close(passage: IstPassage, symbol: int) -> None:
        passage.text.append(symbol)
        passage.is_closed = True

    def _prefill(self, passage: IstPassage, chunk: range) -> IstPrefill:
        layout = IstLayout()
        if self._passage is None:
            self._begin(layout, passage)
        elif self._last is not None:
            layout.frame(self._last[0], passage.rule.spoken - 1)
        layout.text(passage.text[chunk.start : chunk.stop], chunk.start)
        fed = passage.words_fed
        passage.rule.feed(chunk, is_all=passage.is_closed and chunk.stop == len(passage.text))
        self._saw_end = self._saw_end or (passage.rule.is_closed and passage.is_end)
        first, starts = passage.first_word, [0, *passage.ends[:-1]]
        self._pending_segment = Segment(
            index=self._segments,
            words=[*range(first + fed, first + passage.words_fed)],
            seen=[
                first + k
                for k, (begin, end) in enumerate(zip(starts, passage.ends, strict=True))
                if begin < chunk.stop and end > chunk.start
            ],
            sample=self._time_base.samples(self._frames),
            frame=self._frames,
        )
        self._segments += 1
        rule, others = passage.rule, [-1] * (len(layout) - len(chunk))
        self._planned = ChunkPlan(
            tokens=[*others, *(passage.word_of(token) for token in chunk)],
            words=range(first, first + len(passage.ends)),
            started=range(first, first + passage.words_started),
            frames=rule.spoken,
            chunk_frames=None if rule.is_closed else rule.due - rule.spoken,
        )
        return IstPrefill(
            start=self._start,
            at=self._length,
            layout=layout,
            ratio=passage.ratio,
            position=passage.rule.spoken,
            frame=self._frames,
            temperature=self._temperature,
            seed=self._seed,
        )

    def _begin(self, layout: IstLayout, passage: IstPassage) -> None:
        """Append the last passage's end, or the prompt again if the context is full; then the start."""
        self._passage = passage
        limits, held = self._limits, self._length - self._start
        is_full = held + limits.passage_tokens > limits.capacity_tokens
        if self._since_prompt is None or self._since_prompt > limits.context_frames or is_full:
            self._start, self._since_prompt = self._length, 0
            layout.passage(self._symbols, self._prompt.tokens, self._prompt.frames, passage.rule.ratio)
        elif self._owes_end is not None:
            layout.end(self._owes_end)
        self._owes_end = None
        layout.start(self._symbols)

    # ------------------------------------------------------------ speech

    def _new_passage(self) -> IstPassage:
        alignment = WordAlignment(self._letter_net) if self._letter_net else None
        return IstPassage(self._next_word, self._frames, self._options, alignment)

    def _add_frame(self, passage: IstPassage, levels: np.ndarray) -> list[Event]:
        """Record a frame; returns the estimated starts and ends of words."""
        events: list[Event] = []
        at, sample = passage.rule.spoken, self._time_base.samples(self._frames)
        word = passage.first_word + passage.word
        if at == 0:
            events.append(WordStart(i=word, sample=sample, source="estimate"))
        if passage.alignment is not None:
            known = passage.alignment.words
            passage.alignment.add_words(self._words[passage.first_word :][known : passage.words_started])
            events += self._start_words(passage, passage.alignment.add(levels[0]))
        elif at and passage.word + 1 < passage.words_started and at >= passage.word_frame + self._estimate(word):
            passage.word, passage.word_frame = passage.word + 1, at
            events.append(WordEnd(i=word, sample=sample, source="estimate"))
            events.append(WordStart(i=word + 1, sample=sample, source="estimate"))
        self._last = levels
        self._frames += 1
        passage.rule.spoken += 1
        return events

    def _start_words(self, passage: IstPassage, starts: Sequence[tuple[int, int]]) -> list[Event]:
        """Events of words, but the passage's first, that begin at frames of the passage."""
        events: list[Event] = []
        for k, frame in starts:
            if k:
                word, sample = passage.first_word + k, self._time_base.samples(passage.first_frame + frame)
                events.append(WordEnd(i=word - 1, sample=sample, source="estimate"))
                events.append(WordStart(i=word, sample=sample, source="estimate"))
                passage.word, passage.word_frame = k, frame
        return events

    def _end_passage(self, passage: IstPassage, p_eos: float, forced: bool) -> list[Event]:
        """End a passage: frames that no alignment gives to words are divided by letters among the remaining ones."""
        spoken = passage.rule.spoken
        aligned = self._start_words(passage, passage.alignment.finish()) if passage.alignment else []
        left = range(passage.first_word + passage.word, passage.first_word + len(passage.ends))
        first, frames = passage.first_frame + passage.word_frame, spoken - passage.word_frame
        texts = self._words[left.start : left.stop]
        events = estimate_word_events(self._time_base, left, texts, first, frames, "estimate")
        self._next_word = passage.first_word + len(passage.ends)
        self._since_prompt = (self._since_prompt or 0) + spoken
        self._owes_end, self._passage, self._last = spoken, None, None
        return [*aligned, *events, Eos(segment=self._segments - 1, frame=self._frames, p=p_eos, forced=forced)]

    def _estimate(self, i: int) -> float:
        return self._limits.letter_frames * (len(self._words[i]) + 1)
