"""SpeakStream's modules: prefill (a segment's text, its first frame), decode (the next frame), read (text ahead)."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from studio.engine.families.common.frame_head import CpuFrameHead
from studio.engine.families.common.rows import FrameOutput, sigmoid
from studio.engine.families.speakstream.inputs import ReadAheadInput, SegmentInput, SegmentPrefill
from studio.engine.families.speakstream.model import SpeakStream
from studio.engine.nets.cached_decoder import CachedDecoder
from studio.engine.nets.cpu.decode import CpuDecodeStep
from studio.engine.nets.cpu.prefill import CpuPrefill
from studio.engine.nets.cuda.decode import BatchedDecodeStep
from studio.engine.nets.cuda.graphs import MAX_CUDA_ROWS, GraphRunner, padded_rows
from studio.engine.nets.frame_decoder import CpuFrameEmbeddingTable, FrameDecoder, FrameEmbeddingTable
from studio.engine.nets.kv_cache import KVCache
from studio.engine.nets.linear import NumberFormat, RowwiseLinear
from studio.engine.nets.sampling import FrameNoise, sample_levels, uniform
from studio.engine.nets.transformer import DecoderConfig
from studio.engine.tokenizers import dmel

MAX_DECODE_ROWS = 16


class SpeakStreamSlots:
    """KV cache and sampling state of all rows.

    Attributes:
        last: uint8 [slots, 80], the last sampled frame, not yet fed back.
        speaker, temperature: [slots].
        noise: position in the noise stream.
        spare: index of the padding slot (GPU only).
    """

    @staticmethod
    def allocate(sizes: DecoderConfig, rows: int, capacity_tokens: int, device: torch.device) -> "SpeakStreamSlots":
        """Allocate slots for ``rows`` rows; on a GPU one more, to pad batches."""
        count = rows if device.type == "cpu" else rows + 1
        cache = KVCache(sizes.layers, count, sizes.heads, capacity_tokens, sizes.head_width, device=device)
        return SpeakStreamSlots(cache, count, device)

    def __init__(self, cache: KVCache, count: int, device: torch.device) -> None:
        self.cache, self.spare = cache, count - 1
        self.last = torch.zeros(count, dmel.CHANNELS, dtype=torch.uint8, device=device)
        self.speaker = torch.zeros(count, dtype=torch.int64, device=device)
        self.temperature = torch.ones(count, device=device)
        self.noise = FrameNoise(count, dmel.CHANNELS, device)

    def reset(self, slot: int) -> None:
        """Prepare a slot for a new row; the first prefill sets the rest."""
        self.cache.reset(slot)
        self.noise.reset(slot)

    def start(self, slot: int, span: tuple[int, int], speaker: int, temperature: float, seed: int, frame: int) -> None:
        """Set a slot's first and next token position, its speaker and its sampling state."""
        self.cache.start[slot], self.cache.length[slot] = span
        self.speaker[slot], self.temperature[slot] = speaker, temperature
        self.noise.seek(slot, seed, frame)


class SpeakStreamCpuDecoder:
    """Decode step in numpy, in float32.

    Args:
        frames: frame embeddings, to which ``speakers`` [speakers, D] is added.
    """

    def __init__(
        self, tokens: CpuDecodeStep, frames: CpuFrameEmbeddingTable, speakers: np.ndarray, head: CpuFrameHead
    ) -> None:
        self._tokens, self._frames, self._speakers, self._head = tokens, frames, speakers, head

    def decode(self, slots: SpeakStreamSlots, numbers: Sequence[int]) -> list[FrameOutput]:
        """Feed back each slot's last frame and sample the next."""
        last, speaker = slots.last.numpy()[numbers], slots.speaker.numpy()[numbers]
        x = self._frames(last) + self._speakers[speaker]
        return self.sample(slots, numbers, self._tokens.extend(x, slots.cache, numbers))

    @np.errstate(all="ignore")  # the row reports outputs that are not finite
    def sample(self, slots: SpeakStreamSlots, numbers: Sequence[int], hidden: np.ndarray) -> list[FrameOutput]:
        """Sample each slot's next frame from normalized hidden states [B, D]."""
        return [FrameOutput(*one) for one in self._head.sample(slots, numbers, hidden)]


