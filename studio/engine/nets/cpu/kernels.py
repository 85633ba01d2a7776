"""Compiled CPU kernels: linear layers, a decoder's token, a vocoder's block.

A row's result does not depend on its batch (law 3): each number of a product is one sum in one order for any number of
rows, and all else runs row by row through the same instructions. A weight is read once for all rows.

All in this file, because numba's cache of a function does not notice changes in another one (except ``tiles``).
"""

import numpy as np
from torch import Tensor

from studio.engine.nets.cpu.jit import cached_njit
from studio.engine.nets.cpu.tiles import PANEL, tile_of_1, tile_of_1_by_2, tile_of_2, tile_of_3, widen_panel

_LOWEST, _HALF, _ONE = np.float32(-87.0), np.float32(0.5), np.float32(1.0)
_LOG2_E = np.float32(1.44269504)
_LN2_HIGH, _LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)  # their sum; the first times 2^n is exact
_ROOT_HALF = np.float32(0.70710678)


@cached_njit
def _matmul_panel(x, weight, panel, out, out_panel):
    """Rows [N, >= K] times one panel, into panel ``out_panel`` of [N, P * PANEL]."""
    rows = len(x)
    row = 0
    while rows - row > 4 or rows - row == 3:
        tile_of_3(x, row, weight, panel, out, out_panel)
        row += 3
    while rows - row >= 2:
        tile_of_2(x, row, weight, panel, out, out_panel)
        row += 2
    if row < rows:
        tile_of_1(x, row, weight, panel, out, out_panel)


@cached_njit
def matmul(x, weight, out):
    """Rows [N, >= K] times a weight in panels [P, K, PANEL] into [N, P * PANEL]."""
    panels = len(weight)
    if len(x) == 1:
        for panel in range(0, panels - 1, 2):
            tile_of_1_by_2(x, 0, weight, panel, out, panel)
        if panels % 2:
            tile_of_1(x, 0, weight, panels - 1, out, panels - 1)
    elif weight.itemsize == 4 or len(x) == 2 or len(x) == 4:
        for panel in range(panels):
            _matmul_panel(x, weight, panel, out, panel)
    else:
        wide = np.empty((1, weight.shape[1], PANEL), np.float32)
        for panel in range(panels):
            widen_panel(weight, panel, wide)
            _matmul_panel(x, wide, 0, out, panel)


@cached_njit
def linear(x, gain, weight, bias):
    """Rows [N, K], scaled by ``gain [K]``, times a weight in panels, and ``bias [O]``: [N, O]."""
    scaled = np.empty_like(x)
    for row in range(len(x)):
        for i in range(x.shape[1]):
            scaled[row, i] = x[row, i] * gain[i]
    whole = np.empty((len(x), len(weight) * PANEL), np.float32)
    matmul(scaled, weight, whole)
    out = np.empty((len(x), len(bias)), np.float32)
    for row in range(len(x)):
        for i in range(len(bias)):
            out[row, i] = whole[row, i] + bias[i]
    return out


@cached_njit
def exponential(x):
    """e to the power of a float32 up to 88, within some 2 units of the last place; below -87 nearly 0."""
    x = _LOWEST if x < _LOWEST else x  # NaN stays NaN
    whole = np.floor(x * _LOG2_E + _HALF)
    x = x - whole * _LN2_HIGH - whole * _LN2_LOW
    y = np.float32(1.9875691500e-4)
    y = y * x + np.float32(1.3981999507e-3)
    y = y * x + np.float32(8.3334519073e-3)
    y = y * x + np.float32(4.1665795894e-2)
    y = y * x + np.float32(1.6666665459e-1)
    y = y * x + np.float32(5.0000001201e-1)
    y = y * x * x + x + _ONE
    return y * np.int32((np.int32(whole) + np.int32(127)) << np.int32(23)).view(np.float32)


