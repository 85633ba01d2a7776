"""S5-TTS at inference, and what T5-TTS shares with it.

Modules: word (encode the text in view, sample the step's first frame), decode (the next)."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from studio.core.cards import Card
from studio.engine.families.base import FamilyInfo, Module, NewReference
from studio.engine.families.common.rows import RowLimits, RowSetup
from studio.engine.families.common.runner import (
    CpuFrameHead,
    DecodeModule,
    DmelFamily,
    Form,
    FrameSlots,
    PrefillModule,
    RowT,
    allocate_cache,
    form_on,
    frame_outputs,
    join_heads,
    sample_frames,
)
from studio.engine.families.common.teacher_forcing import NO_LIMIT, TeacherForcedSegment, TeacherForcingInput
from studio.engine.families.common.text_tokens import spell
from studio.engine.families.s5.model import S5, S5Config, decoder_mask, encode_text, load_s5_weights, speaker_reference
from studio.engine.families.s5.policy import (
    LARGEST_LOOK_AHEAD,
    OPTION_SPECS,
    S5Options,
    S5Output,
    S5StepInput,
    SpeakerReference,
)
from studio.engine.families.s5.references import new_reference, read_reference
from studio.engine.families.s5.row import S5Row
from studio.engine.families.s5.teacher_forcing import ATTENDS_TO, S5TeacherForcing
from studio.engine.nets.cached_decoder import CachedCrossAttention, CachedDecoder
from studio.engine.nets.cpu.decoder import CpuCrossAttention, CpuDecodeStep
from studio.engine.nets.frame_decoder import CpuFrameEmbeddingTable, FrameEmbeddingTable
from studio.engine.nets.kv_cache import KVCache
from studio.engine.nets.linear import NumberFormat, RowwiseLinear, check_format
from studio.engine.tokenizers import dmel
from studio.text import phonemes

CAPACITY_TOKENS = 2048  # decoder slot, in frames
CAPACITY_SYMBOLS = 1792  # encoder slot, in phonemes, including those of a reference


class S5Slots(FrameSlots):
    """KV caches, conditions and sampling state of all rows.

    Attributes:
        frames: KV cache of the decoder's self-attention.
        text: KV cache of the cross-attention, rewritten for every word.
        speaker, k: [slots].
    """

    def __init__(self, frames: KVCache, text: KVCache) -> None:
        super().__init__(frames, text)
        self.frames, self.text = frames, text
        self.speaker, self.k = (torch.zeros(frames.slots, dtype=torch.int64) for _ in range(2))

    def update(self, slot: int, step_input: S5StepInput) -> None:
        """Set a slot's token positions, conditions and sampling state from a step's input."""
        self.frames.start[slot], self.frames.length[slot] = step_input.start, step_input.at
        self.speaker[slot], self.k[slot] = step_input.speaker, step_input.k
        self.seek(slot, step_input.temperature, step_input.seed, step_input.frame)


class S5CpuDecoder:
    """Decode step in numpy, in float32.

    Args:
        frames: frame embeddings.
        rows: ``S5.embed_row`` of every speaker and look-ahead, [speakers, look-aheads, D].
    """

    def __init__(
        self,
        tokens: CpuDecodeStep,
        cross: Sequence[CpuCrossAttention],
        frames: CpuFrameEmbeddingTable,
        rows: np.ndarray,
        head: CpuFrameHead,
    ) -> None:
        self._tokens, self._cross, self._frames, self._rows, self._head = tokens, cross, frames, rows, head

    @np.errstate(all="ignore")  # the row reports outputs that are not finite
    def decode(self, slots: S5Slots, numbers: Sequence[int]) -> list[S5Output]:
        """Feed back each slot's last frame and sample the next."""
        shares: list[list[np.ndarray]] = []

        def between(layer: int, h: np.ndarray) -> np.ndarray:
            h, attended = self._cross[layer](h, slots.text, numbers)
            shares.append(attended)
            return h

        x = self._frames(slots.last.numpy()[numbers])
        x += self._rows[slots.speaker.numpy()[numbers], slots.k.numpy()[numbers]]
        samples = self._head.sample(slots, numbers, self._tokens.extend(x, slots.frames, numbers, between))
        attended = [np.concatenate(of_row).mean(0) for of_row in zip(*shares, strict=True)]  # layers and heads
        return [
            S5Output(one.levels, one.p_eos, part, one.is_finite) for one, part in zip(samples, attended, strict=True)
        ]


