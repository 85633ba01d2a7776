"""S5-TTS: a loaded checkpoint."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from studio.core.cards import Card
from studio.engine.families.base import FamilyInfo, Module
from studio.engine.families.common.rows import RowLimits
from studio.engine.families.common.teacher_forcing import NO_LIMIT, TeacherForcedSegment, TeacherForcingInput
from studio.engine.families.s5.model import S5, S5Config, SpeakerPrompts, load_s5_weights
from studio.engine.families.s5.policy import LARGEST_LOOK_AHEAD, OPTION_SPECS, S5Options
from studio.engine.families.s5.row import S5Row
from studio.engine.families.s5.runner import S5DecodeModule, S5PrefillModule, S5Runner, S5Slots
from studio.engine.families.s5.teacher_forcing import ATTENDS_TO, S5TeacherForcing
from studio.engine.nets.linear import NumberFormat, check_format
from studio.engine.tokenizers import dmel
from studio.text import phonemes

CAPACITY_TOKENS = 2048  # decoder slot, in frames
CAPACITY_SYMBOLS = 1792  # encoder slot, in phonemes, including those of a reference


class S5Family:
    """A loaded checkpoint with its slots; see ``studio.engine.families.base.Family``."""

    slots_per_row = 1
    attends_to = ATTENDS_TO

    def __init__(self, net: S5, rows: int, device: torch.device, number_format: NumberFormat = "float32") -> None:
        self.net = net.eval()
        runner = S5Runner(net, number_format)
        c = net.config
        capacities = (CAPACITY_TOKENS, CAPACITY_SYMBOLS)
        self.slots = S5Slots.allocate(net.decoder.config, rows, capacities, device)
        self.modules: Mapping[str, Module] = {"word": S5PrefillModule(runner), "decode": S5DecodeModule(runner)}
        self._limits = RowLimits(c.context_frames, c.kept_frames, c.longest_word_frames, CAPACITY_TOKENS)
        self._prompts = SpeakerPrompts(net)

    @staticmethod
    def load(card: Card, folder: Path, device: torch.device, rows: int) -> "S5Family":
        """Load a card's checkpoint and verify its weights. Raises BadVoice, NeedsPackage."""
        net = S5(S5Config.read(card.config))
        load_s5_weights(net, card, folder)
        return S5Family(net.to(device), rows, device, check_format(card.number_format))

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
        limits: RowLimits | None = None,
    ) -> S5Row:
        """A row in a slot that was reset. Raises BadOption."""
        return S5Row(
            slots,
            limits or self._limits,
            dmel.TIME_BASE,
            self._prompts.silence[speaker],
            self._prompts.references[speaker],
            phonemes.pronounce,
            speaker=speaker,
            options=options,
            temperature=temperature,
            seed=seed,
        )

    def teacher_force(self, given: TeacherForcingInput) -> Iterator[TeacherForcedSegment]:
        """See ``studio.engine.families.common.teacher_forcing.TeacherForcedFamily``."""
        limits = replace(self._limits, longest_word_frames=NO_LIMIT, capacity_tokens=NO_LIMIT**2)
        row = self.row((), given.speaker, given.options, 1.0, 0, limits)  # nothing is sampled
        return S5TeacherForcing(self.net, row, given).segments()


COMPARED = tuple({"k": k} for k in range(1, LARGEST_LOOK_AHEAD + 1))
INFO = FamilyInfo(
    "s5",
    "S5-TTS (paper 001)",
    OPTION_SPECS,
    S5Options().look_ahead_words,
    S5Family.load,
    compared=COMPARED,
    supports_teacher_forcing=True,
    fade="hann",
)
