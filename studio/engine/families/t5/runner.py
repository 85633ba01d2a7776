"""T5-TTS: a loaded checkpoint. Net, slots and modules are those of S5-TTS."""

from collections.abc import Iterator
from pathlib import Path

import torch

from studio.core.cards import Card
from studio.engine.families.base import FamilyInfo
from studio.engine.families.common.rows import RowSetup
from studio.engine.families.common.runner import Form
from studio.engine.families.common.teacher_forcing import NO_LIMIT, TeacherForcedSegment, TeacherForcingInput
from studio.engine.families.s5.model import load_s5_weights
from studio.engine.families.s5.runner import CAPACITY_SYMBOLS, PhonemeFamily, takes_speakers
from studio.engine.families.t5.model import T5, T5Config
from studio.engine.families.t5.policy import MOST_WORDS, OPTION_SPECS, T5Options, T5Row
from studio.engine.families.t5.teacher_forcing import ATTENDS_TO, T5TeacherForcing
from studio.engine.nets.linear import NumberFormat, check_format
from studio.text import phonemes


class T5Family(PhonemeFamily[T5Row]):
    """T5-TTS."""

    attends_to = ATTENDS_TO

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
