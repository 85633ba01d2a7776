"""The depth transformer (paper 002, sections 3.3 and 4.1): predicts a frame group by group.

It attends only to the groups of its own step; the past is in the backbone's hidden state. Forms: reference, and for
CPUs cached steps in numpy (a frame is eight small runs, and a numpy call costs a third of a torch call) or, in int8,
in torch. The CUDA form is in ``cuda``.
"""

from collections.abc import Callable
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from studio.engine.nets.cpu.decoder import unit
from studio.engine.nets.cpu.kernels import PanelLinear
from studio.engine.nets.folded import FoldedLayer, RotaryTable
from studio.engine.nets.frame_decoder import FrameEmbeddingTable
from studio.engine.nets.linear import NumberFormat, RowwiseLinear
from studio.engine.nets.transformer import Decoder, DecoderConfig, attend_whole, rotary
from studio.engine.tokenizers import dmel

GROUPS = 8
GROUP_CHANNELS = dmel.CHANNELS // GROUPS


class DepthTransformer(nn.Module):
    """Predicts a group's channels from the backbone and the groups before it (reference form).

    Args:
        width: of the backbone.
        level_width: of a level's embedding.
        is_shared: one set of layers for all groups; else each has its own, as for the paper's first eight codebooks.
    """

    def __init__(self, width: int, level_width: int, config: DecoderConfig, *, is_shared: bool) -> None:
        super().__init__()
        self.config, d = config, config.width
        own = 1 if is_shared else GROUPS
        self.stacks = nn.ModuleList(Decoder(config) for _ in range(own))
        self.enter = nn.ModuleList(nn.Linear(width, d) for _ in range(own))
        self.heard = nn.ModuleList(nn.Linear(GROUP_CHANNELS * level_width, d) for _ in range(GROUPS - 1))
        self.group = nn.Parameter(torch.randn(GROUPS, d) * 0.5)
        self.out = nn.ModuleList(nn.Linear(d, GROUP_CHANNELS * dmel.LEVELS) for _ in range(GROUPS))
        for head in self.heads():
            nn.init.zeros_(head.weight)

    def stack(self, group: int) -> Decoder:
        """The layers of a group."""
        return cast("Decoder", self.stacks[group % len(self.stacks)])

    def entry(self, group: int) -> nn.Linear:
        """The projection of the backbone's hidden state into a group."""
        return cast("nn.Linear", self.enter[group % len(self.enter)])

    def level_inputs(self) -> list[nn.Linear]:
        """The projection of each group's levels into the next group."""
        return [cast("nn.Linear", one) for one in self.heard]

    def heads(self) -> list[nn.Linear]:
        """The output projection of each group."""
        return [cast("nn.Linear", one) for one in self.out]

    def forward(self, hidden: Tensor, embedded: Tensor) -> Tensor:
        """Logits of whole frames.

        Args:
            hidden: [N, D], of the backbone.
            embedded: [N, 80, W], embeddings of the target levels.

        Returns:
            [N, 80, 16]; those of a group depend only on the groups before it.
        """
        groups = embedded.unflatten(1, (GROUPS, GROUP_CHANNELS)).flatten(2)
        before = [one(groups[:, g]) for g, one in enumerate(self.level_inputs())]
        entered = [self.entry(g)(hidden) for g in range(len(self.enter))]
        x = torch.stack([entered[g % len(entered)] + self.group[g] for g in range(GROUPS)], 1)
        x = x + torch.stack([torch.zeros_like(before[0]), *before], 1)
        x = self.stack(0)(x) if len(self.stacks) == 1 else self._run_separate_stacks(x)
        logits = torch.stack([head(x[:, g]) for g, head in enumerate(self.heads())], 1)
        return logits.view(len(hidden), dmel.CHANNELS, dmel.LEVELS)

    def _run_separate_stacks(self, x: Tensor) -> Tensor:
        """Layers when each group has its own, [N, G, d] -> [N, G, d]."""
        c = self.config
        cos, sin = rotary(torch.arange(GROUPS, device=x.device), c.head_width, c.rotary_base)
        layers = zip(*(self.stack(g).layers() for g in range(GROUPS)), strict=True)
        for blocks in layers:
            parts = [block.project(x[:, g : g + 1], cos[g : g + 1], sin[g : g + 1]) for g, block in enumerate(blocks)]
            q, k, v = (torch.cat(one, 2) for one in zip(*parts, strict=True))
            mixed = attend_whole(q, k, v)
            x = torch.cat([block.finish(x[:, g : g + 1], mixed[:, :, g : g + 1]) for g, block in enumerate(blocks)], 1)
        return torch.cat([self.stack(g).norm(x[:, g : g + 1]) for g in range(GROUPS)], 1)


