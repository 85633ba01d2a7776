"""The IST-LM family: loads a voice with its prompts, slots and modules."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from studio.core.cards import Card
from studio.core.errors import BadVoice
from studio.engine.families.base import FamilyInfo, Module
from studio.engine.families.common.bpe import Bpe
from studio.engine.families.common.teacher_forcing import NO_LIMIT, TeacherForcedSegment, TeacherForcingInput
from studio.engine.families.ist.model import Ist, IstConfig
from studio.engine.families.ist.policy import OPTION_SPECS, WHOLE
from studio.engine.families.ist.row import IstLimits, IstPrompt, IstRow
from studio.engine.families.ist.runner import IstDecodeModule, IstPrefillModule, IstRunner, IstSlots
from studio.engine.families.ist.teacher_forcing import ATTENDS_TO, IstTeacherForcing
from studio.engine.nets.kv_cache import KVCache
from studio.engine.nets.linear import NumberFormat, check_format
from studio.engine.nets.weights import load_weights
from studio.engine.tokenizers import dmel

CAPACITY_TOKENS = 6144
NOTES = (
    "m frames need n text tokens, so it waits inside words while text comes slowly, and no number of words says how "
    "long. It has no word boundaries: word times are estimated by letters. After a flush it starts afresh, as after a "
    "sentence."
)
_MOST_WORDS = 60  # of a passage: fewer than an utterance commits ahead, or ``whole`` would never start
WEIGHTS = "ist.safetensors"


class IstFamily:
    """A loaded checkpoint with a number of slots; see ``studio.engine.families.base.Family``."""

    slots_per_row = 1
    attends_to = ATTENDS_TO

    def __init__(
        self, net: Ist, bpe: Bpe, places: int, device: torch.device, number_format: NumberFormat = "float32"
    ) -> None:
        self.net, self.bpe = net.eval(), bpe
        step = IstRunner(net, number_format)
        sizes, c = net.decoder.config, net.config
        memory = KVCache(sizes.layers, places, sizes.heads, CAPACITY_TOKENS, sizes.head_width, device=device)
        self.slots = IstSlots(memory, places, device)
        self.modules: Mapping[str, Module] = {"prefill": IstPrefillModule(step), "decode": IstDecodeModule(step)}
        self._limits = limits_of(c)
        self._prompts = [IstPrompt([*tokens, c.symbols.end], frames) for tokens, frames in net.prompts()]

    @staticmethod
    def load(card: Card, folder: Path, device: torch.device, places: int) -> "IstFamily":
        """The family of a card, verified weights in it. Raises BadVoice."""
        config = IstConfig.read(card.config)
        bpe = Bpe.of_voice(card, folder, config.text_tokens)
        net = Ist(config)
        load_weights(net, folder, card, WEIGHTS)
        check(card, net)
        return IstFamily(net.to(device), bpe, places, device, check_format(card.number_format))

    def prompt(self, speaker: int) -> np.ndarray:
        """The speech prompt of a speaker, uint8 [S, 80] (section 3)."""
        return self._prompts[speaker].frames

    def start_lookup(self, words: Sequence[str]) -> Future[None] | None:
        """See ``studio.engine.families.base.SupportsLookup``."""
        return self.bpe.start_lookup(words)

    def row(
        self, slots: tuple[int, ...], speaker: int, options: Mapping[str, Any], temperature: float, seed: int
    ) -> IstRow:
        """A row in a slot that was reset. Raises BadOption."""
        return self._row(slots, self._limits, speaker, options, temperature, seed)

    def teacher_force(self, given: TeacherForcingInput) -> Iterator[TeacherForcedSegment]:
        """See ``studio.engine.families.common.teacher_forcing.TeacherForcedFamily``."""
        limits = self._limits  # a trace restarts from the prompt where it did; a recording may contain long pauses
        if not given.spoken:
            limits = replace(limits, longest_word_frames=NO_LIMIT, capacity_tokens=NO_LIMIT**2)
        row = self._row((), limits, given.speaker, given.options, 1.0, 0)  # nothing is sampled
        return IstTeacherForcing(self.net, row, given).segments()

    def _row(
        self,
        slots: tuple[int, ...],
        limits: IstLimits,
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
    """Raises BadVoice unless every speaker has a prompt with its transcript, and passages fit into a slot."""
    c, prompts = net.config, net.prompts()
    for speaker, (tokens, frames) in zip(card.speakers, prompts, strict=True):
        if not (tokens and len(frames) and max(tokens) < c.text_tokens and frames.max() < dmel.LEVELS):
            raise BadVoice(
                f"the prompt of {speaker} has {len(tokens)} text tokens and {len(frames)} frames",
                "a prompt is speech with its transcript; pack the voice anew",
            )
    limits = limits_of(c)
    room = CAPACITY_TOKENS - limits.passage_tokens - c.prompt_frames - c.prompt_tokens
    if not (c.stretch_words > 0 and 0 < c.most_words <= _MOST_WORDS and c.longest_word_frames > 0 and room > 0):
        raise BadVoice("passages of this length do not fit into a slot", "restore card.json from the repository")


def limits_of(config: IstConfig) -> IstLimits:
    """The row limits of a config."""
    c = config
    lengths = (c.context_frames, c.longest_word_frames, c.stretch_words, c.most_words, c.most_tokens)
    return IstLimits(*lengths, c.letter_frames, CAPACITY_TOKENS)


COMPARED = tuple({"ratio": ratio} for ratio in ("1:3", "3:9", "12:24", WHOLE))
INFO = FamilyInfo(
    "ist", "IST-LM (paper 003)", OPTION_SPECS, 0, IstFamily.load, NOTES, COMPARED, supports_teacher_forcing=True
)