@cached_njit
def gelu(x):
    """x times the share of a normal distribution below it, within 1e-6 (Abramowitz and Stegun 7.1.26)."""
    z = abs(x) * _ROOT_HALF
    t = _ONE / (_ONE + np.float32(0.3275911) * z)
    y = np.float32(1.061405429)
    y = y * t - np.float32(1.453152027)
    y = y * t + np.float32(1.421413741)
    y = y * t - np.float32(0.284496736)
    y = y * t + np.float32(0.254829592)
    above = _HALF * y * t * exponential(-z * z)
    return x * (above if x < 0 else _ONE - above)


@cached_njit
def gelu_rows(x):
    """``gelu`` of each number of [N, D], in place."""
    for row in range(len(x)):
        for i in range(x.shape[1]):
            x[row, i] = gelu(x[row, i])


@cached_njit
def elu_rows(x, out):
    """x where it is positive, e to the power of x less 1 elsewhere; [N, D] into [N, D]."""
    for row in range(len(x)):
        for i in range(x.shape[1]):
            below = exponential(min(x[row, i], np.float32(0))) - _ONE
            out[row, i] = max(x[row, i], np.float32(0)) + below


@cached_njit
def unit(x, gain, out):
    """Rows [N, D], each divided by its length and scaled by [D]."""
    for row in range(len(x)):
        square = np.float32(0)
        for i in range(x.shape[1]):
            square += x[row, i] * x[row, i]
        scale = _ONE / np.sqrt(square)
        for i in range(x.shape[1]):
            out[row, i] = x[row, i] * scale * gain[i]


@cached_njit
def attention_layer(h, qkv, gain, head_gains, out, keys, values, rows, starts, lengths, rotations):
    """Add self-attention to the newest tokens of rows, [N, D], and append their K and V.

    Args:
        qkv, out: in panels.
        gain: [D], of the norm; ``head_gains`` [2, d] of queries and keys.
        keys, values: a ring of each slot, [slots, H, S, d].
        rows: int64 [N], the slots; ``starts``, ``lengths`` int64 [slots], without the new token.
        rotations: of each token, float32 [N, d], cosine and sine in rotation.
    """
    count, width = h.shape
    heads, ring, d = keys.shape[1:]
    x = np.empty((count, width), np.float32)
    unit(h, gain, x)
    wide = np.empty((count, len(qkv) * PANEL), np.float32)
    matmul(x, qkv, wide)
    longest = 0
    for b in range(count):
        longest = max(longest, lengths[rows[b]] + 1 - starts[rows[b]])
    scores = np.empty(longest, np.float32)
    for b in range(count):
        slot = rows[b]
        at, begin, held = lengths[slot] % ring, starts[slot] % ring, lengths[slot] + 1 - starts[slot]
        _store_token(wide[b], head_gains, keys[slot], values[slot], at, rotations[b])
        for head in range(heads):
            q = wide[b, head * d : (head + 1) * d]
            _attend_ring(q, keys[slot, head], values[slot, head], begin, held, scores, x[b, head * d : (head + 1) * d])
    projected = np.empty((count, len(out) * PANEL), np.float32)
    matmul(x, out, projected)
    for b in range(count):
        for i in range(width):
            h[b, i] += projected[b, i]


@cached_njit
def store_keys_values(wide, head_gains, keys, values, first, rotations):
    """Normalise and rotate queries and keys of tokens [N, >= 3 D] of one row, and store K and V.

    Args:
        keys, values: the row's ring, [H, S, d].
        first: the first token's position; ``rotations`` of each, float32 [N, d].
    """
    for token in range(len(wide)):
        _store_token(wide[token], head_gains, keys, values, (first + token) % keys.shape[1], rotations[token])


@cached_njit
def attend_tokens(wide, keys, values, start, first, out):
    """Attention of tokens [N, >= D] of one row, into [N, D]; the order of sums does not depend on N.

    Args:
        keys, values: the row's ring, [H, S, d], with these tokens; ``start`` the oldest token.
        first: the first token's position.
    """
    heads, ring, d = keys.shape
    scores = np.empty(first + len(wide) - start, np.float32)
    for token in range(len(wide)):
        held = first + token + 1 - start
        for head in range(heads):
            part = slice(head * d, (head + 1) * d)
            _attend_ring(wide[token, part], keys[head], values[head], start % ring, held, scores, out[token, part])


