"""Many tokens of one row through a decoder, on a CPU over the slots' own memory."""

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from studio.engine.compiled import kernels
from studio.engine.nets.one_token import TokenLayer, attend, unit
from studio.engine.nets.products import Packed, one_blas_thread
from studio.engine.nets.slots import KeyValueSlots

EARLY_TOKENS = 64  # of a row: what is read ahead of a first segment, and a sum in one order costs little


class StretchLayer(Protocol):
    """One block's weights for many tokens of one row.

    Attributes:
        head_gains: of queries and keys, [2, d].
        is_exact: whether a token comes out the same whichever others it is run with.
    """

    is_exact: bool

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

    is_exact = True

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

    is_exact = False

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
        is_exact: whether the first ``EARLY_TOKENS`` of a row come out the same however they are cut into stretches.
    """

    def __init__(self, layers: Sequence[StretchLayer], heads: int, turns: Callable[[int, int], np.ndarray]) -> None:
        one_blas_thread()
        self.layers, self._turns = layers, turns
        self.is_exact = all(layer.is_exact for layer in layers)
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
            if number == len(self.layers) - 1:  # nobody asks for the others' results
                h, wide, later = h[-1:], wide[-1:], None
            h = layer.gone_on(h, self._attended(wide, keys, values, tokens, later))
        return h

    def _attended(
        self, wide: np.ndarray, keys: np.ndarray, values: np.ndarray, tokens: range, later: np.ndarray | None
    ) -> np.ndarray:
        """What the queries [N, >= D] of the last of the tokens attend to, [N, D]; ``later`` as of ``attend``."""
        count, (heads, _, d) = len(wide), keys.shape
        first = tokens.stop - count
        early = min(max(EARLY_TOKENS - first, 0), count) if self.is_exact else 0
        mixed = np.empty((count, heads * d), np.float32)
        if early:  # whole rows, which lie together for any number of them: else one would be summed in another order
            kernels.seen(wide[:early], keys, values, tokens.start, first, mixed[:early])
        if early < count:
            q = wide[early:, : heads * d].reshape(count - early, heads, d).transpose(1, 2, 0)
            mixed[early:], _ = attend(q, keys, values, tokens, None if later is None else later[early:])
        return mixed
