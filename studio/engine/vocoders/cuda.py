"""VocStream on a GPU: one kernel per WaveNet layer, from ring buffer to ring buffer, in place.

State is never moved: each layer writes the steps of a frame behind those that the next layer looks back over. The
layers store their gated outputs, and one kernel sums the skips of all layers in registers.
"""

import itertools
import math
import os
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from studio.engine.nets.cuda.decoder import compute_dtype, next_power, processors, supports_pdl
from studio.engine.nets.kv_cache import POISON
from studio.engine.vocoders import cuda_kernels as kernels
from studio.engine.vocoders.base import VocoderState
from studio.engine.vocoders.vocstream import VocStream, VocStreamConfig, VocStreamState, WaveNet, WaveNetBlock

MAX_WIDTH = 128  # of a layer whose sums fit into registers
_MIN_WIDTH = 16  # of a product on tensor cores
_TILE, _LARGE_TILE = 32, 128  # steps of a program
_GROUP = 128  # rows that run together: they fill a GPU, and more would only need more memory


def supports(config: VocStreamConfig) -> bool:
    """Whether the kernels run a VocStream of these sizes."""
    c = config
    widths = (c.upsampler_width, c.generator_width, c.fine_channels, c.samples_per_step)
    cycle, layers = max(c.upsampler_cycle, c.generator_cycle), max(c.upsampler_layers, c.generator_layers)
    longest = (c.kernel << min(cycle, layers)) + c.frame_samples  # rows of a ring
    largest = max(layers * _GROUP * MAX_WIDTH, longest) * c.frame_samples  # index within a step
    return max(widths) <= MAX_WIDTH and largest < 1 << 31


@dataclass
class VocStreamRings(VocoderState):
    """State of ``CudaVocStream``: step p of a stream is in row p % length of each ring.

    Attributes:
        upsampler, generator: rings of all layers' inputs, one after another, [B, rows, width].
        condition: ring of fine frames, [B, rows, width].
    """

    upsampler: Tensor
    generator: Tensor
    condition: Tensor


