"""The depth transformer (paper 002, sections 3.3 and 4.1): one group of a frame's channels after another.

It attends to the groups of its own step only; what was before is in the backbone's hidden state. As trained, and made
ready to run.
"""

from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor, nn

from studio.engine.alphabets import dmel
from studio.engine.compiled.panels import Panels
from studio.engine.nets.frames import FrameTable
from studio.engine.nets.lean import Angles, LeanLayer
from studio.engine.nets.products import NumberFormat, Product
from studio.engine.nets.transformer import Decoder, DecoderConfig, attend_whole, rotary

GROUPS = 8
GROUP_CHANNELS = dmel.CHANNELS // GROUPS


class DepthTransformer(nn.Module):
    """Predicts a group's channels from the backbone and the groups before it.

    Args:
        width: of the backbone.
        level_width: of a level's embedding.
        is_shared: one set of layers for all groups; else each has its own, as the paper's first eight codebooks.
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
        """What brings the backbone's hidden state into a group."""
        return cast("nn.Linear", self.enter[group % len(self.enter)])

    def listeners(self) -> list[nn.Linear]:
        """What brings a group's levels into the next, of each but the last."""
        return [cast("nn.Linear", one) for one in self.heard]

    def heads(self) -> list[nn.Linear]:
        """Each group's last product."""
        return [cast("nn.Linear", one) for one in self.out]

    def forward(self, hidden: Tensor, embedded: Tensor) -> Tensor:
        """Logits of whole frames.

        Args:
            hidden: [N, D], of the backbone.
            embedded: [N, 80, W], embeddings of the levels that are there.

        Returns:
            [N, 80, 16]; those of a group depend on the groups before it alone.
        """
        groups = embedded.unflatten(1, (GROUPS, GROUP_CHANNELS)).flatten(2)
        before = [one(groups[:, g]) for g, one in enumerate(self.listeners())]
        entered = [self.entry(g)(hidden) for g in range(len(self.enter))]
        x = torch.stack([entered[g % len(entered)] + self.group[g] for g in range(GROUPS)], 1)
        x = x + torch.stack([torch.zeros_like(before[0]), *before], 1)
        x = self.stack(0)(x) if len(self.stacks) == 1 else self._apart(x)
        logits = torch.stack([head(x[:, g]) for g, head in enumerate(self.heads())], 1)
        return logits.view(len(hidden), dmel.CHANNELS, dmel.LEVELS)

    def _apart(self, x: Tensor) -> Tensor:
        """Layers of which each group has its own, [N, G, d] -> [N, G, d]."""
        c = self.config
        cos, sin = rotary(torch.arange(GROUPS, device=x.device), c.head_width, c.rotary_base)
        layers = zip(*(self.stack(g).layers() for g in range(GROUPS)), strict=True)
        for blocks in layers:
            parts = [block.project(x[:, g : g + 1], cos[g : g + 1], sin[g : g + 1]) for g, block in enumerate(blocks)]
            q, k, v = (torch.cat(one, 2) for one in zip(*parts, strict=True))
            mixed = attend_whole(q, k, v)
            x = torch.cat([block.finish(x[:, g : g + 1], mixed[:, :, g : g + 1]) for g, block in enumerate(blocks)], 1)
        return torch.cat([self.stack(g).norm(x[:, g : g + 1]) for g in range(GROUPS)], 1)


