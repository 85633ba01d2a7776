"""Mimi's decoder on a CPU: every convolution as one product of compiled kernels, over the slots' state in place.

torch's transposed convolution alone takes two thirds of a frame: it works on the whole output for each of two inputs.
As a product of each input and the one before it, it reads its weights once. Samples depend neither on the batch (law 3)
nor on the number of frames per call (law 2), bit for bit.
"""

import math
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from studio.engine.nets.cpu import kernels
from studio.engine.nets.cpu.kernels import PanelLinear
from studio.engine.nets.cpu.layers import CpuLayerNorm, attend_window
from studio.engine.nets.cpu.threads import limit_blas_to_one_thread
from studio.engine.nets.folded import RotaryTable
from studio.engine.nets.windowed import WindowedBlock
from studio.engine.vocoders.mimi import Mimi, MimiState
from studio.engine.vocoders.seanet import CausalUpsampling, Layer, ResidualUnit


class MimiArrays:
    """A ``MimiState`` as numpy views."""

    def __init__(self, state: MimiState) -> None:
        self.position, self.upsample = state.position.numpy(), state.upsample.numpy()
        self.rings, self.tails = [one.numpy() for one in state.rings], [one.numpy() for one in state.tails]


class _Convolution:
    """A convolution of new inputs and the last ones as a product.

    Args:
        weight: [rate * outputs, kernel * inputs], for ``rate`` outputs of each input.
    """

    def __init__(self, weight: Tensor, bias: Tensor, kernel: int, rate: int = 1) -> None:
        self._product, self._kernel, self._rate = PanelLinear(weight, bias), kernel, rate

    def __call__(self, x: np.ndarray, tail: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """`x [B, T, C]` after `tail [B, kernel - 1, C]`: [B, T * rate, outputs], and the next tail."""
        rows, steps, width = x.shape
        past = np.concatenate((tail, x), 1)
        if self._kernel > 1:
            x = np.lib.stride_tricks.sliding_window_view(past, self._kernel, 1).swapaxes(2, 3)
        out = self._product(x.reshape(rows, steps, self._kernel * width))
        return out.reshape(rows, steps * self._rate, -1), past[:, steps:]


def _convolution(layer: nn.Conv1d) -> _Convolution:
    assert layer.bias is not None
    return _Convolution(layer.weight.transpose(1, 2).flatten(1), layer.bias, layer.kernel_size[0])


def _upsampling(layer: nn.ConvTranspose1d, factor: int) -> _Convolution:
    """Output s of an input x is W[s] x + W[factor + s] times the input before it."""
    assert layer.bias is not None
    now, before = layer.weight.permute(2, 1, 0).split(factor)  # [factor, outputs, inputs] each
    return _Convolution(torch.cat((before, now), 2).flatten(0, 1), layer.bias.repeat(factor), 2, factor)


def _elu(x: np.ndarray) -> np.ndarray:
    out = np.empty_like(x)
    kernels.elu_rows(x.reshape(-1, x.shape[-1]), out.reshape(-1, x.shape[-1]))
    return out


class _Unit:
    """A ``ResidualUnit``."""

    def __init__(self, unit: ResidualUnit) -> None:
        self._narrow, self._wide = (_convolution(layer.inner) for layer in (unit.narrow, unit.wide))

    def __call__(self, x: np.ndarray, tail: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """`x [B, T, C]` after `tail [B, kernel - 1, C]`: [B, T, C], and the next tail."""
        inner, after = self._narrow(_elu(x), tail)
        outer, _ = self._wide(_elu(inner), inner[:, :0])
        return x + outer, after


def _layer(layer: Layer) -> _Unit | _Convolution:
    if isinstance(layer, ResidualUnit):
        return _Unit(layer)
    if isinstance(layer, CausalUpsampling):
        return _upsampling(layer.inner, layer.factor)
    return _convolution(layer.inner)


class _Block:
    """A ``WindowedBlock``; gains of LayerScale and of the scores are in the products."""

    def __init__(self, block: WindowedBlock, head_width: int) -> None:
        attention, feed = block.self_attn, block.layer_scale_2.scale[:, None] * block.linear2.weight
        qkv = attention.in_proj_weight.clone()
        qkv[: len(qkv) // 3] /= math.sqrt(head_width)
        self._norms = CpuLayerNorm(block.norm1), CpuLayerNorm(block.norm2)
        self._qkv, self._out = (
            PanelLinear(qkv),
            PanelLinear(block.layer_scale_1.scale[:, None] * attention.out_proj.weight),
        )
        self._up, self._down = PanelLinear(block.linear1.weight), PanelLinear(feed)

    def __call__(
        self, x: np.ndarray, rings: list[np.ndarray], rows: np.ndarray, tokens: np.ndarray, rotations: np.ndarray
    ) -> np.ndarray:
        """`x [B, T, D]`; the other arguments are those of ``attend_window``."""
        mixed = np.empty_like(x)
        attend_window(self._qkv(self._norms[0](x)), *rings, rows, tokens, rotations, mixed)
        x = x + self._out(mixed)
        wide = self._up(self._norms[1](x))
        kernels.gelu_rows(wide.reshape(-1, wide.shape[-1]))
        return x + self._down(wide)


class CpuMimi:
    """The decoder of a trained ``Mimi`` on a CPU."""

    @torch.no_grad()
    def __init__(self, trained: Mimi) -> None:
        limit_blas_to_one_thread()
        self.config = trained.config
        quantizer, transformer = trained.quantizer, trained.transformer
        books = [*quantizer.rvq_first.codebooks(), *quantizer.rvq_rest.codebooks()]
        self._centroids = torch.stack([book.centroids() for book in books]).numpy()
        self._first, self._rest = (
            PanelLinear(part.output_proj.weight[:, :, 0]) for part in (quantizer.rvq_first, quantizer.rvq_rest)
        )
        taps = trained.upsampling.inner.weight[:, 0].T.numpy().copy()
        self._now, self._before = np.split(taps, 2)
        self._blocks = [_Block(cast(WindowedBlock, block), transformer.head_width) for block in transformer.layers]
        self._rotary = RotaryTable(transformer.head_width, transformer.rotary_base)
        self._layers = [_layer(layer) for layer in trained.decoder.layers]
        dummy = np.zeros((1, 1, trained.config.channels), np.int64)  # compile now, before the first utterance
        self.step(dummy, MimiArrays(trained.init_state(1)), np.zeros(1, np.int64))

    @np.errstate(all="ignore")  # NotFinite is raised where results are read
    def step(self, codes: np.ndarray, slots: MimiArrays, rows: np.ndarray) -> np.ndarray:
        """Samples of each row's codes; updates its slot. Returns float32 [B, T * frame_samples] in [-1, 1].

        Args:
            codes: whole numbers [B, T, K], of the first K codebooks.
            rows: int64 [B], the slots.

        Raises:
            IndexError: a code is no code of its codebook.
        """
        c, (count, frames, _) = self.config, codes.shape
        if codes.min() < 0 or codes.max() >= c.codebook_size:
            raise IndexError(f"codes are from 0 to {c.codebook_size - 1}")
        latents = self._latents(codes)
        past = np.concatenate((slots.upsample[rows].swapaxes(1, 2), latents), 1)
        x = past[:, 1:, None] * self._now + past[:, :-1, None] * self._before
        slots.upsample[rows] = past[:, -1:].swapaxes(1, 2)
        x = x.reshape(count, frames * c.latents_per_frame, c.width)
        tokens = slots.position[rows] // (c.frame_samples // c.latents_per_frame)
        rotations = np.stack([self._rotary.at(int(first), x.shape[1]).numpy() for first in tokens]).view(np.float32)
        for number, block in enumerate(self._blocks):
            x = block(x, slots.rings[2 * number : 2 * number + 2], rows, tokens, rotations)
        for number, (layer, tail) in enumerate(zip(self._layers, slots.tails, strict=True)):
            if number and isinstance(layer, _Convolution):
                x = _elu(x)
            x, after = layer(x, tail[rows].swapaxes(1, 2))
            tail[rows] = after.swapaxes(1, 2)
        slots.position[rows] += frames * c.frame_samples
        pcm = x.reshape(count, -1)
        return np.clip(pcm, -1, 1, out=pcm)

    def _latents(self, codes: np.ndarray) -> np.ndarray:
        """[B, T, width] of codes [B, T, K]."""
        chosen = self._centroids[np.arange(codes.shape[2]), codes]
        latents = self._first(chosen[:, :, 0])
        return latents if codes.shape[2] == 1 else latents + self._rest(chosen[:, :, 1:].sum(2))
