"""One utterance of IST-LM (paper 003, section 3): plain Python, no net.

Text is spoken in *stretches*: one interleaved sequence from its first text token to its end frame. A short text is one
stretch. A longer one ends a stretch at a full stop past ``Limits.stretch_words``, a flush ends one where it stands.

Text runs ahead of its sound, and nothing says how far: a word counts as spoken as soon as a token of it was fed.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from studio.core.events import EOS_AT, Eos, Event, Frames, Segment, WordEnd, WordStart
from studio.core.text.typography import MAX_WORD_LETTERS
from studio.core.time import TimeBase
from studio.engine.families.base import Turn, Want
from studio.engine.families.drawn import Drawn
from studio.engine.families.ist.layout import Layout, Symbols
from studio.engine.families.ist.rule import Options
from studio.engine.families.ist.stretch import Mark, Stretch
from studio.engine.families.reading import EVERY_WORD, ReadingRow

FULL_STOPS = (".", "?", "!")
_NO_FRAMES = np.zeros((0, 80), np.uint8)


@dataclass(frozen=True)
class Limits:
    """How much a row remembers and how long a stretch may be.

    Attributes:
        context_frames: a new stretch begins from the prompt alone when more than these were spoken since, or where the
            longest stretch would not fit into ``capacity_tokens`` beside what a slot holds.
        longest_word_frames: a stretch without an end is cut at this many frames for each of its words.
        stretch_words: past so many words, a stretch is closed by the next full stop;
        most_words, most_tokens: and past these by any word.
        letter_frames: how long a letter lasts, for the estimates of words' places.
    """

    context_frames: int
    longest_word_frames: int
    stretch_words: int
    most_words: int
    most_tokens: int
    letter_frames: float
    capacity_tokens: int

    @property
    def stretch_tokens(self) -> int:
        """The most that a stretch feeds: text that ends with a word of the longest kind, and frames."""
        return self.most_tokens + MAX_WORD_LETTERS + 4 + self.most_words * self.longest_word_frames


@dataclass(frozen=True)
class Prompt:
    """A speaker's prompt: text tokens with the symbol that closes them, and frames uint8 [S, 80] that speak them."""

    tokens: Sequence[int]
    frames: np.ndarray = field(repr=False)


@dataclass(frozen=True)
class Prefill:
    """What is fed before the next frame is drawn.

    Attributes:
        start, at: tokens before ``start`` are forgotten; these stand at ``at`` and after it.
        ratio: index into ``RATIOS``, carried by each stretch's start.
        frame: index of the frame to draw; ``place``: its index in the stretch.
    """

    start: int
    at: int
    layout: Layout
    ratio: int
    place: int
    frame: int
    temperature: float
    seed: int


@dataclass(frozen=True)
class Planned:
    """What a prefill feeds, told by words.

    Attributes:
        tokens: the word of each of its tokens, -1 where that is none's.
        words: of the stretch, as far as they are known; ``begun`` those of which a token was fed by now.
        frames: spoken of the stretch; ``chunk_frames`` are to follow, None where the rest of the stretch does.
    """

    tokens: Sequence[int]
    words: range
    begun: range
    frames: int
    chunk_frames: int | None


