"""SpeakStream loaded: its net, its slots, its modules."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from studio.core.cards import Card
from studio.engine.alphabets import dmel
from studio.engine.families.base import FamilyInfo, Module
from studio.engine.families.forcing import FAR, ForcedSegment, Given
from studio.engine.families.speakstream.forcing import ATTENDS_TO, SpeakStreamForcing
from studio.engine.families.speakstream.modules import DecodeModule, PrefillModule, ReadModule, SpeakStreamStep
from studio.engine.families.speakstream.net import Config, SpeakStream
from studio.engine.families.speakstream.row import Limits, SpeakStreamRow
from studio.engine.families.speakstream.rule import OPTION_SPECS, Options
from studio.engine.families.speakstream.slots import SpeakStreamSlots
from studio.engine.nets.products import NumberFormat, check_format
from studio.engine.nets.stretches import EARLY_TOKENS
from studio.engine.weights.loading import load_weights

# At m = 6, where words last .3 s, 600 frames and their segments' text are 2,750, and a segment may take 480 more;
# the rest holds marks to go back to. Who speaks faster than anybody forgets a little earlier.
CAPACITY_TOKENS = 4096


class SpeakStreamFamily:
    """A loaded checkpoint with a number of slots; see ``studio.engine.families.base.Family``."""

    slots_per_row = 1
    attends_to = ATTENDS_TO

    def __init__(
        self,
        net: SpeakStream,
        places: int,
        device: torch.device,
        number_format: NumberFormat = "float32",
        capacity_tokens: int = CAPACITY_TOKENS,
    ) -> None:
        self.net = net.eval()
        step = SpeakStreamStep(net, number_format)
        c = net.config
        self.slots = SpeakStreamSlots.made(net.decoder.config, places, capacity_tokens, device)
        self.modules: Mapping[str, Module] = {"prefill": PrefillModule(net, step), "decode": DecodeModule(step)}
        self._ahead_tokens, stretches = 0, step.decoder.stretches
        if stretches is not None and stretches.is_exact:  # a text comes out the same read at once or as it was typed
            self._ahead_tokens = EARLY_TOKENS
            self.modules = {**self.modules, "read": ReadModule(net, stretches)}
        self._limits = Limits(c.context_frames, c.kept_frames, c.longest_word_frames, capacity_tokens)
        self._silence = net.silence.cpu().numpy()

    @staticmethod
    def load(card: Card, folder: Path, device: torch.device, places: int) -> "SpeakStreamFamily":
        """The family of a card, verified weights in it. Raises BadVoice."""
        net = SpeakStream(Config.read(card.config))
        load_weights(net, folder, card, "speakstream.safetensors")
        return SpeakStreamFamily(net.to(device), places, device, check_format(card.number_format))

    def prompt(self, speaker: int) -> np.ndarray:
        """The silence prompt of a speaker, uint8 [S, 80] (section IV.D)."""
        return self._silence[speaker]

    def row(
        self, slots: tuple[int, ...], speaker: int, options: Mapping[str, Any], temperature: float, seed: int
    ) -> SpeakStreamRow:
        """A row in a slot that was reset. Raises BadOption."""
        return SpeakStreamRow(
            slots,
            self._limits,
            dmel.TIME_BASE,
            self.prompt(speaker),
            speaker=speaker,
            options=options,
            temperature=temperature,
            seed=seed,
            ahead_tokens=self._ahead_tokens,
        )

    def force(self, given: Given) -> Iterator[ForcedSegment]:
        """See ``studio.engine.families.forcing.Forcible``."""
        memory = replace(self._limits, longest_word_frames=FAR, capacity_tokens=FAR**2)
        sampling: Mapping[str, Any] = {"temperature": 1.0, "seed": 0}  # nothing is drawn
        silence = self.prompt(given.speaker)
        row = SpeakStreamRow(
            (), memory, dmel.TIME_BASE, silence, speaker=given.speaker, options=given.options, **sampling
        )
        return SpeakStreamForcing(self.net, row, given).segments()


COMPARED = tuple({"m": m} for m in range(1, 7))
INFO = FamilyInfo(
    "speakstream",
    "SpeakStream (paper 000)",
    OPTION_SPECS,
    Options().look_ahead_words,
    SpeakStreamFamily.load,
    compared=COMPARED,
    can_force=True,
)
