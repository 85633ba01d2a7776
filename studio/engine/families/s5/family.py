"""S5-TTS loaded: its net, its slots, its modules."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from studio.core.cards import Card
from studio.engine import dmel
from studio.engine.families.base import FamilyInfo, Module
from studio.engine.families.s5.modules import DecodeModule, S5Slots, S5Step, WordModule
from studio.engine.families.s5.net import S5, Config
from studio.engine.families.s5.row import Limits, S5Row
from studio.engine.families.s5.rule import OPTION_SPECS, Options
from studio.engine.nets.products import NumberFormat, check_format
from studio.engine.slots import KeyValueSlots
from studio.engine.weights import load_weights
from studio.text import phonemes

CAPACITY_TOKENS = 2048  # of the decoder: frames
CAPACITY_SYMBOLS = 1536  # of the encoder: phonemes


class S5Family:
    """A loaded checkpoint with a number of slots; see ``studio.engine.families.base.Family``."""

    slots_per_row = 1

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

    @staticmethod
    def load(card: Card, folder: Path, device: torch.device, places: int) -> "S5Family":
        """The family of a card, verified weights in it. Raises BadVoice, NeedsPackage."""
        phonemes.load()
        net = S5(Config(**card.config))
        load_weights(net, folder, card, "s5.safetensors")
        return S5Family(net.to(device), places, device, check_format(card.number_format))

    def prompt(self, speaker: int) -> np.ndarray:
        """A speaker's silence, uint8 [S, 80]."""
        return self._silence[speaker]

    def row(
        self, slots: tuple[int, ...], speaker: int, options: Mapping[str, Any], temperature: float, seed: int
    ) -> S5Row:
        """A row in a slot that was reset. Raises BadOption."""
        return S5Row(
            slots,
            self._limits,
            dmel.TIME_BASE,
            self.prompt(speaker),
            phonemes.pronounce,
            speaker=speaker,
            options=options,
            temperature=temperature,
            seed=seed,
        )


INFO = FamilyInfo("s5", "S5-TTS (paper 001)", OPTION_SPECS, Options().look_ahead_words, S5Family.load)
