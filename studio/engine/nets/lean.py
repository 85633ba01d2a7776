"""A decoder made ready to run: the weights of ``transformer.Decoder``, folded so that a token takes few calls.

What a frame costs at this size is calls, not arithmetic. So the norms' gains are folded into the products after them, a
norm is a division by a length, query and key are normalised, scaled and turned together as complex numbers, and angles
come from a table. The results are those of ``Decoder.forward`` within rounding; what is kept of keys is laid out
differently (pairs side by side), so that a slot is read by what wrote it.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from studio.engine.compiled.panels import Panels
from studio.engine.nets.batched import BatchedStep, Between, turns_at, unit
from studio.engine.nets.one_token import TokenLayer, TokenStep
from studio.engine.nets.products import NumberFormat, Packed, Product
from studio.engine.nets.slots import KeyValueSlots
from studio.engine.nets.stretches import CompiledStretch, PackedStretch, StretchLayer, StretchStep
from studio.engine.nets.transformer import Block, Decoder, DecoderConfig

_CHUNK = 2048  # positions of one table of angles
_TABLES = 64  # of them kept: far more than streams of different ages need


class Angles:
    """Turns of absolute positions, complex64 [positions, width / 2], made a table at a time.

    Attributes:
        rates: how fast each pair turns, float64 [width / 2].
    """

    def __init__(self, width: int, base: float, device: torch.device) -> None:
        self.rates = base ** (-torch.arange(0, width, 2, dtype=torch.float64, device=device) / width)
        self._tables: OrderedDict[int, Tensor] = OrderedDict()

    def at(self, position: int, count: int) -> Tensor:
        """Turns of ``count`` positions from one on, [count, width / 2]."""
        first, within = divmod(position, _CHUNK)
        if within + count <= _CHUNK:
            return self._table(first)[within : within + count]
        last = (position + count - 1) // _CHUNK
        joined = torch.cat([self._table(number) for number in range(first, last + 1)])
        return joined[within : within + count]

    def _table(self, number: int) -> Tensor:
        if number not in self._tables:
            positions = torch.arange(number * _CHUNK, (number + 1) * _CHUNK, device=self.rates.device)
            self._tables[number] = turns_at(positions, self.rates)
            while len(self._tables) > _TABLES:
                self._tables.popitem(last=False)
        self._tables.move_to_end(number)
        return self._tables[number]


class LeanLayer:
    """One block's folded weights."""

    def __init__(self, block: Block, config: DecoderConfig, number_format: NumberFormat) -> None:
        self._config, d, width = config, config.width, config.head_width
        # x / |x| * sqrt(D) is the RMS norm; the gain and the root go into the product.
        self._block, self._root = block, d**0.5
        self.qkv = Product(_paired(block, config) * (block.norm_attention.weight * self._root), None, number_format)
        gains = torch.stack((block.norm_query.weight, block.norm_key.weight * width**0.5))  # q: 1/sqrt(d) * sqrt(d)
        self.gains = gains.view(2, 2, width // 2).transpose(1, 2).reshape(2, 1, width).contiguous()
        self.out = Product(block.out.weight, None, number_format)
        self.up = Product(block.up.weight * (block.norm_feed.weight * self._root), None, number_format)
        self.down = Product(block.down.weight, None, number_format)

    def for_tokens(self) -> TokenLayer:
        """The same for one token at a time, on a CPU in float32."""
        block = self._block
        return TokenLayer(
            Panels(_paired(block, self._config), gain=block.norm_attention.weight * self._root),
            self.gains[:, 0].contiguous().numpy(),
            Panels(block.out.weight),
            Panels(block.up.weight, gain=block.norm_feed.weight * self._root),
            Panels(block.down.weight),
        )

    def for_stretches(self, tokens: TokenLayer) -> StretchLayer:
        """The same for many tokens of one row, on a CPU in float32; with AVX2 alone by the weights of ``tokens``."""
        if torch.backends.cpu.get_cpu_capability() == "AVX2":  # oneDNN takes a third longer there: docs/adr/0021
            return CompiledStretch(tokens)
        return PackedStretch(
            tokens.head_gains, *(Packed(one.weight) for one in (self.qkv, self.out, self.up, self.down))
        )


def _paired(block: Block, config: DecoderConfig) -> Tensor:
    """A block's [3 D, D], the pairs of queries and keys that turn together side by side."""
    d, heads, width = config.width, config.heads, config.head_width
    qkv = block.qkv.weight
    paired = qkv.view(3, heads, 2, width // 2, d).transpose(2, 3).reshape(3, heads, width, d)
    return torch.cat((paired[:2], qkv.view(3, heads, width, d)[2:])).reshape(3 * d, d)


class LeanDecoder:
    """Runs a trained decoder over slots; see ``extend``.

    Attributes:
        on_host: what runs a token of each row on a CPU, in float32; None elsewhere.
        stretches: what runs many tokens of one row there, which attend to nothing else; None elsewhere.
        batched: what runs one token of all rows at once, on a GPU.
    """

    @torch.no_grad()
    def __init__(self, decoder: Decoder, number_format: NumberFormat = "float32") -> None:
        self.config = c = decoder.config
        self._layers = [LeanLayer(block, c, number_format) for block in decoder.layers()]
        self._device = decoder.norm.weight.device
        self._angles = Angles(c.head_width, c.rotary_base, self._device)
        self.batched = BatchedStep(self._layers, c, self._angles.rates)
        self.on_host: TokenStep | None = None
        self.stretches: StretchStep | None = None
        if number_format == "float32" and self._device.type == "cpu":
            tokens = [layer.for_tokens() for layer in self._layers]
            stretches = [layer.for_stretches(one) for layer, one in zip(self._layers, tokens, strict=True)]
            self.on_host = TokenStep(tokens, self._turns)
            self.stretches = StretchStep(stretches, c.heads, self._turns)

    def _turns(self, position: int, count: int) -> np.ndarray:
        return self._angles.at(position, count).numpy()

    @torch.no_grad()
    def head_on_host(self, decoder: Decoder, weight: Tensor, bias: Tensor) -> Panels:
        """A head with the last norm before it, for hidden states as ``extend`` answers them, on a CPU."""
        return Panels(weight, bias, decoder.norm.weight * self.config.width**0.5)

    @torch.no_grad()
    def folded(self, decoder: Decoder, weight: Tensor) -> Tensor:
        """A head's weight [O, D] with the last norm in it, for hidden states as ``extend`` answers them."""
        return (weight * (decoder.norm.weight * self.config.width**0.5)).contiguous()

    def extend(self, x: Tensor, slots: KeyValueSlots, rows: Sequence[int], between: Between | None = None) -> Tensor:
        """Run T new tokens of each row over what its slot holds, and keep their keys and values.

        Either one row of any number of tokens, or one token of several rows. On a CPU attention runs row by row over
        exactly what the row holds: a row's result depends neither on how many neighbours it has nor on how long they
        are. On a GPU, where a batch costs what a row does, it does within rounding.

        Args:
            x: [B, T, D]; row b continues slot ``rows[b]`` at its length.
            slots: where keys and values live; lengths grow when every layer has run.
            between: a decoder's cross-attention, where it has one; N = tokens of one row, or rows of one token.

        Returns:
            The last token's hidden state divided by its length, [B, D].
        """
        count, tokens = x.shape[:2]
        assert count == 1 or tokens == 1, "several rows take one token each"
        if tokens == 1 and self.on_host is not None:
            crossed = None if between is None else _over_arrays(between)
            return torch.from_numpy(self.on_host.extend(x[:, 0].numpy(), slots, rows, crossed))
        if tokens == 1 and self._device.type != "cpu":
            return self.batched.extend(x[:, 0], slots, rows, between)
        if self.stretches is not None and between is None:
            return torch.from_numpy(self.stretches.read(x[0].numpy(), slots, rows[0]))
        at = [int(slots.length[row]) for row in rows]
        if count == 1:
            turns = self._angles.at(at[0], tokens)
        else:
            turns = torch.cat([self._angles.at(position, 1) for position in at])
        h = self._run(x.reshape(count * tokens, -1), turns[:, None, None], slots, rows, at, tokens, between)
        for row in rows:
            slots.length[row] += tokens
        last = h[-count:]
        return unit(last)

    def _run(
        self,
        h: Tensor,
        turns: Tensor,
        slots: KeyValueSlots,
        rows: Sequence[int],
        at: list[int],
        tokens: int,
        between: Between | None,
    ) -> Tensor:
        """All layers over [N, D], N = tokens of one row or rows of one token; the last token's result is there.

        Args:
            turns: [N, 1, 1, d / 2].
        """
        c, mask = self.config, None

        def one(product: Product, rows: Tensor) -> Tensor:
            return product(rows.unsqueeze(0))[0] if tokens > 1 else product(rows)

        for number, layer in enumerate(self._layers):
            qkv = one(layer.qkv, unit(h))
            qkv = qkv.view(len(h), 3, c.heads, c.head_width)
            qk = unit(qkv[:, :2]) * layer.gains
            pairs = torch.view_as_complex(qk.unflatten(-1, (-1, 2))) * turns
            qk = torch.view_as_real(pairs).flatten(-2)
            if tokens > 1:
                mask = _mask(tokens, at[0] + tokens - int(slots.start[rows[0]]), h.device) if mask is None else mask
                q, k, v = qk[:, 0].transpose(0, 1), qk[:, 1].transpose(0, 1), qkv[:, 2].transpose(0, 1)
                slots.write(number, rows[0], at[0], k, v)
                if between is None and layer is self._layers[-1]:  # nobody asks for the others' results
                    h, q, mask = h[-1:], q[:, -1:], None
                mixed = attend(q, slots.held(number, rows[0], at[0] + tokens), mask).transpose(0, 1).flatten(1)
            else:
                mixed = torch.empty_like(h)
                for b, row in enumerate(rows):
                    slots.write(number, row, at[b], qk[b, 1, :, None], qkv[b, 2, :, None])
                    held = slots.held(number, row, at[b] + 1)
                    mixed[b] = attend(qk[b, 0, :, None], held, None).flatten()
            h = h + one(layer.out, mixed)
            if between is not None:
                h = between(number, h)
            fed = F.relu(one(layer.up, unit(h)))
            h = h + one(layer.down, fed * fed)
        return h


def _over_arrays(between: Between) -> Callable[[int, np.ndarray], np.ndarray]:
    return lambda layer, rows: between(layer, torch.from_numpy(rows)).numpy()


def _mask(tokens: int, held: int, device: torch.device) -> Tensor:
    """What must not be seen, bool [T, S]: tokens after one's own."""
    return torch.ones(tokens, held, dtype=torch.bool, device=device).triu(held - tokens + 1)


def attend(q: Tensor, held: list[tuple[Tensor, Tensor]], mask: Tensor | None) -> Tensor:
    """Attention of T tokens [H, T, d], scaled already, over what is held in pieces of [H, S, d] -> [H, T, d]."""
    found = [torch.bmm(q, keys.transpose(1, 2)) for keys, _ in held]
    scores = found[0] if len(found) == 1 else torch.cat(found, dim=2)
    if mask is not None:
        scores = scores.masked_fill_(mask, float("-inf"))
    shares = scores.softmax(dim=-1)
    if len(held) == 1:
        return torch.bmm(shares, held[0][1])
    parts = shares.split([keys.shape[1] for keys, _ in held], dim=2)
    return torch.bmm(parts[0], held[0][1]) + torch.bmm(parts[1], held[1][1])