@cached_njit
def _store_token(wide, head_gains, keys, values, at, rotation):
    """Rotate a token's query and key [>= 3 D], and store key and value in the ring."""
    heads, _, d = keys.shape
    width = heads * d
    for head in range(heads):
        q, k = wide[head * d : (head + 1) * d], wide[width + head * d : width + (head + 1) * d]
        _rotate(q, head_gains[0], rotation)
        _rotate(k, head_gains[1], rotation)
        keys[head, at] = k
        values[head, at] = wide[2 * width + head * d : 2 * width + (head + 1) * d]


@cached_njit
def _rotate(x, gain, rotation):
    """A head's query or key [d], divided by its length, scaled and rotated."""
    square = np.float32(0)
    for i in range(len(x)):
        square += x[i] * x[i]
    scale = _ONE / np.sqrt(square)
    for i in range(0, len(x), 2):
        real, imaginary = x[i] * scale * gain[i], x[i + 1] * scale * gain[i + 1]
        x[i] = real * rotation[i] - imaginary * rotation[i + 1]
        x[i + 1] = real * rotation[i + 1] + imaginary * rotation[i]


@cached_njit
def _attend_ring(q, keys, values, begin, held, scores, out):
    """Attention of a query [d] over ``held`` tokens of a ring [S, d] from index ``begin`` on, into [d]."""
    ring = len(keys)
    first = min(held, ring - begin)
    best = _score(q, keys[begin : begin + first], scores[:first])
    if first < held:
        best = max(best, _score(q, keys[: held - first], scores[first:held]))
    total = np.float32(0)
    for t in range(held):
        scores[t] = exponential(scores[t] - best)
        total += scores[t]
    out[:] = 0
    _accumulate(scores[:first], values[begin : begin + first], out)
    if first < held:
        _accumulate(scores[first:held], values[: held - first], out)
    scale = _ONE / total
    for i in range(len(out)):
        out[i] *= scale


@cached_njit
def _score(q, keys, scores):
    best = np.float32(-np.inf)
    for t in range(len(keys)):
        score = np.float32(0)
        for i in range(len(q)):
            score += q[i] * keys[t, i]
        scores[t] = score
        best = max(best, score)
    return best


@cached_njit
def _accumulate(shares, values, out):
    for t in range(len(values)):
        share = shares[t]
        for i in range(len(out)):
            out[i] += share * values[t, i]


@cached_njit
def feed_forward_layer(h, up, gain, down):
    """Add the feed-forward with squared ReLU to tokens [N, D]."""
    count, width = h.shape
    x = np.empty((count, width), np.float32)
    unit(h, gain, x)
    wide = np.empty((count, len(up) * PANEL), np.float32)
    matmul(x, up, wide)
    for b in range(count):
        for i in range(wide.shape[1]):
            above = max(wide[b, i], np.float32(0))
            wide[b, i] = above * above
    projected = np.empty((count, len(down) * PANEL), np.float32)
    matmul(wide, down, projected)
    for b in range(count):
        for i in range(width):
            h[b, i] += projected[b, i]


@cached_njit
def decoder_step(h, qkv, gains, head_gains, out, up, up_gains, down, keys, values, rows, starts, lengths, rotations):
    """Run all layers over tokens [N, D], in place; a tuple of each argument of the two layer functions above."""
    for n in range(len(qkv)):
        attention_layer(
            h, qkv[n], gains[n], head_gains[n], out[n], keys[n], values[n], rows, starts, lengths, rotations
        )
        feed_forward_layer(h, up[n], up_gains[n], down[n])


@cached_njit
def layer_norm(x, eps, gain, bias, out):
    """Layer norm of rows [N, D]."""
    for row in range(len(x)):
        mean = np.float32(0)
        for i in range(x.shape[1]):
            mean += x[row, i]
        mean /= np.float32(x.shape[1])
        square = np.float32(0)
        for i in range(x.shape[1]):
            square += (x[row, i] - mean) * (x[row, i] - mean)
        scale = _ONE / np.sqrt(square / np.float32(x.shape[1]) + eps)
        for i in range(x.shape[1]):
            out[row, i] = (x[row, i] - mean) * scale * gain[i] + bias[i]