class SpeakStreamCudaDecoder:
    """Decode step on a GPU: all rows in one CUDA graph of fixed shapes, one copy in and one out.

    Args:
        embed: frames uint8 [B, 80] of speakers [B] -> [B, D].
        head: [B, D] -> logits [B, 80 * LEVELS + 1], the last for s_eos.
    """

    def __init__(
        self,
        tokens: BatchedDecodeStep,
        embed: Callable[[Tensor, Tensor], Tensor],
        head: Callable[[Tensor], Tensor],
        recorded: GraphRunner,
    ) -> None:
        self._tokens, self._embed, self._head, self._recorded = tokens, embed, head, recorded

    def decode(self, slots: SpeakStreamSlots, numbers: Sequence[int]) -> list[FrameOutput]:
        """Feed back each slot's last frame and sample the next. Raises ContextFull."""
        index, span = self._tokens.plan(slots.cache, numbers)
        noise = torch.tensor([[slots.noise.seed[n], slots.noise.frame[n]] for n in numbers], dtype=torch.int64)
        given = torch.cat((index, noise.T))
        rows = padded_rows(len(numbers))  # the padding uses the spare slot
        idle = torch.zeros(len(given), rows, dtype=torch.int64)
        idle[0] = slots.spare
        filled = torch.cat((given, idle[:, len(numbers) :]), 1)

        def body(given: Tensor) -> Tensor:
            return self._step(slots, given, span)

        outputs = self._recorded.run(("decode", id(slots), rows, span), body, [filled], lambda: [idle]).numpy()
        slots.cache.length[list(numbers)] += 1
        slots.noise.advance(numbers)
        return [
            FrameOutput(row[2:].astype(np.uint8)[None], sigmoid(row[0]), bool(np.isfinite(row[1])))
            for row in outputs[: len(numbers)]
        ]

    def _step(self, slots: SpeakStreamSlots, given: Tensor, span: int) -> Tensor:
        """One step of ``given`` int64 [5, B]: slots, token positions, first positions held, seeds, frames.

        Returns:
            [B, 2 + 80]: logit of s_eos, sum of all logits (not finite if one of them is not), levels.
        """
        (slot, _, _, seed, frame), memory = given, slots.cache
        x = self._embed(slots.last[slot], slots.speaker[slot])
        out = self._head(self._tokens.step(x, memory, given[:3], span))
        logits = out[:, :-1].unflatten(1, (dmel.CHANNELS, dmel.LEVELS))
        levels = sample_levels(logits, slots.temperature[slot], uniform(seed, frame, dmel.CHANNELS))
        slots.last[slot] = levels
        return torch.cat((out[:, -1:], out.sum(1, keepdim=True), levels), 1)


class SpeakStreamRunner:
    """The net prepared for inference: table look-ups for frame embeddings, one fused head.

    Attributes:
        cpu: the float32 decode step on a CPU, else None.
        cuda: the decode step on a GPU, else None.
    """

    @torch.no_grad()
    def __init__(self, net: FrameDecoder, number_format: NumberFormat = "float32") -> None:
        self.decoder = CachedDecoder(net.decoder, number_format)
        self._frames = FrameEmbeddingTable(net.level, net.frame)
        self._speakers = net.speaker.weight + net.frame.bias
        heads = torch.cat((net.levels_out.weight, net.eos_out.weight))
        bias = torch.cat((net.levels_out.bias, net.eos_out.bias))
        self.head = RowwiseLinear(self.decoder.folded_head(net.decoder, heads), bias, number_format)
        device = heads.device
        self.cuda = None if device.type == "cpu" else self.cuda_decoder(GraphRunner(device))
        self.cpu: SpeakStreamCpuDecoder | None = None
        if self.decoder.cpu_decode is not None:
            head = CpuFrameHead(self.decoder.cpu_head(net.decoder, heads, bias))
            self.cpu = SpeakStreamCpuDecoder(
                self.decoder.cpu_decode, self._frames.for_cpu(), self._speakers.numpy(), head
            )

    def cuda_decoder(self, recorded: GraphRunner) -> SpeakStreamCudaDecoder:
        """A decode step of all rows on a GPU."""
        return SpeakStreamCudaDecoder(self.decoder.batched_decode, self.embed_frames, self.head, recorded)

    def embed_frames(self, levels: Tensor, speaker: Tensor) -> Tensor:
        """Frames uint8 [N, 80] of speakers [N] -> [N, D]; ``SpeakStream.embed_frames`` within rounding."""
        return self._frames(levels) + self._speakers[speaker]

    def sample(self, slots: SpeakStreamSlots, numbers: list[int], x: Tensor) -> list[FrameOutput]:
        """Run tokens [B, T, D] of slots and sample each row's next frame; one device-to-host copy for all rows."""
        count = len(numbers)
        hidden = self.decoder.extend(x, slots.cache, numbers)
        if self.cpu is not None:
            return self.cpu.sample(slots, numbers, hidden.numpy())
        out = self.head(hidden)
        logits, eos = out[:, :-1].view(count, dmel.CHANNELS, dmel.LEVELS), out[:, -1:]
        index = torch.tensor(numbers, device=x.device)
        levels = sample_levels(logits, slots.temperature[index], slots.noise.next(numbers))
        slots.last[index] = levels
        slots.noise.advance(numbers)
        outputs = torch.cat((eos, out.sum(1, keepdim=True), levels), dim=1).cpu().numpy()
        return [
            FrameOutput(row[2:].astype(np.uint8)[None], sigmoid(row[0]), bool(np.isfinite(row[1]))) for row in outputs
        ]


