"""T5-TTS: a loaded checkpoint. Net, slots and modules are those of S5-TTS."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from studio.core.cards import Card
from studio.core.events import EOS_AT
from studio.engine.families.base import FamilyInfo
from studio.engine.families.common.rows import RowSetup
from studio.engine.families.common.runner import Form
from studio.engine.families.common.teacher_forcing import (
    NO_LIMIT,
    TeacherForcedSegment,
    TeacherForcingInput,
    TeacherForcingRun,
    eos_probabilities,
    replay,
    sum_by_word,
)
from studio.engine.families.s5.model import load_s5_weights
from studio.engine.families.s5.policy import S5Output, S5StepInput
from studio.engine.families.s5.runner import CAPACITY_SYMBOLS, PhonemeFamily, takes_speakers
from studio.engine.families.s5.teacher_forcing import ReferenceS5
from studio.engine.families.t5.model import T5, T5Config
from studio.engine.families.t5.policy import MOST_WORDS, OPTION_SPECS, T5Options, T5Row
from studio.engine.nets.linear import NumberFormat, check_format
from studio.text import phonemes


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


class T5Family(PhonemeFamily[T5Row]):
    """T5-TTS."""

    attends_to = "cross-attention to the phonemes of each word of the sentence"

    def __init__(
        self,
        net: T5,
        rows: int,
        device: torch.device,
        number_format: NumberFormat = "float32",
        form: Form | None = None,
    ) -> None:
        self._t5, c = net, net.config
        before = 1 + c.reference_frames + net.silence.shape[1]
        capacities = (before + MOST_WORDS * c.longest_word_frames, CAPACITY_SYMBOLS + c.reference_frames)
        super().__init__(net, rows, device, number_format, capacities, form)

    @staticmethod
    def load(card: Card, folder: Path, device: torch.device, rows: int) -> "T5Family":
        """Load a card's checkpoint and verify its weights. Raises BadVoice, NeedsPackage."""
        net = T5(T5Config.read(card.config))
        load_s5_weights(net, card, folder)
        return T5Family(net.to(device), rows, device, check_format(card.number_format))

    def _row(self, setup: RowSetup, forced: TeacherForcingInput | None) -> T5Row:
        setup, silence, reference = self._speaker(setup)
        longest = NO_LIMIT if forced else self.net.config.longest_word_frames
        return T5Row(setup, silence, reference, longest, phonemes.pronounce)

    def _force(self, row: T5Row, recording: TeacherForcingInput) -> Iterator[TeacherForcedSegment]:
        return T5TeacherForcing(self._t5, row, recording).segments()


NOTES = (
    "It reads a whole sentence before it speaks: the first word comes after the sentence's final punctuation, the "
    "text's end or a pause of the typist. Then it streams chunk by chunk."
)
INFO = FamilyInfo(
    "t5",
    "T5-TTS, the full-context baseline of paper 001",
    OPTION_SPECS,
    T5Options().look_ahead_words,
    T5Family.load,
    NOTES,
    supports_teacher_forcing=True,
    takes_speakers=takes_speakers,
)
