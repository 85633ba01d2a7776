"""A trained decoder run so that one sees where it attends: slower than ``lean``, the same results within rounding."""

from collections.abc import Callable

import torch
from torch import Tensor

from studio.engine.nets.transformer import Decoder, rotary


class OpenDecoder:
    """Runs stretches of tokens one after another, and tells each token's shares of attention.

    Attributes:
        start, length: the first token held, and how many were ever taken.
    """

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        layers = decoder.config.layers
        self._keys: list[Tensor | None] = [None] * layers
        self._values: list[Tensor | None] = [None] * layers
        self.start = self.length = 0

    def forget(self, start: int) -> None:
        """Drop the tokens before ``start``."""
        drop, self.start = start - self.start, start
        for kept in (self._keys, self._values):
            kept[:] = [None if one is None else one[:, :, drop:] for one in kept]

    def cut(self, length: int) -> None:
        """Drop the tokens from ``length`` on."""
        self.length = length
        for kept in (self._keys, self._values):
            kept[:] = [None if one is None else one[:, :, : length - self.start] for one in kept]

    def extend(self, x: Tensor, between: Callable[[int, Tensor], Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """Run tokens after those that are held.

        Args:
            x: [T, D].
            between: what stands between a layer's self-attention and its feed-forward, (layer, [1, T, D]) -> the same.

        Returns:
            Hidden states after the last norm [T, D], and the shares of the held tokens and of these, mean of the
            heads of each layer, [L, T, S].
        """
        config, count = self._decoder.config, len(x)
        places = torch.arange(self.length, self.length + count, device=x.device)
        cos, sin = rotary(places, config.head_width, config.rotary_base)
        held = self.length - self.start
        ahead = torch.ones(count, held + count, dtype=torch.bool, device=x.device).triu(held + 1)
        h, found = x.unsqueeze(0), list[Tensor]()
        for layer, block in enumerate(self._decoder.layers()):
            q, k, v = block.project(h, cos, sin)
            keys, values = self._keys[layer], self._values[layer]
            k = k if keys is None else torch.cat((keys, k), 2)
            v = v if values is None else torch.cat((values, v), 2)
            self._keys[layer], self._values[layer] = k, v
            scores = (q @ k.transpose(2, 3)) * config.head_width**-0.5
            shares = scores.masked_fill(ahead, float("-inf")).softmax(-1)
            found.append(shares[0].mean(0))
            h = block.mix(h, shares @ v)
            if between is not None:
                h = between(layer, h)
            h = block.feed(h)
        self.length += count
        return self._decoder.norm(h)[0], torch.stack(found)