class S5Runner:
    """The net prepared for inference: table look-ups for frame embeddings, one fused head.

    Attributes:
        cpu: the float32 decode step on a CPU, else None.
    """

    @torch.no_grad()
    def __init__(self, net: S5, number_format: NumberFormat = "float32") -> None:
        self.net = net
        self.decoder = CachedDecoder(net.decoder, number_format)
        self._cross = [CachedCrossAttention(i, one, number_format) for i, one in enumerate(net.crossings())]
        self._frames = FrameEmbeddingTable(net.level, net.frame)
        self._bias = net.frame.bias.detach()
        heads, bias = join_heads(net.levels_out, net.stop_out)
        self.head = RowwiseLinear(self.decoder.folded_head(net.decoder, heads), bias, number_format)
        self.cpu = None
        if self.decoder.cpu_decode is not None:
            head = CpuFrameHead(self.decoder.cpu_head(net.decoder, heads, bias))
            self.cpu = self._cpu_decoder(self.decoder.cpu_decode, head)

    def _cpu_decoder(self, tokens: CpuDecodeStep, head: CpuFrameHead) -> S5CpuDecoder:
        speakers, ks = torch.arange(self.net.config.speakers), torch.arange(LARGEST_LOOK_AHEAD + 1)
        pairs = torch.cartesian_prod(speakers, ks)
        rows = (self.net.embed_row(pairs[:, 0], pairs[:, 1]) + self._bias).view(len(speakers), len(ks), -1)
        cross = [one.for_decode() for one in self._cross]
        return S5CpuDecoder(tokens, cross, self._frames.for_cpu(), rows.numpy(), head)

    def embed_frames(self, levels: Tensor) -> Tensor:
        """Frames uint8 [N, 80] -> [N, D]; ``S5.embed_frames`` within rounding."""
        return self._frames(levels) + self._bias

    def feed(
        self, slots: S5Slots, numbers: list[int], x: Tensor, seen: Tensor | None = None
    ) -> tuple[Tensor, list[list[Tensor]]]:
        """Run tokens [B, T, D] of slots.

        Args:
            seen: bool [T, symbols], what the tokens of a single row may attend to; everything if None.

        Returns:
            The last token's hidden state [B, D], and the attention of each layer and row.
        """
        shares: list[list[Tensor]] = []

        def between(layer: int, h: Tensor) -> Tensor:
            h, attended = self._cross[layer](h, slots.text, numbers, seen)
            shares.append(attended)
            return h

        return self.decoder.extend(x, slots.frames, numbers, between), shares

    def sample(self, slots: S5Slots, numbers: list[int], x: Tensor, seen: Tensor | None = None) -> list[S5Output]:
        """Run tokens as ``feed`` and sample each row's next frame; one device-to-host copy for all rows."""
        hidden, shares = self.feed(slots, numbers, x, seen)
        outputs = sample_frames(slots, numbers, self.head(hidden))
        attended = [torch.stack(of_row).sum(0) / len(self._cross) for of_row in zip(*shares, strict=True)]
        host = torch.cat((outputs.flatten(), *attended)).cpu().numpy()
        samples = frame_outputs(host[: outputs.numel()].reshape(len(numbers), -1))
        parts = np.split(host[outputs.numel() :], np.cumsum([len(one) for one in attended])[:-1])
        return [S5Output(one.levels, one.p_eos, part, one.is_finite) for one, part in zip(samples, parts, strict=True)]

    def prefill(self, slots: S5Slots, slot: int, step_input: S5StepInput) -> S5Output:
        """Encode a step's text, feed its tokens and sample its first frame."""
        for one in step_input.again:
            x, seen = self._prepare(slots, slot, one)
            self.feed(slots, [slot], x, seen)
        x, seen = self._prepare(slots, slot, step_input)
        return self.sample(slots, [slot], x, seen)[0]

    def decode(self, slots: S5Slots, numbers: list[int]) -> list[S5Output]:
        """Feed back each slot's last frame and sample the next."""
        if self.cpu is not None:
            return self.cpu.decode(slots, numbers)
        index = torch.tensor(numbers, device=slots.last.device)
        x = self.embed_frames(slots.last[index]) + self.net.embed_row(slots.speaker[index], slots.k[index])
        return self.sample(slots, numbers, x.unsqueeze(1))

    def _prepare(self, slots: S5Slots, slot: int, step_input: S5StepInput) -> tuple[Tensor, Tensor | None]:
        """Encode a step's text into the slot; returns its tokens [1, T, D] and their ``decoder_mask``."""
        slots.update(slot, step_input)
        encode_text(self.net, step_input, slots.text, slot)
        x = self.embed_frames(torch.from_numpy(step_input.frames))
        if step_input.begins:
            x = torch.cat((self.net.bos.unsqueeze(0), x))
        here = slice(slot, slot + 1)
        x = x + self.net.embed_row(slots.speaker[here], slots.k[here])
        return x.unsqueeze(0), decoder_mask(self.net, step_input, torch.device("cpu"))