class DepthRunner:
    """Runs a trained depth transformer on a CPU, group by group for independent rows.

    Its KV cache lives as long as a step, so it needs no slots.

    Args:
        level: embedding of a level.
        backbone: its hidden states, divided by their length, are the inputs (``CachedDecoder.extend``).

    Attributes:
        layers: of each stack.
        rotations: of each group, complex64 [8, d / 2].
        enter, out: projections into a group and out of it; group: [8, d].
        level_inputs: table and bias [d] of what each group's levels add to the next one.
    """

    @torch.no_grad()
    def __init__(
        self, trained: DepthTransformer, level: nn.Embedding, backbone: Decoder, number_format: NumberFormat
    ) -> None:
        self._config = trained.config
        self._own = range(len(trained.stacks))
        c, stacks = self._config, [trained.stack(g) for g in self._own]
        self.layers = [[FoldedLayer(block, c, number_format) for block in one.layers()] for one in stacks]
        self.rotations = RotaryTable(c.head_width, c.rotary_base).at(0, GROUPS)
        gain = backbone.norm.weight * backbone.config.width**0.5
        self._entries, self._entry_gain = [trained.entry(g) for g in self._own], gain
        self.enter = [RowwiseLinear(one.weight * gain, one.bias, number_format) for one in self._entries]
        self.level_inputs = [(FrameEmbeddingTable(level, one), one.bias.detach()) for one in trained.level_inputs()]
        self.group = trained.group.detach()
        norms = [trained.stack(g).norm.weight * c.width**0.5 for g in range(GROUPS)]
        self._heads = list(zip(trained.heads(), norms, strict=True))
        self.out = [RowwiseLinear(head.weight * norm, head.bias, number_format) for head, norm in self._heads]

    def cpu_enter(self) -> list[PanelLinear]:
        """``enter`` for CPUs, in float32."""
        return [PanelLinear(one.weight, one.bias, self._entry_gain) for one in self._entries]

    def cpu_out(self) -> list[PanelLinear]:
        """``out`` for CPUs, in float32."""
        return [PanelLinear(head.weight, head.bias, norm) for head, norm in self._heads]

    @property
    def cache_shape(self) -> tuple[int, int, int]:
        """Shape of a row's keys (or values) in a layer: [H, 8, d / H]."""
        return self._config.heads, GROUPS, self._config.head_width

    def frame(self, hidden: Tensor, draw: Callable[[int, Tensor], Tensor]) -> Tensor:
        """The levels of a frame, sampled group by group.

        Args:
            hidden: [N, D], one of each row.
            draw: samples levels uint8 [N, 10] from a group's index and logits [N, 10, 16].

        Returns:
            uint8 [N, 80].
        """
        c, count = self._config, len(hidden)
        entered = [enter(hidden) for enter in self.enter]
        shape = (2, c.layers, count, c.heads, GROUPS, c.head_width)
        cache, levels = torch.empty(shape), list[Tensor]()
        for group in range(GROUPS):
            h = entered[group % len(entered)] + self.group[group]
            if levels:
                table, bias = self.level_inputs[group - 1]
                h = h + table(levels[-1]) + bias
            for number, layer in enumerate(self.layers[group % len(self.layers)]):
                h = self._run(layer, h, cache[:, number], group)
            logits = self.out[group](_normal(h))
            levels.append(draw(group, logits.view(count, GROUP_CHANNELS, dmel.LEVELS)))
        return torch.cat(levels, 1)

    def _run(self, layer: FoldedLayer, h: Tensor, cache: Tensor, group: int) -> Tensor:
        """One layer over [N, d]; ``cache`` [2, N, H, 8, d / H] holds K and V of the groups so far."""
        c = self._config
        qkv = layer.qkv(_normal(h)).view(len(h), 3, c.heads, c.head_width)
        qk = _normal(qkv[:, :2]) * layer.gains
        rotated = torch.view_as_real(torch.view_as_complex(qk.unflatten(-1, (-1, 2))) * self.rotations[group]).flatten(
            -2
        )
        cache[0, :, :, group], cache[1, :, :, group] = rotated[:, 1], qkv[:, 2]
        keys, values = cache[0, :, :, : group + 1], cache[1, :, :, : group + 1]
        shares = (rotated[:, 0].unsqueeze(2) * keys).sum(-1).softmax(-1)
        h = h + layer.out((shares.unsqueeze(-1) * values).sum(2).flatten(1))
        return h + layer.down(layer.up(_normal(h)).relu_().square_())


class DepthCpuRunner:
    """The same as ``DepthRunner``, in numpy for CPUs."""

    def __init__(self, runner: DepthRunner) -> None:
        self._layers = [[layer.for_decode() for layer in stack] for stack in runner.layers]
        self._rotations = runner.rotations.numpy().view(np.float32)
        self._enter = runner.cpu_enter()
        self._level_inputs = [(table.for_cpu(), bias.numpy()) for table, bias in runner.level_inputs]
        self._group, self._out = runner.group.numpy(), runner.cpu_out()
        self._cache_shape = runner.cache_shape

    def frame(self, hidden: np.ndarray, draw: Callable[[int, np.ndarray], np.ndarray]) -> np.ndarray:
        """As ``LeanDepth.frame``: [N, D] and a draw from logits [N, 10, 16], to uint8 [N, 80]."""
        entered, count = [enter(hidden) for enter in self._enter], len(hidden)
        cache = np.empty((len(self._layers[0]), 2, count, *self._cache_shape), np.float32)
        rows, first, levels = np.arange(count), np.zeros(count, np.int64), list[np.ndarray]()
        for group in range(GROUPS):
            rotations, length = np.repeat(self._rotations[group : group + 1], count, axis=0), np.full(count, group)
            h = entered[group % len(entered)] + self._group[group]
            if levels:
                table, bias = self._level_inputs[group - 1]
                h += table(levels[-1])
                h += bias
            for number, layer in enumerate(self._layers[group % len(self._layers)]):
                layer.attend(h, (cache[number, 0], cache[number, 1]), rows, (first, length), rotations)
                layer.feed(h)
            logits = self._out[group](unit(h))
            levels.append(draw(group, logits.reshape(len(h), GROUP_CHANNELS, dmel.LEVELS)))
        return np.concatenate(levels, 1)


def _normal(x: Tensor) -> Tensor:
    """Divided by its length along the last dimension."""
    return x / torch.linalg.vector_norm(x, dim=-1, keepdim=True)
