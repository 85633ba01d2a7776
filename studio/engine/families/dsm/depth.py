"""The depth transformer (paper 002, sections 3.3 and 4.1): one group of a frame's channels after another.

It attends to the groups of its own step only; what was before is in the backbone's hidden state. As trained, and made
ready to run.
"""

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from studio.engine import dmel
from studio.engine.nets.lean import LeanDecoder
from studio.engine.nets.products import NumberFormat, Product
from studio.engine.nets.transformer import Decoder, DecoderConfig, attend_whole, rotary
from studio.engine.slots import KeyValueSlots

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

    Args:
        level: embedding of a level.
        backbone: whose hidden states, divided by their length, are given (``LeanDecoder.extend``).
    """

    @torch.no_grad()
    def __init__(
        self, trained: DepthTransformer, level: nn.Embedding, backbone: Decoder, number_format: NumberFormat
    ) -> None:
        self._level = level
        count = len(trained.stacks)
        self._stacks = [LeanDecoder(trained.stack(g), number_format) for g in range(count)]
        gain = backbone.norm.weight * backbone.config.width**0.5
        self._enter = [
            Product(one.weight * gain, one.bias, number_format) for one in (trained.entry(g) for g in range(count))
        ]
        self._heard = [Product(one.weight, one.bias, number_format) for one in trained.listeners()]
        self._group = trained.group.detach()
        self._out = [
            Product(self._stacks[g % count].folded(trained.stack(g), head.weight), head.bias, number_format)
            for g, head in enumerate(trained.heads())
        ]

    def enter(self, hidden: Tensor) -> list[Tensor]:
        """What each group takes from the backbone, [B, D] -> as many [B, d] as there are sets of layers."""
        return [enter(hidden) for enter in self._enter]

    def group(
        self, number: int, entered: list[Tensor], before: Tensor | None, slots: KeyValueSlots, rows: Sequence[int]
    ) -> Tensor:
        """Logits of a group's channels.

        Args:
            entered: from ``enter``.
            before: uint8 [B, 10], levels of the group before; None for the first, which forgets the step before.
            slots: what the groups before left.

        Returns:
            [B, 10, 16].
        """
        which = number % len(self._stacks)
        x = entered[which] + self._group[number]
        if before is None:
            for row in rows:
                slots.length[row] = 0
        else:
            x = x + self._heard[number - 1](self._level(before.long()).flatten(1))
        out = self._out[number](self._stacks[which].extend(x.unsqueeze(1), slots, rows))
        return out.view(len(x), GROUP_CHANNELS, dmel.LEVELS)
