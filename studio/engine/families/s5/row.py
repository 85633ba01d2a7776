"""One utterance of S5-TTS (paper 001, "Streaming decoding and word-boundary handling"): plain Python, no net."""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np

from studio.core.events import EOS_AT, Eos, Event, Frames, Segment
from studio.core.time import TimeBase
from studio.engine.families.attended import AttendedWords
from studio.engine.families.base import Turn, Want
from studio.engine.families.drawn import check_finite
from studio.engine.families.reading import ReadingRow
from studio.engine.families.s5.rule import LookAheadRule, Options, Plan, is_complete
from studio.engine.families.spelling import END, Pronounce, counts_through, spell

_SPARE_WORDS = 8  # a step begins only where so many words of the longest kind would fit
_LETTERS = 512  # of the words that the encoder sees: at most three phonemes each fit into its memory


@dataclass(frozen=True)
class WordStep:
    """What a step begins with: the encoder's input, and what the decoder is fed for the step's first frame.

    Attributes:
        symbols, words: phonemes seen and the word of each (from the first one seen); the text's end is a word.
        place: of the first symbol, in symbols since the text began.
        k: the look-ahead.
        start, at: decoder tokens before ``start`` are forgotten; these tokens stand at ``at`` and after it, over
            the token there: the frame before was fed with one word less in view, and is fed again.
        begins: nothing came before, so that the decoder's first token goes ahead.
        frames: uint8 [n, 80], the frames fed: what nobody hears (a reference, a silence), or the frame before.
        spoken: the word of the frame after each token fed, A(s), where they are of several words.
        frame: index of the frame to draw.
    """

    symbols: Sequence[int]
    words: Sequence[int]
    place: int
    k: int
    start: int
    at: int
    begins: bool
    frames: np.ndarray = field(repr=False)
    speaker: int
    temperature: float
    seed: int
    frame: int
    spoken: Sequence[int] = ()

    @property
    def tokens(self) -> int:
        """How many tokens the decoder is fed."""
        return self.begins + len(self.frames)


@dataclass(frozen=True)
class Drawn:
    """A frame uint8 [1, 80], how sure the net was that the text had ended before it, and where it attended.

    Attributes:
        shares: float [T], the cross-attention's shares of the encoder's steps, mean of all heads.
        is_finite: whether what it was drawn from were numbers.
    """

    levels: np.ndarray
    p_stop: float
    shares: np.ndarray
    is_finite: bool


@dataclass(frozen=True)
class Reference:
    """What the speaker said before, which the net goes on from; all empty where there is none.

    Attributes:
        spelled: the phonemes of each word of its transcript.
        frames: uint8 [R, 80].
        spoken: the word of each frame.
    """

    spelled: Sequence[Sequence[int]]
    frames: np.ndarray = field(repr=False)
    spoken: Sequence[int] = field(repr=False)


@dataclass(frozen=True)
class Limits:
    """How much a row remembers, in frames and in tokens; see ``net.Config``."""

    context_frames: int
    kept_frames: int
    longest_word_frames: int
    capacity_tokens: int


@dataclass
class _Step:
    """The words being spoken, or some that were.

    Attributes:
        words: those that are spoken, with the sums of W_j.
        made: each frame and the word that it is of.
    """

    index: int
    plan: Plan
    first_frame: int
    limit_frames: int
    tokens: int
    words: AttendedWords
    made: list[tuple[int, np.ndarray]] = field(default_factory=list[tuple[int, np.ndarray]], repr=False)

    @property
    def frames(self) -> int:
        """How many frames were made."""
        return len(self.made)


@dataclass(frozen=True)
class Mark:
    """Where a row stood between two steps."""

    spoken: int
    steps: int
    frames: int
    start: int
    length: int
    first_word: int
    place: int
    last: np.ndarray | None
    past: tuple[_Step, ...]


