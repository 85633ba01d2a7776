"""T5-TTS: a loaded checkpoint. Net, slots and modules are those of S5-TTS."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import torch

from studio.core.cards import Card
from studio.engine.families.base import FamilyInfo, Module
from studio.engine.families.common.teacher_forcing import NO_LIMIT, TeacherForcedSegment, TeacherForcingInput
from studio.engine.families.s5.family import CAPACITY_SYMBOLS
from studio.engine.families.s5.model import SpeakerPrompts, load_s5_weights
from studio.engine.families.s5.runner import S5DecodeModule, S5PrefillModule, S5Runner, S5Slots
from studio.engine.families.t5.model import T5, T5Config
from studio.engine.families.t5.policy import MOST_WORDS, OPTION_SPECS, T5Options, T5Row
from studio.engine.families.t5.teacher_forcing import ATTENDS_TO, T5TeacherForcing
from studio.engine.nets.linear import NumberFormat, check_format
from studio.engine.tokenizers import dmel
from studio.text import phonemes


class T5Family:
    """A loaded checkpoint with its slots; see ``studio.engine.families.base.Family``."""

    slots_per_row = 1
    attends_to = ATTENDS_TO

    def __init__(self, net: T5, rows: int, device: torch.device, number_format: NumberFormat = "float32") -> None:
        self.net = net.eval()
        runner = S5Runner(net, number_format)
        c = net.config
        self._prompts = SpeakerPrompts(net)
        before = 1 + c.reference_frames + self._prompts.silence.shape[1]
        capacities = (before + MOST_WORDS * c.longest_word_frames, CAPACITY_SYMBOLS + c.reference_frames)
        self.slots = S5Slots.allocate(net.decoder.config, rows, capacities, device)
        self.modules: Mapping[str, Module] = {"word": S5PrefillModule(runner), "decode": S5DecodeModule(runner)}

    @staticmethod
    def load(card: Card, folder: Path, device: torch.device, rows: int) -> "T5Family":
        """Load a card's checkpoint and verify its weights. Raises BadVoice, NeedsPackage."""
        net = T5(T5Config.read(card.config))
        load_s5_weights(net, card, folder)
        return T5Family(net.to(device), rows, device, check_format(card.number_format))

    def prompt(self, speaker: int) -> np.ndarray:
        """A speaker's reference, if any, and silence, uint8 [S, 80]."""
        return self._prompts.frames(speaker)

    def start_lookup(self, words: Sequence[str]) -> Future[None] | None:
        """See ``studio.engine.families.base.SupportsLookup``."""
        return phonemes.request_phonemes(words)

    def row(
        self,
        slots: tuple[int, ...],
        speaker: int,
        options: Mapping[str, Any],
        temperature: float,
        seed: int,
        longest_word_frames: int | None = None,
    ) -> T5Row:
        """A row in a slot that was reset. Raises BadOption."""
        return T5Row(
            slots,
            dmel.TIME_BASE,
            self._prompts.silence[speaker],
            self._prompts.references[speaker],
            longest_word_frames or self.net.config.longest_word_frames,
            phonemes.pronounce,
            speaker=speaker,
            options=options,
            temperature=temperature,
            seed=seed,
        )

    def teacher_force(self, given: TeacherForcingInput) -> Iterator[TeacherForcedSegment]:
        """See ``studio.engine.families.common.teacher_forcing.TeacherForcedFamily``."""
        row = self.row((), given.speaker, given.options, 1.0, 0, NO_LIMIT)  # nothing is sampled
        return T5TeacherForcing(self.net, row, given).segments()


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
)
