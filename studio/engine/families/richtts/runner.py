"""RichTTS at inference: a loaded checkpoint, and its two systems, trained on whole texts or on n-grams (000, IV.A).

The prefill module is its own; decode is SpeakStream's.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from studio.core.cards import Card
from studio.engine.families.base import FamilyInfo, Module
from studio.engine.families.common.rows import FrameOutput, RowSetup
from studio.engine.families.common.runner import (
    DecodeModule,
    DmelFamily,
    Form,
    PrefillModule,
    allocate_cache,
    form_on,
)
from studio.engine.families.common.teacher_forcing import (
    NO_LIMIT,
    NO_WORD,
    TeacherForcedSegment,
    TeacherForcingInput,
)
from studio.engine.families.richtts.model import RichTts, RichTtsConfig
from studio.engine.families.richtts.policy import (
    LARGEST_NGRAM,
    MOST_LETTERS,
    MOST_WHOLE_WORDS,
    NGRAM,
    WHOLE,
    RichTtsInput,
    RichTtsOptions,
    RichTtsRow,
    option_specs,
)
from studio.engine.families.speakstream.policy import SPACE
from studio.engine.families.speakstream.runner import FrameDecoderRunner, SpeakStreamSlots
from studio.engine.families.speakstream.teacher_forcing import FrameDecoderForcing
from studio.engine.nets.linear import NumberFormat, check_format
from studio.engine.nets.loading import load_weights


class RichTtsRunner(FrameDecoderRunner):
    """The runner of RichTTS: the prefill of a piece."""

    def __init__(self, net: RichTts, number_format: NumberFormat = "float32") -> None:
        super().__init__(net, number_format)
        self._net = net

    def prefill(self, slots: SpeakStreamSlots, slot: int, piece: RichTtsInput) -> FrameOutput:
        """Feed a piece's text and the silence, and sample its first frame."""
        slots.start(slot, (0, 0), piece.speaker, piece.temperature, piece.seed, piece.frame)
        speaker = slots.speaker[slot : slot + 1]
        text = self._net.embed_symbols(torch.tensor([[*piece.symbols]], device=speaker.device), speaker)[0]
        silence = torch.from_numpy(piece.silence).to(speaker.device)
        frames = self.embed_frames(silence, speaker.expand(len(silence)))
        return self.sample(slots, [slot], torch.cat((text, frames)).unsqueeze(0))[0]


class RichTtsTeacherForcing(FrameDecoderForcing):
    """See ``TeacherForcingRun``; every piece starts from an empty context."""

    def __init__(self, net: RichTts, row: RichTtsRow, recording: TeacherForcingInput) -> None:
        super().__init__(net, row, recording)
        self._net, self._row = net, row

    @torch.inference_mode()
    def _segment(self, first: int, fed: RichTtsInput) -> TeacherForcedSegment:
        words = self._row.planned
        frames, stop = self._planned_frames(first, words, self._net.config.longest_word_frames)
        symbols = torch.tensor([[*fed.symbols]], device=self._device)
        spoken = self.embed_frames(np.concatenate((fed.silence, frames)))
        x = torch.cat((self._net.embed_symbols(symbols, self._speaker)[0], spoken))
        self.restart()
        return self.decode(first, words, x, _words(fed.symbols, words, len(x) - len(frames)), frames, stop)


def _words(symbols: Sequence[int], words: range, tokens: int) -> np.ndarray:
    """The word of each of a piece's tokens, int [T]; a word includes the space that ends it."""
    words_of_tokens, word = np.full(tokens, NO_WORD), words.start
    for at, symbol in enumerate(symbols[1:-2], start=1):  # between w_bos and w_eos, s_bos
        words_of_tokens[at] = word
        word += symbol == SPACE
    return words_of_tokens


class RichTtsFamily(DmelFamily[RichTtsRow]):
    """RichTTS; the prompt is silence (section IV.D)."""

    attends_to = "self-attention to the characters of each word of the piece"

    def __init__(
        self,
        net: RichTts,
        rows: int,
        device: torch.device,
        number_format: NumberFormat = "float32",
        form: Form | None = None,
    ) -> None:
        self.net = net.eval()
        capacity = MOST_WHOLE_WORDS * net.config.longest_word_frames + 2 * MOST_LETTERS
        self.slots = SpeakStreamSlots(allocate_cache(net.decoder.config, rows, capacity, device, form))
        if form_on(device, form) == "cuda":
            from studio.engine.families.speakstream.tokens import (
                FrameDecoderTokens,
                token_modules,
            )  # Triton: on a GPU only

            self.modules: Mapping[str, Module] = token_modules(FrameDecoderTokens(net), self.slots)
        else:
            runner = RichTtsRunner(net, number_format)
            self.modules = {"prefill": PrefillModule(runner.prefill), "decode": DecodeModule(runner.decode)}
        self.prompts = net.silence.cpu().numpy()

    @staticmethod
    def load(card: Card, folder: Path, device: torch.device, rows: int) -> "RichTtsFamily":
        """Load a card's checkpoint and verify its weights. Raises BadVoice."""
        net = RichTts(RichTtsConfig.read(card.config))
        load_weights(net, folder, card, f"{card.family}.safetensors")
        return RichTtsFamily(net.to(device), rows, device, check_format(card.number_format))

    def _row(self, setup: RowSetup, forced: TeacherForcingInput | None) -> RichTtsRow:
        longest = NO_LIMIT if forced else self.net.config.longest_word_frames
        return RichTtsRow(setup, self.prompts[setup.speaker], longest)

    def _force(self, row: RichTtsRow, recording: TeacherForcingInput) -> Iterator[TeacherForcedSegment]:
        return RichTtsTeacherForcing(self.net, row, recording).segments()


def _info(name: str, paper: str, default: RichTtsOptions, notes: str) -> FamilyInfo:
    return FamilyInfo(
        name,
        paper,
        option_specs(default),
        default.look_ahead_words,
        RichTtsFamily.load,
        notes,
        compared=({"mode": WHOLE}, *({"mode": NGRAM, "n": n} for n in range(1, LARGEST_NGRAM + 1))),
        supports_teacher_forcing=True,
    )


INFO = _info(
    "richtts",
    "RichTTS, the full-context baseline of paper 000",
    RichTtsOptions(WHOLE),
    "It reads the whole text before it speaks: the first word comes after the text has ended or the typist has paused. "
    "In mode ngram it speaks pieces of n words, which it was not trained on.",
)
NGRAM_INFO = _info(
    "ngram-richtts",
    "n-gram RichTTS, the streaming baseline of paper 000",
    RichTtsOptions(NGRAM),
    "It speaks pieces of n words, each without the words and the speech around it.",
)