class SpeakStreamPrefillModule:
    """Prefills a segment, one row at a time: lengths differ, and padding would change rounding."""

    max_rows = 1

    def __init__(self, net: SpeakStream, runner: SpeakStreamRunner) -> None:
        self._net, self._runner = net, runner

    @torch.inference_mode()
    def run(
        self, slots: SpeakStreamSlots, rows: Sequence[tuple[int, ...]], inputs: Sequence[SegmentPrefill]
    ) -> list[FrameOutput]:
        """See ``studio.engine.families.base.Module``."""
        outputs: list[FrameOutput] = []
        for (slot,), given in zip(rows, inputs, strict=True):
            span = (given.start, given.at + given.known)
            slots.start(slot, span, given.speaker, given.temperature, given.seed, given.frame)
            outputs += self._runner.sample(slots, [slot], self._embedded(given, slots.speaker[slot : slot + 1]))
        return outputs

    def _embedded(self, given: SegmentPrefill, speaker: Tensor) -> Tensor:
        """All tokens not yet in the slot, [1, T, D]; ``speaker`` int64 [1]."""
        pieces = [piece for segment in given.segments for piece in self._tokens_of(segment, speaker)]
        return torch.cat(pieces)[given.known :].unsqueeze(0)

    def _tokens_of(self, given: SegmentInput, speaker: Tensor) -> list[Tensor]:
        net, device = self._net, speaker.device
        pieces: list[Tensor] = []
        if given.after_eos:
            eos = torch.full((1, dmel.CHANNELS), dmel.EOS, dtype=torch.uint8, device=device)
            pieces.append(self._runner.embed_frames(eos, speaker))
        if given.symbols:
            pieces.append(net.embed_symbols(torch.tensor([[*given.symbols]], device=device), speaker)[0])
        pieces.append(net.embed_bos(torch.tensor([given.window], device=device), speaker))
        if len(given.frames):
            frames = torch.from_numpy(given.frames).to(device)
            pieces.append(self._runner.embed_frames(frames, speaker.expand(len(frames))))
        return pieces


class SpeakStreamReadModule:
    """Prefills text of the first segment before its window is complete (CPU); nothing is sampled."""

    max_rows = 1

    def __init__(self, net: SpeakStream, prefill: CpuPrefill) -> None:
        self._net, self._prefill = net, prefill

    @torch.inference_mode()
    def run(
        self, slots: SpeakStreamSlots, rows: Sequence[tuple[int, ...]], inputs: Sequence[ReadAheadInput]
    ) -> list[None]:
        """See ``studio.engine.families.base.Module``."""
        for (slot,), given in zip(rows, inputs, strict=True):
            slots.cache.start[slot], slots.cache.length[slot] = 0, given.at
            embedded = self._net.embed_symbols(torch.tensor([[*given.symbols]]), torch.tensor([given.speaker]))
            self._prefill.extend(embedded[0].numpy(), slots.cache, slot)
        return [None] * len(rows)


class SpeakStreamDecodeModule:
    """Feeds back the last frame and samples the next; the inputs are in the slots."""

    def __init__(self, runner: SpeakStreamRunner) -> None:
        self._runner = runner
        self.max_rows = MAX_DECODE_ROWS if runner.cuda is None else MAX_CUDA_ROWS

    @torch.inference_mode()
    def run(
        self, slots: SpeakStreamSlots, rows: Sequence[tuple[int, ...]], inputs: Sequence[None]
    ) -> list[FrameOutput]:
        """See ``studio.engine.families.base.Module``."""
        numbers = [slot for (slot,) in rows]
        if self._runner.cpu is not None:
            return self._runner.cpu.decode(slots, numbers)
        if self._runner.cuda is not None:
            return self._runner.cuda.decode(slots, numbers)
        index = torch.tensor(numbers, device=slots.last.device)
        x = self._runner.embed_frames(slots.last[index], slots.speaker[index])
        return self._runner.sample(slots, numbers, x.unsqueeze(1))
