"""IST-LM at inference. Modules: prefill (a chunk of text, then a frame) and decode (the next frame, or the end)."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from studio.core.cards import Card
from studio.core.errors import BadVoice
from studio.engine.families.base import FamilyInfo, Module
from studio.engine.families.common.letter_net import load_letter_net
from studio.engine.families.common.rows import FrameOutput, RowSetup
from studio.engine.families.common.runner import (
    DecodeModule,
    DmelFamily,
    Form,
    FrameSlots,
    PrefillModule,
    allocate_cache,
    form_on,
    frame_outputs,
    join_heads,
    sample_frames,
)
from studio.engine.families.common.teacher_forcing import NO_LIMIT, TeacherForcedSegment, TeacherForcingInput
from studio.engine.families.common.text_tokens import Bpe
from studio.engine.families.common.word_alignment import LetterNet
from studio.engine.families.ist.model import Ist, IstConfig, sinusoids
from studio.engine.families.ist.policy import OPTION_SPECS, WHOLE
from studio.engine.families.ist.row import IstLimits, IstPrefill, IstPrompt, IstRow
from studio.engine.families.ist.teacher_forcing import ATTENDS_TO, IstTeacherForcing
from studio.engine.nets.cached_decoder import CachedDecoder
from studio.engine.nets.frame_decoder import FrameEmbeddingTable
from studio.engine.nets.kv_cache import KVCache
from studio.engine.nets.linear import NumberFormat, RowwiseLinear, check_format
from studio.engine.nets.loading import load_weights
from studio.engine.tokenizers import dmel

CAPACITY_TOKENS = 6144
NOTES = (
    "m frames need n text tokens, so it waits inside words while text comes slowly, and no number of words says how "
    "long. It has no word boundaries: a small net finds the letters in its frames; without that net, word times are "
    "estimated by letters. After a flush it starts again, as after a sentence."
)
_MOST_WORDS = 60  # of a passage: fewer than an utterance commits ahead, or ``whole`` would never start


class IstSlots(FrameSlots):
    """KV cache, sampling state and the first frame of its passage, int64 [slots], of all rows."""

    def __init__(self, cache: KVCache) -> None:
        super().__init__(cache)
        self.cache, self._first_frame = cache, np.zeros(cache.slots, np.int64)

    def update(self, slot: int, chunk: IstPrefill) -> None:
        """Apply a prefill's inputs to its row's slot."""
        self.cache.start[slot], self.cache.length[slot] = chunk.start, chunk.at
        self._first_frame[slot] = chunk.frame - chunk.position
        self.seek(slot, chunk.temperature, chunk.seed, chunk.frame)

    def last_positions(self, numbers: Sequence[int] | np.ndarray) -> np.ndarray:
        """Index of each slot's last frame in its passage, int64 [B]."""
        return self.noise.frame[numbers] - 1 - self._first_frame[numbers]


class IstRunner:
    """Runs a trained net; frame embeddings come from a table, and both heads are one matrix product."""

    @torch.no_grad()
    def __init__(self, net: Ist, number_format: NumberFormat = "float32") -> None:
        self.net = net
        self.decoder = CachedDecoder(net.decoder, number_format)
        self._frames = FrameEmbeddingTable(net.level, net.frame)
        heads, bias = join_heads(net.levels_out, net.eos_out)
        self.head = RowwiseLinear(self.decoder.folded_head(net.decoder, heads), bias, number_format)

    def embed_frames(self, levels: Tensor, positions: Tensor) -> Tensor:
        """``Ist.embed_frames`` up to rounding."""
        net = self.net
        return self._frames(levels) + net.frame.bias + net.speech_place * sinusoids(positions, net.config.width)

    def embed(self, chunk: IstPrefill) -> Tensor:
        """All tokens of a prefill, [1, T, D]."""
        return self.net.embed_layout(chunk.layout, chunk.ratio, self.embed_frames).unsqueeze(0)

    def sample(self, slots: IstSlots, numbers: list[int], x: Tensor) -> list[FrameOutput]:
        """Run tokens [B, T, D] and sample each row's next frame."""
        out = sample_frames(slots, numbers, self.head(self.decoder.extend(x, slots.cache, numbers)))
        return frame_outputs(out.numpy())

    def prefill(self, slots: IstSlots, slot: int, chunk: IstPrefill) -> FrameOutput:
        """Feed a chunk of text and sample a frame."""
        slots.update(slot, chunk)
        return self.sample(slots, [slot], self.embed(chunk))[0]

    def decode(self, slots: IstSlots, numbers: list[int]) -> list[FrameOutput]:
        """Feed back each slot's last frame and sample the next."""
        index = torch.tensor(numbers)
        positions = torch.from_numpy(slots.last_positions(numbers))
        return self.sample(slots, numbers, self.embed_frames(slots.last[index], positions).unsqueeze(1))


