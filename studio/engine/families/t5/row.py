"""One utterance of T5-TTS (paper 001, "Subjective quality and latency"): plain Python, no net.

A sentence is read whole, then spoken up to its stop token. Between two sentences nothing is kept: each is a text of its
own. A frame is made at a time, so that rows share a batch, and a chunk of them is heard at once.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np

from studio.core.events import EOS_AT, Eos, Event, Frames, Segment
from studio.core.time import TimeBase
from studio.engine.families.attended import AttendedWords
from studio.engine.families.base import Turn, Want
from studio.engine.families.drawn import check_finite
from studio.engine.families.requests import RequestRow
from studio.engine.families.s5.step import Drawn, Reference, WordStep
from studio.engine.families.spelling import END, Pronounce, counts_through, spell
from studio.engine.families.t5.rule import Options

WHOLE = 0  # the look-ahead of a text that is seen to its end


@dataclass
class _Speaking:
    """The sentence that is being spoken.

    Attributes:
        words: where the attention is among its words.
        drawn: its frames, each uint8 [1, 80]; ``heard`` how many of them were handed out.
        p: of each frame, how sure the net was after it that the text is over; ``told`` how many of them were told.
        events: of frames that are not heard yet.
    """

    index: int
    words: AttendedWords
    chunk_frames: int
    limit_frames: int
    first_frame: int
    events: list[Event]
    drawn: list[np.ndarray] = field(default_factory=list[np.ndarray], repr=False)
    p: list[float] = field(default_factory=list[float], repr=False)
    heard: int = 0
    told: int = 0

    @property
    def unheard(self) -> int:
        """Frames that wait for their chunk."""
        return len(self.drawn) - self.heard

    def hand_out(self) -> tuple[np.ndarray, list[Event]]:
        """All frames that wait, uint8 [n, 80], and what happens in them."""
        frames = np.concatenate([np.zeros((0, *self.drawn[0].shape[1:]), np.uint8), *self.drawn[self.heard :]])
        self.heard = len(self.drawn)
        events, self.events = self.events, []
        return frames, events

    def tell(self) -> list[Event]:
        """Frames that are heard and whose p is known, where there are more of them than were told."""
        first, self.told = self.told, min(self.heard, len(self.p))
        if first == self.told:
            return []
        levels = np.concatenate(self.drawn[first : self.told])
        return [Frames(first_frame=self.first_frame + first, p_eos=self.p[first : self.told], levels=levels)]


class T5Row(RequestRow[Options, _Speaking]):
    """Words in, a chunk of frames every so many turns out; see ``studio.engine.families.base.Revisable``.

    Args:
        silence: uint8 [S, 80], fed before every sentence and never heard.
        reference: what the speaker said before, fed before the silence.
        longest_word_frames: a sentence is cut at so many frames for each of its words.
    """

    def __init__(
        self,
        slots: tuple[int, ...],
        time_base: TimeBase,
        silence: np.ndarray,
        reference: Reference,
        longest_word_frames: int,
        pronounce: Pronounce,
        *,
        speaker: int,
        options: Mapping[str, Any],
        temperature: float,
        seed: int,
    ) -> None:
        super().__init__(slots, time_base, Options, options, temperature, seed)
        self._before = np.concatenate((reference.frames, silence))
        self._said = reference.spelled
        self._longest, self._pronounce, self._speaker = longest_word_frames, pronounce, speaker

    @property
    def planned(self) -> range:
        """The words of the sentence that is wanted."""
        assert self._next is not None, "a sentence is wanted"
        return self._next.words.words

    def want(self) -> Want | None:
        """A sentence to be read where one is whole, or a frame more of the present one."""
        if self._wanted is None:
            if self._speaking is not None:
                self._wanted = Want("decode", None)
            elif (words := self._due(self._options.sentences)) is not None:
                self._wanted = Want("word", self._sentence(words))
        return self._wanted

    def took(self, outputs: Drawn) -> Turn:
        """A sentence's first frame, its next, or its end. Raises NotFinite."""
        wanted, self._wanted = self._wanted, None
        assert wanted is not None, "nothing was wanted"
        check_finite(outputs.is_finite and math.isfinite(outputs.p_stop) and bool(np.isfinite(outputs.shares).all()))
        if isinstance(wanted.inputs, WordStep):
            return self._begun(outputs)
        return self._gone_on(outputs)

    def broken_off(self) -> list[Event]:
        """The frame heard last, where it will not be known whether the sentence ended there."""
        one = self._speaking
        if one is None or one.told == one.heard:
            return []
        return [
            Frames(first_frame=one.first_frame + one.told, p_eos=[math.nan], levels=one.drawn[one.told]),
        ]

    def _sentence(self, words: range) -> WordStep:
        spelled = [*self._said, *map(spell, self._pronounce(self._texts(words))), [END]]
        through = counts_through(spelled)[len(self._said) : -1]
        spoken, at = [*words], self._frames
        attended = AttendedWords(self._time_base, words, through, at)
        sample = self._time_base.samples(at)
        begin: list[Event] = [
            Segment(index=self._requests, words=spoken, seen=spoken, sample=sample, frame=at),
            attended.begun(),
        ]
        limit = self._longest * len(words)
        self._next = _Speaking(self._requests, attended, self._options.chunk_frames, limit, at, begin)
        return WordStep(
            symbols=[*chain.from_iterable(spelled)],
            words=[i for i, word in enumerate(spelled) for _ in word],
            place=0,
            k=WHOLE,
            start=0,  # a sentence stands at the beginning of its slot: what was there is forgotten
            at=0,
            begins=True,
            frames=self._before,
            speaker=self._speaker,
            temperature=self._temperature,
            seed=self._seed,
            frame=at,
        )

    def _begun(self, drawn: Drawn) -> Turn:
        self._speaking, self._next = self._next, None
        assert self._speaking is not None, "a sentence was wanted"
        self._spoken, self._requests = self._speaking.words.words.stop, self._requests + 1
        return self._drawn(self._speaking, drawn, [])

    def _gone_on(self, drawn: Drawn) -> Turn:
        one, p = self._speaking, drawn.p_stop
        assert one is not None, "a frame was fed back"
        one.p.append(p)
        told = one.tell()
        forced = p < EOS_AT and len(one.drawn) >= one.limit_frames
        if p < EOS_AT and not forced:
            one.events += one.words.passed(int(drawn.shares.argmax()), self._frames)
            return self._drawn(one, drawn, told)
        self._speaking = None
        frames, events = one.hand_out()
        ends = one.words.over(self._frames, self._texts(one.words.words))
        ended = Eos(segment=one.index, frame=self._frames, p=p, forced=forced)
        return Turn(frames, [*told, *events, *one.tell()], [*ends, ended], is_request_end=True)

    def _drawn(self, one: _Speaking, drawn: Drawn, before: list[Event]) -> Turn:
        """A frame more, which is heard with its chunk."""
        one.drawn.append(drawn.levels)
        self._frames += 1
        if one.unheard < one.chunk_frames:
            return Turn(drawn.levels[:0], before)
        frames, events = one.hand_out()
        return Turn(frames, [*before, *events, *one.tell()])