class IstRow(ReadingRow[Options]):
    """Words in, one frame a turn out; see ``studio.engine.families.base.Revisable``."""

    def __init__(
        self,
        slots: tuple[int, ...],
        limits: Limits,
        time_base: TimeBase,
        symbols: Symbols,
        encode: Callable[[str], Sequence[int]],
        prompt: Prompt,
        *,
        options: Mapping[str, Any],
        temperature: float,
        seed: int,
    ) -> None:
        super().__init__(slots, time_base, Options, options, temperature, seed)
        self._limits, self._symbols = limits, symbols
        self._encode, self._prompt = encode, prompt
        self._next_word = 0  # the first word of no stretch
        self._saw_end = False  # the net was told the text's end, and no other text since
        self._stretch: Stretch | None = None
        self._due: Segment | None = None  # of the prefill that is wanted
        self._planned: Planned | None = None  # the same
        self._segments = self._frames = 0
        self._start = self._length = 0  # tokens in the slot: the oldest held, and how many were fed
        self._reached = 0  # the most that ever were
        self._since_prompt: int | None = None  # frames spoken since the prompt was fed; None before it was
        self._owes_end: int | None = None  # frames of the stretch before, whose end frame is not fed yet
        self._last: np.ndarray | None = None  # the frame drawn last, not fed back yet

    @property
    def over(self) -> bool:
        """Whether everything was spoken and nothing can follow."""
        return self._ended and self._stretch is None and self._next_word == len(self._words)

    @property
    def unspoken(self) -> int:
        """Committed words that were not fed whole."""
        stretch = self._stretch
        return len(self._words) - (self._next_word if stretch is None else stretch.first_word + stretch.words_fed)

    @property
    def spoken(self) -> int:
        """Words of which a token was fed: nobody knows which of them were heard."""
        return self._next_word if self._stretch is None else self._stretch.first_word + self._stretch.words_begun

    @property
    def fed(self) -> int:
        """Words that the net has seen a token of; past any word where it has seen the text's end."""
        return EVERY_WORD if self._saw_end else self.spoken

    @property
    def planned(self) -> Planned:
        """What the prefill feeds that is wanted, or was the last."""
        assert self._planned is not None, "no prefill was wanted"
        return self._planned

    def want(self) -> Want | None:
        """The next chunk of text where it is there, or a frame more."""
        if self._wanted is None:
            stretch = self._stretch or Stretch(self._next_word, self._frames, self._options)
            if stretch.rule.speaks_next:
                self._wanted = Want("decode", None)
                return self._wanted
            self._read(stretch)
            chunk = self._chunk(stretch)
            if chunk is not None:
                self._wanted = Want("prefill", self._prefill(stretch, chunk))
        return self._wanted

    def took(self, outputs: Drawn) -> Turn:
        """A frame, or a stretch's end. Raises NotFinite."""
        wanted, self._wanted = self._wanted, None
        stretch = self._stretch
        assert wanted is not None and stretch is not None, "nothing was wanted"
        outputs.check()
        self._length += len(wanted.inputs.layout) if isinstance(wanted.inputs, Prefill) else 1
        self._reached = max(self._reached, self._length)
        p_eos = outputs.p_eos if stretch.rule.is_closed else 0.0  # masked until the text is consumed
        before: list[Event] = []
        if self._last is not None:
            before.append(Frames(first_frame=self._frames - 1, p_eos=[p_eos], levels=self._last))
        if self._due is not None:
            before.append(self._due)
            self._due = None
        spoken = stretch.rule.spoken
        forced = p_eos < EOS_AT and spoken >= self._limits.longest_word_frames * len(stretch.ends)
        if spoken and stretch.rule.is_closed and (p_eos >= EOS_AT or forced):
            return Turn(_NO_FRAMES, before, self._over(stretch, p_eos, forced))
        return Turn(outputs.levels, before + self._drawn(stretch, outputs.levels))

    def broken_off(self) -> list[Event]:
        """The frame drawn last, which was not fed back."""
        if self._last is None:
            return []
        return [Frames(first_frame=self._frames - 1, p_eos=[math.nan], levels=self._last)]

    def mark(self) -> Mark | None:
        """Where the row stands between two chunks, before a word begins, or two stretches; None elsewhere."""
        stretch = self._stretch
        if self._wanted is not None or (stretch is not None and not stretch.is_before_word):
            return None
        return Mark(
            self.spoken,
            self.fed,
            stretch and stretch.copied(),
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

    def holds(self, mark: Mark) -> bool:
        """Whether the slot still holds what it held at a mark."""
        return self._reached - mark.start <= self._limits.capacity_tokens

    def back(self, mark: Mark) -> None:
        """Return to a mark, whose tokens the slot must still hold."""
        assert self.holds(mark), "the slot has written over what was marked"
        self._stretch = mark.stretch and mark.stretch.copied()
        self._last, self._next_word, self._saw_end = mark.last, mark.next_word, mark.saw_end
        self._segments, self._frames = mark.segments, mark.frames
        self._start, self._length = mark.start, mark.length
        self._since_prompt, self._owes_end = mark.since_prompt, mark.owes_end
        self._wanted = self._due = None

    def rewrite(self, i: int, words: Sequence[str]) -> None:
        """Replace the committed words from ``i`` on, of which no token was fed; the text goes on."""
        assert i >= self.spoken, "the word was fed already: go back first"
        stretch = self._stretch
        if stretch is not None and not stretch.rule.is_closed and i <= stretch.first_word + len(stretch.ends):
            stretch.reopen(i - stretch.first_word)
            self._close_if_long(stretch)
        self._reword(i, words)
        self._saw_end = False

    # ------------------------------------------------------------ text

    def _read(self, stretch: Stretch) -> None:
        """Encode what was committed, up to the stretch's end."""
        while not stretch.is_closed and (i := stretch.first_word + len(stretch.ends)) < len(self._words):
            stretch.text += self._encode(self._words[i])
            stretch.ends.append(len(stretch.text))
            self._close_if_long(stretch)
        if self._ended and stretch.text and not stretch.is_closed:
            self._close(stretch, self._symbols.end)
            stretch.is_end = True

    def _close_if_long(self, stretch: Stretch) -> None:
        """A stretch of so many words, the last of which may be read as its end, takes no more."""
        limits, count = self._limits, len(stretch.ends)
        stopped = count >= limits.stretch_words and self._words[stretch.first_word + count - 1].endswith(FULL_STOPS)
        if stopped or count >= limits.most_words or len(stretch.text) >= limits.most_tokens:
            self._close(stretch, self._symbols.end if stopped else self._symbols.flush)

    def _chunk(self, stretch: Stretch) -> range | None:
        chunk = stretch.rule.chunk(len(stretch.text), is_all=stretch.is_closed)
        if chunk is None and stretch.text and stretch.first_word < self._flushed:
            self._close(stretch, self._symbols.flush)
            chunk = stretch.rule.chunk(len(stretch.text), is_all=True)
        return chunk

    @staticmethod
    def _close(stretch: Stretch, symbol: int) -> None:
        stretch.text.append(symbol)
        stretch.is_closed = True

    def _prefill(self, stretch: Stretch, chunk: range) -> Prefill:
        layout = Layout()
        if self._stretch is None:
            self._begin(layout, stretch)
        elif self._last is not None:
            layout.frame(self._last[0], stretch.rule.spoken - 1)
        layout.text(stretch.text[chunk.start : chunk.stop], chunk.start)
        fed = stretch.words_fed
        stretch.rule.feed(chunk, is_all=stretch.is_closed and chunk.stop == len(stretch.text))
        self._saw_end = self._saw_end or (stretch.rule.is_closed and stretch.is_end)
        first, starts = stretch.first_word, [0, *stretch.ends[:-1]]
        self._due = Segment(
            index=self._segments,
            words=[*range(first + fed, first + stretch.words_fed)],
            seen=[
                first + k
                for k, (begin, end) in enumerate(zip(starts, stretch.ends, strict=True))
                if begin < chunk.stop and end > chunk.start
            ],
            sample=self._time_base.samples(self._frames),
            frame=self._frames,
        )
        self._segments += 1
        rule, others = stretch.rule, [-1] * (len(layout) - len(chunk))
        self._planned = Planned(
            tokens=[*others, *(stretch.word_of(token) for token in chunk)],
            words=range(first, first + len(stretch.ends)),
            begun=range(first, first + stretch.words_begun),
            frames=rule.spoken,
            chunk_frames=None if rule.is_closed else rule.due - rule.spoken,
        )
        return Prefill(
            start=self._start,
            at=self._length,
            layout=layout,
            ratio=stretch.ratio,
            place=stretch.rule.spoken,
            frame=self._frames,
            temperature=self._temperature,
            seed=self._seed,
        )

    def _begin(self, layout: Layout, stretch: Stretch) -> None:
        """The end of the stretch before, or the prompt anew where too much was spoken since; and the start."""
        self._stretch = stretch
        limits, held = self._limits, self._length - self._start
        is_full = held + limits.stretch_tokens > limits.capacity_tokens
        if self._since_prompt is None or self._since_prompt > limits.context_frames or is_full:
            self._start, self._since_prompt = self._length, 0
            layout.stretch(self._symbols, self._prompt.tokens, self._prompt.frames, stretch.rule.ratio)
        elif self._owes_end is not None:
            layout.end(self._owes_end)
        self._owes_end = None
        layout.start(self._symbols)

    # ------------------------------------------------------------ speech

    def _drawn(self, stretch: Stretch, levels: np.ndarray) -> list[Event]:
        """Count a frame; the words that begin and end with it, by estimate."""
        events: list[Event] = []
        at, sample = stretch.rule.spoken, self._time_base.samples(self._frames)
        word = stretch.first_word + stretch.word
        if at == 0:
            events.append(WordStart(i=word, sample=sample, source="estimate"))
        elif stretch.word + 1 < stretch.words_begun and at >= stretch.word_frame + self._estimate(word):
            stretch.word, stretch.word_frame = stretch.word + 1, at
            events.append(WordEnd(i=word, sample=sample, source="estimate"))
            events.append(WordStart(i=word + 1, sample=sample, source="estimate"))
        self._last = levels
        self._frames += 1
        stretch.rule.spoken += 1
        return events

    def _over(self, stretch: Stretch, p_eos: float, forced: bool) -> list[Event]:
        """A stretch's end: what is left of it is shared out by letters among the words that are left."""
        spoken = stretch.rule.spoken
        left = range(stretch.first_word + stretch.word, stretch.first_word + len(stretch.ends))
        sizes = np.cumsum([0] + [len(self._words[i]) + 1 for i in left])
        bounds = stretch.word_frame + np.rint(sizes / sizes[-1] * (spoken - stretch.word_frame)).astype(int)
        events: list[Event] = []
        for k, i in enumerate(left):
            begin, end = (self._time_base.samples(stretch.first_frame + int(one)) for one in bounds[k : k + 2])
            if k > 0:
                events.append(WordStart(i=i, sample=begin, source="estimate"))
            events.append(WordEnd(i=i, sample=end, source="estimate"))
        self._next_word = stretch.first_word + len(stretch.ends)
        self._since_prompt = (self._since_prompt or 0) + spoken
        self._owes_end, self._stretch, self._last = spoken, None, None
        return [*events, Eos(segment=self._segments - 1, frame=self._frames, p=p_eos, forced=forced)]

    def _estimate(self, i: int) -> float:
        return self._limits.letter_frames * (len(self._words[i]) + 1)
