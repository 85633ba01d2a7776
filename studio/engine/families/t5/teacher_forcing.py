"""Teacher forcing of T5-TTS."""

from collections.abc import Sequence

import numpy as np
import torch

from studio.core.events import EOS_AT, Event, Frames
from studio.engine.families.common.teacher_forcing import (
    TeacherForcedSegment,
    TeacherForcingInput,
    TeacherForcingRun,
    eos_probabilities,
    sum_by_word,
    with_predicted_eos,
)
from studio.engine.families.s5.inputs import S5Output, S5StepInput
from studio.engine.families.s5.teacher_forcing import ReferenceS5
from studio.engine.families.t5.model import T5
from studio.engine.families.t5.policy import T5Row

ATTENDS_TO = "cross-attention to the phonemes of each word of the sentence"


class T5TeacherForcing(TeacherForcingRun):
    """See ``TeacherForcingRun``; a segment is a sentence."""

    def __init__(self, net: T5, row: T5Row, given: TeacherForcingInput) -> None:
        super().__init__(row, given)
        self._row, self._net = row, ReferenceS5(net, given.speaker)

    @torch.inference_mode()
    def _segment(self, index: int, first: int, fed: S5StepInput) -> tuple[TeacherForcedSegment, Sequence[Event]]:
        words = self._row.planned
        stop = self._schedule.stop(first, words)
        frames = self._frames(first, stop, self._net.longest_word_frames * len(words))
        logits, stops, shares = self._net.run(fed, frames)
        p_eos = eos_probabilities(stops[1:])
        count = len(frames) if stop is not None else self._end(p_eos >= EOS_AT, first)
        self._net.accept(count)
        events, forced = self._replay(frames[:count], shares.mean(0)), bool(p_eos[count - 1] < EOS_AT)
        token_words = np.array(fed.words) - fed.words[-1] + words.stop  # the end symbol is the word after the last
        by_layer = sum_by_word(shares[:, :count], token_words, words)
        likelihood = self._net.log_likelihood(logits, frames)[:count]
        ended = with_predicted_eos(events, float(p_eos[count - 1]), forced=forced)
        segment = TeacherForcedSegment(index, first, words.start, by_layer, p_eos[:count], likelihood, forced, ended)
        return segment, events

    def _replay(self, frames: np.ndarray, shares: np.ndarray) -> list[Event]:
        """The row's events for a sentence of these frames; ``shares`` [n + 1, T] of the net."""
        events = list[Event]()
        for k, frame in enumerate([*frames, frames[0]]):  # the frame after the end is ignored
            self._row.next_input()
            output = self._row.on_output(S5Output(frame[None], float(k == len(frames)), shares[k], True))
            events += (*output.before, *output.after)
        return [event for event in events if not isinstance(event, Frames)]
