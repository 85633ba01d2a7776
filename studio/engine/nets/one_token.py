"""A folded decoder on a CPU, in numpy over the slots' own memory: one token of each row, or many of one.

At this size a token costs calls, not arithmetic: a call of torch takes three times as long as one of numpy, and its
product of one row with a matrix twice as long as OpenBLAS's. ``matmul`` of stacked single rows takes them one by one,
so that a row's result does not depend on its neighbours (law 3).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from studio.engine.nets.products import Packed, one_blas_thread
from studio.engine.slots import KeyValueSlots

# A decoder's cross-attention: (layer, [N, D]) -> [N, D].
Between = Callable[[int, np.ndarray], np.ndarray] | None
Weight = TypeVar("Weight", np.ndarray, Packed)
# Rows [N, D] times [D, O]: ``product`` where rows are of several utterances, ``together`` where they are of one.
Times = Callable[[np.ndarray, Weight], np.ndarray]


@dataclass(frozen=True)
class TokenLayer(Generic[Weight]):
    """One block's folded weights, float32, for ``row @ weight``.

    Attributes:
        qkv: [D, 3 D], pairs of queries and keys side by side.
        gains: of queries and keys, [2, 1, d].
        out, up, down: [D, D], [D, F], [F, D].
    """

    qkv: Weight
    gains: np.ndarray
    out: Weight
    up: Weight
    down: Weight


def product(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Rows [N, D] times [D, O], each row alone."""
    return np.matmul(x[:, None], weight)[:, 0]


def together(x: np.ndarray, weight: Packed) -> np.ndarray:
    """Rows [N, D] times [D, O], all at once."""
    return weight(x)


def packed(layer: TokenLayer[np.ndarray]) -> TokenLayer[Packed]:
    """A layer for ``together``."""
    return TokenLayer(Packed(layer.qkv), layer.gains, Packed(layer.out), Packed(layer.up), Packed(layer.down))


def unit(x: np.ndarray) -> np.ndarray:
    """Vectors [..., D] divided by their lengths."""
    return x / np.sqrt(np.vecdot(x, x))[..., None]


class TokenStep:
    """Runs folded layers over slots.

    Args:
        turns: of so many positions from one on, complex64 [positions, d / 2].
    """

    def __init__(self, layers: Sequence[TokenLayer[np.ndarray]], turns: Callable[[int, int], np.ndarray]) -> None:
        one_blas_thread()
        self._layers, self._turns = layers, turns
        self._packed = [packed(layer) for layer in layers]

    @np.errstate(all="ignore")  # whoever reads what is no number says so
    def extend(self, h: np.ndarray, slots: KeyValueSlots, rows: Sequence[int], between: Between = None) -> np.ndarray:
        """Run a token of each row, [N, D], over what its slot holds, and keep its keys and values.

        Returns:
            The tokens' hidden states divided by their lengths, [N, D].
        """
        length, start = slots.length.numpy(), slots.start.numpy()
        held = [range(int(start[row]), int(length[row]) + 1) for row in rows]  # the new token is the last
        for tokens in held:
            slots.check_room(tokens.start, tokens.stop)
        turns = np.concatenate([self._turns(tokens.stop - 1, 1) for tokens in held])[:, None, None]
        for number, layer in enumerate(self._layers):
            memory = (slots.keys[number].numpy(), slots.values[number].numpy())
            h = h + product(self._attended(layer, h, turns, memory, rows, held), layer.out)
            if between is not None:
                h = between(number, h)
            h = fed(layer, h, product)
        for row in rows:
            length[row] += 1
        return unit(h)

    @np.errstate(all="ignore")
    def read(self, h: np.ndarray, slots: KeyValueSlots, row: int) -> np.ndarray:
        """Run T tokens of one row, [T, D], over what its slot holds, and keep their keys and values.

        Returns:
            The last token's hidden state divided by its length, [1, D].
        """
        at, start = int(slots.length[row]), int(slots.start[row])
        tokens = range(start, at + len(h))
        slots.check_room(tokens.start, tokens.stop)
        turns = self._turns(at, len(h))[:, None, None]
        later = np.triu(np.full((len(h), len(tokens)), -np.inf, np.float32), len(tokens) - len(h) + 1)
        for number, layer in enumerate(self._packed):
            qk, v = projected(layer, h, turns, together)
            keys, values = slots.keys[number].numpy()[row], slots.values[number].numpy()[row]
            places = np.arange(at, tokens.stop) % keys.shape[1]
            keys[:, places], values[:, places] = qk[:, 1].swapaxes(0, 1), v.swapaxes(0, 1)
            asking = qk[:, 0]
            if number == len(self._packed) - 1:  # nobody asks for the others' results
                h, asking, later = h[-1:], asking[-1:], None
            mixed, _ = _attend(asking.transpose(1, 2, 0), keys, values, tokens, later)
            h = fed(layer, h + layer.out(mixed), together)
        slots.length[row] = tokens.stop
        return unit(h)

    def _attended(
        self,
        layer: TokenLayer[np.ndarray],
        h: np.ndarray,
        turns: np.ndarray,
        memory: tuple[np.ndarray, np.ndarray],
        rows: Sequence[int],
        held: Sequence[range],
    ) -> np.ndarray:
        """What each token [N, D] attends to, the last of those its row holds; ``memory`` [slots, H, S, d] each."""
        qk, v = projected(layer, h, turns, product)
        mixed = np.empty_like(h)
        for b, (row, tokens) in enumerate(zip(rows, held, strict=True)):
            keys, values = memory[0][row], memory[1][row]
            at = (tokens.stop - 1) % keys.shape[1]
            keys[:, at], values[:, at] = qk[b, 1], v[b]
            mixed[b : b + 1], _ = _attend(qk[b, 0, :, :, None], keys, values, tokens)
        return mixed


