"""One utterance of SpeakStream (paper 000, section III.D): plain Python, no net."""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from studio.core.events import Eos, Event, Frames, Segment, WordEnd, WordStart
from studio.core.time import TimeBase
from studio.engine.families.base import NotFinite, Turn, Want
from studio.engine.families.speakstream.rule import SCHEMES, W_EOS, FeedingRule, Options, Plan, spell

EOS_AT = 0.5  # p_eos that ends a segment
_SPARE_WORDS = 8  # a segment begins only where so many words of the longest kind would fit


@dataclass(frozen=True)
class Prefill:
    """What a segment begins with, in the order in which it is fed.

    Attributes:
        start, at: tokens before ``start`` are forgotten; these tokens stand at ``at`` and after it.
        after_eos: s_eos of the segment before comes first.
        symbols: ids of characters and of the text's end.
        window: of s_bos: scheme, words spoken now, words of look-ahead.
        frames: uint8 [k, 80] that follow s_bos without being heard (the silence prompt).
        frame: index of the frame to draw.
    """

    start: int
    at: int
    after_eos: bool
    symbols: Sequence[int]
    window: tuple[int, int, int]
    frames: np.ndarray = field(repr=False)
    speaker: int
    temperature: float
    seed: int
    frame: int

    @property
    def tokens(self) -> int:
        """How many tokens it feeds."""
        return self.after_eos + len(self.symbols) + 1 + len(self.frames)


@dataclass(frozen=True)
class Drawn:
    """A frame uint8 [1, 80], and how sure the net was that the segment had ended before it.

    ``is_finite`` tells whether what it was drawn from were numbers.
    """

    levels: np.ndarray
    p_eos: float
    is_finite: bool


@dataclass(frozen=True)
class Limits:
    """How much a row remembers, in frames and in tokens; see ``net.Config``."""

    context_frames: int
    kept_frames: int
    longest_word_frames: int
    capacity_tokens: int


@dataclass
class _Segment:
    """The segment being spoken, or one that was."""

    index: int
    plan: Plan
    first_frame: int
    limit_frames: int
    tokens: int
    frames: int = 0


@dataclass(frozen=True)
class Mark:
    """Where a row stood between two segments."""

    rule: tuple[int, int, bool]
    segments: int
    frames: int
    start: int
    length: int
    past: tuple[_Segment, ...]