class PhonemeFamily(DmelFamily[RowT]):
    """A loaded checkpoint of S5-TTS or T5-TTS.

    Args:
        capacities: of a slot, in decoder tokens and in symbols.
    """

    def __init__(
        self,
        net: S5,
        rows: int,
        device: torch.device,
        number_format: NumberFormat,
        capacities: tuple[int, int],
        form: Form | None = None,
    ) -> None:
        sizes = net.eval().decoder.config
        frames, text = (allocate_cache(sizes, rows, capacity, device, form) for capacity in capacities)
        self.slots = S5Slots(frames, text)
        if form_on(device, form) == "cuda":
            from studio.engine.families.s5.tokens import S5Tokens  # Triton: on a GPU only

            module = S5Tokens(net, self.slots).module
            self.modules: Mapping[str, Module] = {"word": module, "decode": module}
        else:
            runner = S5Runner(net, number_format)
            self.modules = {"word": PrefillModule(runner.prefill), "decode": DecodeModule(runner.decode)}
        self.net = net
        self.silence = [*net.silence.cpu().numpy()]
        self.references = [speaker_reference(net, speaker) for speaker in range(net.config.speakers)]
        pairs = zip(self.references, self.silence, strict=True)
        self.prompts: list[np.ndarray] = [np.concatenate((r.frames, silence)) for r, silence in pairs]
        self._adding = threading.Lock()

    def start_lookup(self, words: Sequence[str]) -> Future[None] | None:
        """See ``studio.engine.families.base.SupportsLookup``."""
        return phonemes.request_phonemes(words)

    def reference_from(self, samples: np.ndarray, words: Sequence[str]) -> NewReference:
        """See ``studio.engine.families.base.SupportsReferences``."""
        frames = dmel.encode(torch.from_numpy(samples))
        return new_reference(self.net, frames, [spell(one) for one in phonemes.pronounce(words)])

    def add_reference(self, tensors: Mapping[str, np.ndarray]) -> int:
        """See ``studio.engine.families.base.SupportsReferences``; its silence is the median of the others'."""
        reference = read_reference(self.net, tensors)
        silence = np.median(self.net.silence.cpu().numpy(), axis=0).astype(np.uint8)
        with self._adding:
            self.silence.append(silence)
            self.references.append(reference)
            self.prompts.append(np.concatenate((reference.frames, silence)))
            return len(self.references) - 1

    def _speaker(self, setup: RowSetup) -> tuple[RowSetup, np.ndarray, SpeakerReference]:
        """A row's setup, silence and reference. Added speakers have no embedding, and share a number for it."""
        number = setup.speaker
        return (
            replace(setup, speaker=min(number, self.net.config.speakers - 1)),
            self.silence[number],
            self.references[number],
        )


class S5Family(PhonemeFamily[S5Row]):
    """S5-TTS."""

    attends_to = ATTENDS_TO

    def __init__(
        self,
        net: S5,
        rows: int,
        device: torch.device,
        number_format: NumberFormat = "float32",
        form: Form | None = None,
    ) -> None:
        super().__init__(net, rows, device, number_format, (CAPACITY_TOKENS, CAPACITY_SYMBOLS), form)
        c = net.config
        self._limits = RowLimits(c.context_frames, c.kept_frames, c.longest_word_frames, CAPACITY_TOKENS)

    @staticmethod
    def load(card: Card, folder: Path, device: torch.device, rows: int) -> "S5Family":
        """Load a card's checkpoint and verify its weights. Raises BadVoice, NeedsPackage."""
        net = S5(S5Config.read(card.config))
        load_s5_weights(net, card, folder)
        return S5Family(net.to(device), rows, device, check_format(card.number_format))

    def _row(self, setup: RowSetup, forced: TeacherForcingInput | None) -> S5Row:
        limits = self._limits
        if forced is not None:
            limits = replace(limits, longest_word_frames=NO_LIMIT, capacity_tokens=NO_LIMIT**2)
        setup, silence, reference = self._speaker(setup)
        return S5Row(setup, limits, silence, reference, phonemes.pronounce)

    def _force(self, row: S5Row, recording: TeacherForcingInput) -> Iterator[TeacherForcedSegment]:
        return S5TeacherForcing(self.net, row, recording).segments()


def takes_speakers(card: Card) -> bool:
    """Whether a reference gives the speaker, not an embedding."""
    return bool(card.config.get("reference_frames"))


INFO = FamilyInfo(
    "s5",
    "S5-TTS (paper 001)",
    OPTION_SPECS,
    S5Options().look_ahead_words,
    S5Family.load,
    compared=tuple({"k": k} for k in range(1, LARGEST_LOOK_AHEAD + 1)),
    supports_teacher_forcing=True,
    fade="hann",
    takes_speakers=takes_speakers,
)