class TokenCross:
    """A trained cross-attention for one token of each row; see ``nets.cross.LeanCross``.

    Args:
        query, out: [D, D]; ``gain`` of queries, [d].
    """

    def __init__(self, layer: int, query: np.ndarray, gain: np.ndarray, out: np.ndarray) -> None:
        self._layer, self._query, self._gain, self._out = layer, query, gain, out

    def __call__(self, h: np.ndarray, slots: KeyValueSlots, rows: Sequence[int]) -> tuple[np.ndarray, list[np.ndarray]]:
        """Attend from [N, D] to all that the rows' slots hold: [N, D], and each row's shares of it, [H, T]."""
        q = unit(product(unit(h), self._query).reshape(len(h), -1, len(self._gain)))
        q *= self._gain
        keys, values = slots.keys[self._layer].numpy(), slots.values[self._layer].numpy()
        mixed, found = np.empty_like(h), list[np.ndarray]()
        for b, row in enumerate(rows):
            held = range(int(slots.start[row]), int(slots.length[row]))
            mixed[b : b + 1], shares = _attend(q[b, :, :, None], keys[row], values[row], held)
            found.append(shares[:, 0])
        return h + product(mixed, self._out), found


def projected(
    layer: TokenLayer[Weight], h: np.ndarray, turns: np.ndarray, times: Times[Weight]
) -> tuple[np.ndarray, np.ndarray]:
    """Queries and keys [N, 2, H, d], normalised, scaled and turned where they stand, and values [N, H, d] of [N, D].

    Args:
        turns: complex64, for [N, 2, H, d / 2].
    """
    qkv = times(unit(h), layer.qkv).reshape(len(h), 3, -1, layer.gains.shape[-1])
    qk = unit(qkv[:, :2])
    qk *= layer.gains
    pairs = qk.view(np.complex64)
    pairs *= turns
    return qk, qkv[:, 2]


def fed(layer: TokenLayer[Weight], h: np.ndarray, times: Times[Weight]) -> np.ndarray:
    """[N, D] and its feed-forward."""
    wide = times(unit(h), layer.up)
    np.maximum(wide, 0.0, out=wide)
    wide *= wide
    return h + times(wide, layer.down)


def _attend(
    q: np.ndarray, keys: np.ndarray, values: np.ndarray, tokens: range, later: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Attention of queries [H, d, Q] over some tokens of a ring [H, S, d]: [Q, D], and the shares [H, Q, T].

    Args:
        later: [Q, T], minus infinity where a query must not look, else 0.
    """
    first = tokens.start % keys.shape[1]
    fitting = min(len(tokens), keys.shape[1] - first)
    last, rest = slice(first, first + fitting), slice(0, len(tokens) - fitting)
    scores = keys[:, last] @ q
    if rest.stop:
        scores = np.concatenate((scores, keys[:, rest] @ q), axis=1)
    if later is not None:
        scores += later.T
    shares = np.exp(scores - scores.max(1, keepdims=True))
    shares /= shares.sum(1, keepdims=True)
    shares = shares.transpose(0, 2, 1)
    mixed = shares[:, :, :fitting] @ values[:, last]
    if rest.stop:
        mixed += shares[:, :, fitting:] @ values[:, rest]
    return mixed.swapaxes(0, 1).reshape(q.shape[2], -1), shares