class SpeakStreamRow:
    """Words in, one frame a turn out; see ``studio.engine.families.base.Row``."""

    def __init__(
        self,
        slots: tuple[int, ...],
        limits: Limits,
        time_base: TimeBase,
        silence: np.ndarray,
        *,
        speaker: int,
        options: Mapping[str, Any],
        temperature: float,
        seed: int,
    ) -> None:
        self.slots = slots
        self._limits, self._time_base, self._silence = limits, time_base, silence
        self._speaker, self._seed, self._temperature = speaker, seed, temperature
        self._options = Options(**options)
        self._rule = FeedingRule()
        self._words: list[str] = []
        self._flushed = 0
        self._ended = False
        self._plan: Plan | None = None  # of the prefill that is wanted
        self._wanted: Want | None = None
        self._segment: _Segment | None = None
        self._past: deque[_Segment] = deque()
        self._frames = self._segments = 0
        self._start = self._length = 0  # tokens in the slot: the oldest held, and how many were ever fed
        self._last: np.ndarray | None = None  # the frame drawn last, whose p_eos is not known yet

    def commit(self, words: Sequence[str]) -> None:
        """Append spoken words."""
        self._words += words

    def flush(self) -> None:
        """Shrink windows to what is committed."""
        self._flushed = len(self._words)

    def end(self) -> None:
        """No more words will come."""
        self._ended = True

    def check(self, options: Mapping[str, Any]) -> None:
        """Raises BadOption unless n and m go together."""
        Options(**options)

    def set_options(self, options: Mapping[str, Any], temperature: float | None) -> None:
        """Options from the next segment on."""
        self._options = Options(**options)
        if temperature is not None:
            self._temperature = temperature

    @property
    def over(self) -> bool:
        """Whether everything was spoken and nothing can follow."""
        return self._ended and self._segment is None and self.unspoken == 0 and self._wanted is None

    @property
    def unspoken(self) -> int:
        """Committed words that no segment has taken yet."""
        return len(self._words) - self._rule.spoken

    def want(self) -> Want | None:
        """A segment's prefill where its words are there, or a frame more."""
        if self._wanted is None:
            if self._segment is not None:
                self._wanted = Want("decode", None)
            else:
                plan = self._rule.next(len(self._words), self._options, ended=self._ended, flushed=self._flushed)
                if plan is not None:
                    self._plan, self._wanted = plan, Want("prefill", self._prefill(plan))
        return self._wanted

    def took(self, outputs: Drawn) -> Turn:
        """A segment's first frame, its next, or its end. Raises NotFinite."""
        wanted, self._wanted = self._wanted, None
        assert wanted is not None, "nothing was wanted"
        if not (outputs.is_finite and math.isfinite(outputs.p_eos)):
            raise NotFinite("the net answered something that is no number", "the voice's weights may be damaged")
        if isinstance(wanted.inputs, Prefill):
            return self._begun(wanted.inputs, outputs)
        return self._gone_on(outputs)

    def broken_off(self) -> list[Event]:
        """The frame drawn last, of which no p_eos will be known."""
        if self._segment is None or self._last is None:
            return []
        return [Frames(first_frame=self._frames - 1, p_eos=[math.nan], levels=self._last)]

    def mark(self) -> Mark | None:
        """Where the row stands between two segments; None within one."""
        if self._segment is not None or self._wanted is not None:
            return None
        return Mark(self._rule.mark(), self._segments, self._frames, self._start, self._length, tuple(self._past))

    def back(self, mark: Mark) -> None:
        """Return to a mark, whose tokens the slot must still hold."""
        assert self._length - mark.start <= self._limits.capacity_tokens, "the slot has written over what was marked"
        self._rule.back(mark.rule)
        self._segments, self._frames = mark.segments, mark.frames
        self._start, self._length, self._past = mark.start, mark.length, deque(mark.past)
        self._segment = self._plan = self._wanted = self._last = None

    def rewrite(self, i: int, words: Sequence[str]) -> None:
        """Replace the committed words from ``i`` on, which must not have been fed."""
        assert i >= self._rule.fed, "the word was fed already: go back first"
        self._words[i:] = words
        self._flushed = min(self._flushed, len(self._words))

    def _prefill(self, plan: Plan) -> Prefill:
        symbols = [symbol for i in plan.feed for symbol in spell(self._words[i])] + [W_EOS] * plan.close
        first = self._segments == 0
        frames = self._silence if first else self._silence[:0]
        tokens = (not first) + len(symbols) + 1 + len(frames)
        self._make_room(tokens)
        return Prefill(
            start=self._start,
            at=self._length,
            after_eos=not first,
            symbols=symbols,
            window=(SCHEMES.index(plan.scheme), len(plan.speak), plan.look_ahead),
            frames=frames,
            speaker=self._speaker,
            temperature=self._temperature,
            seed=self._seed,
            frame=self._frames,
        )

    def _begun(self, fed: Prefill, drawn: Drawn) -> Turn:
        plan, self._plan = self._plan, None
        assert plan is not None, "a prefill has a plan"
        self._length += fed.tokens
        limit = self._limits.longest_word_frames * len(plan.speak)
        segment = _Segment(self._segments, plan, self._frames, limit, fed.tokens)
        self._segment = segment
        self._segments += 1
        sample = self._time_base.samples(self._frames)
        before: list[Event] = [
            Segment(index=segment.index, words=[*plan.speak], seen=[*plan.seen], sample=sample, frame=self._frames),
            WordStart(i=plan.speak[0], sample=sample, source="eos"),
        ]
        return Turn(self._drawn(segment, drawn), before)

    def _gone_on(self, drawn: Drawn) -> Turn:
        segment, p = self._segment, drawn.p_eos
        assert segment is not None and self._last is not None, "a frame was fed back"
        self._length += 1
        segment.tokens += 1
        made = Frames(first_frame=self._frames - 1, p_eos=[p], levels=self._last)
        forced = p < EOS_AT and segment.frames >= segment.limit_frames
        if p < EOS_AT and not forced:
            return Turn(self._drawn(segment, drawn), [made])
        self._segment = None
        self._past.append(segment)
        ended = Eos(segment=segment.index, frame=self._frames, p=p, forced=forced)
        return Turn(drawn.levels[:0], [made], [*self._inner_words(segment), ended])

    def _drawn(self, segment: _Segment, drawn: Drawn) -> np.ndarray:
        self._last = drawn.levels
        self._frames += 1
        segment.frames += 1
        return drawn.levels

    def _inner_words(self, segment: _Segment) -> list[Event]:
        """Word events known at a segment's end; starts and ends inside it are shared out by characters."""
        words = [*segment.plan.speak]
        sizes = np.cumsum([0] + [len(self._words[i]) + 1 for i in words])
        ends = np.rint(sizes / sizes[-1] * segment.frames).astype(int) + segment.first_frame
        events: list[Event] = []
        for k, i in enumerate(words):
            if k > 0:
                events.append(WordStart(i=i, sample=self._time_base.samples(int(ends[k])), source="estimate"))
            source = "eos" if k + 1 == len(words) else "estimate"
            events.append(WordEnd(i=i, sample=self._time_base.samples(int(ends[k + 1])), source=source))
        return events

    def _make_room(self, tokens: int) -> None:
        """Past the stated context, forget the oldest segments: at a segment's start, by frame count (tokens only
        where a slot's memory would overflow)."""
        limits = self._limits
        frames = sum(s.frames for s in self._past)
        spare = tokens + limits.longest_word_frames * _SPARE_WORDS

        def too_full(limit_frames: int) -> bool:
            return frames > limit_frames or self._length - self._start + spare > limits.capacity_tokens

        limit = limits.context_frames
        while self._past and too_full(limit):
            limit = limits.kept_frames
            oldest = self._past.popleft()
            self._start += oldest.tokens
            frames -= oldest.frames
