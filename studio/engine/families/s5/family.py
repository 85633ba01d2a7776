"""S5-TTS loaded: its net, its slots, its modules."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from studio.core.cards import Card
from studio.engine.alphabets import dmel
from studio.engine.families.base import FamilyInfo, Module
from studio.engine.families.forcing import FAR, ForcedSegment, Given
from studio.engine.families.s5.forcing import ATTENDS_TO, S5Forcing
from studio.engine.families.s5.modules import DecodeModule, S5Slots, S5Step, WordModule
from studio.engine.families.s5.net import S5, Config
from studio.engine.families.s5.references import check_references, reference
from studio.engine.families.s5.row import Limits, S5Row
from studio.engine.families.s5.rule import LARGEST_LOOK_AHEAD, OPTION_SPECS, Options
from studio.engine.nets.products import NumberFormat, check_format
from studio.engine.nets.slots import KeyValueSlots
from studio.engine.weights.loading import load_weights
from studio.text import phonemes

CAPACITY_TOKENS = 2048  # of the decoder: frames
CAPACITY_SYMBOLS = 1792  # of the encoder: phonemes, those of a reference too


class S5Family:
    """A loaded checkpoint with a number of slots; see ``studio.engine.families.base.Family``."""

    slots_per_row = 1
    attends_to = ATTENDS_TO

    def __init__(self, net: S5, places: int, device: torch.device, number_format: NumberFormat = "float32") -> None:
        self.net = net.eval()
        step = S5Step(net, number_format)
        sizes, c = net.decoder.config, net.config
        memory = [
            KeyValueSlots(sizes.layers, places, sizes.heads, capacity, sizes.head_width, device=device)
            for capacity in (CAPACITY_TOKENS, CAPACITY_SYMBOLS)
        ]
        self.slots = S5Slots(memory[0], memory[1], places, device)
        self.modules: Mapping[str, Module] = {"word": WordModule(step), "decode": DecodeModule(step)}
        self._limits = Limits(c.context_frames, c.kept_frames, c.longest_word_frames, CAPACITY_TOKENS)
        self._silence = net.silence.cpu().numpy()
        self._references = [reference(net, speaker) for speaker in range(c.speakers)]

    @staticmethod
    def load(card: Card, folder: Path, device: torch.device, places: int) -> "S5Family":
        """The family of a card, verified weights in it. Raises BadVoice, NeedsPackage."""
        phonemes.load()
        net = S5(Config.read(card.config))
        load_weights(net, folder, card, "s5.safetensors")
        check_references(card, net)
        return S5Family(net.to(device), places, device, check_format(card.number_format))

    def prompt(self, speaker: int) -> np.ndarray:
        """What a speaker said before, if anything, and a silence, uint8 [S, 80]."""
        return np.concatenate((self._references[speaker].frames, self._silence[speaker]))

    def looked_up(self, words: Sequence[str]) -> Future[None] | None:
        """See ``studio.engine.families.base.LooksUp``."""
        return phonemes.looked_up(words)

    def row(
        self, slots: tuple[int, ...], speaker: int, options: Mapping[str, Any], temperature: float, seed: int
    ) -> S5Row:
        """A row in a slot that was reset. Raises BadOption."""
        return self._row(slots, self._limits, speaker, options, temperature, seed)

    def force(self, given: Given) -> Iterator[ForcedSegment]:
        """See ``studio.engine.families.forcing.Forcible``."""
        limits = replace(self._limits, longest_word_frames=FAR, capacity_tokens=FAR**2)
        row = self._row((), limits, given.speaker, given.options, 1.0, 0)  # nothing is drawn
        return S5Forcing(self.net, row, given).segments()

    def _row(
        self,
        slots: tuple[int, ...],
        limits: Limits,
        speaker: int,
        options: Mapping[str, Any],
        temperature: float,
        seed: int,
    ) -> S5Row:
        return S5Row(
            slots,
            limits,
            dmel.TIME_BASE,
            self._silence[speaker],
            self._references[speaker],
            phonemes.pronounce,
            speaker=speaker,
            options=options,
            temperature=temperature,
            seed=seed,
        )


COMPARED = tuple({"k": k} for k in range(1, LARGEST_LOOK_AHEAD + 1))
INFO = FamilyInfo(
    "s5",
    "S5-TTS (paper 001)",
    OPTION_SPECS,
    Options().look_ahead_words,
    S5Family.load,
    compared=COMPARED,
    can_force=True,
    fade="hann",
)
