"""Many tokens of one row through a decoder, on a CPU over the slots' own memory."""

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from studio.engine.compiled import kernels
from studio.engine.nets.one_token import TokenLayer, attend, unit
from studio.engine.nets.products import Packed, one_blas_thread
from studio.engine.slots import KeyValueSlots


class StretchLayer(Protocol):
    """One block's weights for many tokens of one row.

    Attributes:
        head_gains: of queries and keys, [2, d].
    """

    @property
    def head_gains(self) -> np.ndarray: ...

    def projected(self, h: np.ndarray) -> np.ndarray:
        """Queries, keys and values [N, >= 3 D] of [N, D], pairs of the first two that turn together side by side."""
        ...

    def gone_on(self, h: np.ndarray, mixed: np.ndarray) -> np.ndarray:
        """[N, D] and what it attended to, with the feed-forward."""
        ...


class CompiledStretch:
    """By the compiled kernels, with the weights of single tokens."""

    def __init__(self, layer: TokenLayer) -> None:
        self._layer, self.head_gains = layer, layer.head_gains

    def projected(self, h: np.ndarray) -> np.ndarray:
        """See ``StretchLayer``."""
        return self._layer.qkv(unit(h))

    def gone_on(self, h: np.ndarray, mixed: np.ndarray) -> np.ndarray:
        """See ``StretchLayer``."""
        h = h + self._layer.out(mixed)
        self._layer.feed(h)
        return h


class PackedStretch:
    """By oneDNN's kernels; gains of norms are folded into the weights."""

    def __init__(self, head_gains: np.ndarray, qkv: Packed, out: Packed, up: Packed, down: Packed) -> None:
        self.head_gains, self._qkv, self._out, self._up, self._down = head_gains, qkv, out, up, down

    def projected(self, h: np.ndarray) -> np.ndarray:
        """See ``StretchLayer``."""
        return self._qkv(unit(h))

    def gone_on(self, h: np.ndarray, mixed: np.ndarray) -> np.ndarray:
        """See ``StretchLayer``."""
        h = h + self._out(mixed)
        wide = self._up(unit(h))
        np.maximum(wide, 0.0, out=wide)
        wide *= wide
        return h + self._down(wide)


class StretchStep:
    """Runs layers over slots.

    Args:
        heads: of a layer.
        turns: of so many positions from one on, complex64 [positions, d / 2].

    Attributes:
        layers: as given.
    """

    def __init__(self, layers: Sequence[StretchLayer], heads: int, turns: Callable[[int, int], np.ndarray]) -> None:
        one_blas_thread()
        self.layers, self._turns = layers, turns
        d = layers[0].head_gains.shape[1]
        nobody = [(np.zeros((heads, 1, d), np.float32), np.zeros((heads, 1, d), np.float32)) for _ in layers]
        self._through(np.ones((1, heads * d), np.float32), range(1), nobody)  # compiled before anybody waits for it

    def read(self, h: np.ndarray, slots: KeyValueSlots, row: int) -> np.ndarray:
        """Run T tokens of one row, [T, D], over what its slot holds, and keep their keys and values.

        Returns:
            The last token's hidden state divided by its length, [1, D].
        """
        tokens = range(int(slots.start[row]), int(slots.length[row]) + len(h))
        slots.check_room(tokens.start, tokens.stop)
        h = self._through(h, tokens, [(keys[row], values[row]) for keys, values in slots.on_host])
        slots.length[row] = tokens.stop
        return unit(h)

    @np.errstate(all="ignore")  # whoever reads what is no number says so
    def _through(self, h: np.ndarray, tokens: range, memory: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
        """The last of the tokens [T, D] that end those which a slot then holds, [1, D].

        Args:
            memory: of each layer the slot's keys and values, [H, S, d].
        """
        at = tokens.stop - len(h)
        turns = self._turns(at, len(h)).view(np.float32)
        later = np.triu(np.full((len(h), len(tokens)), -np.inf, np.float32), len(tokens) - len(h) + 1)
        for number, (layer, (keys, values)) in enumerate(zip(self.layers, memory, strict=True)):
            wide = layer.projected(h)
            kernels.kept(wide, layer.head_gains, keys, values, at, turns)
            q = wide[:, : h.shape[1]].reshape(len(h), len(keys), -1)
            if number == len(self.layers) - 1:  # nobody asks for the others' results
                h, q, later = h[-1:], q[-1:], None
            mixed, _ = attend(q.transpose(1, 2, 0), keys, values, tokens, later)
            h = layer.gone_on(h, mixed)
        return h
