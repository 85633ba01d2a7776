"""The incremental Tacotron 2 family: loads a voice with its slots and modules."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import torch

from studio.core.cards import Card
from studio.core.errors import BadVoice
from studio.engine.families.base import FamilyInfo, Module
from studio.engine.families.common.teacher_forcing import NO_LIMIT, TeacherForcedSegment, TeacherForcingInput
from studio.engine.families.tacotron.model import Tacotron, TacotronConfig
from studio.engine.families.tacotron.policy import OPTION_SPECS, WHOLE, TacotronOptions
from studio.engine.families.tacotron.row import TacotronRow
from studio.engine.families.tacotron.runner import (
    TacotronDecodeModule,
    TacotronEncodeModule,
    TacotronRunner,
    TacotronSlots,
)
from studio.engine.families.tacotron.teacher_forcing import ATTENDS_TO, TacotronTeacherForcing
from studio.engine.nets.linear import NumberFormat, check_format
from studio.engine.nets.weights import load_weights
from studio.engine.tokenizers import dmel
from studio.text import phonemes

NOTES = (
    "It speaks clause by clause: a clause is complete at a mark or after a number of words, and is spoken only then."
)
WEIGHTS = "tacotron.safetensors"


class TacotronFamily:
    """A loaded checkpoint with a number of slots; see ``studio.engine.families.base.Family``."""

    slots_per_row = 1
    attends_to = ATTENDS_TO

    def __init__(
        self, net: Tacotron, places: int, device: torch.device, number_format: NumberFormat = "float32"
    ) -> None:
        self.net = net.eval()
        step = TacotronRunner(net, number_format)
        self.slots = TacotronSlots(net, places, device)
        self.modules: Mapping[str, Module] = {
            "encode": TacotronEncodeModule(step),
            "decode": TacotronDecodeModule(step),
        }
        self._silence = net.silence.cpu().numpy()

    @staticmethod
    def load(card: Card, folder: Path, device: torch.device, places: int) -> "TacotronFamily":
        """The family of a card, verified weights in it. Raises BadVoice, NeedsPackage."""
        phonemes.load()
        config = TacotronConfig.read(card.config)
        check(config)
        net = Tacotron(config)
        load_weights(net, folder, card, WEIGHTS)
        return TacotronFamily(net.to(device), places, device, check_format(card.number_format))

    def prompt(self, speaker: int) -> np.ndarray:
        """Silence, uint8 [S, 80], for the vocoder; the net is fed its last frame."""
        return self._silence[speaker]

    def start_lookup(self, words: Sequence[str]) -> Future[None] | None:
        """See ``studio.engine.families.base.SupportsLookup``."""
        return phonemes.request_phonemes(words)

    def row(
        self, slots: tuple[int, ...], speaker: int, options: Mapping[str, Any], temperature: float, seed: int
    ) -> TacotronRow:
        """A new row. Raises BadOption."""
        longest = self.net.config.longest_word_frames
        return self._row(slots, longest, speaker, options, temperature, seed)

    def teacher_force(self, given: TeacherForcingInput) -> Iterator[TeacherForcedSegment]:
        """See ``studio.engine.families.common.teacher_forcing.TeacherForcedFamily``."""
        row = self._row((), NO_LIMIT, given.speaker, given.options, 1.0, given.seed)
        return TacotronTeacherForcing(self.net, row, given).segments()

    def _row(
        self,
        slots: tuple[int, ...],
        longest_word_frames: int,
        speaker: int,
        options: Mapping[str, Any],
        temperature: float,
        seed: int,
    ) -> TacotronRow:
        return TacotronRow(
            slots,
            dmel.TIME_BASE,
            self._silence[speaker],
            longest_word_frames,
            phonemes.pronounce,
            speaker=speaker,
            options=options,
            temperature=temperature,
            seed=seed,
        )


def check(config: TacotronConfig) -> None:
    """Raises BadVoice unless the sizes are consistent."""
    odd = config.kernel % 2 == config.location_kernel % 2 == 1
    if not odd or config.width % 2:
        raise BadVoice("the card's sizes are of no net that can run", "restore card.json from the repository")


COMPARED = ({"clause_words": 4}, {"clause_words": 8}, {"mode": WHOLE})
INFO = FamilyInfo(
    "tacotron",
    "Incremental Tacotron 2 (paper 004)",
    OPTION_SPECS,
    TacotronOptions().look_ahead_words,
    TacotronFamily.load,
    NOTES,
    COMPARED,
    supports_teacher_forcing=True,
)
