"""Compiled CPU kernels: linear layers, a decoder's token, a vocoder's block.

A row's result does not depend on its batch (law 3): each number of a product is one sum in one order for any number of
rows, and all else runs row by row through the same instructions. A weight is read once for all rows.

One file, because numba's cache of a function does not notice changes in another file.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from studio.engine.nets.cpu.jit import cached_njit

PANEL = 32  # adjacent columns of a weight: four registers of eight
_LANES = 8
_LINE_BYTES, _AHEAD_BYTES = 64, 8192  # of a cache, and the prefetch distance
_MAX_TILE_ROWS = 3  # twelve sums, three inputs and a weight fill the sixteen registers of AVX2

_I32, _I64, _F32 = ir.IntType(32), ir.IntType(64), ir.FloatType()
_REGISTER = ir.VectorType(_F32, _LANES)

_LOWEST, _HALF, _ONE = np.float32(-87.0), np.float32(0.5), np.float32(1.0)
_LOG2_E = np.float32(1.44269504)
_LN2_HIGH, _LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)  # their sum; the first times 2^n is exact
_ROOT_HALF = np.float32(0.70710678)


def _tile(rows: int, panels: int) -> Any:
    """A function that multiplies ``rows`` rows by ``panels`` panels, with all sums in registers.

    Its arguments are contiguous arrays: (x [N, >= K], first row, weight [P, K, PANEL] float32 or bfloat16 as uint16,
    first panel, out [N, P' * PANEL], first panel of the output).
    """

    @intrinsic
    def tile(
        typing: Any,
        x: types.Array,
        first: types.Integer,
        weight: types.Array,
        panel: types.Integer,
        out: types.Array,
        place: types.Integer,
    ) -> Any:
        is_half = weight.dtype == types.uint16
        step_bytes = PANEL * (2 if is_half else 4)

        def generate(context: Any, b: ir.IRBuilder, signature: Any, args: Any) -> Any:
            arrays = [
                context.make_array(kind)(context, b, value)
                for kind, value in ((x, args[0]), (weight, args[2]), (out, args[4]))
            ]
            (x_at, w_at, out_at) = (b.ptrtoint(one.data, _I64) for one in arrays)
            sizes = [cgutils.unpack_tuple(b, one.shape) for one in arrays]
            x_row, out_row = (b.mul(sizes[one][1], _I64(4)) for one in (0, 2))
            depth = sizes[1][1]
            panel_bytes = b.mul(depth, _I64(step_bytes))
            w_at = b.add(w_at, b.mul(args[3], panel_bytes))
            x_at = b.add(x_at, b.mul(args[1], x_row))
            out_at = b.add(b.add(out_at, b.mul(args[1], out_row)), b.mul(args[5], _I64(PANEL * 4)))
            lanes = PANEL // _LANES
            sums = [[cgutils.alloca_once(b, _REGISTER) for _ in range(panels * lanes)] for _ in range(rows)]
            for one in (sum_ for row in sums for sum_ in row):
                b.store(ir.Constant(_REGISTER, [0.0] * _LANES), one)
            with cgutils.for_range(b, depth) as loop:
                here = b.add(x_at, b.mul(loop.index, _I64(4)))
                inputs = [_broadcast(b, b.add(here, b.mul(x_row, _I64(row)))) for row in range(rows)]
                for place in range(panels):
                    at = b.add(b.add(w_at, b.mul(panel_bytes, _I64(place))), b.mul(loop.index, _I64(step_bytes)))
                    for line in range(step_bytes // _LINE_BYTES):
                        _prefetch(b, b.add(at, _I64(_AHEAD_BYTES + line * _LINE_BYTES)))
                    for lane, numbers in enumerate(_weights(b, at, is_half), place * lanes):
                        for row in range(rows):
                            b.store(_fused_add(b, inputs[row], numbers, b.load(sums[row][lane])), sums[row][lane])
            for row in range(rows):
                here = b.add(out_at, b.mul(out_row, _I64(row)))
                for lane in range(panels * lanes):
                    to = b.inttoptr(b.add(here, _I64(lane * _LANES * 4)), _REGISTER.as_pointer())
                    b.store(b.load(sums[row][lane]), to, align=4)
            return context.get_dummy_value()

        return types.void(x, types.int64, weight, types.int64, out, types.int64), generate

    return tile


def _broadcast(b: ir.IRBuilder, address: Any) -> Any:
    """One number in all lanes of a register."""
    none, index = ir.Constant(_REGISTER, ir.Undefined), ir.VectorType(_I32, _LANES)
    one = b.insert_element(none, b.load(b.inttoptr(address, _F32.as_pointer()), align=4), _I32(0))
    return b.shuffle_vector(one, none, ir.Constant(index, [0] * _LANES))


def _weights(b: ir.IRBuilder, address: Any, is_half: bool) -> Iterator[Any]:
    """A panel's weights of one input, eight at a time.

    bfloat16 is the upper half of a float32: sixteen are read as eight words whose lower halves are the first eight.
    """
    words = ir.VectorType(_I32, _LANES)
    for place in range(0, PANEL, 2 * _LANES if is_half else _LANES):
        if not is_half:
            yield b.load(b.inttoptr(b.add(address, _I64(4 * place)), _REGISTER.as_pointer()), align=4)
            continue
        loaded = b.load(b.inttoptr(b.add(address, _I64(2 * place)), words.as_pointer()), align=4)
        yield b.bitcast(b.shl(loaded, ir.Constant(words, [16] * _LANES)), _REGISTER)
        yield b.bitcast(b.and_(loaded, ir.Constant(words, [0xFFFF0000] * _LANES)), _REGISTER)


def _prefetch(b: ir.IRBuilder, address: Any) -> None:
    """Prefetch memory; harmless for an invalid address."""
    byte = ir.IntType(8).as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [byte, _I32, _I32, _I32])
    fetch = cgutils.get_or_insert_function(b.module, kind, "llvm.prefetch.p0i8")
    b.call(fetch, [b.inttoptr(address, byte), _I32(0), _I32(3), _I32(1)])


def _fused_add(b: ir.IRBuilder, input_: Any, weights: Any, sum_: Any) -> Any:
    """Multiply and add; fused where the CPU supports it, and then for every row."""
    kind = ir.FunctionType(_REGISTER, [_REGISTER] * 3)
    return b.call(cgutils.get_or_insert_function(b.module, kind, f"llvm.fmuladd.v{_LANES}f32"), [input_, weights, sum_])


_tile_of_1, _tile_of_2, _tile_of_3 = (_tile(rows, 1) for rows in range(1, _MAX_TILE_ROWS + 1))
_tile_of_1_by_2 = _tile(1, 2)  # four sums of one row alone would leave the adders idle


def _widen(typing: Any, weight: types.Array, panel: types.Integer, out: types.Array) -> Any:
    """Convert a panel of bfloat16 [P, K, PANEL] to float32 [1, K, PANEL]: three rows leave no register for it."""
    is_half = weight.dtype == types.uint16
    step_bytes = PANEL * (2 if is_half else 4)

    def generate(context: Any, b: ir.IRBuilder, signature: Any, args: Any) -> Any:
        arrays = [context.make_array(kind)(context, b, value) for kind, value in ((weight, args[0]), (out, args[2]))]
        w_at, out_at = (b.ptrtoint(one.data, _I64) for one in arrays)
        depth = cgutils.unpack_tuple(b, arrays[0].shape)[1]
        w_at = b.add(w_at, b.mul(args[1], b.mul(depth, _I64(step_bytes))))
        with cgutils.for_range(b, depth) as loop:
            at = b.add(w_at, b.mul(loop.index, _I64(step_bytes)))
            _prefetch(b, b.add(at, _I64(_AHEAD_BYTES)))
            to = b.add(out_at, b.mul(loop.index, _I64(PANEL * 4)))
            for lane, numbers in enumerate(_weights(b, at, is_half)):
                b.store(numbers, b.inttoptr(b.add(to, _I64(lane * _LANES * 4)), _REGISTER.as_pointer()), align=4)
        return context.get_dummy_value()

    return types.void(weight, types.int64, out), generate


_widen_panel: Any = intrinsic(_widen)


@cached_njit
def _matmul_panel(x, weight, panel, out, place):
    """Rows [N, >= K] times one panel, into panel ``place`` of [N, P * PANEL]."""
    rows = len(x)
    row = 0
    while rows - row > 4 or rows - row == 3:
        _tile_of_3(x, row, weight, panel, out, place)
        row += 3
    while rows - row >= 2:
        _tile_of_2(x, row, weight, panel, out, place)
        row += 2
    if row < rows:
        _tile_of_1(x, row, weight, panel, out, place)


@cached_njit
def matmul(x, weight, out):
    """Rows [N, >= K] times a weight in panels [P, K, PANEL] into [N, P * PANEL]."""
    panels = len(weight)
    if len(x) == 1:
        for panel in range(0, panels - 1, 2):
            _tile_of_1_by_2(x, 0, weight, panel, out, panel)
        if panels % 2:
            _tile_of_1(x, 0, weight, panels - 1, out, panels - 1)
    elif weight.itemsize == 4 or len(x) == 2 or len(x) == 4:
        for panel in range(panels):
            _matmul_panel(x, weight, panel, out, panel)
    else:
        wide = np.empty((1, weight.shape[1], PANEL), np.float32)
        for panel in range(panels):
            _widen_panel(weight, panel, wide)
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
    """Add self-attention to the newest tokens of rows, [N, D], and append their keys and values.

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
    """Normalise and rotate queries and keys of tokens [N, >= 3 D] of one row, and store keys and values.

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
    for layer in range(len(qkv)):
        attention_layer(
            h,
            qkv[layer],
            gains[layer],
            head_gains[layer],
            out[layer],
            keys[layer],
            values[layer],
            rows,
            starts,
            lengths,
            rotations,
        )
        feed_forward_layer(h, up[layer], up_gains[layer], down[layer])


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
    """A ``CausalBlock`` over [B, T, C] after ``tail [B, kernel - 1, C]``, which is updated.

    Args:
        taps: [kernel, C]; ``eps``, ``gain`` and ``shift`` of the norm.
        wide, narrow: in panels; their biases.

    Returns:
        [B, T, C].
    """
    rows, steps, width = x.shape
    kernel = len(taps)
    mixed = np.zeros((rows * steps, width), np.float32)
    for b in range(rows):
        for t in range(steps):
            for k in range(kernel):
                place = t + k - (kernel - 1)
                before = x[b, place] if place >= 0 else tail[b, kernel - 1 + place]
                for i in range(width):
                    mixed[b * steps + t, i] += before[i] * taps[k, i]
        for k in range(kernel - 1):  # the oldest first, so that none is read after it was overwritten
            place = steps + k - (kernel - 1)
            tail[b, k] = x[b, place] if place >= 0 else tail[b, kernel - 1 + place]
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
