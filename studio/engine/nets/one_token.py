"""A decoder on a CPU over the slots' own memory: one token of each row, compiled.

At this size a token costs calls, not arithmetic: a layer is two of them here. A row's result does not depend on its
neighbours (law 3).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from studio.engine.compiled import kernels
from studio.engine.compiled.halves import in_halves
from studio.engine.compiled.panels import Panels
from studio.engine.nets.products import one_blas_thread
from studio.engine.nets.slots import KeyValueSlots

# A decoder's cross-attention: (layer, [N, D]) -> [N, D].
Between = Callable[[int, np.ndarray], np.ndarray] | None


@dataclass(frozen=True)
class TokenLayer:
    """One block's weights for a token of each row.

    Attributes:
        qkv: [D] -> [3 D], pairs of queries and keys side by side, with the gain of the norm before it.
        head_gains: of queries and keys, [2, d].
        out, up, down: [D] -> [D] -> [F] -> [D]; ``up`` with the gain of the norm before it.
    """

    qkv: Panels
    head_gains: np.ndarray
    out: Panels
    up: Panels
    down: Panels

    def attend(
        self,
        h: np.ndarray,
        memory: tuple[np.ndarray, np.ndarray],
        rows: np.ndarray,
        held: tuple[np.ndarray, np.ndarray],
        turns: np.ndarray,
    ) -> None:
        """Add to tokens what they attend to, in place, and keep their keys and values: see ``kernels.attended``.

        Args:
            memory: keys and values, [slots, H, S, d] each.
            held: int64 [slots], the first token that each slot holds, and how many were ever written.
        """
        qkv, out = self.qkv, self.out
        kernels.attended(
            h, qkv.numbers, qkv.gain, self.head_gains, out.numbers, memory[0], memory[1], rows, held[0], held[1], turns
        )

    def feed(self, h: np.ndarray) -> None:
        """Add the feed-forward, in place."""
        kernels.fed(h, self.up.numbers, self.up.gain, self.down.numbers)

    def run_once(self) -> None:
        """Run a token that is nobody's."""
        h, memory, rows, held, turns = self.nobodys()
        self.attend(h, memory, rows, held, turns)
        self.feed(h)

    def nobodys(
        self,
    ) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray], np.ndarray, tuple[np.ndarray, np.ndarray], np.ndarray]:
        """A token that is nobody's, and its memory, as ``attend`` takes them."""
        depth, d = self.out.depth, self.head_gains.shape[1]
        memory = (np.zeros((1, depth // d, 1, d), np.float32), np.zeros((1, depth // d, 1, d), np.float32))
        nobody = np.zeros(1, np.int64)
        return np.ones((1, depth), np.float32), memory, nobody, (nobody, nobody), np.ones((1, d), np.float32)


def _are_alike(layers: Sequence[TokenLayer]) -> bool:
    """Whether the weights of all layers are kept in the same way: what is compiled then takes them by number."""
    return len({tuple(w.numbers.dtype for w in (one.qkv, one.out, one.up, one.down)) for one in layers}) == 1


class _AllLayers:
    """All layers in one call, which no other thread has to wait for, so that halves of a batch run on two cores."""

    def __init__(self, layers: Sequence[TokenLayer]) -> None:
        self._first = layers[0]
        self._weights = (
            tuple(one.qkv.numbers for one in layers),
            tuple(one.qkv.gain for one in layers),
            tuple(one.head_gains for one in layers),
            tuple(one.out.numbers for one in layers),
            tuple(one.up.numbers for one in layers),
            tuple(one.up.gain for one in layers),
            tuple(one.down.numbers for one in layers),
        )
        self._products = sum(w.numbers.size for one in layers for w in (one.qkv, one.out, one.up, one.down))

    def run(
        self,
        h: np.ndarray,
        memory: Sequence[tuple[np.ndarray, np.ndarray]],
        rows: np.ndarray,
        held: tuple[np.ndarray, np.ndarray],
        turns: np.ndarray,
    ) -> None:
        """See ``TokenLayer``: of all layers what each takes, ``memory`` of each."""
        keys, values = tuple(one[0] for one in memory), tuple(one[1] for one in memory)

        def some(first: int, last: int) -> None:
            part = slice(first, last)
            kernels.stepped(h[part], *self._weights, keys, values, rows[part], *held, turns[part])

        in_halves(len(h), self._products, some)

    def run_once(self) -> None:
        """Run a token that is nobody's."""
        h, memory, rows, held, turns = self._first.nobodys()
        self.run(h, [memory] * len(self._weights[0]), rows, held, turns)


def unit(x: np.ndarray) -> np.ndarray:
    """Vectors [..., D] divided by their lengths."""
    return x / np.sqrt(np.vecdot(x, x))[..., None]


class TokenStep:
    """Runs layers over slots.

    Args:
        turns: of so many positions from one on, complex64 [positions, d / 2].
    """

    def __init__(self, layers: Sequence[TokenLayer], turns: Callable[[int, int], np.ndarray]) -> None:
        one_blas_thread()
        self._layers, self._turns = layers, turns
        self._all = _AllLayers(layers) if _are_alike(layers) else None
        for layer in layers:  # compiled now, so that nobody who is spoken to waits for it
            layer.run_once()
        if self._all is not None:
            self._all.run_once()

    @np.errstate(all="ignore")  # whoever reads what is no number says so
    def extend(self, h: np.ndarray, slots: KeyValueSlots, rows: Sequence[int], between: Between = None) -> np.ndarray:
        """Run a token of each row, [N, D], over what its slot holds, and keep its keys and values.

        Returns:
            The tokens' hidden states divided by their lengths, [N, D].
        """
        numbers, (start, length) = np.array(rows), slots.bounds_on_host
        for row in rows:
            slots.check_room(int(start[row]), int(length[row]) + 1)
        turns = np.concatenate([self._turns(int(length[row]), 1) for row in rows]).view(np.float32)
        h = h.copy()
        if between is None and self._all is not None:
            self._all.run(h, slots.on_host, numbers, (start, length), turns)
        else:
            for number, layer in enumerate(self._layers):
                layer.attend(h, slots.on_host[number], numbers, (start, length), turns)
                if between is not None:
                    h = between(number, h)
                layer.feed(h)
        length[numbers] += 1
        return unit(h)


class TokenCross:
    """A trained cross-attention for one token of each row; see ``nets.cross.LeanCross``.

    Args:
        query, out: [D] -> [D]; ``gain`` of queries, [d].
    """

    def __init__(self, layer: int, query: Panels, gain: np.ndarray, out: Panels) -> None:
        self._layer, self._query, self._gain, self._out = layer, query, gain, out

    def __call__(self, h: np.ndarray, slots: KeyValueSlots, rows: Sequence[int]) -> tuple[np.ndarray, list[np.ndarray]]:
        """Attend from [N, D] to all that the rows' slots hold: [N, D], and each row's shares of it, [H, T]."""
        q = unit(self._query(unit(h)).reshape(len(h), -1, len(self._gain)))
        q *= self._gain
        keys, values = slots.on_host[self._layer]
        mixed, found = np.empty_like(h), list[np.ndarray]()
        for b, row in enumerate(rows):
            held = range(int(slots.start[row]), int(slots.length[row]))
            mixed[b : b + 1], shares = attend(q[b, :, :, None], keys[row], values[row], held)
            found.append(shares[:, 0])
        return h + self._out(mixed), found


def attend(
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
