"""One request of S5-TTS (paper 001, "Streaming decoding and word-boundary handling"), without torch."""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from studio.core.events import EOS_AT, Eos, Event, Segment
from studio.engine.families.base import ModuleInput, RowOutput
from studio.engine.families.common.rows import RowLimits, RowSetup, TextRow, WordTracker
from studio.engine.families.common.text_tokens import END, Pronounce, counts_through, spell, words_of
from studio.engine.families.s5.policy import (
    LookAheadPolicy,
    S5Checkpoint,
    S5Options,
    S5Output,
    S5Plan,
    S5StepInput,
    S5StepState,
    SpeakerReference,
    is_complete,
)

_SPARE_WORDS = 8  # longest words for which a slot needs free tokens before a step begins
_MAX_LETTERS = 512  # in the encoder's view: at most three phonemes each fit into its slot


@dataclass(frozen=True)
class _PlannedStep:
    """A planned step.

    Attributes:
        before: the row's state when it was planned.
        through: its sums of W_j.
        again: earlier steps to be fed again, each with its replacement.
    """

    before: S5Checkpoint
    plan: S5Plan
    through: Sequence[int]
    again: Sequence[tuple[S5StepState, S5StepState]]


class S5Row(TextRow[S5Options]):
    """One request, one frame a step; see ``studio.engine.families.base.RevisableRow``."""

    def __init__(
        self, setup: RowSetup, limits: RowLimits, silence: np.ndarray, reference: SpeakerReference, pronounce: Pronounce
    ) -> None:
        super().__init__(setup, S5Options)
        self._limits, self._silence, self._reference, self._pronounce = limits, silence, reference, pronounce
        self._policy = LookAheadPolicy()
        self._next: _PlannedStep | None = None
        self._is_rewritten = False  # whether words that the net has seen may have changed
        self._step: S5StepState | None = None
        self._past: deque[S5StepState] = deque()
        self._steps = 0
        self._start = self._length = 0  # the slot's oldest token and the number of tokens fed
        self._reached = 0  # maximum of _length
        self._first_word = self._position = 0  # the first word in the encoder's view, and its position in symbols

    @property
    def is_finished(self) -> bool:
        """Whether everything was spoken and nothing can follow."""
        return self._ended and self._step is None and self.unspoken == 0 and self._pending is None

    @property
    def planned(self) -> S5Plan:
        """The planned step."""
        assert self._next is not None, "no step is planned"
        return self._next.plan

    @property
    def spoken(self) -> int:
        """Words spoken, including those of the current step."""
        return self._policy.spoken if self._next is None else self._next.before.spoken

    @property
    def fed(self) -> int:
        """Words that the net has seen; ``ALL_WORDS`` after the text's end."""
        steps = [*self._past, self._step] if self._step is not None else self._past
        return steps[-1].seen if steps else 0

    @property
    def unspoken(self) -> int:
        """Committed words that are in no step yet."""
        return len(self._words) - self._policy.spoken

    def next_input(self) -> ModuleInput | None:
        """The prefill of a step whose words are there, or the next frame of the current one."""
        if self._pending is None:
            if self._step is not None:
                self._pending = ModuleInput("decode", None)
            else:
                before = self.checkpoint()
                assert before is not None, "a step is running"
                plan = self._policy.next(len(self._words), self._options, ended=self._ended, flushed=self._flushed)
                if plan is not None:
                    self._pending = ModuleInput("word", self._word_step(before, plan))
        return self._pending

    def on_output(self, outputs: S5Output) -> RowOutput:
        """Take a step's first frame, next frame or end. Raises NotFinite."""
        pending = self._pop_pending()
        outputs.check()
        if isinstance(pending.inputs, S5StepInput):
            return self._start_step(pending.inputs, outputs)
        return self._continue_step(outputs)

    def on_cancel(self) -> list[Event]:
        """The last frame, whose p_eos remains unknown."""
        return [] if self._step is None else [self._report_last(math.nan)]

    def checkpoint(self) -> S5Checkpoint | None:
        """The state between two steps; None within one."""
        if self._step is not None or self._pending is not None:
            return None
        return S5Checkpoint(
            self._policy.spoken,
            self.fed,
            self._steps,
            self._frames,
            self._start,
            self._length,
            self._first_word,
            self._position,
            self._last,
            tuple(self._past),
        )

    def can_restore(self, checkpoint: S5Checkpoint) -> bool:
        """Whether the slot still holds the checkpoint's tokens."""
        return self._reached - checkpoint.start <= self._limits.capacity_tokens

    def restore(self, checkpoint: S5Checkpoint) -> None:
        """Return to a checkpoint whose tokens the slot still holds."""
        assert self.can_restore(checkpoint), "the checkpoint's tokens were overwritten"
        self._policy.spoken = checkpoint.spoken
        self._steps, self._frames, self._last = checkpoint.steps, checkpoint.frames, checkpoint.last
        self._start, self._length, self._past = checkpoint.start, checkpoint.length, deque(checkpoint.past)
        self._first_word, self._position = checkpoint.first_word, checkpoint.position
        self._step = self._next = self._pending = None

    def restart_context(self) -> None:
        """Mark the last step as cut: the next step starts from an empty context."""
        self._past[-1].is_cut = True

    def rewrite(self, i: int, words: Sequence[str]) -> None:
        """Replace the committed words from ``i`` on, none of which was spoken; the text is open again.

        The decoder's tokens that saw one of them are fed again before the next step.
        """
        assert i >= self.spoken, "the word was already spoken: restore a checkpoint first"
        if self._next is not None:
            self.restore(self._next.before)
        self._replace_words(i, words)
        self._is_rewritten = True

    def _word_step(self, before: S5Checkpoint, plan: S5Plan) -> S5StepInput:
        begins = self._free_tokens(plan) or self._steps == 0
        spelled = self._view(self._first_word, plan.stop, close=plan.close)
        through = counts_through(spelled)
        shift = len(self._reference.spelled) - self._first_word
        fed, spoken = self._prompt(plan, shift) if begins else (self._last, ())
        assert fed is not None, "no frame was sampled"
        again = self._steps_to_refeed() if self._is_rewritten and not begins else []
        self._next = _PlannedStep(before, plan, [through[i + shift] for i in plan.speak], again)
        held_from = self._reached - self._limits.capacity_tokens
        return S5StepInput(
            symbols=[*chain.from_iterable(spelled)],
            words=words_of(spelled),
            position=self._position,
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
            again=[one.input_with_frames(held_from) for _, one in again],
        )

    def _steps_to_refeed(self) -> list[tuple[S5StepState, S5StepState]]:
        """Stored steps from the first one with changed words in view, each with its replacement.

        A replacement speaks the same words and sees no more words, unless the text's end had closed its view.
        """
        again, there = list[tuple[S5StepState, S5StepState]](), len(self._words)
        for one in self._past:
            if one.fed.begins:  # earlier steps are no longer in the slot
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

    def _prompt(self, plan: S5Plan, shift: int) -> tuple[np.ndarray, Sequence[int]]:
        """The first frames of an empty slot: the reference, silence, and the stored frames of spoken words.

        Args:
            shift: from a word's index to its index in the view.

        Returns:
            Frames uint8 [n, 80], and for each token the word of the frame after it.
        """
        if not self._reference.spelled:
            return self._silence, ()
        past = [one for step in self._past for one in step.frames]
        frames = np.concatenate((self._reference.frames, self._silence, *(frame for _, frame in past)))
        silent = [len(self._reference.spelled)] * len(self._silence)
        words = [*(word for word, _ in past), plan.speak.start]
        return frames, [*self._reference.spoken, *silent, *(word + shift for word in words)]

    def _view(self, first: int, stop: int, *, close: bool) -> list[list[int]]:
        """Phonemes of each word in view: the reference, words [first, stop), the text's end."""
        spelled = [*self._reference.spelled, *self._spelled(first, stop)]
        return [*spelled, [END]] if close else spelled

    def _spelled(self, first: int, stop: int) -> list[list[int]]:
        """Phonemes of the words in view, pronounced without knowledge of later words."""
        return [spell(phonemes) for phonemes in self._pronounce(self._words[first:stop])]

    def _start_step(self, fed: S5StepInput, output: S5Output) -> RowOutput:
        planned, self._next = self._next, None
        assert planned is not None, "no step is planned"
        plan, self._is_rewritten = planned.plan, False
        for one, other in planned.again:
            one.replan(other)
        self._length = fed.at + fed.tokens
        self._reached = max(self._reached, self._length)
        limit = self._limits.longest_word_frames * len(plan.speak)
        first, at = plan.speak.start, self._frames
        tokens = fed.tokens if fed.begins else 0  # else the token is the last frame of the step before
        words = WordTracker(self._time_base, plan.speak, planned.through, at)
        sees_end = plan.close and self._ended
        fed = replace(fed, again=())
        step = S5StepState(self._steps, plan, sees_end, fed, self._first_word, at, limit, tokens, words)
        self._step = step
        self._steps += 1
        sample = self._time_base.samples(at)
        before: list[Event] = [
            Segment(index=step.index, words=[*plan.speak], seen=[*range(first, plan.stop)], sample=sample, frame=at),
            words.start(),
        ]
        return RowOutput(self._add_frame(step, output), before)

    def _continue_step(self, output: S5Output) -> RowOutput:
        step = self._step
        assert step is not None, "no step is running"
        self._length += 1
        self._reached = max(self._reached, self._length)
        step.tokens += 1
        if step.plan.close:
            p = step.stop_probability(output.p_stop)
            ended = p >= EOS_AT
        else:
            through = step.words.through[0]
            p, ended = float(output.shares[through:].sum()), is_complete([*output.shares], through)
        frames = self._report_last(p)
        forced = not ended and len(step.frames) >= step.limit_frames
        if not ended and not forced:
            passed = step.words.advance(int(output.shares.argmax()), self._frames) if step.plan.close else []
            return RowOutput(self._add_frame(step, output), [frames, *passed])
        # Drop the sampled frame: the next word's first frame is sampled with one more word in view.
        self._step = None
        self._past.append(step)
        if forced:
            self.restart_context()
        eos = Eos(segment=step.index, frame=self._frames, p=p, forced=forced)
        ends = step.words.finish(self._frames, [self._words[i] for i in step.plan.speak])
        return RowOutput(output.levels[:0], [frames], [*ends, eos])

    def _add_frame(self, step: S5StepState, output: S5Output) -> np.ndarray:
        self._last = output.levels
        self._frames += 1
        step.frames.append((step.words.word, output.levels))
        return output.levels

    def _free_tokens(self, plan: S5Plan) -> bool:
        """Drop the oldest words, with their phonemes and frames, beyond the context limits.

        After a word that was cut, drop everything: attention that lost its place does not recover while its own frames
        are in the context.

        Returns:
            Whether the slot restarts from an empty context: after a cut, or because a reference must stay in front.
        """
        if self._past and self._past[-1].is_cut:
            self._past.clear()
            self._first_word, self._position, self._start = plan.speak.start, 0, self._length
            return True
        limits = self._limits
        frames = sum(len(step.frames) for step in self._past)
        spare = limits.longest_word_frames * _SPARE_WORDS

        def too_full(limit_frames: int) -> bool:
            letters = sum(len(word) + 2 for word in self._words[self._first_word : plan.stop])
            tokens = self._length - self._start + spare
            return frames > limit_frames or tokens > limits.capacity_tokens or letters > _MAX_LETTERS

        limit = limits.context_frames
        drops = False
        while len(self._past) > 1 and too_full(limit):  # keep the last step: its last frame is fed again
            limit, drops = limits.kept_frames, True
            oldest = self._past.popleft()
            count = oldest.plan.speak.stop - self._first_word
            if not self._reference.spelled:
                self._position += sum(map(len, self._spelled(self._first_word, oldest.plan.stop)[:count]))
                self._start += oldest.tokens
            self._first_word = oldest.plan.speak.stop
            frames -= len(oldest.frames)
        restarts = drops and bool(self._reference.spelled)
        if restarts:
            self._start = self._length
        return restarts
