"""One request of SpeakStream (paper 000, section III.D), without torch."""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from studio.core.events import EOS_AT, Eos, Event, Segment, WordStart
from studio.core.text.words import common_prefix
from studio.engine.families.base import ModuleInput, RowOutput
from studio.engine.families.common.rows import (
    ALL_WORDS,
    FrameOutput,
    RowLimits,
    RowSetup,
    TextRow,
    estimate_word_events,
)
from studio.engine.families.speakstream.policy import (
    SCHEMES,
    W_EOS,
    FeedingCounters,
    FeedingPolicy,
    ReadAheadInput,
    SegmentInput,
    SegmentPlan,
    SegmentPrefill,
    SpeakStreamOptions,
    spell,
)

_SPARE_WORDS = 8  # longest words for which a slot needs free tokens before a segment begins
_DROP_WORDS = 256  # words are dropped in blocks of at least this many


@dataclass
class SpokenSegment:
    """A segment being spoken, or one already spoken.

    Attributes:
        before: the policy's counters before it.
        options: in force when it was planned.
        fed: its input.
        at, tokens: its first token in the slot, and its number of tokens.
        frames: each uint8 [1, 80].
    """

    index: int
    before: FeedingCounters
    options: SpeakStreamOptions
    plan: SegmentPlan
    fed: SegmentInput
    at: int
    tokens: int
    first_frame: int
    limit_frames: int
    frames: list[np.ndarray]


@dataclass(frozen=True)
class SpeakStreamCheckpoint:
    """See ``studio.engine.families.base.RowCheckpoint``."""

    counters: FeedingCounters
    segments: int
    frames: int
    start: int
    length: int
    past: tuple[SpokenSegment, ...]

    @property
    def spoken(self) -> int:
        """Words spoken."""
        return self.counters.spoken

    @property
    def fed(self) -> int:
        """Words that the net had seen; ``ALL_WORDS`` after the text's end."""
        return ALL_WORDS if self.counters.closed else self.counters.fed


@dataclass(frozen=True)
class _PlannedSegment:
    """A planned segment, the policy's counters after it, and the earlier segments that stay in the slot."""

    plan: SegmentPlan
    after: FeedingCounters
    past: list[SpokenSegment]
    segment: SpokenSegment


