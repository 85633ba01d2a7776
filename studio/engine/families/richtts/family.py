"""RichTTS loaded, and its two systems: trained on whole texts, and trained on pieces of n words (paper 000, IV.A)."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from studio.core.cards import Card
from studio.engine.alphabets import dmel
from studio.engine.families.base import FamilyInfo, Module
from studio.engine.families.forcing import FAR, ForcedSegment, Given
from studio.engine.families.richtts.forcing import ATTENDS_TO, RichTtsForcing
from studio.engine.families.richtts.modules import PrefillModule
from studio.engine.families.richtts.net import Config, RichTts
from studio.engine.families.richtts.row import RichTtsRow
from studio.engine.families.richtts.rule import LARGEST_NGRAM, MOST_LETTERS, MOST_WHOLE_WORDS, NGRAM, WHOLE, Options
from studio.engine.families.richtts.rule import option_specs as specs
from studio.engine.families.speakstream.modules import DecodeModule, SpeakStreamStep
from studio.engine.families.speakstream.slots import SpeakStreamSlots
from studio.engine.nets.products import NumberFormat, check_format
from studio.engine.weights.loading import load_weights


class RichTtsFamily:
    """A loaded checkpoint with a number of slots; see ``studio.engine.families.base.Family``."""

    slots_per_row = 1
    attends_to = ATTENDS_TO

    def __init__(
        self, net: RichTts, places: int, device: torch.device, number_format: NumberFormat = "float32"
    ) -> None:
        self.net = net.eval()
        step = SpeakStreamStep(net, number_format)
        capacity = MOST_WHOLE_WORDS * net.config.longest_word_frames + 2 * MOST_LETTERS
        self.slots = SpeakStreamSlots.made(net.decoder.config, places, capacity, device)
        self.modules: Mapping[str, Module] = {"prefill": PrefillModule(net, step), "decode": DecodeModule(step)}
        self._silence = net.silence.cpu().numpy()

    @staticmethod
    def load(card: Card, folder: Path, device: torch.device, places: int) -> "RichTtsFamily":
        """The family of a card, verified weights in it. Raises BadVoice."""
        net = RichTts(Config.read(card.config))
        load_weights(net, folder, card, f"{card.family}.safetensors")
        return RichTtsFamily(net.to(device), places, device, check_format(card.number_format))

    def prompt(self, speaker: int) -> np.ndarray:
        """The silence prompt of a speaker, uint8 [S, 80] (section IV.D)."""
        return self._silence[speaker]

    def row(
        self, slots: tuple[int, ...], speaker: int, options: Mapping[str, Any], temperature: float, seed: int
    ) -> RichTtsRow:
        """A row in a slot that was reset. Raises BadOption."""
        longest = self.net.config.longest_word_frames
        return self._row(slots, longest, speaker, options, temperature, seed)

    def force(self, given: Given) -> Iterator[ForcedSegment]:
        """See ``studio.engine.families.forcing.Forcible``."""
        row = self._row((), FAR, given.speaker, given.options, 1.0, 0)  # nothing is drawn
        return RichTtsForcing(self.net, row, given).segments()

    def _row(
        self,
        slots: tuple[int, ...],
        longest_word_frames: int,
        speaker: int,
        options: Mapping[str, Any],
        temperature: float,
        seed: int,
    ) -> RichTtsRow:
        return RichTtsRow(
            slots,
            dmel.TIME_BASE,
            self.prompt(speaker),
            longest_word_frames,
            speaker=speaker,
            options=options,
            temperature=temperature,
            seed=seed,
        )


COMPARED = ({"mode": WHOLE}, *({"mode": NGRAM, "n": n} for n in range(1, LARGEST_NGRAM + 1)))
WHOLE_NOTES = (
    "It reads all the text before it speaks: no word is heard before the text has ended, or the typist has paused. "
    "In the mode ngram it speaks pieces of n words, which it was not trained on."
)
NGRAM_NOTES = "It speaks pieces of n words, each by itself: a piece knows nothing of the words and the sound around it."


def _info(name: str, paper: str, default: Options, notes: str) -> FamilyInfo:
    return FamilyInfo(
        name,
        paper,
        specs(default),
        default.look_ahead_words,
        RichTtsFamily.load,
        notes,
        compared=COMPARED,
        can_force=True,
    )


INFO = _info("richtts", "RichTTS, the full-context baseline of paper 000", Options(WHOLE), WHOLE_NOTES)
NGRAM_INFO = _info("ngram-richtts", "n-gram RichTTS, the streaming baseline of paper 000", Options(NGRAM), NGRAM_NOTES)