class IstFamily(DmelFamily[IstRow]):
    """IST-LM; the prompt is speech with its transcript (section 3)."""

    attends_to = ATTENDS_TO

    def __init__(
        self,
        net: Ist,
        bpe: Bpe,
        rows: int,
        device: torch.device,
        number_format: NumberFormat = "float32",
        form: Form | None = None,
        letter_net: LetterNet | None = None,
    ) -> None:
        self.net, self.bpe, self._letter_net = net.eval(), bpe, letter_net
        self.slots = IstSlots(allocate_cache(net.decoder.config, rows, CAPACITY_TOKENS, device, form))
        if form_on(device, form) == "cuda":
            from studio.engine.families.ist.tokens import IstTokens  # Triton: on a GPU only

            module = IstTokens(net, CAPACITY_TOKENS).module(self.slots)
            self.modules: Mapping[str, Module] = {"prefill": module, "decode": module}
        else:
            runner = IstRunner(net, number_format)
            self.modules = {"prefill": PrefillModule(runner.prefill), "decode": DecodeModule(runner.decode)}
        self._limits = limits_of(net.config)
        end = net.config.symbols.end
        self._prompts = [IstPrompt([*tokens, end], frames) for tokens, frames in net.prompts()]
        self.prompts = [one.frames for one in self._prompts]

    @staticmethod
    def load(card: Card, folder: Path, device: torch.device, rows: int) -> "IstFamily":
        """Load a card's checkpoint and verify its weights. Raises BadVoice."""
        config = IstConfig.read(card.config)
        bpe = Bpe.of_voice(card, folder, config.text_tokens)
        net = Ist(config)
        load_weights(net, folder, card, "ist.safetensors")
        check(card, net)
        number_format = check_format(card.number_format)
        return IstFamily(net.to(device), bpe, rows, device, number_format, letter_net=load_letter_net(folder, card))

    def start_lookup(self, words: Sequence[str]) -> Future[None] | None:
        """See ``studio.engine.families.base.SupportsLookup``."""
        return self.bpe.start_lookup(words)

    def _row(self, setup: RowSetup, forced: TeacherForcingInput | None) -> IstRow:
        limits = self._limits
        if forced and not forced.spoken:  # a trace restarts from the prompt where it did; a recording may have pauses
            limits = replace(limits, longest_word_frames=NO_LIMIT, capacity_tokens=NO_LIMIT**2)
        return IstRow(
            setup, limits, self.net.config.symbols, self.bpe.encode, self._prompts[setup.speaker], self._letter_net
        )

    def _force(self, row: IstRow, recording: TeacherForcingInput) -> Iterator[TeacherForcedSegment]:
        return IstTeacherForcing(self.net, row, recording).segments()


def check(card: Card, net: Ist) -> None:
    """Raises BadVoice unless every speaker has a prompt with its transcript, and passages fit into a slot."""
    c, prompts = net.config, net.prompts()
    for speaker, (tokens, frames) in zip(card.speakers, prompts, strict=True):
        if not (tokens and len(frames) and max(tokens) < c.text_tokens and frames.max() < dmel.LEVELS):
            raise BadVoice(
                f"the prompt of {speaker} has {len(tokens)} text tokens and {len(frames)} frames",
                "a prompt is speech with its transcript; pack the voice again",
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


INFO = FamilyInfo(
    "ist",
    "IST-LM (paper 003)",
    OPTION_SPECS,
    0,
    IstFamily.load,
    NOTES,
    compared=tuple({"ratio": ratio} for ratio in ("1:3", "3:9", "12:24", WHOLE)),
    supports_teacher_forcing=True,
)
