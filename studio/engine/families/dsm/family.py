"""The DSM-TTS family: loads a voice with its slots and modules."""

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
from studio.engine.families.dsm.depth import GROUP_CHANNELS
from studio.engine.families.dsm.model import Dsm, DsmConfig
from studio.engine.families.dsm.policy import MOST_SPEAKERS, OPTION_SPECS, options_of
from studio.engine.families.dsm.row import DsmDelays, DsmRow
from studio.engine.families.dsm.runner import DsmRunner, DsmSlots, DsmStepModule
from studio.engine.families.dsm.teacher_forcing import ATTENDS_TO, DsmTeacherForcing, passages
from studio.engine.nets.kv_cache import KVCache
from studio.engine.nets.linear import NumberFormat, check_format
from studio.engine.nets.weights import load_weights
from studio.engine.tokenizers import dmel

MOST_CONTEXT_FRAMES = 4000
LOOK_AHEAD_WORDS = 2
NOTES = (
    "Sound follows the text by 1.28 s, so a word's sound needs the words that come meanwhile; while one is missing, "
    "everything waits. After a flush it starts afresh, as after a sentence."
)
WEIGHTS = "dsm.safetensors"


class DsmFamily:
    """A loaded checkpoint with a number of slots; see ``studio.engine.families.base.Family``."""

    slots_per_row = 2  # the second is for guidance
    attends_to = ATTENDS_TO

    def __init__(
        self, net: Dsm, bpe: Bpe, places: int, device: torch.device, number_format: NumberFormat = "float32"
    ) -> None:
        self.net, self.bpe, c = net.eval(), bpe, net.config
        step, count = DsmRunner(net, number_format), places * self.slots_per_row
        sizes = net.decoder.config
        memory = [
            KVCache(sizes.layers, count, sizes.heads, capacity, sizes.head_width, device=device)
            for capacity in (c.context_frames, MOST_SPEAKERS)
        ]
        self.slots = DsmSlots(memory[0], memory[1], count, device)
        self.modules: Mapping[str, Module] = {"warm": DsmStepModule(step), "decode": DsmStepModule(step)}
        self._delays = DsmDelays(
            sound=c.delay_frames,
            acoustic=c.acoustic_delay_frames,
            first_channels=GROUP_CHANNELS,
            look_ahead_words=c.look_ahead_words,
            context=c.context_frames,
            longest_word=c.longest_word_frames,
            tail=c.tail_frames,
        )
        self._silence = net.silence.cpu().numpy()

    @staticmethod
    def load(card: Card, folder: Path, device: torch.device, places: int) -> "DsmFamily":
        """The family of a card, verified weights in it. Raises BadVoice."""
        config = DsmConfig.read(card.config)
        bpe = Bpe.of_voice(card, folder, config.text_tokens)
        net = Dsm(config)
        load_weights(net, folder, card, WEIGHTS)
        check(card, net)
        return DsmFamily(net.to(device), bpe, places, device, check_format(card.number_format))

    def prompt(self, speaker: int) -> np.ndarray:
        """Silence, uint8 [S, 80], for the vocoder only."""
        return self._silence[speaker]

    def start_lookup(self, words: Sequence[str]) -> Future[None] | None:
        """See ``studio.engine.families.base.SupportsLookup``."""
        return self.bpe.start_lookup(words)

    def row(
        self, slots: tuple[int, ...], speaker: int, options: Mapping[str, Any], temperature: float, seed: int
    ) -> DsmRow:
        """A new row. Raises BadOption."""
        return self._row(slots, self._delays, speaker, options, temperature, seed)

    def teacher_force(self, given: TeacherForcingInput) -> Iterator[TeacherForcedSegment]:
        """See ``studio.engine.families.common.teacher_forcing.TeacherForcedFamily``."""
        delays = replace(self._delays, longest_word=NO_LIMIT)
        if len(passages(given)) == 1:  # it ends with the frames
            delays = replace(delays, tail=NO_LIMIT)
        row = self._row((), delays, given.speaker, given.options, 1.0, 0)  # nothing is sampled
        return DsmTeacherForcing(self.net, row, given, delays, dmel.TIME_BASE).segments()

    def _row(
        self,
        slots: tuple[int, ...],
        delays: DsmDelays,
        speaker: int,
        options: Mapping[str, Any],
        temperature: float,
        seed: int,
    ) -> DsmRow:
        return DsmRow(
            slots,
            delays,
            dmel.TIME_BASE,
            self.net.config.symbols,
            self.bpe.encode,
            speaker=speaker,
            speakers=self.net.config.speakers,
            options=options,
            temperature=temperature,
            seed=seed,
        )


def check(card: Card, net: Dsm) -> None:
    """Raises BadVoice unless every speaker has a recording, and delays and limits are consistent."""
    c = net.config
    for speaker, frames in zip(card.speakers, net.extract, strict=True):
        real = frames[frames[:, 0] != dmel.PAD]
        if not len(real) or int(real.max()) >= dmel.LEVELS:
            raise BadVoice(f"there is no recording of {speaker} to tell the voice by", "pack the voice anew")
    delays = (c.delay_frames, c.acoustic_delay_frames, c.tail_frames, c.look_ahead_words)
    fits = c.delay_frames + c.acoustic_delay_frames < c.context_frames <= MOST_CONTEXT_FRAMES
    if not (fits and min(delays) >= 0 < c.delay_frames and c.longest_word_frames > 0):
        raise BadVoice("the card's delays do not fit into its context", "restore card.json from the repository")


COMPARED = ({"guidance": 1.0}, {"guidance": 2.0})
INFO = FamilyInfo(
    "dsm",
    "DSM-TTS (paper 002)",
    OPTION_SPECS,
    LOOK_AHEAD_WORDS,
    DsmFamily.load,
    NOTES,
    COMPARED,
    supports_teacher_forcing=True,
    options_of=options_of,
)