@cached_njit
def causal_block(x, tail, taps, eps, gain, shift, wide, wide_bias, narrow, narrow_bias):
    """A ``CausalBlock`` over [B, T, C] after ``tail [B, kernel - 1, C]``, which is updated. Returns [B, T, C].

    Args:
        taps: [kernel, C]; ``eps``, ``gain`` and ``shift`` of the norm.
        wide, narrow: in panels; their biases.
    """
    rows, steps, width = x.shape
    kernel = len(taps)
    mixed = np.zeros((rows * steps, width), np.float32)
    for b in range(rows):
        for t in range(steps):
            for k in range(kernel):
                step = t + k - (kernel - 1)
                before = x[b, step] if step >= 0 else tail[b, kernel - 1 + step]
                for i in range(width):
                    mixed[b * steps + t, i] += before[i] * taps[k, i]
        for k in range(kernel - 1):  # the oldest first, so that none is read after it was overwritten
            step = steps + k - (kernel - 1)
            tail[b, k] = x[b, step] if step >= 0 else tail[b, kernel - 1 + step]
    layer_norm(mixed, eps, gain, shift, mixed)
    inner = np.empty((rows * steps, len(wide) * PANEL), np.float32)
    matmul(mixed, wide, inner)
    for row in range(len(inner)):
        for i in range(len(wide_bias)):
            inner[row, i] = gelu(inner[row, i] + wide_bias[i])
    projected = np.empty((rows * steps, len(narrow) * PANEL), np.float32)
    matmul(inner, narrow, projected)
    out = np.empty_like(x)
    for b in range(rows):
        for t in range(steps):
            for i in range(width):
                out[b, t, i] = x[b, t, i] + projected[b * steps + t, i] + narrow_bias[i]
    return out


class PanelLinear:
    """A linear layer whose rows do not depend on each other (law 3), float32 in and out.

    A weight that is exact in bfloat16, as in most voices' files, is stored so: half the bytes to read, which is what a
    single row costs. The arithmetic is float32 either way.

    Args:
        weight: float32 [O, D].
        bias: [O]; none unless given.
        gain: [D], of the norm before it, applied to the input: folded into the weight, it would not be exact in
            bfloat16.

    Attributes:
        depth: D.
        weight_bytes: bytes to read for a row, without padding.
        panels: the weight as [panels, D, 32], float32, or bfloat16 as uint16; columns beyond O are 0.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None = None, gain: Tensor | None = None) -> None:
        self._outputs, self.depth = weight.shape
        columns = -(-self._outputs // PANEL) * PANEL
        padded = np.zeros((columns, self.depth), np.float32)
        padded[: self._outputs] = weight.detach().numpy()
        bits = padded.view(np.uint32)
        is_half = not (bits & 0xFFFF).any()
        panels = (bits >> 16).astype(np.uint16) if is_half else padded
        panels = panels.reshape(-1, PANEL, self.depth).swapaxes(1, 2)
        if is_half:  # of sixteen columns, each of the first eight is next to one of the others: a word holds both
            panels = panels.reshape(*panels.shape[:2], -1, 2, 8).swapaxes(3, 4).reshape(panels.shape)
        self.panels = np.ascontiguousarray(panels)
        biases = 0 if bias is None else self._outputs
        self.weight_bytes = self._outputs * self.depth * panels.itemsize + 4 * biases
        self.bias = np.zeros(self._outputs, np.float32) if bias is None else bias.detach().numpy().copy()
        self.gain = np.ones(self.depth, np.float32) if gain is None else gain.detach().numpy().copy()

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """float32 [..., D] -> [..., O]."""
        rows = np.ascontiguousarray(x.reshape(-1, x.shape[-1]))
        return linear(rows, self.gain, self.panels, self.bias).reshape(*x.shape[:-1], self._outputs)