class S5Row(ReadingRow[Options]):
    """Words in, one frame a turn out; see ``studio.engine.families.base.Row``."""

    def __init__(
        self,
        slots: tuple[int, ...],
        limits: Limits,
        time_base: TimeBase,
        silence: np.ndarray,
        reference: Reference,
        pronounce: Pronounce,
        *,
        speaker: int,
        options: Mapping[str, Any],
        temperature: float,
        seed: int,
    ) -> None:
        super().__init__(slots, time_base, Options, options, temperature, seed)
        self._limits, self._silence, self._pronounce = limits, silence, pronounce
        self._reference, self._speaker = reference, speaker
        self._rule = LookAheadRule()
        self._plan: Plan | None = None  # of the step that is wanted
        self._through: list[int] = []  # and its sums of W_j
        self._step: _Step | None = None
        self._past: deque[_Step] = deque()
        self._frames = self._steps = 0
        self._start = self._length = 0  # tokens in the slot: the oldest held, and how many were ever fed
        self._first_word = self._place = 0  # the first word that the encoder still sees, and its place
        self._last: np.ndarray | None = None  # the frame drawn last

    @property
    def over(self) -> bool:
        """Whether everything was spoken and nothing can follow."""
        return self._ended and self._step is None and self.unspoken == 0 and self._wanted is None

    @property
    def planned(self) -> Plan:
        """The step whose beginning is wanted."""
        assert self._plan is not None, "a step's beginning is wanted"
        return self._plan

    @property
    def unspoken(self) -> int:
        """Committed words that no step has taken yet."""
        return len(self._words) - self._rule.spoken

    def want(self) -> Want | None:
        """A step's beginning where its words are there, or a frame more."""
        if self._wanted is None:
            if self._step is not None:
                self._wanted = Want("decode", None)
            else:
                plan = self._rule.next(len(self._words), self._options, ended=self._ended, flushed=self._flushed)
                if plan is not None:
                    self._plan, self._wanted = plan, Want("word", self._word_step(plan))
        return self._wanted

    def took(self, outputs: Drawn) -> Turn:
        """A step's first frame, its next, or its end. Raises NotFinite."""
        wanted, self._wanted = self._wanted, None
        assert wanted is not None, "nothing was wanted"
        check_finite(outputs.is_finite and math.isfinite(outputs.p_stop) and bool(np.isfinite(outputs.shares).all()))
        if isinstance(wanted.inputs, WordStep):
            return self._begun(wanted.inputs, outputs)
        return self._gone_on(outputs)

    def broken_off(self) -> list[Event]:
        """The frame drawn last, of which it will not be known whether the word ended there."""
        if self._step is None or self._last is None:
            return []
        return [Frames(first_frame=self._frames - 1, p_eos=[math.nan], levels=self._last)]

    def mark(self) -> Mark | None:
        """Where the row stands between two steps; None within one."""
        if self._step is not None or self._wanted is not None:
            return None
        return Mark(
            self._rule.spoken,
            self._steps,
            self._frames,
            self._start,
            self._length,
            self._first_word,
            self._place,
            self._last,
            tuple(self._past),
        )

    def back(self, mark: Mark) -> None:
        """Return to a mark, whose tokens the slot must still hold."""
        assert self._length - mark.start <= self._limits.capacity_tokens, "the slot has written over what was marked"
        self._rule.spoken = mark.spoken
        self._steps, self._frames, self._last = mark.steps, mark.frames, mark.last
        self._start, self._length, self._past = mark.start, mark.length, deque(mark.past)
        self._first_word, self._place = mark.first_word, mark.place
        self._step = self._plan = self._wanted = None

    def rewrite(self, i: int, words: Sequence[str]) -> None:
        """Replace the committed words from ``i`` on, which must not have been spoken.

        What was only seen as look-ahead may change: the encoder reads it anew for every word.
        """
        assert i >= self._rule.spoken, "the word was spoken already: go back first"
        self._words[i:] = words
        self._flushed = min(self._flushed, len(self._words))

    def _word_step(self, plan: Plan) -> WordStep:
        begins = self._make_room(plan) or self._steps == 0
        spelled = [*self._reference.spelled, *self._spelled(plan.stop)]
        through = counts_through(spelled)
        before = len(self._reference.spelled) - self._first_word
        self._through = [through[i + before] for i in plan.speak]
        ends = [[END]] if plan.close else []
        fed, spoken = self._beginning(plan, before) if begins else (self._last, ())
        assert fed is not None, "a frame was drawn"
        return WordStep(
            symbols=[*chain.from_iterable([*spelled, *ends])],
            words=[i for i, word in enumerate([*spelled, *ends]) for _ in word],
            place=self._place,
            k=self._options.k,
            start=self._start,
            at=self._length - (not begins),
            begins=begins,
            frames=fed,
            speaker=self._speaker,
            temperature=self._temperature,
            seed=self._seed,
            frame=self._frames,
            spoken=spoken,
        )

    def _beginning(self, plan: Plan, before: int) -> tuple[np.ndarray, Sequence[int]]:
        """What a slot begins with: the reference, a silence, and what it still holds of the words spoken.

        Args:
            before: what turns a word's index into that among the words in view.

        Returns:
            Frames uint8 [n, 80], and for each token that is fed the word of the frame after it.
        """
        if not self._reference.spelled:
            return self._silence, ()
        kept = [one for step in self._past for one in step.made]
        frames = np.concatenate((self._reference.frames, self._silence, *(frame for _, frame in kept)))
        silent = [len(self._reference.spelled)] * len(self._silence)
        words = [*(word for word, _ in kept), plan.speak.start]
        return frames, [*self._reference.spoken, *silent, *(word + before for word in words)]

    def _spelled(self, stop: int) -> list[list[int]]:
        """Phonemes of the words that are seen, by what these words alone say about each other."""
        return [spell(phonemes) for phonemes in self._pronounce(self._words[self._first_word : stop])]

    def _begun(self, fed: WordStep, drawn: Drawn) -> Turn:
        plan, self._plan = self._plan, None
        assert plan is not None, "a step has a plan"
        self._length = fed.at + fed.tokens
        limit = self._limits.longest_word_frames * len(plan.speak)
        first, at = plan.speak.start, self._frames
        # The frame fed again is a token of the step before.
        tokens = fed.tokens if fed.begins else 0
        words = AttendedWords(self._time_base, plan.speak, self._through, at)
        step = _Step(self._steps, plan, at, limit, tokens, words)
        self._step = step
        self._steps += 1
        sample = self._time_base.samples(at)
        before: list[Event] = [
            Segment(index=step.index, words=[*plan.speak], seen=[*range(first, plan.stop)], sample=sample, frame=at),
            words.begun(),
        ]
        return Turn(self._accepted(step, drawn), before)

    def _gone_on(self, drawn: Drawn) -> Turn:
        step = self._step
        assert step is not None and self._last is not None, "a frame was fed back"
        self._length += 1
        step.tokens += 1
        if step.plan.close:
            p, ended = drawn.p_stop, drawn.p_stop >= EOS_AT
        else:
            through = step.words.through[0]
            p, ended = float(drawn.shares[through:].sum()), is_complete([*drawn.shares], through)
        made = Frames(first_frame=self._frames - 1, p_eos=[p], levels=self._last)
        forced = not ended and step.frames >= step.limit_frames
        if not ended and not forced:
            passed = step.words.passed(int(drawn.shares.argmax()), self._frames) if step.plan.close else []
            return Turn(self._accepted(step, drawn), [made, *passed])
        # What was drawn is dropped: the next word's first frame is drawn with one word more in view.
        self._step = None
        self._past.append(step)
        over = Eos(segment=step.index, frame=self._frames, p=p, forced=forced)
        ends = step.words.over(self._frames, [self._words[i] for i in step.plan.speak])
        return Turn(drawn.levels[:0], [made], [*ends, over])

    def _accepted(self, step: _Step, drawn: Drawn) -> np.ndarray:
        self._last = drawn.levels
        self._frames += 1
        step.made.append((step.words.word, drawn.levels))
        return drawn.levels

    def _make_room(self, plan: Plan) -> bool:
        """Past the stated context, forget the oldest words, their phonemes and their frames.

        Answers whether the slot begins anew: a reference, which is older than all of it, must stay.
        """
        limits = self._limits
        frames = sum(step.frames for step in self._past)
        spare = limits.longest_word_frames * _SPARE_WORDS

        def too_full(limit_frames: int) -> bool:
            letters = sum(len(word) + 2 for word in self._words[self._first_word : plan.stop])
            held = self._length - self._start + spare
            return frames > limit_frames or held > limits.capacity_tokens or letters > _LETTERS

        limit = limits.context_frames
        forgets = False
        while len(self._past) > 1 and too_full(limit):  # the last one's last frame is fed again
            limit, forgets = limits.kept_frames, True
            oldest = self._past.popleft()
            count = oldest.plan.speak.stop - self._first_word
            if not self._reference.spelled:
                self._place += sum(map(len, self._spelled(oldest.plan.stop)[:count]))
                self._start += oldest.tokens
            self._first_word = oldest.plan.speak.stop
            frames -= oldest.frames
        anew = forgets and bool(self._reference.spelled)
        if anew:
            self._start = self._length
        return anew
