"""Teacher forcing of T5-TTS."""

import numpy as np
import torch

from studio.core.events import EOS_AT
from studio.engine.families.common.teacher_forcing import (
    TeacherForcedSegment,
    TeacherForcingInput,
    TeacherForcingRun,
    eos_probabilities,
    replay,
    sum_by_word,
)
from studio.engine.families.s5.policy import S5Output, S5StepInput
from studio.engine.families.s5.teacher_forcing import ReferenceS5
from studio.engine.families.t5.model import T5
from studio.engine.families.t5.policy import T5Row

ATTENDS_TO = "cross-attention to the phonemes of each word of the sentence"


class T5TeacherForcing(TeacherForcingRun):
    """See ``TeacherForcingRun``; a segment is a sentence."""

    def __init__(self, net: T5, row: T5Row, recording: TeacherForcingInput) -> None:
        super().__init__(row, recording)
        self._row, self._net = row, ReferenceS5(net, recording.speaker)

    @torch.inference_mode()
    def _segment(self, first: int, fed: S5StepInput) -> TeacherForcedSegment:
        words = self._row.planned
        frames, stop = self._planned_frames(first, words, self._net.longest_word_frames)
        logits, stops, shares = self._net.run(fed, frames)
        p_eos = eos_probabilities(stops[1:])
        count = len(frames) if stop is not None else self._end(p_eos >= EOS_AT, first)
        self._net.accept(count)
        replayed, attention = [*frames[:count], frames[0]], shares.mean(0)  # the frame after the end is ignored
        outputs = [S5Output(one[None], float(k == count), attention[k], True) for k, one in enumerate(replayed)]
        events = replay(self._row, outputs)
        token_words = np.array(fed.words) - fed.words[-1] + words.stop  # the end symbol is the word after the last
        by_layer = sum_by_word(shares[:, :count], token_words, words)
        likelihood = self._net.log_likelihood(logits, frames)[:count]
        forced = bool(p_eos[count - 1] < EOS_AT)
        return self._result(first, words.start, by_layer, p_eos[:count], likelihood, events, forced=forced)
