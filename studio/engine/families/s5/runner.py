"""Modules of S5-TTS and T5-TTS: word (encode the text in view, sample the step's first frame), decode (the next)."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from studio.engine.families.common.frame_head import CpuFrameHead
from studio.engine.families.common.rows import sigmoid
from studio.engine.families.s5.inputs import S5Output, S5StepInput
from studio.engine.families.s5.model import S5, decoder_mask, encode_input
from studio.engine.families.s5.policy import LARGEST_LOOK_AHEAD
from studio.engine.nets.cached_decoder import CachedDecoder
from studio.engine.nets.cpu.decode import CpuCrossAttention, CpuDecodeStep
from studio.engine.nets.cross_attention import CachedCrossAttention
from studio.engine.nets.frame_decoder import CpuFrameEmbeddingTable, FrameEmbeddingTable
from studio.engine.nets.kv_cache import KVCache
from studio.engine.nets.linear import NumberFormat, RowwiseLinear
from studio.engine.nets.sampling import FrameNoise, sample_levels
from studio.engine.nets.transformer import DecoderConfig
from studio.engine.tokenizers import dmel

MAX_DECODE_ROWS = 16


class S5Slots:
    """KV caches and sampling state of all rows.

    Attributes:
        frames: KV cache of the decoder's self-attention.
        text: KV cache of the cross-attention, rewritten for every word.
        last: uint8 [slots, 80], the last sampled frame, not yet fed back.
        speaker, k, temperature: [slots].
        noise: position in the noise stream.
    """

    @staticmethod
    def allocate(sizes: DecoderConfig, rows: int, capacities: tuple[int, int], device: torch.device) -> "S5Slots":
        """Allocate slots of so many frames and symbols for ``rows`` rows."""
        frames, text = (
            KVCache(sizes.layers, rows, sizes.heads, capacity, sizes.head_width, device=device)
            for capacity in capacities
        )
        return S5Slots(frames, text, rows, device)

    def __init__(self, frames: KVCache, text: KVCache, count: int, device: torch.device) -> None:
        self.frames, self.text = frames, text
        self.last = torch.zeros(count, dmel.CHANNELS, dtype=torch.uint8, device=device)
        self.speaker = torch.zeros(count, dtype=torch.int64, device=device)
        self.k = torch.zeros(count, dtype=torch.int64, device=device)
        self.temperature = torch.ones(count, device=device)
        self.noise = FrameNoise(count, dmel.CHANNELS, device)

    def reset(self, slot: int) -> None:
        """Prepare a slot for a new row; the first word sets the rest."""
        self.frames.reset(slot)
        self.text.reset(slot)
        self.noise.reset(slot)

    def place(self, slot: int, given: S5StepInput) -> None:
        """Set a slot's token positions, conditions and sampling state from a step's input."""
        self.frames.start[slot], self.frames.length[slot] = given.start, given.at
        self.speaker[slot], self.k[slot], self.temperature[slot] = given.speaker, given.k, given.temperature
        self.noise.seek(slot, given.seed, given.frame)


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
            S5Output(levels, p_stop, part, is_finite)
            for (levels, p_stop, is_finite), part in zip(samples, attended, strict=True)
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
        heads = torch.cat((net.levels_out.weight, net.stop_out.weight))
        bias = torch.cat((net.levels_out.bias, net.stop_out.bias))
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

    def encode(self, given: S5StepInput, slots: S5Slots, slot: int) -> None:
        """Encode the words in view of one row and write the cross-attention's keys and values into its slot."""
        encoded = encode_input(self.net, given, slots.last.device)
        slots.text.start[slot] = 0
        for layer, cross in enumerate(self.net.crossings()):
            keys, values = cross.keys_values(encoded)
            slots.text.write(layer, slot, 0, keys[0], values[0])
        slots.text.length[slot] = encoded.shape[1]

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
        count, layers = len(numbers), len(self._cross)
        hidden, shares = self.feed(slots, numbers, x, seen)
        out = self.head(hidden)
        logits, stop = out[:, :-1].view(count, dmel.CHANNELS, dmel.LEVELS), out[:, -1:]
        index = torch.tensor(numbers, device=x.device)
        levels = sample_levels(logits, slots.temperature[index], slots.noise.next(numbers))
        slots.last[index] = levels
        slots.noise.advance(numbers)
        attended = [torch.stack(of_row).sum(0) / layers for of_row in zip(*shares, strict=True)]
        outputs = torch.cat((stop, out.sum(1, keepdim=True), levels), dim=1)
        host = torch.cat((outputs.flatten(), *attended)).cpu().numpy()
        rows = host[: outputs.numel()].reshape(count, -1)
        parts = np.split(host[outputs.numel() :], np.cumsum([len(one) for one in attended])[:-1])
        return [
            S5Output(row[2:].astype(np.uint8)[None], sigmoid(row[0]), part, bool(np.isfinite(row[1])))
            for row, part in zip(rows, parts, strict=True)
        ]


class S5PrefillModule:
    """Prefills a step, one row at a time: lengths differ, and padding would change rounding."""

    max_rows = 1

    def __init__(self, runner: S5Runner) -> None:
        self._runner = runner

    @torch.inference_mode()
    def run(self, slots: S5Slots, rows: Sequence[tuple[int, ...]], inputs: Sequence[S5StepInput]) -> list[S5Output]:
        """See ``studio.engine.families.base.Module``."""
        outputs: list[S5Output] = []
        for (slot,), given in zip(rows, inputs, strict=True):
            for one in given.again:
                x, seen = self._prepare(slots, slot, one)
                self._runner.feed(slots, [slot], x, seen)
            x, seen = self._prepare(slots, slot, given)
            outputs += self._runner.sample(slots, [slot], x, seen)
        return outputs

    def _prepare(self, slots: S5Slots, slot: int, given: S5StepInput) -> tuple[Tensor, Tensor | None]:
        """Encode a step's text into the slot; returns its tokens [1, T, D] and their ``decoder_mask``."""
        slots.place(slot, given)
        self._runner.encode(given, slots, slot)
        device = slots.last.device
        x = self._runner.embed_frames(torch.from_numpy(given.frames).to(device))
        if given.begins:
            x = torch.cat((self._runner.net.bos.unsqueeze(0), x))
        here = slice(slot, slot + 1)
        x = x + self._runner.net.embed_row(slots.speaker[here], slots.k[here])
        return x.unsqueeze(0), decoder_mask(self._runner.net, given, device)


class S5DecodeModule:
    """Feeds back the last frame and samples the next; the inputs are in the slots."""

    max_rows = MAX_DECODE_ROWS

    def __init__(self, runner: S5Runner) -> None:
        self._runner = runner

    @torch.inference_mode()
    def run(self, slots: S5Slots, rows: Sequence[tuple[int, ...]], inputs: Sequence[None]) -> list[S5Output]:
        """See ``studio.engine.families.base.Module``."""
        numbers = [slot for (slot,) in rows]
        if self._runner.cpu is not None:
            return self._runner.cpu.decode(slots, numbers)
        index = torch.tensor(numbers, device=slots.last.device)
        x = self._runner.embed_frames(slots.last[index])
        x = x + self._runner.net.embed_row(slots.speaker[index], slots.k[index])
        return self._runner.sample(slots, numbers, x.unsqueeze(1))