class CudaVocStream:
    """Runs a trained VocStream over slots, in place.

    Args:
        dtype: of weights and rings; by default bfloat16 on a GPU and float32 in Triton's interpreter.
    """

    @torch.no_grad()
    def __init__(self, trained: VocStream, dtype: torch.dtype | None = None) -> None:
        self.config = c = trained.config
        self._device = trained.spread.weight.device
        self._dtype = dtype or compute_dtype(self._device)
        self._processors = processors(self._device) if self._device.type == "cuda" else 1  # few large programs
        self._pdl = supports_pdl(self._device)
        steps = c.frame_samples // c.samples_per_step  # of the generator, in a frame
        self._condition_rings = _Rings([c.condition_kernel - 1], c.fine_channels, c.upsampling)
        fine = self._condition_rings.width
        self._upsampler = _Net(trained.upsampler, c.channels, c.upsampling, c.upsampling, self._dtype)
        self._generator = _Net(trained.generator, fine, steps, steps // c.upsampling, self._dtype)
        # The upsampler's first two layers are one product.
        up, enter = self._upsampler.rings.width, trained.upsampler.enter
        spread = trained.spread.weight.unflatten(0, (c.upsampling, -1))
        first = torch.einsum("ow,uwc->uoc", enter.weight[:, :, 0], spread)
        bias = trained.spread(torch.zeros(1, c.channels, device=self._device))  # no attribute in a RowwiseLinear
        bias = bias.view(c.upsampling, -1) @ enter.weight[:, :, 0].T + _bias_of(enter)
        self._spread = _padded(first, c.upsampling, up, c.channels).flatten(0, 1).T.to(self._dtype).contiguous()
        self._spread_bias = _padded(bias, c.upsampling, up).flatten().to(self._dtype)
        wide, enter = self._generator.rings.width, trained.generator.enter
        self._enter = _padded(enter.weight[:, :, 0].T, c.samples_per_step, wide)
        self._enter_bias = _padded(_bias_of(enter), wide)
        condition = _padded(trained.condition.weight, fine, fine, c.condition_kernel)
        self._condition = condition.permute(2, 1, 0).to(self._dtype).contiguous()
        self._condition_bias = _padded(_bias_of(trained.condition), fine)

    def init_rings(self, slots: int) -> VocStreamRings:
        """Silence before the first frame."""
        position, seed = torch.zeros(2, slots, dtype=torch.int64, device=self._device)
        parts = (self._upsampler.rings, self._generator.rings, self._condition_rings)
        return VocStreamRings(position, seed, *(one.empty(slots, self._device, self._dtype) for one in parts))

    def to_rings(self, state: VocStreamState) -> VocStreamRings:
        """Rings of a state of the reference form, after whole frames."""
        rings, frames = self.init_rings(len(state.position)), state.position // self.config.frame_samples
        rings.position, rings.seed = state.position.clone(), state.seed.clone()
        self._upsampler.rings.write(rings.upsampler, frames, state.upsampler)
        self._generator.rings.write(rings.generator, frames, state.generator)
        self._condition_rings.write(rings.condition, frames, [state.condition])
        return rings

    def to_tails(self, rings: VocStreamRings) -> VocStreamState:
        """The state of the reference form."""
        frames = rings.position // self.config.frame_samples
        return VocStreamState(
            position=rings.position.clone(),
            seed=rings.seed.clone(),
            upsampler=self._upsampler.rings.read(rings.upsampler, frames),
            generator=self._generator.rings.read(rings.generator, frames),
            condition=self._condition_rings.read(rings.condition, frames)[0],
        )

    def step(self, mels: Tensor, rings: VocStreamRings, slots: Tensor) -> Tensor:
        """Samples float32 [B, T * frame_samples] of log10 mels [B, T, channels] of slots int64 [B]."""
        c, (rows, frames, _) = self.config, mels.shape
        x = ((mels - c.mel_mean) / c.mel_scale).to(self._dtype)
        pcm = torch.empty(frames, rows, c.frame_samples, device=mels.device)
        for frame in range(frames):
            for first in range(0, rows, _GROUP):
                group = slice(first, first + _GROUP)
                self._run_frame(x[group, frame], rings, slots[group], pcm[frame, group])
            rings.position.index_copy_(0, slots, rings.position[slots] + c.frame_samples)
        return pcm.transpose(0, 1).flatten(1)

    def _run_frame(self, x: Tensor, rings: VocStreamRings, slots: Tensor, pcm: Tensor) -> None:
        """One frame, `x [B, channels]` to ``pcm`` [B, frame_samples]."""
        up, gen, fine = self._upsampler, self._generator, self._condition_rings
        samples, at = self.config.frame_samples, (slots, rings.position)
        grid, count, tile = self._tiles(up.rings, len(x))
        first = torch.addmm(self._spread_bias, x, self._spread)
        kernels.write_steps[grid](
            first, rings.upsampler, *at, count, up.rings.rows, up.rings.lengths[0], samples, up.rings.steps,
            up.rings.width, tile,
        )  # fmt: skip
        self._run_net(up, rings.upsampler, x, at, rings.condition, fine)
        condition = torch.empty(count, fine.width, dtype=self._dtype, device=x.device)
        kernels.convolve_ring[grid](
            rings.condition, self._condition, self._condition_bias, condition, *at, count, fine.rows, fine.rows,
            samples, fine.steps, len(self._condition), fine.width, tile,
        )  # fmt: skip
        grid, count, tile = self._tiles(gen.rings, len(x))
        kernels.write_noise[grid](
            self._enter, self._enter_bias, rings.generator, *at, rings.seed, count, gen.rings.rows,
            gen.rings.lengths[0], samples, gen.rings.steps, gen.outputs, gen.rings.width, tile,
        )  # fmt: skip
        self._run_net(gen, rings.generator, condition, at, pcm)

    def _run_net(
        self,
        net: "_Net",
        data: Tensor,
        condition: Tensor,
        at: tuple[Tensor, Tensor],
        out: Tensor,
        out_ring: "_Rings | None" = None,
    ) -> None:
        """The layers of a WaveNet over the steps in its first ring, to a ring or to samples."""
        sizes, samples = net.rings, self.config.frame_samples
        grid, count, tile = self._tiles(sizes, len(at[0]))
        launch: dict[str, Any] = {"num_warps": 8 if tile > _TILE else 4} | ({"launch_pdl": True} if self._pdl else {})
        conditions = torch.addmm(net.condition_bias, condition, net.condition)
        z = torch.empty(net.layers, count, sizes.width, dtype=self._dtype, device=data.device)
        for i, dilation in enumerate(net.dilations):
            following = min(i + 1, net.layers - 1)
            kernels.gated_layer[grid](
                sizes.one(data, i), sizes.one(data, following), conditions[:, 2 * i * sizes.width :], net.gates[i],
                net.residual[i], net.residual_bias[i], z[i], *at, count, sizes.rows, sizes.lengths[i],
                sizes.lengths[following], dilation, samples, sizes.steps, net.repeat, conditions.shape[1],
                len(net.gates[i]), sizes.width, min(sizes.width, 64), tile, i == following, self._pdl,
                num_stages=3, **launch,
            )  # fmt: skip
        rows, length = (1, 1) if out_ring is None else (out_ring.rows, out_ring.rows)
        kernels.mix_layers[grid](
            z, net.skip, net.skip_bias, net.mix, net.mix_bias, net.leave, net.leave_bias, out, *at, count, rows,
            length, samples, sizes.steps, net.layers, sizes.width, net.leave.shape[1],
            net.outputs if out_ring is None else out_ring.width, tile, out_ring is not None, self._pdl,
            num_stages=2 if tile > _TILE else 3, **launch,
        )  # fmt: skip

    def _tiles(self, sizes: "_Rings", rows: int) -> tuple[tuple[int], int, int]:
        """The grid, the number of steps, and the steps of a program: large ones once they fill the GPU."""
        count = rows * sizes.steps
        tile = _TILE if count > _MIN_WIDTH else _MIN_WIDTH
        if count >= _LARGE_TILE * self._processors:
            tile = _LARGE_TILE
        return (-(-count // tile),), count, tile


class _Rings:
    """Sizes of rings of one width, one after another in a slot.

    Args:
        steps: of a frame.
    """

    def __init__(self, look_backs: list[int], channels: int, steps: int) -> None:
        self._look_backs, self._channels, self.steps = look_backs, channels, steps
        self.width = max(_MIN_WIDTH, next_power(channels))
        self.lengths = [look_back + steps for look_back in look_backs]
        *self._starts, self.rows = itertools.accumulate(self.lengths, initial=0)

    def empty(self, slots: int, device: torch.device | str, dtype: torch.dtype) -> Tensor:
        """Rings [slots, rows, width] that hold nothing."""
        fill = float("nan") if os.environ.get(POISON) else 0.0
        return torch.full((slots, self.rows, self.width), fill, device=device, dtype=dtype)

    def one(self, data: Tensor, number: int) -> Tensor:
        """A ring of all slots; its slots are ``rows`` rows apart."""
        return data[:, self._starts[number] :]

    def write(self, data: Tensor, frames: Tensor, tails: list[Tensor]) -> None:
        """Write tails [B, channels, look_back] that end before the frames ``frames`` [B]."""
        for number, tail in enumerate(tails):
            steps = _padded(tail.transpose(1, 2), *tail.shape[::2], self.width)
            data.scatter_(1, self._index(number, frames)[0], steps.to(data.dtype))

    def read(self, data: Tensor, frames: Tensor) -> list[Tensor]:
        """The tails that ``write`` takes."""
        tails = []
        for number in range(len(self.lengths)):
            index, inside = self._index(number, frames)
            steps = data.gather(1, index).float().where(inside, 0.0)
            tails.append(steps[:, :, : self._channels].transpose(1, 2).contiguous())
        return tails

    def _index(self, number: int, frames: Tensor) -> tuple[Tensor, Tensor]:
        """Rows of a tail's steps [B, look_back, width], and whether they are in the stream."""
        before = torch.arange(-self._look_backs[number], 0, device=frames.device)
        steps = frames[:, None, None] * self.steps + before[:, None]
        rows = self._starts[number] + steps % self.lengths[number]
        return rows.expand(-1, -1, self.width), steps >= 0


class _Net:
    """A WaveNet's weights as the kernels read them; ``rings`` are of its layers' inputs.

    Args:
        conditions: width of the condition.
        repeat: steps that share a condition.
    """

    def __init__(self, net: WaveNet, conditions: int, steps: int, repeat: int, dtype: torch.dtype) -> None:
        blocks = [block for block in net.blocks if isinstance(block, WaveNetBlock)]
        self.rings = _Rings(net.look_backs, net.width, steps)
        self.repeat, self.layers, w = repeat, len(blocks), self.rings.width
        taps = blocks[0].dilated.kernel_size[0]
        self.dilations = [block.dilated.dilation[0] for block in blocks]
        self.outputs = net.leave.out_channels

        def low(tensor: Tensor, *shape: int) -> Tensor:
            return _padded(tensor, *shape).to(dtype)

        def halves(tensor: Tensor, *shape: int) -> Tensor:  # values and gates, or residuals and skips
            return _padded(tensor.unflatten(0, (2, -1)), 2, w, *shape)

        self.gates = [
            halves(block.dilated.weight, w, taps).permute(3, 2, 0, 1).to(dtype).contiguous() for block in blocks
        ]
        conditioned = [halves(block.condition.weight[:, :, 0], conditions).flatten(0, 1) for block in blocks]
        self.condition = torch.cat(conditioned).T.to(dtype).contiguous()  # [conditions, layers * 2 * width]
        self.condition_bias = torch.cat([halves(_bias_of(block.dilated)).flatten() for block in blocks]).to(dtype)
        leave = torch.stack([halves(block.leave.weight[:, :, 0], w) for block in blocks]).transpose(2, 3)
        leave_bias = torch.stack([halves(_bias_of(block.leave)) for block in blocks])
        self.residual, self.residual_bias = leave[:, 0].to(dtype).contiguous(), leave_bias[:, 0].contiguous()
        scale = math.sqrt(1 / self.layers)
        self.skip, self.skip_bias = (leave[:, 1] * scale).to(dtype).contiguous(), leave_bias[:, 1].sum(0) * scale
        self.mix, self.mix_bias = low(net.mix.weight[:, :, 0].T, w, w), _padded(_bias_of(net.mix), w)
        out = max(_MIN_WIDTH, next_power(self.outputs))
        self.leave, self.leave_bias = low(net.leave.weight[:, :, 0].T, w, out), _padded(_bias_of(net.leave), out)


def _bias_of(layer: nn.Conv1d) -> Tensor:
    """A convolution's bias."""
    assert layer.bias is not None
    return layer.bias


def _padded(tensor: Tensor, *shape: int) -> Tensor:
    """A float32 copy with zeros behind each dimension's end."""
    out = torch.zeros(shape, device=tensor.device)
    out[tuple(slice(size) for size in tensor.shape)] = tensor.detach()
    return out
