"""Incremental Tacotron 2 loaded: its net, its slots, its modules."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import torch

from studio.core.cards import Card
from studio.core.errors import BadVoice
from studio.engine.alphabets import dmel
from studio.engine.families.base import FamilyInfo, Module
from studio.engine.families.forcing import FAR, ForcedSegment, Given
from studio.engine.families.tacotron.forcing import ATTENDS_TO, TacotronForcing
from studio.engine.families.tacotron.modules import DecodeModule, EncodeModule, TacotronSlots, TacotronStep
from studio.engine.families.tacotron.net import Config, Tacotron
from studio.engine.families.tacotron.row import TacotronRow
from studio.engine.families.tacotron.rule import OPTION_SPECS, WHOLE, Options
from studio.engine.nets.products import NumberFormat, check_format
from studio.engine.weights.loading import load_weights
from studio.text import phonemes

NOTES = "It speaks clause by clause: a clause ends at a mark or after a number of words, and no word is heard before."
WEIGHTS = "tacotron.safetensors"


class TacotronFamily:
    """A loaded checkpoint with a number of slots; see ``studio.engine.families.base.Family``."""

    slots_per_row = 1
    attends_to = ATTENDS_TO

    def __init__(
        self, net: Tacotron, places: int, device: torch.device, number_format: NumberFormat = "float32"
    ) -> None:
        self.net = net.eval()
        step = TacotronStep(net, number_format)
        self.slots = TacotronSlots(net, places, device)
        self.modules: Mapping[str, Module] = {"encode": EncodeModule(step), "decode": DecodeModule(step)}
        self._silence = net.silence.cpu().numpy()

    @staticmethod
    def load(card: Card, folder: Path, device: torch.device, places: int) -> "TacotronFamily":
        """The family of a card, verified weights in it. Raises BadVoice, NeedsPackage."""
        phonemes.load()
        config = Config.read(card.config)
        check(config)
        net = Tacotron(config)
        load_weights(net, folder, card, WEIGHTS)
        return TacotronFamily(net.to(device), places, device, check_format(card.number_format))

    def prompt(self, speaker: int) -> np.ndarray:
        """A silence, uint8 [S, 80], which the vocoder hears; the net is fed its last frame."""
        return self._silence[speaker]

    def looked_up(self, words: Sequence[str]) -> Future[None] | None:
        """See ``studio.engine.families.base.LooksUp``."""
        return phonemes.looked_up(words)

    def row(
        self, slots: tuple[int, ...], speaker: int, options: Mapping[str, Any], temperature: float, seed: int
    ) -> TacotronRow:
        """A new row. Raises BadOption."""
        longest = self.net.config.longest_word_frames
        return self._row(slots, longest, speaker, options, temperature, seed)

    def force(self, given: Given) -> Iterator[ForcedSegment]:
        """See ``studio.engine.families.forcing.Forcible``."""
        row = self._row((), FAR, given.speaker, given.options, 1.0, given.seed)
        return TacotronForcing(self.net, row, given).segments()

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


def check(config: Config) -> None:
    """Raises BadVoice unless its numbers are of a net that can be."""
    odd = config.kernel % 2 == config.location_kernel % 2 == 1
    if not odd or config.width % 2:
        raise BadVoice("the card's sizes are of no net that can run", "restore card.json from the repository")


COMPARED = ({"clause_words": 4}, {"clause_words": 8}, {"mode": WHOLE})
INFO = FamilyInfo(
    "tacotron",
    "Incremental Tacotron 2 (paper 004)",
    OPTION_SPECS,
    Options().look_ahead_words,
    TacotronFamily.load,
    NOTES,
    COMPARED,
    can_force=True,
)
