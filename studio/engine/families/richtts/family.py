"""RichTTS: a loaded checkpoint, and its two systems, trained on whole texts or on n-grams (paper 000, IV.A)."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from studio.core.cards import Card
from studio.engine.families.base import FamilyInfo, Module
from studio.engine.families.common.teacher_forcing import NO_LIMIT, TeacherForcedSegment, TeacherForcingInput
from studio.engine.families.richtts.model import RichTts, RichTtsConfig
from studio.engine.families.richtts.policy import (
    LARGEST_NGRAM,
    MOST_LETTERS,
    MOST_WHOLE_WORDS,
    NGRAM,
    WHOLE,
    RichTtsOptions,
    RichTtsRow,
)
from studio.engine.families.richtts.policy import option_specs as specs
from studio.engine.families.richtts.runner import RichTtsPrefillModule
from studio.engine.families.richtts.teacher_forcing import ATTENDS_TO, RichTtsTeacherForcing
from studio.engine.families.speakstream.runner import SpeakStreamDecodeModule, SpeakStreamRunner, SpeakStreamSlots
from studio.engine.nets.linear import NumberFormat, check_format
from studio.engine.nets.weights import load_weights
from studio.engine.tokenizers import dmel


class RichTtsFamily:
    """A loaded checkpoint with its slots; see ``studio.engine.families.base.Family``."""

    slots_per_row = 1
    attends_to = ATTENDS_TO

    def __init__(self, net: RichTts, rows: int, device: torch.device, number_format: NumberFormat = "float32") -> None:
        self.net = net.eval()
        runner = SpeakStreamRunner(net, number_format)
        capacity = MOST_WHOLE_WORDS * net.config.longest_word_frames + 2 * MOST_LETTERS
        self.slots = SpeakStreamSlots.allocate(net.decoder.config, rows, capacity, device)
        self.modules: Mapping[str, Module] = {
            "prefill": RichTtsPrefillModule(net, runner),
            "decode": SpeakStreamDecodeModule(runner),
        }
        self._silence = net.silence.cpu().numpy()

    @staticmethod
    def load(card: Card, folder: Path, device: torch.device, rows: int) -> "RichTtsFamily":
        """Load a card's checkpoint and verify its weights. Raises BadVoice."""
        net = RichTts(RichTtsConfig.read(card.config))
        load_weights(net, folder, card, f"{card.family}.safetensors")
        return RichTtsFamily(net.to(device), rows, device, check_format(card.number_format))

    def prompt(self, speaker: int) -> np.ndarray:
        """The silence prompt of a speaker, uint8 [S, 80] (section IV.D)."""
        return self._silence[speaker]

    def row(
        self,
        slots: tuple[int, ...],
        speaker: int,
        options: Mapping[str, Any],
        temperature: float,
        seed: int,
        longest_word_frames: int | None = None,
    ) -> RichTtsRow:
        """A row in a slot that was reset. Raises BadOption."""
        return RichTtsRow(
            slots,
            dmel.TIME_BASE,
            self.prompt(speaker),
            longest_word_frames or self.net.config.longest_word_frames,
            speaker=speaker,
            options=options,
            temperature=temperature,
            seed=seed,
        )

    def teacher_force(self, given: TeacherForcingInput) -> Iterator[TeacherForcedSegment]:
        """See ``studio.engine.families.common.teacher_forcing.TeacherForcedFamily``."""
        row = self.row((), given.speaker, given.options, 1.0, 0, NO_LIMIT)  # nothing is sampled
        return RichTtsTeacherForcing(self.net, row, given).segments()


COMPARED = ({"mode": WHOLE}, *({"mode": NGRAM, "n": n} for n in range(1, LARGEST_NGRAM + 1)))
WHOLE_NOTES = (
    "It reads the whole text before it speaks: the first word comes after the text has ended or the typist has paused. "
    "In mode ngram it speaks pieces of n words, which it was not trained on."
)
NGRAM_NOTES = "It speaks pieces of n words, each without the words and the speech around it."


def _info(name: str, paper: str, default: RichTtsOptions, notes: str) -> FamilyInfo:
    return FamilyInfo(
        name,
        paper,
        specs(default),
        default.look_ahead_words,
        RichTtsFamily.load,
        notes,
        compared=COMPARED,
        supports_teacher_forcing=True,
    )


INFO = _info("richtts", "RichTTS, the full-context baseline of paper 000", RichTtsOptions(WHOLE), WHOLE_NOTES)
NGRAM_INFO = _info(
    "ngram-richtts", "n-gram RichTTS, the streaming baseline of paper 000", RichTtsOptions(NGRAM), NGRAM_NOTES
)
