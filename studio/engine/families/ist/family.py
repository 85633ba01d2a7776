"""IST-LM loaded: its net, its encoding, its prompts, its slots, its modules."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from studio.core.cards import Card
from studio.core.errors import BadVoice
from studio.engine.alphabets import dmel
from studio.engine.families.base import FamilyInfo, Module
from studio.engine.families.bpe import Bpe
from studio.engine.families.forcing import FAR, ForcedSegment, Given
from studio.engine.families.ist.forcing import ATTENDS_TO, IstForcing
from studio.engine.families.ist.modules import DecodeModule, IstSlots, IstStep, PrefillModule
from studio.engine.families.ist.net import Config, Ist
from studio.engine.families.ist.row import IstRow, Limits, Prompt
from studio.engine.families.ist.rule import OPTION_SPECS, WHOLE
from studio.engine.nets.products import NumberFormat, check_format
from studio.engine.nets.slots import KeyValueSlots
from studio.engine.weights.loading import load_weights

CAPACITY_TOKENS = 6144
NOTES = (
    "Every m frames cost n text tokens, so it waits inside words while text comes slowly, and no number of words says "
    "how long. It knows no word boundaries: where words are shown is an estimate by letters. After a flush it begins "
    "anew, as after a sentence."
)
_MOST_WORDS = 60  # of a stretch: fewer than an utterance commits ahead, or ``whole`` would wait for ever
WEIGHTS = "ist.safetensors"


class IstFamily:
    """A loaded checkpoint with a number of slots; see ``studio.engine.families.base.Family``."""

    slots_per_row = 1
    attends_to = ATTENDS_TO

    def __init__(
        self, net: Ist, bpe: Bpe, places: int, device: torch.device, number_format: NumberFormat = "float32"
    ) -> None:
        self.net, self.bpe = net.eval(), bpe
        step = IstStep(net, number_format)
        sizes, c = net.decoder.config, net.config
        memory = KeyValueSlots(sizes.layers, places, sizes.heads, CAPACITY_TOKENS, sizes.head_width, device=device)
        self.slots = IstSlots(memory, places, device)
        self.modules: Mapping[str, Module] = {"prefill": PrefillModule(step), "decode": DecodeModule(step)}
        self._limits = limits_of(c)
        self._prompts = [Prompt([*tokens, c.symbols.end], frames) for tokens, frames in net.prompts()]

    @staticmethod
    def load(card: Card, folder: Path, device: torch.device, places: int) -> "IstFamily":
        """The family of a card, verified weights in it. Raises BadVoice."""
        config = Config.read(card.config)
        bpe = Bpe.of_voice(card, folder, config.text_tokens)
        net = Ist(config)
        load_weights(net, folder, card, WEIGHTS)
        check(card, net)
        return IstFamily(net.to(device), bpe, places, device, check_format(card.number_format))

    def prompt(self, speaker: int) -> np.ndarray:
        """The speech prompt of a speaker, uint8 [S, 80] (section 3)."""
        return self._prompts[speaker].frames

    def looked_up(self, words: Sequence[str]) -> Future[None] | None:
        """See ``studio.engine.families.base.LooksUp``."""
        return self.bpe.looked_up(words)

    def row(
        self, slots: tuple[int, ...], speaker: int, options: Mapping[str, Any], temperature: float, seed: int
    ) -> IstRow:
        """A row in a slot that was reset. Raises BadOption."""
        return self._row(slots, self._limits, speaker, options, temperature, seed)

    def force(self, given: Given) -> Iterator[ForcedSegment]:
        """See ``studio.engine.families.forcing.Forcible``."""
        limits = self._limits  # an utterance begins from its prompt anew where it did; a recording may hold long pauses
        if not given.spoken:
            limits = replace(limits, longest_word_frames=FAR, capacity_tokens=FAR**2)
        row = self._row((), limits, given.speaker, given.options, 1.0, 0)  # nothing is drawn
        return IstForcing(self.net, row, given).segments()

    def _row(
        self,
        slots: tuple[int, ...],
        limits: Limits,
        speaker: int,
        options: Mapping[str, Any],
        temperature: float,
        seed: int,
    ) -> IstRow:
        return IstRow(
            slots,
            limits,
            dmel.TIME_BASE,
            self.net.config.symbols,
            self.bpe.encode,
            self._prompts[speaker],
            options=options,
            temperature=temperature,
            seed=seed,
        )


def check(card: Card, net: Ist) -> None:
    """Raises BadVoice unless every speaker has a prompt with its transcript, and stretches fit into a slot."""
    c, prompts = net.config, net.prompts()
    for speaker, (tokens, frames) in zip(card.speakers, prompts, strict=True):
        if not (tokens and len(frames) and max(tokens) < c.text_tokens and frames.max() < dmel.LEVELS):
            raise BadVoice(
                f"the prompt of {speaker} has {len(tokens)} text tokens and {len(frames)} frames",
                "a prompt is speech with its transcript; pack the voice anew",
            )
    limits = limits_of(c)
    room = CAPACITY_TOKENS - limits.stretch_tokens - c.prompt_frames - c.prompt_tokens
    if not (c.stretch_words > 0 and 0 < c.most_words <= _MOST_WORDS and c.longest_word_frames > 0 and room > 0):
        raise BadVoice("stretches of this length do not fit into a slot", "restore card.json from the repository")


def limits_of(config: Config) -> Limits:
    """What a row may remember and say at once."""
    c = config
    lengths = (c.context_frames, c.longest_word_frames, c.stretch_words, c.most_words, c.most_tokens)
    return Limits(*lengths, c.letter_frames, CAPACITY_TOKENS)


COMPARED = tuple({"ratio": ratio} for ratio in ("1:3", "3:9", "12:24", WHOLE))
INFO = FamilyInfo("ist", "IST-LM (paper 003)", OPTION_SPECS, 0, IstFamily.load, NOTES, COMPARED, can_force=True)
