"""Row of Kyutai's models: plain Python, no torch.

Text is spoken in passages, each a stream of its own: step s feeds text, and the sound of frame s is made
``delay_steps`` later, its last codebooks after the acoustic delay. The text's end, or a flush, closes a passage.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from studio.core.errors import BadOption
from studio.core.events import Eos, Event, Frames, Segment, WordEnd, WordStart
from studio.core.text.language import DEFAULT
from studio.engine.families.base import ModuleInput, RowOutput
from studio.engine.families.common.rows import RowSetup, TextRow
from studio.engine.families.kyutai.policy import (
    NEW_WORD,
    PAD,
    KyutaiInput,
    KyutaiOptions,
    KyutaiOutput,
    KyutaiPolicy,
    sentence_case,
)

FINAL_STEPS = 4  # after the end, as in Kyutai's code
_NO_LEVELS = np.zeros((1, 0), np.uint8)  # of a frame: codes have none


@dataclass(frozen=True)
class KyutaiModel:
    """What a row knows of its model.

    Attributes:
        delay_steps: of all audio behind the text; ``delays`` of each codebook that is predicted.
        text_size, look_ahead, longest_pad: see ``KyutaiPolicy``.
        strengths: of guidance that it has.
        first: tokens before those of a passage's first word: who speaks.
    """

    delay_steps: int
    delays: tuple[int, ...]
    text_size: int
    look_ahead: int
    strengths: tuple[float, ...]
    first: tuple[int, ...] = ()
    longest_pad: int = 8

    def read_options(self, cfg: str, padding: int, language: str = DEFAULT) -> KyutaiOptions:
        """Options of the card; text comes as words of the language. Raises BadOption: an unknown strength."""
        if (strength := float(cfg)) not in self.strengths:
            raise BadOption(f"cfg cannot be {strength}", f"there are {', '.join(map(str, self.strengths))}")
        return KyutaiOptions(strength, padding)


@dataclass(frozen=True)
class _Beginning:
    """Where a word, or the end, began: its probability, and whether a limit forced it."""

    step: int
    p: float
    forced: bool


class _Passage:
    """A passage that is being spoken.

    Attributes:
        first_word: its first word; ``seen`` counts the words that its steps have needed.
        codes: of the last steps, for the frame that is completed next.
        p_word: of the steps from the next frame's on.
        beginnings: of words, and of the end, whose sound was not made; ``end`` is the end's.
        frames: made.
    """

    def __init__(self, model: KyutaiModel, first_word: int, options: KyutaiOptions) -> None:
        look_ahead = model.look_ahead
        self.policy = KyutaiPolicy(model.text_size, look_ahead=look_ahead, longest_pad=model.longest_pad)
        self.guidance, self.first_word, self.seen = options.guidance, first_word, 1
        self.codes = deque[np.ndarray](maxlen=max(model.delays) + 1)
        self.p_word, self.beginnings = deque[float](), deque[_Beginning]()
        self.step = self.frames = self.spoken = 0
        self.is_word_open, self.end = False, _Beginning(0, 1.0, False)

    @property
    def next_word(self) -> int:
        """The first word that did not begin."""
        return self.first_word + len(self.policy.begun)


class KyutaiRow(TextRow[KyutaiOptions]):
    """Words in, one step per engine step; see ``studio.engine.families.base.Row``.

    Args:
        encode: tokens of a word.
        prefix: see ``KyutaiInput``. Steps, frames and words count from its end.
    """

    def __init__(
        self,
        setup: RowSetup,
        model: KyutaiModel,
        encode: Callable[[str], Sequence[int]],
        prefix: np.ndarray | None = None,
    ) -> None:
        super().__init__(setup, model.read_options)
        self._model, self._encode, self._prefix = model, encode, prefix
        self._longest = max(model.delays)
        self._passage: _Passage | None = None
        self._next_word = self._segments = self._at = 0

    @property
    def is_finished(self) -> bool:
        """Whether everything was spoken and nothing can follow."""
        return self._ended and self._passage is None and self.unspoken == 0

    @property
    def unspoken(self) -> int:
        """Committed words that were not fed."""
        return self._committed - (self._next_word if self._passage is None else self._passage.next_word)

    def _invalidate_plan(self) -> None:
        self._pending = None  # the step may begin another word, or the end

    def next_input(self) -> ModuleInput | None:
        """The next step; None while a word that it may begin, or the look-ahead, is missing."""
        if self._pending is None:
            if self._passage is None:
                if not self.unspoken:
                    return None
                self._passage = _Passage(self._model, self._next_word, self._options)
            passage = self._passage
            self._hand_over(passage)
            if not passage.policy.can_step:
                return None
            self._pending = ModuleInput("step", self._input(passage))
        return self._pending

    def on_output(self, outputs: KyutaiOutput) -> RowOutput:
        """Process a step: no frame during the delays, then one per step. Raises NotFinite."""
        self._pop_pending()
        passage = self._passage
        assert passage is not None, "no passage is being spoken"
        outputs.check()
        self._feed(passage, outputs)
        passage.codes.append(outputs.codes)
        passage.step, self._at = passage.step + 1, self._at + 1
        if passage.step <= self._longest + self._model.delay_steps:
            return RowOutput(np.zeros((0, len(self._model.delays)), np.int64))
        behind = (self._longest - delay for delay in self._model.delays)  # steps since each codebook was made
        frame = np.array([passage.codes[-1 - steps][k] for k, steps in enumerate(behind)])
        output = RowOutput(frame[None], self._before(passage))
        passage.frames, self._frames = passage.frames + 1, self._frames + 1
        end = passage.policy.end_step
        if end is not None and passage.step >= end + self._model.delay_steps + FINAL_STEPS:
            output.after = self._close(passage)
        return output

    def checkpoint(self) -> None:
        """None: the family does not revise text."""

    def restore(self, checkpoint: None) -> None:
        """Never called: there are no checkpoints."""
        raise AssertionError("there are no checkpoints")

    def rewrite(self, i: int, words: Sequence[str]) -> None:
        """Replace words before anything was fed."""
        self._replace_words(i, words)

    # ------------------------------------------------------------ text

    def _hand_over(self, passage: _Passage) -> None:
        """Give the policy all committed words, unless the passage is closed."""
        policy, first = passage.policy, passage.first_word
        if policy.end_step is not None:
            return
        for i in range(first + policy.committed, len(self._words)):
            word = sentence_case(self._words[i], self._words[i - 1] if i else "")
            tokens = [*(() if policy.committed else self._model.first), *(self._encode(word) or (PAD,))]
            padding = self._options.padding
            policy.commit(tokens, padding + len(tokens) - 1 if padding else 0)
        policy.ended, policy.flushed = self._ended, max(0, self._flushed - first)
        if policy.may_begin:
            passage.seen = min(len(policy.begun) + 1 + policy.look_ahead, policy.committed)

    def _input(self, passage: _Passage) -> KyutaiInput:
        policy = passage.policy
        return KyutaiInput(
            step=passage.step,
            at=self._at,
            has_sound=passage.step >= self._model.delay_steps,
            pad=policy.token(PAD),
            word=policy.token(NEW_WORD),
            speaker=self._speaker,
            guidance=passage.guidance,
            temperature=self._temperature,
            seed=self._seed,
            prefix=self._prefix,
        )

    def _feed(self, passage: _Passage, outputs: KyutaiOutput) -> None:
        policy, step = passage.policy, passage.step
        may, must, words = policy.may_begin, policy.must_begin, len(policy.begun)
        policy.feed(NEW_WORD if outputs.begins else PAD)
        passage.p_word.append(outputs.p_word if may else 0.0)
        if len(policy.begun) > words or policy.end_step == step:
            passage.end = _Beginning(step, outputs.p_word, must and not outputs.begins)
            passage.beginnings.append(passage.end)

    # ------------------------------------------------------------ speech

    def _before(self, passage: _Passage) -> list[Event]:
        """The events of a frame."""
        events, sample = list[Event](), self._time_base.samples(self._frames)
        if passage.frames == 0:
            events.append(self._segment(passage, sample))
        if passage.beginnings and passage.beginnings[0].step == passage.frames:
            events += self._begin(passage, passage.beginnings.popleft(), sample)
        p_after = passage.p_word[1] if len(passage.p_word) > 1 else passage.p_word[0]
        passage.p_word.popleft()
        events.append(Frames(first_frame=self._frames, p_eos=[p_after], levels=_NO_LEVELS))
        return events

    def _begin(self, passage: _Passage, one: _Beginning, sample: int) -> list[Event]:
        """A word's beginning, or the end's, in the next frame."""
        events = list[Event]()
        if passage.is_word_open:
            events.append(WordEnd(i=passage.first_word + passage.spoken - 1, sample=sample, source="action"))
        passage.is_word_open = one.step != passage.policy.end_step
        if passage.is_word_open:
            if passage.spoken:
                events.append(Eos(segment=self._segments - 1, frame=self._frames, p=one.p, forced=one.forced))
                events.append(self._segment(passage, sample))
            passage.spoken += 1
            events.append(WordStart(i=passage.first_word + passage.spoken - 1, sample=sample, source="action"))
        return events

    def _segment(self, passage: _Passage, sample: int) -> Segment:
        """The segment of the next word that is spoken."""
        word = passage.first_word + passage.spoken
        seen = [*range(word, passage.first_word + passage.seen)]
        self._segments += 1
        return Segment(index=self._segments - 1, words=[word], seen=seen, sample=sample, frame=self._frames)

    def _close(self, passage: _Passage) -> list[Event]:
        """The end of a passage, after its last frame."""
        events, sample = list[Event](), self._time_base.samples(self._frames)
        if passage.is_word_open:
            events = self._begin(passage, passage.end, sample)
        self._next_word, self._passage = passage.next_word, None
        events.append(Eos(segment=self._segments - 1, frame=self._frames, p=passage.end.p, forced=passage.end.forced))
        return events
