"""Many tokens of one row through a decoder, on a CPU over the KV cache."""

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from studio.engine.nets.cpu import kernels
from studio.engine.nets.cpu.decode import CpuDecodeLayer, attend, unit
from studio.engine.nets.cpu.threads import limit_blas_to_one_thread
from studio.engine.nets.kv_cache import KVCache
from studio.engine.nets.linear import PackedLinear

EXACT_TOKENS = 64  # of a row: what is prefilled ahead of a first segment, where a fixed order of sums costs little


class PrefillLayer(Protocol):
    """One block's weights for many tokens of one row.

    Attributes:
        head_gains: of queries and keys, [2, d].
        is_exact: whether a token's result does not depend on the other tokens of the run, bit for bit.
    """

    is_exact: bool

    @property
    def head_gains(self) -> np.ndarray: ...

    def project(self, h: np.ndarray) -> np.ndarray:
        """Queries, keys and values [N, >= 3 D] of [N, D], channel pairs of the first two side by side."""
        ...

    def finish(self, h: np.ndarray, mixed: np.ndarray) -> np.ndarray:
        """Add attention and feed-forward to [N, D]."""
        ...


class CompiledPrefillLayer:
    """By the compiled kernels, with the weights of the decode layer."""

    is_exact = True

    def __init__(self, layer: CpuDecodeLayer) -> None:
        self._layer, self.head_gains = layer, layer.head_gains

    def project(self, h: np.ndarray) -> np.ndarray:
        """See ``PrefillLayer``."""
        return self._layer.qkv(unit(h))

    def finish(self, h: np.ndarray, mixed: np.ndarray) -> np.ndarray:
        """See ``PrefillLayer``."""
        h = h + self._layer.out(mixed)
        self._layer.feed(h)
        return h


class PackedPrefillLayer:
    """By oneDNN's kernels; the gains of norms are folded into the weights."""

    is_exact = False

    def __init__(
        self, head_gains: np.ndarray, qkv: PackedLinear, out: PackedLinear, up: PackedLinear, down: PackedLinear
    ) -> None:
        self.head_gains, self._qkv, self._out, self._up, self._down = head_gains, qkv, out, up, down

    def project(self, h: np.ndarray) -> np.ndarray:
        """See ``PrefillLayer``."""
        return self._qkv(unit(h))

    def finish(self, h: np.ndarray, mixed: np.ndarray) -> np.ndarray:
        """See ``PrefillLayer``."""
        h = h + self._out(mixed)
        wide = self._up(unit(h))
        np.maximum(wide, 0.0, out=wide)
        wide *= wide
        return h + self._down(wide)


class CpuPrefill:
    """Runs layers over slots of a KV cache.

    Args:
        rotations: (position, count) -> complex64 [count, d / 2].

    Attributes:
        is_exact: whether the first ``EXACT_TOKENS`` of a row do not depend on how they are split into runs.
    """

    def __init__(self, layers: Sequence[PrefillLayer], heads: int, rotations: Callable[[int, int], np.ndarray]) -> None:
        limit_blas_to_one_thread()
        self.layers, self._rotations = layers, rotations
        self.is_exact = all(layer.is_exact for layer in layers)
        d = layers[0].head_gains.shape[1]
        dummy = [(np.zeros((heads, 1, d), np.float32), np.zeros((heads, 1, d), np.float32)) for _ in layers]
        self._run(np.ones((1, heads * d), np.float32), range(1), dummy)  # compile now, before the first utterance

    def extend(self, h: np.ndarray, slots: KVCache, row: int) -> np.ndarray:
        """Run T tokens of one row, [T, D], and append their keys and values.

        Returns:
            The last token's hidden state divided by its length, [1, D].
        """
        tokens = range(int(slots.start[row]), int(slots.length[row]) + len(h))
        slots.check_room(tokens.start, tokens.stop)
        h = self._run(h, tokens, [(keys[row], values[row]) for keys, values in slots.arrays])
        slots.length[row] = tokens.stop
        return unit(h)

    @np.errstate(all="ignore")  # NotFinite is raised where results are read
    def _run(self, h: np.ndarray, tokens: range, caches: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
        """The result of the last token, [1, D].

        Args:
            h: [T, D], the last of ``tokens``.
            tokens: all that the slot holds afterwards.
            caches: keys and values of the slot in each layer, [H, S, d].
        """
        at = tokens.stop - len(h)
        rotations = self._rotations(at, len(h)).view(np.float32)
        mask = np.triu(np.full((len(h), len(tokens)), -np.inf, np.float32), len(tokens) - len(h) + 1)
        for number, (layer, (keys, values)) in enumerate(zip(self.layers, caches, strict=True)):
            wide = layer.project(h)
            kernels.store_keys_values(wide, layer.head_gains, keys, values, at, rotations)
            if number == len(self.layers) - 1:  # the other tokens' results are not used
                h, wide, mask = h[-1:], wide[-1:], None
            h = layer.finish(h, self._attend(wide, keys, values, tokens, mask))
        return h

    def _attend(
        self, wide: np.ndarray, keys: np.ndarray, values: np.ndarray, tokens: range, mask: np.ndarray | None
    ) -> np.ndarray:
        """Attention of the queries [N, >= D] of the last tokens, [N, D]; ``mask`` as in ``attend``."""
        count, (heads, _, d) = len(wide), keys.shape
        first = tokens.stop - count
        exact = min(max(EXACT_TOKENS - first, 0), count) if self.is_exact else 0
        mixed = np.empty((count, heads * d), np.float32)
        if exact:  # whole rows, contiguous for any number of them: else one would be summed in another order
            kernels.attend_tokens(wide[:exact], keys, values, tokens.start, first, mixed[:exact])
        if exact < count:
            q = wide[exact:, : heads * d].reshape(count - exact, heads, d).transpose(1, 2, 0)
            mixed[exact:], _ = attend(q, keys, values, tokens, None if mask is None else mask[exact:])
        return mixed