class SpeakStreamRow(TextRow[SpeakStreamOptions]):
    """One request, one frame a step; see ``studio.engine.families.base.RevisableRow``.

    Args:
        ahead_tokens: how much text of the first segment may be fed before its window is complete.
    """

    def __init__(self, setup: RowSetup, limits: RowLimits, silence: np.ndarray, ahead_tokens: int = 0) -> None:
        super().__init__(setup, SpeakStreamOptions)
        self._ahead_tokens = ahead_tokens
        self._read_ahead: tuple[int, ...] = ()  # symbols of the first segment that were fed ahead
        self._limits, self._silence = limits, silence
        self._policy = FeedingPolicy()
        self._is_rewritten = False
        self._next: _PlannedSegment | None = None
        self._segment: SpokenSegment | None = None
        self._past: deque[SpokenSegment] = deque()
        self._segments = 0
        self._start = self._length = 0  # the slot's oldest token and the number of tokens fed
        self._reached = 0  # maximum of _length

    @property
    def is_finished(self) -> bool:
        """Whether everything was spoken and nothing can follow."""
        return self._ended and self._segment is None and self.unspoken == 0 and self._pending is None

    @property
    def spoken(self) -> int:
        """Words spoken, including those of the current segment."""
        return self._policy.spoken

    @property
    def fed(self) -> int:
        """Words that the net has seen; ``ALL_WORDS`` after the text's end."""
        return ALL_WORDS if self._policy.closed else self._policy.fed

    @property
    def planned(self) -> SegmentPlan:
        """The planned segment."""
        assert self._next is not None, "no segment is planned"
        return self._next.plan

    @property
    def unspoken(self) -> int:
        """Committed words that are in no segment yet."""
        return self._committed - self._policy.spoken

    def next_input(self) -> ModuleInput | None:
        """The next frame of the current segment, the prefill of the next one, or text of the first to be fed ahead."""
        if self._pending is None:
            if self._segment is not None:
                self._pending = ModuleInput("decode", None)
            else:
                self._pending = self._plan_segment() or self._plan_ahead()
        return self._pending

    def on_output(self, outputs: FrameOutput | None) -> RowOutput:
        """Take a segment's first frame, next frame or end; None after text fed ahead. Raises NotFinite."""
        pending = self._pop_pending()
        if isinstance(pending.inputs, ReadAheadInput):
            self._read_ahead = (*self._read_ahead[: pending.inputs.at], *pending.inputs.symbols)
            return RowOutput(self._silence[:0])
        assert outputs is not None, "a frame is missing"
        outputs.check()
        if isinstance(pending.inputs, SegmentPrefill):
            return self._start_segment(pending.inputs, outputs)
        return self._continue_segment(outputs)

    def on_cancel(self) -> list[Event]:
        """The last frame, whose p_eos remains unknown."""
        return [] if self._segment is None else [self._report_last(math.nan)]

    def checkpoint(self) -> SpeakStreamCheckpoint | None:
        """The state between two segments; None within one."""
        if self._segment is not None:
            return None
        counters = self._policy.checkpoint()
        return SpeakStreamCheckpoint(
            counters, self._segments, self._frames, self._start, self._length, tuple(self._past)
        )

    def can_restore(self, checkpoint: SpeakStreamCheckpoint) -> bool:
        """Whether the slot still holds the checkpoint's tokens."""
        return self._reached - checkpoint.start <= self._limits.capacity_tokens

    def restore(self, checkpoint: SpeakStreamCheckpoint) -> None:
        """Return to a checkpoint whose tokens the slot still holds."""
        assert self.can_restore(checkpoint), "the checkpoint's tokens were overwritten"
        current = {one.index: one for one in self._past}  # some may have been fed again since
        self._past = deque(current.get(one.index, one) for one in checkpoint.past)
        self._segments, self._frames = checkpoint.segments, checkpoint.frames
        self._policy.restore(checkpoint.counters)
        self._start, self._length = checkpoint.start, checkpoint.length
        if self._past:
            last = self._past[-1]
            self._policy.restore(last.before)
            self._policy.advance(last.plan)
            self._start, self._length = self._past[0].at, last.at + last.tokens
        self._segment = self._next = self._pending = self._last = None

    def rewrite(self, i: int, words: Sequence[str]) -> None:
        """Replace the committed words from ``i`` on, none of which was spoken; the text is open again.

        Segments that saw one of them are fed again, with their frames, before the next one.
        """
        assert i >= self._policy.spoken, "the word was already spoken: restore a checkpoint first"
        self._replace_words(i, words)
        self._is_rewritten = True
        self._invalidate_plan()

    def _invalidate_plan(self) -> None:
        if self._segment is None:
            self._next = self._pending = None

    def discard_before(self, checkpoint: SpeakStreamCheckpoint) -> None:
        """Drop the words before a checkpoint, in blocks."""
        first = checkpoint.past[0].plan.speak.start if checkpoint.past else checkpoint.spoken
        if first - self._words_from >= _DROP_WORDS:
            del self._words[: first - self._words_from]
            self._words_from = first

    def _symbols_of(self, words: range) -> list[int]:
        return [symbol for i in words for symbol in spell(self._words[i - self._words_from])]

    def _segment_input(self, plan: SegmentPlan, index: int, frames: Sequence[np.ndarray]) -> SegmentInput:
        silence = self._silence if index == 0 else self._silence[:0]
        window = (SCHEMES.index(plan.scheme), len(plan.speak), plan.look_ahead)
        symbols = self._symbols_of(plan.feed) + [W_EOS] * plan.close
        return SegmentInput(index > 0, symbols, window, np.concatenate((silence, *frames)))

    def _plan_segment(self) -> ModuleInput | None:
        """Plan the next segment; the row's state changes when its output arrives."""
        counters = self._policy.checkpoint()
        again = self._segments_to_refeed() if self._is_rewritten else []
        before, options = self._policy.checkpoint(), self._options
        plan = self._policy.next(self._committed, options, ended=self._ended, flushed=self._flushed)
        after = self._policy.checkpoint()
        self._policy.restore(counters)
        if plan is None:
            return None
        past = [*self._past][: len(self._past) - len(again)]
        at = again[0].at if again else self._length
        for one in again:
            one.at, at = at, at + one.tokens
        fed = self._segment_input(plan, self._segments, ())
        limit = self._limits.longest_word_frames * len(plan.speak)
        segment = SpokenSegment(self._segments, before, options, plan, fed, at, fed.tokens, self._frames, limit, [])
        past, start = self._free_tokens(past, sum(len(one.frames) for one in again), at + fed.tokens)
        self._next = _PlannedSegment(plan, after, [*past, *again], segment)
        first = again[0].at if again else at
        segments = [*(self._segment_input(one.plan, one.index, one.frames) for one in again), fed]
        sampling = (self._speaker, self._temperature, self._seed, self._frames)
        known = 0 if again else common_prefix(self._read_ahead, fed.symbols)
        return ModuleInput("prefill", SegmentPrefill(start, first, segments, *sampling, known))

    def _plan_ahead(self) -> ModuleInput | None:
        """Text of the first segment that the slot does not hold yet.

        None after a revision, so that repeated edits cost no runs.
        """
        if self._reached or self._is_rewritten or not self._ahead_tokens:
            return None
        symbols = self._symbols_of(range(min(self._committed, self._options.m)))[: self._ahead_tokens]
        known = common_prefix(self._read_ahead, symbols)
        if known == len(symbols):
            return None
        return ModuleInput("read", ReadAheadInput(known, symbols[known:], self._speaker))

    def _segments_to_refeed(self) -> list[SpokenSegment]:
        """Stored segments from the first with changed words on, re-planned; leaves the policy as it is after them."""
        counters, again = self._policy.checkpoint(), list[SpokenSegment]()
        for one in self._past:
            if not again:
                self._policy.restore(one.before)
            before = self._policy.checkpoint()
            plan = self._policy.replan(one.plan, self._committed, one.options, ended=self._ended)
            is_same = (
                not one.plan.close and plan.feed == one.plan.feed and self._symbols_of(plan.feed) == [*one.fed.symbols]
            )
            if not again and is_same:
                continue
            fed = self._segment_input(plan, one.index, ())
            if not again and fed.symbols == one.fed.symbols:
                continue
            again.append(replace(one, before=before, plan=plan, fed=fed, tokens=fed.tokens + len(one.frames)))
        if not again:
            self._policy.restore(counters)
        return again

    def _start_segment(self, fed: SegmentPrefill, output: FrameOutput) -> RowOutput:
        planned, self._next = self._next, None
        assert planned is not None, "no segment is planned"
        self._policy.restore(planned.after)
        self._past, self._is_rewritten = deque(planned.past), False
        self._read_ahead = ()
        self._start, self._length = fed.start, fed.at + fed.tokens
        self._reached = max(self._reached, self._length)
        self._segment = segment = planned.segment
        self._segments += 1
        sample, plan = self._time_base.samples(self._frames), planned.plan
        before: list[Event] = [
            Segment(index=segment.index, words=[*plan.speak], seen=[*plan.seen], sample=sample, frame=self._frames),
            WordStart(i=plan.speak[0], sample=sample, source="eos"),
        ]
        return RowOutput(self._add_frame(segment, output), before)

    def _continue_segment(self, output: FrameOutput) -> RowOutput:
        segment, p = self._segment, output.p_eos
        assert segment is not None, "no segment is being spoken"
        self._length += 1
        self._reached = max(self._reached, self._length)
        segment.tokens += 1
        frames = self._report_last(p)
        forced = p < EOS_AT and len(segment.frames) >= segment.limit_frames
        if p < EOS_AT and not forced:
            return RowOutput(self._add_frame(segment, output), [frames])
        self._segment = None
        self._past.append(segment)
        eos = Eos(segment=segment.index, frame=self._frames, p=p, forced=forced)
        return RowOutput(output.levels[:0], [frames], [*self._word_events(segment), eos])

    def _add_frame(self, segment: SpokenSegment, output: FrameOutput) -> np.ndarray:
        self._last = output.levels
        self._frames += 1
        segment.frames.append(output.levels)
        return output.levels

    def _word_events(self, segment: SpokenSegment) -> list[Event]:
        """Word events of a finished segment; boundaries inside it are estimates."""
        texts = [self._words[i - self._words_from] for i in segment.plan.speak]
        return estimate_word_events(
            self._time_base, segment.plan.speak, texts, segment.first_frame, len(segment.frames)
        )

    def _free_tokens(self, past: list[SpokenSegment], frames: int, length: int) -> tuple[list[SpokenSegment], int]:
        """The past segments that stay in the slot, and its first token, after dropping the oldest.

        The limit is in frames, at a segment's start; in tokens only if the slot would overflow.

        Args:
            frames: number of frames of segments to be fed again.
            length: tokens fed once the new segment's input is in the slot.
        """
        limits, start, drop = self._limits, self._start, 0
        frames += sum(len(one.frames) for one in past)
        spare = limits.longest_word_frames * _SPARE_WORDS
        limit = limits.context_frames
        while drop < len(past) and (frames > limit or length - start + spare > limits.capacity_tokens):
            limit = limits.kept_frames
            start += past[drop].tokens
            frames -= len(past[drop].frames)
            drop += 1
        return past[drop:], start
