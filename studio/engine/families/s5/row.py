"""One utterance of S5-TTS (paper 001, "Streaming decoding and word-boundary handling"): plain Python, no net."""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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
from studio.engine.families.s5.spoken import Mark, SpokenStep
from studio.engine.families.s5.step import Drawn, Reference, WordStep
from studio.engine.families.spelling import END, Pronounce, counts_through, spell, words_of

_SPARE_WORDS = 8  # a step begins only where so many words of the longest kind would fit
_LETTERS = 512  # of the words that the encoder sees: at most three phonemes each fit into its memory


@dataclass(frozen=True)
class Limits:
    """How much a row remembers, in frames and in tokens; see ``net.Config``."""

    context_frames: int
    kept_frames: int
    longest_word_frames: int
    capacity_tokens: int


@dataclass(frozen=True)
class _Next:
    """The step that is wanted.

    Attributes:
        before: where the row stood when it was planned.
        through: its sums of W_j.
        again: steps that are fed again before it, each with what it is then.
    """

    before: Mark
    plan: Plan
    through: Sequence[int]
    again: Sequence[tuple[SpokenStep, SpokenStep]]


class S5Row(ReadingRow[Options]):
    """Words in, one frame a turn out; see ``studio.engine.families.base.Revisable``."""

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
        self._next: _Next | None = None
        self._is_rewritten = False  # words that the net has seen may be others now
        self._step: SpokenStep | None = None
        self._past: deque[SpokenStep] = deque()
        self._frames = self._steps = 0
        self._start = self._length = 0  # tokens in the slot: the oldest held, and how many were fed
        self._reached = 0  # the most that ever were
        self._first_word = self._place = 0  # the first word that the encoder still sees, and its place
        self._last: np.ndarray | None = None  # the frame drawn last

    @property
    def over(self) -> bool:
        """Whether everything was spoken and nothing can follow."""
        return self._ended and self._step is None and self.unspoken == 0 and self._wanted is None

    @property
    def planned(self) -> Plan:
        """The step whose beginning is wanted."""
        assert self._next is not None, "a step's beginning is wanted"
        return self._next.plan

    @property
    def spoken(self) -> int:
        """Words spoken, those of the present step among them."""
        return self._rule.spoken if self._next is None else self._next.before.spoken

    @property
    def fed(self) -> int:
        """Words that the net has seen; past any word where it has seen the text's end."""
        steps = [*self._past, self._step] if self._step is not None else self._past
        return steps[-1].seen if steps else 0

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
                before = self.mark()
                assert before is not None, "nothing is under way"
                plan = self._rule.next(len(self._words), self._options, ended=self._ended, flushed=self._flushed)
                if plan is not None:
                    self._wanted = Want("word", self._word_step(before, plan))
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
            self.fed,
            self._steps,
            self._frames,
            self._start,
            self._length,
            self._first_word,
            self._place,
            self._last,
            tuple(self._past),
        )

    def holds(self, mark: Mark) -> bool:
        """Whether the slot still holds what it held at a mark."""
        return self._reached - mark.start <= self._limits.capacity_tokens

    def back(self, mark: Mark) -> None:
        """Return to a mark, whose tokens the slot must still hold."""
        assert self.holds(mark), "the slot has written over what was marked"
        self._rule.spoken = mark.spoken
        self._steps, self._frames, self._last = mark.steps, mark.frames, mark.last
        self._start, self._length, self._past = mark.start, mark.length, deque(mark.past)
        self._first_word, self._place = mark.first_word, mark.place
        self._step = self._next = self._wanted = None

    def lose(self) -> None:
        """The word spoken last was cut: whatever follows begins anew."""
        self._past[-1].is_cut = True

    def rewrite(self, i: int, words: Sequence[str]) -> None:
        """Replace the committed words from ``i`` on, none of which has been spoken; the text goes on.

        The encoder reads them anew for every word, and the decoder is fed again what had seen them.
        """
        assert i >= self.spoken, "the word was spoken already: go back first"
        if self._next is not None:
            self.back(self._next.before)
        self._reword(i, words)
        self._is_rewritten = True

    def _word_step(self, before: Mark, plan: Plan) -> WordStep:
        begins = self._make_room(plan) or self._steps == 0
        spelled = self._view(self._first_word, plan.stop, close=plan.close)
        through = counts_through(spelled)
        shift = len(self._reference.spelled) - self._first_word
        fed, spoken = self._beginning(plan, shift) if begins else (self._last, ())
        assert fed is not None, "a frame was drawn"
        again = self._fed_again() if self._is_rewritten and not begins else []
        self._next = _Next(before, plan, [through[i + shift] for i in plan.speak], again)
        held_from = self._reached - self._limits.capacity_tokens
        return WordStep(
            symbols=[*chain.from_iterable(spelled)],
            words=words_of(spelled),
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
            again=[one.with_its_frames(held_from) for _, one in again],
        )

    def _fed_again(self) -> list[tuple[SpokenStep, SpokenStep]]:
        """The steps held from the first on that saw other words than there are now, each with what it is now.

        It speaks the words that it spoke and sees no more than it saw, but where the text's end had closed its view.
        """
        again, there = list[tuple[SpokenStep, SpokenStep]](), len(self._words)
        for one in self._past:
            if one.fed.begins:  # what stood before it is not held any more
                again = []
            limit = one.plan.speak.stop + one.fed.k if one.sees_end else one.plan.stop
            sees_end = self._ended and there < limit
            is_flushed = one.plan.close and not one.sees_end
            plan = replace(one.plan, stop=min(limit, there), close=sees_end or is_flushed)
            spelled = self._view(one.first_word, plan.stop, close=plan.close)
            symbols = [*chain.from_iterable(spelled)]
            if again or symbols != one.fed.symbols:
                fed = replace(one.fed, symbols=symbols, words=words_of(spelled))
                again.append((one, replace(one, plan=plan, sees_end=sees_end, fed=fed)))
        return again

    def _beginning(self, plan: Plan, shift: int) -> tuple[np.ndarray, Sequence[int]]:
        """What a slot begins with: the reference, a silence, and what it still holds of the words spoken.

        Args:
            shift: what turns a word's index into that among the words in view.

        Returns:
            Frames uint8 [n, 80], and for each token that is fed the word of the frame after it.
        """
        if not self._reference.spelled:
            return self._silence, ()
        kept = [one for step in self._past for one in step.made]
        frames = np.concatenate((self._reference.frames, self._silence, *(frame for _, frame in kept)))
        silent = [len(self._reference.spelled)] * len(self._silence)
        words = [*(word for word, _ in kept), plan.speak.start]
        return frames, [*self._reference.spoken, *silent, *(word + shift for word in words)]

    def _view(self, first: int, stop: int, *, close: bool) -> list[list[int]]:
        """Phonemes of each word in view: the reference's, those of [first, stop), and the text's end."""
        spelled = [*self._reference.spelled, *self._spelled(first, stop)]
        return [*spelled, [END]] if close else spelled

    def _spelled(self, first: int, stop: int) -> list[list[int]]:
        """Phonemes of the words that are seen, by what these words alone say about each other."""
        return [spell(phonemes) for phonemes in self._pronounce(self._words[first:stop])]

    def _begun(self, fed: WordStep, drawn: Drawn) -> Turn:
        wanted, self._next = self._next, None
        assert wanted is not None, "a step has a plan"
        plan, self._is_rewritten = wanted.plan, False
        for one, other in wanted.again:
            one.take(other)
        self._length = fed.at + fed.tokens
        self._reached = max(self._reached, self._length)
        limit = self._limits.longest_word_frames * len(plan.speak)
        first, at = plan.speak.start, self._frames
        # The frame fed again is a token of the step before.
        tokens = fed.tokens if fed.begins else 0
        words = AttendedWords(self._time_base, plan.speak, wanted.through, at)
        sees_end = plan.close and self._ended
        fed = replace(fed, again=())
        step = SpokenStep(self._steps, plan, sees_end, fed, self._first_word, at, limit, tokens, words)
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
        self._reached = max(self._reached, self._length)
        step.tokens += 1
        if step.plan.close:
            p = step.stopped(drawn.p_stop)
            ended = p >= EOS_AT
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
        if forced:
            self.lose()
        over = Eos(segment=step.index, frame=self._frames, p=p, forced=forced)
        ends = step.words.over(self._frames, [self._words[i] for i in step.plan.speak])
        return Turn(drawn.levels[:0], [made], [*ends, over])

    def _accepted(self, step: SpokenStep, drawn: Drawn) -> np.ndarray:
        self._last = drawn.levels
        self._frames += 1
        step.made.append((step.words.word, drawn.levels))
        return drawn.levels

    def _make_room(self, plan: Plan) -> bool:
        """Past the stated context, forget the oldest words, their phonemes and their frames.

        After a word that was cut all are forgotten: an attention that is lost does not find its place again as long as
        it is fed what it said meanwhile. Answers whether the slot begins anew: then, and where a reference, which is
        older than all of it, must stay.
        """
        if self._past and self._past[-1].is_cut:
            self._past.clear()
            self._first_word, self._place, self._start = plan.speak.start, 0, self._length
            return True
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
                self._place += sum(map(len, self._spelled(self._first_word, oldest.plan.stop)[:count]))
                self._start += oldest.tokens
            self._first_word = oldest.plan.speak.stop
            frames -= oldest.frames
        anew = forgets and bool(self._reference.spelled)
        if anew:
            self._start = self._length
        return anew
