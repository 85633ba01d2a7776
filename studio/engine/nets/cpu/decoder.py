"""A decoder on a CPU over the KV cache: one token of each row, and many tokens of one row.

At these sizes a token costs calls, not arithmetic: here a layer is two calls, or the whole decoder is one. A row's
result does not depend on its batch (law 3).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from studio.engine.nets.cpu import kernels
from studio.engine.nets.cpu.kernels import PanelLinear
from studio.engine.nets.cpu.threads import limit_blas_to_one_thread, run_in_halves
from studio.engine.nets.kv_cache import KVCache
from studio.engine.nets.linear import PackedLinear

# A decoder's cross-attention: (layer, [N, D]) -> [N, D].
ArrayBetween = Callable[[int, np.ndarray], np.ndarray] | None
ArrayPair = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class CpuDecodeLayer:
    """One block's weights.

    Attributes:
        qkv: [D] -> [3 D], channel pairs of queries and keys side by side, with the gain of the norm before it.
        head_gains: of queries and keys, [2, d].
        out, up, down: [D] -> [D] -> [F] -> [D]; ``up`` with the gain of the norm before it.
    """

    qkv: PanelLinear
    head_gains: np.ndarray
    out: PanelLinear
    up: PanelLinear
    down: PanelLinear

    @property
    def weights(self) -> tuple[PanelLinear, ...]:
        """The four linear layers."""
        return self.qkv, self.out, self.up, self.down

    def attend(
        self, h: np.ndarray, cache: ArrayPair, rows: np.ndarray, bounds: ArrayPair, rotations: np.ndarray
    ) -> None:
        """Add self-attention to tokens, in place, and append their K and V: see ``kernels.attention_layer``.

        Args:
            cache: K and V, [slots, H, S, d] each.
            bounds: int64 [slots], the first token that each slot holds, and the number ever written.
        """
        qkv, out = self.qkv, self.out
        kernels.attention_layer(
            h, qkv.panels, qkv.gain, self.head_gains, out.panels, cache[0], cache[1], rows, *bounds, rotations
        )

    def feed(self, h: np.ndarray) -> None:
        """Add the feed-forward, in place."""
        kernels.feed_forward_layer(h, self.up.panels, self.up.gain, self.down.panels)

    def compile(self) -> None:
        """Compile the kernels by running a dummy token."""
        h, cache, rows, bounds, rotations = self.dummy_inputs()
        self.attend(h, cache, rows, bounds, rotations)
        self.feed(h)

    def dummy_inputs(self) -> tuple[np.ndarray, ArrayPair, np.ndarray, ArrayPair, np.ndarray]:
        """Arguments of ``attend`` for one token of an unused slot."""
        depth, d = self.out.depth, self.head_gains.shape[1]
        cache = (np.zeros((1, depth // d, 1, d), np.float32), np.zeros((1, depth // d, 1, d), np.float32))
        zero = np.zeros(1, np.int64)
        return np.ones((1, depth), np.float32), cache, zero, (zero, zero), np.ones((1, d), np.float32)


class _FusedLayers:
    """All layers in one call, so that two halves of a batch can run on two cores."""

    def __init__(self, layers: Sequence[CpuDecodeLayer]) -> None:
        self._first = layers[0]
        self._weights = (
            tuple(one.qkv.panels for one in layers),
            tuple(one.qkv.gain for one in layers),
            tuple(one.head_gains for one in layers),
            tuple(one.out.panels for one in layers),
            tuple(one.up.panels for one in layers),
            tuple(one.up.gain for one in layers),
            tuple(one.down.panels for one in layers),
        )
        self._products = sum(weight.panels.size for one in layers for weight in one.weights)

    def run(
        self, h: np.ndarray, caches: Sequence[ArrayPair], rows: np.ndarray, bounds: ArrayPair, rotations: np.ndarray
    ) -> None:
        """See ``CpuDecodeLayer``; ``caches`` has one entry per layer."""
        keys, values = tuple(one[0] for one in caches), tuple(one[1] for one in caches)

        def run_rows(first: int, last: int) -> None:
            part = slice(first, last)
            kernels.decoder_step(h[part], *self._weights, keys, values, rows[part], *bounds, rotations[part])

        run_in_halves(len(h), self._products, run_rows)

    def compile(self) -> None:
        """Compile the kernel by running a dummy token."""
        h, cache, rows, bounds, rotations = self._first.dummy_inputs()
        self.run(h, [cache] * len(self._weights[0]), rows, bounds, rotations)


def unit(x: np.ndarray) -> np.ndarray:
    """Vectors [..., D] divided by their lengths."""
    return x / np.sqrt(np.vecdot(x, x))[..., None]


class CpuDecodeStep:
    """Runs layers over slots of a KV cache.

    Args:
        rotations: (position, count) -> complex64 [count, d / 2].
    """

    def __init__(self, layers: Sequence[CpuDecodeLayer], rotations: Callable[[int, int], np.ndarray]) -> None:
        limit_blas_to_one_thread()
        self._layers, self._rotations = layers, rotations
        dtypes = {tuple(weight.panels.dtype for weight in one.weights) for one in layers}
        self._fused = _FusedLayers(layers) if len(dtypes) == 1 else None  # the fused kernel needs one type per tuple
        for layer in layers:  # compile now, before the first utterance
            layer.compile()
        if self._fused is not None:
            self._fused.compile()

    @np.errstate(all="ignore")  # NotFinite is raised where results are read
    def extend(self, h: np.ndarray, slots: KVCache, rows: Sequence[int], between: ArrayBetween = None) -> np.ndarray:
        """Run a token of each row, [N, D], and append its K and V.

        Returns:
            The tokens' hidden states divided by their lengths, [N, D].
        """
        numbers, (start, length) = np.array(rows), slots.bounds_arrays
        for row in rows:
            slots.check_room(int(start[row]), int(length[row]) + 1)
        rotations = np.concatenate([self._rotations(int(length[row]), 1) for row in rows]).view(np.float32)
        h = h.copy()
        if between is None and self._fused is not None:
            self._fused.run(h, slots.arrays, numbers, (start, length), rotations)
        else:
            for number, layer in enumerate(self._layers):
                layer.attend(h, slots.arrays[number], numbers, (start, length), rotations)
                if between is not None:
                    h = between(number, h)
                layer.feed(h)
        length[numbers] += 1
        return unit(h)


class CpuCrossAttention:
    """A trained cross-attention for one token of each row; see ``cached_decoder.CachedCrossAttention``.

    Args:
        query, out: [D] -> [D]; ``gain`` of queries, [d].
    """

    def __init__(self, layer: int, query: PanelLinear, gain: np.ndarray, out: PanelLinear) -> None:
        self._layer, self._query, self._gain, self._out = layer, query, gain, out

    def __call__(self, h: np.ndarray, slots: KVCache, rows: Sequence[int]) -> tuple[np.ndarray, list[np.ndarray]]:
        """Attend from [N, D] to the rows' slots: [N, D], and each row's attention shares, [H, T]."""
        q = unit(self._query(unit(h)).reshape(len(h), -1, len(self._gain)))
        q *= self._gain
        keys, values = slots.arrays[self._layer]
        mixed, row_shares = np.empty_like(h), list[np.ndarray]()
        for b, row in enumerate(rows):
            tokens = range(int(slots.start[row]), int(slots.length[row]))
            mixed[b : b + 1], shares = attend(q[b, :, :, None], keys[row], values[row], tokens)
            row_shares.append(shares[:, 0])
        return h + self._out(mixed), row_shares


def attend(
    q: np.ndarray, keys: np.ndarray, values: np.ndarray, tokens: range, mask: np.ndarray | None = None
) -> ArrayPair:
    """Attention of queries [H, d, Q] over some tokens of a ring [H, S, d]: [Q, D], and the shares [H, Q, T].

    Args:
        mask: [Q, T], minus infinity where a query must not attend, else 0.
    """
    first = tokens.start % keys.shape[1]
    fitting = min(len(tokens), keys.shape[1] - first)
    last, rest = slice(first, first + fitting), slice(0, len(tokens) - fitting)
    scores = keys[:, last] @ q
    if rest.stop:
        scores = np.concatenate((scores, keys[:, rest] @ q), axis=1)
    if mask is not None:
        scores += mask.T
    shares = np.exp(scores - scores.max(1, keepdims=True))
    shares /= shares.sum(1, keepdims=True)
    shares = shares.transpose(0, 2, 1)
    mixed = shares[:, :, :fitting] @ values[:, last]
    if rest.stop:
        mixed += shares[:, :, fitting:] @ values[:, rest]
    return mixed.swapaxes(0, 1).reshape(q.shape[2], -1), shares


EXACT_TOKENS = 64  # of a row: what is prefilled ahead of a first segment, where a fixed order of sums costs little


class CompiledPrefillLayer:
    """One block's weights for many tokens of one row: by the compiled kernels, with the weights of the decode layer.

    Attributes:
        head_gains: of queries and keys, [2, d].
        is_exact: whether a token's result does not depend on the other tokens of the run, bit for bit.
    """

    is_exact = True

    def __init__(self, layer: CpuDecodeLayer) -> None:
        self._layer, self.head_gains = layer, layer.head_gains

    def project(self, h: np.ndarray) -> np.ndarray:
        """Queries, K and V [N, >= 3 D] of [N, D], channel pairs of the first two side by side."""
        return self._layer.qkv(unit(h))

    def finish(self, h: np.ndarray, mixed: np.ndarray) -> np.ndarray:
        """Add attention and feed-forward to [N, D]."""
        h = h + self._layer.out(mixed)
        self._layer.feed(h)
        return h


class PackedPrefillLayer:
    """The same by oneDNN's kernels; the gains of norms are folded into the weights."""

    is_exact = False

    def __init__(
        self, head_gains: np.ndarray, qkv: PackedLinear, out: PackedLinear, up: PackedLinear, down: PackedLinear
    ) -> None:
        self.head_gains, self._qkv, self._out, self._up, self._down = head_gains, qkv, out, up, down

    def project(self, h: np.ndarray) -> np.ndarray:
        """See ``CompiledPrefillLayer``."""
        return self._qkv(unit(h))

    def finish(self, h: np.ndarray, mixed: np.ndarray) -> np.ndarray:
        """See ``CompiledPrefillLayer``."""
        h = h + self._out(mixed)
        wide = self._up(unit(h))
        np.maximum(wide, 0.0, out=wide)
        wide *= wide
        return h + self._down(wide)


PrefillLayer = CompiledPrefillLayer | PackedPrefillLayer


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
        """Run T tokens of one row, [T, D], and append their K and V.

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
            caches: K and V of the slot in each layer, [H, S, d].
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
