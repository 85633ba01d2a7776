"""SpeakStream: a loaded checkpoint."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from studio.core.cards import Card
from studio.engine.families.base import FamilyInfo, Module
from studio.engine.families.common.rows import RowLimits
from studio.engine.families.common.teacher_forcing import NO_LIMIT, TeacherForcedSegment, TeacherForcingInput
from studio.engine.families.speakstream.model import SpeakStream, SpeakStreamConfig
from studio.engine.families.speakstream.policy import OPTION_SPECS, SpeakStreamOptions
from studio.engine.families.speakstream.row import SpeakStreamRow
from studio.engine.families.speakstream.runner import (
    SpeakStreamDecodeModule,
    SpeakStreamPrefillModule,
    SpeakStreamReadModule,
    SpeakStreamRunner,
    SpeakStreamSlots,
)
from studio.engine.families.speakstream.teacher_forcing import ATTENDS_TO, SpeakStreamTeacherForcing
from studio.engine.nets.cpu.prefill import EXACT_TOKENS
from studio.engine.nets.linear import NumberFormat, check_format
from studio.engine.nets.weights import load_weights
from studio.engine.tokenizers import dmel

# At m = 6 and .3 s a word, 600 frames with their segments' text take 2,750 tokens, and a segment up to 480 more;
# the rest keeps older checkpoints restorable.
CAPACITY_TOKENS = 4096


class SpeakStreamFamily:
    """A loaded checkpoint with its slots; see ``studio.engine.families.base.Family``."""

    slots_per_row = 1
    attends_to = ATTENDS_TO

    def __init__(
        self,
        net: SpeakStream,
        rows: int,
        device: torch.device,
        number_format: NumberFormat = "float32",
        capacity_tokens: int = CAPACITY_TOKENS,
    ) -> None:
        self.net = net.eval()
        runner = SpeakStreamRunner(net, number_format)
        c = net.config
        self.slots = SpeakStreamSlots.allocate(net.decoder.config, rows, capacity_tokens, device)
        self.modules: Mapping[str, Module] = {
            "prefill": SpeakStreamPrefillModule(net, runner),
            "decode": SpeakStreamDecodeModule(runner),
        }
        self._ahead_tokens, prefill = 0, runner.decoder.cpu_prefill
        if prefill is not None and prefill.is_exact:  # the same bits whether text is read at once or as it is typed
            self._ahead_tokens = EXACT_TOKENS
            self.modules = {**self.modules, "read": SpeakStreamReadModule(net, prefill)}
        self._limits = RowLimits(c.context_frames, c.kept_frames, c.longest_word_frames, capacity_tokens)
        self._silence = net.silence.cpu().numpy()

    @staticmethod
    def load(card: Card, folder: Path, device: torch.device, rows: int) -> "SpeakStreamFamily":
        """Load a card's checkpoint and verify its weights. Raises BadVoice."""
        net = SpeakStream(SpeakStreamConfig.read(card.config))
        load_weights(net, folder, card, "speakstream.safetensors")
        return SpeakStreamFamily(net.to(device), rows, device, check_format(card.number_format))

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
        limits: RowLimits | None = None,
    ) -> SpeakStreamRow:
        """A row in a slot that was reset. Raises BadOption."""
        return SpeakStreamRow(
            slots,
            limits or self._limits,
            dmel.TIME_BASE,
            self.prompt(speaker),
            speaker=speaker,
            options=options,
            temperature=temperature,
            seed=seed,
            ahead_tokens=0 if limits else self._ahead_tokens,
        )

    def teacher_force(self, given: TeacherForcingInput) -> Iterator[TeacherForcedSegment]:
        """See ``studio.engine.families.common.teacher_forcing.TeacherForcedFamily``."""
        limits = replace(self._limits, longest_word_frames=NO_LIMIT, capacity_tokens=NO_LIMIT**2)
        row = self.row((), given.speaker, given.options, 1.0, 0, limits)  # nothing is sampled
        return SpeakStreamTeacherForcing(self.net, row, given).segments()


COMPARED = tuple({"m": m} for m in range(1, 7))
INFO = FamilyInfo(
    "speakstream",
    "SpeakStream (paper 000)",
    OPTION_SPECS,
    SpeakStreamOptions().look_ahead_words,
    SpeakStreamFamily.load,
    compared=COMPARED,
    supports_teacher_forcing=True,
)