class LeanDepth:
    """Runs a trained depth transformer a group at a time, for rows that do not know each other.

    What groups keep for those after them lives as long as a step, so it takes no slots.

    Args:
        level: embedding of a level.
        backbone: whose hidden states, divided by their length, are given (``LeanDecoder.extend``).

    Attributes:
        layers: of each stack.
        turns: of each group's place, complex64 [8, d / 2].
        enter, out: products into a group and out of it; ``group`` [8, d].
        heard: what a group's levels add to the next one, of each but the last: a table and what is added to it [d].
    """

    @torch.no_grad()
    def __init__(
        self, trained: DepthTransformer, level: nn.Embedding, backbone: Decoder, number_format: NumberFormat
    ) -> None:
        self._config = trained.config
        self._own = range(len(trained.stacks))
        c, stacks = self._config, [trained.stack(g) for g in self._own]
        self.layers = [[LeanLayer(block, c, number_format) for block in one.layers()] for one in stacks]
        self.turns = Angles(c.head_width, c.rotary_base, trained.group.device).at(0, GROUPS)
        gain = backbone.norm.weight * backbone.config.width**0.5
        self._entries, self._entry_gain = [trained.entry(g) for g in self._own], gain
        self.enter = [Product(one.weight * gain, one.bias, number_format) for one in self._entries]
        self.heard = [(FrameTable(level, one), one.bias.detach()) for one in trained.listeners()]
        self.group = trained.group.detach()
        norms = [trained.stack(g).norm.weight * c.width**0.5 for g in range(GROUPS)]
        self._heads = list(zip(trained.heads(), norms, strict=True))
        self.out = [Product(head.weight * norm, head.bias, number_format) for head, norm in self._heads]

    def enter_on_host(self) -> list[Panels]:
        """``enter`` on a CPU in float32."""
        return [Panels(one.weight, one.bias, self._entry_gain) for one in self._entries]

    def out_on_host(self) -> list[Panels]:
        """``out`` on a CPU in float32."""
        return [Panels(head.weight, head.bias, norm) for head, norm in self._heads]

    @property
    def kept_shape(self) -> tuple[int, int, int]:
        """Of a row's keys, or its values, in a layer: [H, 8, d / H]."""
        return self._config.heads, GROUPS, self._config.head_width

    def frame(self, hidden: Tensor, draw: Callable[[int, Tensor], Tensor]) -> Tensor:
        """A step's channels, one group after another.

        Args:
            hidden: [N, D], one of each row.
            draw: takes a group's number and its logits [N, 10, 16], and answers its levels, uint8 [N, 10].

        Returns:
            uint8 [N, 80].
        """
        c, count = self._config, len(hidden)
        entered = [enter(hidden) for enter in self.enter]
        shape = (2, c.layers, count, c.heads, GROUPS, c.head_width)
        kept, found = torch.empty(shape, device=hidden.device), list[Tensor]()
        for group in range(GROUPS):
            h = entered[group % len(entered)] + self.group[group]
            if found:
                table, bias = self.heard[group - 1]
                h = h + table(found[-1]) + bias
            for number, layer in enumerate(self.layers[group % len(self.layers)]):
                h = self._run(layer, h, kept[:, number], group)
            logits = self.out[group](_normal(h))
            found.append(draw(group, logits.view(count, GROUP_CHANNELS, dmel.LEVELS)))
        return torch.cat(found, 1)

    def _run(self, layer: LeanLayer, h: Tensor, kept: Tensor, group: int) -> Tensor:
        """One layer over [N, d]; ``kept`` [2, N, H, 8, d / H], keys and values of the groups so far."""
        c = self._config
        qkv = layer.qkv(_normal(h)).view(len(h), 3, c.heads, c.head_width)
        qk = _normal(qkv[:, :2]) * layer.gains
        turned = torch.view_as_real(torch.view_as_complex(qk.unflatten(-1, (-1, 2))) * self.turns[group]).flatten(-2)
        kept[0, :, :, group], kept[1, :, :, group] = turned[:, 1], qkv[:, 2]
        keys, values = kept[0, :, :, : group + 1], kept[1, :, :, : group + 1]
        shares = (turned[:, 0].unsqueeze(2) * keys).sum(-1).softmax(-1)
        h = h + layer.out((shares.unsqueeze(-1) * values).sum(2).flatten(1))
        return h + layer.down(layer.up(_normal(h)).relu_().square_())


def _normal(x: Tensor) -> Tensor:
    """Divided by its length, along the last dimension."""
    return x / torch.linalg.vector_norm(x, dim=-1, keepdim=True)
