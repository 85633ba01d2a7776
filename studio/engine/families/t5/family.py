"""T5-TTS loaded: its net, its slots; its modules are S5-TTS's, for so is its net."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import torch

from studio.core.cards import Card
from studio.engine.alphabets import dmel
from studio.engine.families.base import FamilyInfo, Module
from studio.engine.families.forcing import FAR, ForcedSegment, Given
from studio.engine.families.s5.family import CAPACITY_SYMBOLS
from studio.engine.families.s5.modules import DecodeModule, S5Slots, S5Step, WordModule
from studio.engine.families.s5.references import check_references, reference
from studio.engine.families.t5.forcing import ATTENDS_TO, T5Forcing
from studio.engine.families.t5.net import T5, Config
from studio.engine.families.t5.row import T5Row
from studio.engine.families.t5.rule import MOST_WORDS, OPTION_SPECS, Options
from studio.engine.nets.products import NumberFormat, check_format
from studio.engine.nets.slots import KeyValueSlots
from studio.engine.weights.loading import load_weights
from studio.text import phonemes


class T5Family:
    """A loaded checkpoint with a number of slots; see ``studio.engine.families.base.Family``."""

    slots_per_row = 1
    attends_to = ATTENDS_TO

    def __init__(self, net: T5, places: int, device: torch.device, number_format: NumberFormat = "float32") -> None:
        self.net = net.eval()
        step = S5Step(net, number_format)
        sizes, c = net.decoder.config, net.config
        self._silence = net.silence.cpu().numpy()
        self._references = [reference(net, speaker) for speaker in range(c.speakers)]
        before = 1 + c.reference_frames + self._silence.shape[1]
        memory = [
            KeyValueSlots(sizes.layers, places, sizes.heads, capacity, sizes.head_width, device=device)
            for capacity in (before + MOST_WORDS * c.longest_word_frames, CAPACITY_SYMBOLS + c.reference_frames)
        ]
        self.slots = S5Slots(memory[0], memory[1], places, device)
        self.modules: Mapping[str, Module] = {"word": WordModule(step), "decode": DecodeModule(step)}

    @staticmethod
    def load(card: Card, folder: Path, device: torch.device, places: int) -> "T5Family":
        """The family of a card, verified weights in it. Raises BadVoice, NeedsPackage."""
        phonemes.load()
        net = T5(Config.read(card.config))
        load_weights(net, folder, card, "t5.safetensors")
        check_references(card, net)
        return T5Family(net.to(device), places, device, check_format(card.number_format))

    def prompt(self, speaker: int) -> np.ndarray:
        """What a speaker said before, if anything, and a silence, uint8 [S, 80]."""
        return np.concatenate((self._references[speaker].frames, self._silence[speaker]))

    def looked_up(self, words: Sequence[str]) -> Future[None] | None:
        """See ``studio.engine.families.base.LooksUp``."""
        return phonemes.looked_up(words)

    def row(
        self, slots: tuple[int, ...], speaker: int, options: Mapping[str, Any], temperature: float, seed: int
    ) -> T5Row:
        """A row in a slot that was reset. Raises BadOption."""
        return self._row(slots, self.net.config.longest_word_frames, speaker, options, temperature, seed)

    def force(self, given: Given) -> Iterator[ForcedSegment]:
        """See ``studio.engine.families.forcing.Forcible``."""
        return T5Forcing(self.net, self._row((), FAR, given.speaker, given.options, 1.0, 0), given).segments()

    def _row(
        self,
        slots: tuple[int, ...],
        longest: int,
        speaker: int,
        options: Mapping[str, Any],
        temperature: float,
        seed: int,
    ) -> T5Row:
        return T5Row(
            slots,
            dmel.TIME_BASE,
            self._silence[speaker],
            self._references[speaker],
            longest,
            phonemes.pronounce,
            speaker=speaker,
            options=options,
            temperature=temperature,
            seed=seed,
        )


NOTES = (
    "It reads a whole sentence before it speaks: no word is heard before the mark that ends it, the text's end, or a "
    "pause of the typist. Then it is heard a chunk at a time."
)
INFO = FamilyInfo(
    "t5",
    "T5-TTS, the full-context baseline of paper 001",
    OPTION_SPECS,
    Options().look_ahead_words,
    T5Family.load,
    NOTES,
    can_force=True,
)
