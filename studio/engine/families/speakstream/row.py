"""One utterance of SpeakStream (paper 000, section III.D): plain Python, no net."""

import math
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from studio.core.events import EOS_AT, Eos, Event, Frames, Segment, WordStart
from studio.core.sequences import in_common
from studio.core.time import TimeBase
from studio.engine.families.base import Turn, Want
from studio.engine.families.drawn import Drawn
from studio.engine.families.reading import ReadingRow
from studio.engine.families.shared_out import shared_out
from studio.engine.families.speakstream.fed import Ahead, Prefill, Stretch
from studio.engine.families.speakstream.rule import SCHEMES, W_EOS, Counters, FeedingRule, Options, Plan, spell

_SPARE_WORDS = 8  # a segment begins only where so many words of the longest kind would fit
_FORGET_WORDS = 256  # are forgotten at once


@dataclass(frozen=True)
class Limits:
    """How much a row remembers, in frames and in tokens; see ``net.Config``."""

    context_frames: int
    kept_frames: int
    longest_word_frames: int
    capacity_tokens: int


@dataclass
class _Segment:
    """A segment spoken, or being spoken.

    Attributes:
        before: the rule's counters before it.
        options: in force when it was planned.
        fed: what it began with.
        at: where it stands in the slot.
        tokens: how many it has taken there so far.
        made: its frames, each uint8 [1, 80].
    """

    index: int
    before: Counters
    options: Options
    plan: Plan
    fed: Stretch
    at: int
    tokens: int
    first_frame: int
    limit_frames: int
    made: list[np.ndarray]

    @property
    def frames(self) -> int:
        """How many frames it has made."""
        return len(self.made)


@dataclass(frozen=True)
class Mark:
    """Where a row stood between two segments; see ``studio.engine.families.base.Mark``."""

    rule: Counters
    segments: int
    frames: int
    start: int
    length: int
    past: tuple[_Segment, ...]

    @property
    def spoken(self) -> int:
        """Words spoken before it."""
        return self.rule.spoken

    @property
    def fed(self) -> int:
        """Words that the net had before it; the text's end counts as any word that could follow."""
        return sys.maxsize if self.rule.closed else self.rule.fed


@dataclass(frozen=True)
class _Next:
    """The segment that is wanted: its plan, the rule's counters after it, and the segments that are then held."""

    plan: Plan
    after: Counters
    past: list[_Segment]
    segment: _Segment


class SpeakStreamRow(ReadingRow[Options]):
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
        ahead_tokens: int = 0,
    ) -> None:
        super().__init__(slots, time_base, Options, options, temperature, seed)
        self._ahead_tokens = ahead_tokens
        self._read_ahead: tuple[int, ...] = ()  # symbols of the first segment that the slot holds before it begins
        self._limits, self._silence, self._speaker = limits, silence, speaker
        self._rule = FeedingRule()
        self._is_rewritten = False
        self._next: _Next | None = None  # of the prefill that is wanted
        self._segment: _Segment | None = None
        self._past: deque[_Segment] = deque()
        self._frames = self._segments = 0
        self._start = self._length = 0  # tokens in the slot: the oldest held, and how many there are
        self._reached = 0  # the most there ever were
        self._last: np.ndarray | None = None  # the frame drawn last, whose p_eos is not known yet

    @property
    def over(self) -> bool:
        """Whether everything was spoken and nothing can follow."""
        return self._ended and self._segment is None and self.unspoken == 0 and self._wanted is None

    @property
    def spoken(self) -> int:
        """Words spoken, those of the present segment among them."""
        return self._rule.spoken

    @property
    def fed(self) -> int:
        """Words that the net has before it; the text's end counts as any word that could follow."""
        return sys.maxsize if self._rule.closed else self._rule.fed

    @property
    def planned(self) -> Plan:
        """The segment whose prefill is wanted."""
        assert self._next is not None, "a prefill is wanted"
        return self._next.plan

    @property
    def unspoken(self) -> int:
        """Committed words that no segment has taken yet."""
        return self._committed - self._rule.spoken

    def want(self) -> Want | None:
        """A segment's prefill where its words are there, or a frame more; else text of the first to be read ahead."""
        if self._wanted is None:
            if self._segment is not None:
                self._wanted = Want("decode", None)
            else:
                self._wanted = self._want_segment() or self._want_ahead()
        return self._wanted

    def took(self, outputs: Drawn | None) -> Turn:
        """A segment's first frame, its next, or its end; nothing where text was read ahead. Raises NotFinite."""
        wanted, self._wanted = self._wanted, None
        assert wanted is not None, "nothing was wanted"
        if isinstance(wanted.inputs, Ahead):
            self._read_ahead = (*self._read_ahead[: wanted.inputs.at], *wanted.inputs.symbols)
            return Turn(self._silence[:0])
        assert outputs is not None, "a frame was wanted"
        outputs.check()
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
        if self._segment is not None:
            return None
        counters = self._rule.mark()
        return Mark(counters, self._segments, self._frames, self._start, self._length, tuple(self._past))

    def holds(self, mark: Mark) -> bool:
        """Whether the slot still holds what it held at a mark."""
        return self._reached - mark.start <= self._limits.capacity_tokens

    def back(self, mark: Mark) -> None:
        """Return to a mark, whose tokens the slot must still hold."""
        assert self.holds(mark), "the slot has written over what was marked"
        now = {one.index: one for one in self._past}  # some may have been fed again since
        self._past = deque(now.get(one.index, one) for one in mark.past)
        self._segments, self._frames = mark.segments, mark.frames
        self._rule.back(mark.rule)
        self._start, self._length = mark.start, mark.length
        if self._past:
            last = self._past[-1]
            self._rule.back(last.before)
            self._rule.take(last.plan)
            self._start, self._length = self._past[0].at, last.at + last.tokens
        self._segment = self._next = self._wanted = self._last = None

    def rewrite(self, i: int, words: Sequence[str]) -> None:
        """Replace the committed words from ``i`` on, none of which has been spoken; the text goes on.

        Where the net has seen one of them, the next segment begins with what was fed from there on, and with the
        frames made of it.
        """
        assert i >= self._rule.spoken, "the word was spoken already: go back first"
        self._reword(i, words)
        self._is_rewritten = True
        self._plan_anew()

    def _plan_anew(self) -> None:
        if self._segment is None:
            self._next = self._wanted = None

    def forget(self, mark: Mark) -> None:
        """Nothing before a mark will be come back to."""
        first = mark.past[0].plan.speak.start if mark.past else mark.spoken
        if first - self._words_from >= _FORGET_WORDS:
            del self._words[: first - self._words_from]
            self._words_from = first

    def _spelt(self, words: range) -> list[int]:
        return [symbol for i in words for symbol in spell(self._words[i - self._words_from])]

    def _stretch(self, plan: Plan, index: int, made: Sequence[np.ndarray]) -> Stretch:
        silence = self._silence if index == 0 else self._silence[:0]
        window = (SCHEMES.index(plan.scheme), len(plan.speak), plan.look_ahead)
        symbols = self._spelt(plan.feed) + [W_EOS] * plan.close
        return Stretch(index > 0, symbols, window, np.concatenate((silence, *made)))

    def _want_segment(self) -> Want | None:
        """The next segment's prefill. Nothing is taken as said or fed until its result is there."""
        now = self._rule.mark()
        again = self._fed_again() if self._is_rewritten else []
        before, options = self._rule.mark(), self._options
        plan = self._rule.next(self._committed, options, ended=self._ended, flushed=self._flushed)
        after = self._rule.mark()
        self._rule.back(now)
        if plan is None:
            return None
        past = [*self._past][: len(self._past) - len(again)]
        at = again[0].at if again else self._length
        for one in again:
            one.at, at = at, at + one.tokens
        fed = self._stretch(plan, self._segments, ())
        limit = self._limits.longest_word_frames * len(plan.speak)
        segment = _Segment(self._segments, before, options, plan, fed, at, fed.tokens, self._frames, limit, [])
        past, start = self._with_room(past, sum(one.frames for one in again), at + fed.tokens)
        self._next = _Next(plan, after, [*past, *again], segment)
        first = again[0].at if again else at
        stretches = [*(self._stretch(one.plan, one.index, one.made) for one in again), fed]
        sampling = (self._speaker, self._temperature, self._seed, self._frames)
        known = 0 if again else in_common(self._read_ahead, fed.symbols)
        return Want("prefill", Prefill(start, first, stretches, *sampling, known))

    def _want_ahead(self) -> Want | None:
        """Words of the first segment that are there, of whose text the slot does not hold all yet.

        Nothing more once a word became another one: else each such change would cost the engine a run.
        """
        if self._reached or self._is_rewritten or not self._ahead_tokens:
            return None
        symbols = self._spelt(range(min(self._committed, self._options.m)))[: self._ahead_tokens]
        known = in_common(self._read_ahead, symbols)
        if known == len(symbols):
            return None
        return Want("read", Ahead(known, symbols[known:], self._speaker))

    def _fed_again(self) -> list[_Segment]:
        """The held segments from the first on whose window's words are others now; the rule stands after them."""
        now, again = self._rule.mark(), list[_Segment]()
        for one in self._past:
            if not again:
                self._rule.back(one.before)
            before = self._rule.mark()
            plan = self._rule.again(one.plan, self._committed, one.options, ended=self._ended)
            is_same = not one.plan.close and plan.feed == one.plan.feed and self._spelt(plan.feed) == [*one.fed.symbols]
            if not again and is_same:
                continue
            fed = self._stretch(plan, one.index, ())
            if not again and fed.symbols == one.fed.symbols:
                continue
            again.append(replace(one, before=before, plan=plan, fed=fed, tokens=fed.tokens + one.frames))
        if not again:
            self._rule.back(now)
        return again

    def _begun(self, fed: Prefill, drawn: Drawn) -> Turn:
        wanted, self._next = self._next, None
        assert wanted is not None, "a prefill has a plan"
        self._rule.back(wanted.after)
        self._past, self._is_rewritten = deque(wanted.past), False
        self._read_ahead = ()
        self._start, self._length = fed.start, fed.at + fed.tokens
        self._reached = max(self._reached, self._length)
        self._segment = segment = wanted.segment
        self._segments += 1
        sample, plan = self._time_base.samples(self._frames), wanted.plan
        before: list[Event] = [
            Segment(index=segment.index, words=[*plan.speak], seen=[*plan.seen], sample=sample, frame=self._frames),
            WordStart(i=plan.speak[0], sample=sample, source="eos"),
        ]
        return Turn(self._drawn(segment, drawn), before)

    def _gone_on(self, drawn: Drawn) -> Turn:
        segment, p = self._segment, drawn.p_eos
        assert segment is not None and self._last is not None, "a frame was fed back"
        self._length += 1
        self._reached = max(self._reached, self._length)
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
        segment.made.append(drawn.levels)
        return drawn.levels

    def _inner_words(self, segment: _Segment) -> list[Event]:
        """Word events known at a segment's end; starts and ends inside it are shared out by characters."""
        texts = [self._words[i - self._words_from] for i in segment.plan.speak]
        return shared_out(self._time_base, segment.plan.speak, texts, segment.first_frame, segment.frames)

    def _with_room(self, past: list[_Segment], frames: int, length: int) -> tuple[list[_Segment], int]:
        """Those of the past segments that are still held before a new one, and the first token held.

        Past the stated context the oldest are forgotten: at a segment's start, by frame count (tokens only where a
        slot's memory would overflow).

        Args:
            frames: of what is held besides.
            length: where the new segment's beginning ends.
        """
        limits, start, drop = self._limits, self._start, 0
        frames += sum(one.frames for one in past)
        spare = limits.longest_word_frames * _SPARE_WORDS
        limit = limits.context_frames
        while drop < len(past) and (frames > limit or length - start + spare > limits.capacity_tokens):
            limit = limits.kept_frames
            start += past[drop].tokens
            frames -= past[drop].frames
            drop += 1
        return past[drop:], start
