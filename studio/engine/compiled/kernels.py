"""What a frame costs on a CPU, compiled: products of rows with weights, a decoder's token, a vocoder's block.

A row's result does not depend on its neighbours (law 3): each number of a product is one sum in one order however many
rows there are, and all else runs row by row through the same instructions. A weight is read once for all rows.

One file, long as it is: what numba keeps on disk of a function is not told when something changes in another one.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from studio.engine.compiled.compiling import compiled

PANEL = 32  # columns of a weight that lie together: four registers of eight
_LANES = 8
_LINE_BYTES, _AHEAD_BYTES = 64, 8192  # of a cache, and how far weights are asked for before they are needed
_FEW = 3  # rows that share a read of a panel: twelve sums, three inputs and a weight fill the sixteen registers of AVX2

_I32, _I64, _F32 = ir.IntType(32), ir.IntType(64), ir.FloatType()
_REGISTER = ir.VectorType(_F32, _LANES)

_LOWEST, _HALF, _ONE = np.float32(-87.0), np.float32(0.5), np.float32(1.0)
_LOG2_E = np.float32(1.44269504)
_LN2_HIGH, _LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)  # their sum; the first times 2^n is exact
_ROOT_HALF = np.float32(0.70710678)


def _tile(rows: int, panels: int) -> Any:
    """A function that multiplies so many rows by so many panels, all sums in registers.

    It takes (x [N, >= K], the first of its rows, weight [P, K, PANEL] float32 or bfloat16 as uint16, the first of its
    panels, out [N, P' * PANEL], the panel of its columns), arrays that are contiguous, and writes the products there.
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
            given = [
                context.make_array(kind)(context, b, value)
                for kind, value in ((x, args[0]), (weight, args[2]), (out, args[4]))
            ]
            (x_at, w_at, out_at) = (b.ptrtoint(one.data, _I64) for one in given)
            sizes = [cgutils.unpack_tuple(b, one.shape) for one in given]
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
                inputs = [_spread(b, b.add(here, b.mul(x_row, _I64(row)))) for row in range(rows)]
                for place in range(panels):
                    at = b.add(b.add(w_at, b.mul(panel_bytes, _I64(place))), b.mul(loop.index, _I64(step_bytes)))
                    for line in range(step_bytes // _LINE_BYTES):
                        _called_for(b, b.add(at, _I64(_AHEAD_BYTES + line * _LINE_BYTES)))
                    for lane, numbers in enumerate(_weights(b, at, is_half), place * lanes):
                        for row in range(rows):
                            b.store(_added(b, inputs[row], numbers, b.load(sums[row][lane])), sums[row][lane])
            for row in range(rows):
                here = b.add(out_at, b.mul(out_row, _I64(row)))
                for lane in range(panels * lanes):
                    to = b.inttoptr(b.add(here, _I64(lane * _LANES * 4)), _REGISTER.as_pointer())
                    b.store(b.load(sums[row][lane]), to, align=4)
            return context.get_dummy_value()

        return types.void(x, types.int64, weight, types.int64, out, types.int64), generate

    return tile


def _spread(b: ir.IRBuilder, address: Any) -> Any:
    """One number in all lanes."""
    none, index = ir.Constant(_REGISTER, ir.Undefined), ir.VectorType(_I32, _LANES)
    one = b.insert_element(none, b.load(b.inttoptr(address, _F32.as_pointer()), align=4), _I32(0))
    return b.shuffle_vector(one, none, ir.Constant(index, [0] * _LANES))


def _weights(b: ir.IRBuilder, address: Any, is_half: bool) -> Iterator[Any]:
    """A panel's weights of one input, eight after eight.

    bfloat16 is the upper half of a float32: sixteen are read as eight words, whose lower halves are the first eight.
    """
    words = ir.VectorType(_I32, _LANES)
    for place in range(0, PANEL, 2 * _LANES if is_half else _LANES):
        if not is_half:
            yield b.load(b.inttoptr(b.add(address, _I64(4 * place)), _REGISTER.as_pointer()), align=4)
            continue
        loaded = b.load(b.inttoptr(b.add(address, _I64(2 * place)), words.as_pointer()), align=4)
        yield b.bitcast(b.shl(loaded, ir.Constant(words, [16] * _LANES)), _REGISTER)
        yield b.bitcast(b.and_(loaded, ir.Constant(words, [0xFFFF0000] * _LANES)), _REGISTER)


def _called_for(b: ir.IRBuilder, address: Any) -> None:
    """Ask for memory that will be read soon; of no consequence where it is nobody's."""
    byte = ir.IntType(8).as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [byte, _I32, _I32, _I32])
    fetch = cgutils.get_or_insert_function(b.module, kind, "llvm.prefetch.p0i8")
    b.call(fetch, [b.inttoptr(address, byte), _I32(0), _I32(3), _I32(1)])


def _added(b: ir.IRBuilder, input_: Any, weights: Any, sum_: Any) -> Any:
    """A product added to a sum: fused where the CPU can, and then for every row."""
    kind = ir.FunctionType(_REGISTER, [_REGISTER] * 3)
    return b.call(cgutils.get_or_insert_function(b.module, kind, f"llvm.fmuladd.v{_LANES}f32"), [input_, weights, sum_])


_tile_of_1, _tile_of_2, _tile_of_3 = (_tile(rows, 1) for rows in range(1, _FEW + 1))
_tile_of_1_by_2 = _tile(1, 2)  # one row alone would wait for each of its four sums


def _widen(typing: Any, weight: types.Array, panel: types.Integer, out: types.Array) -> Any:
    """A panel of bfloat16 [P, K, PANEL] as float32 [1, K, PANEL]: sums of three rows leave no register to do it in."""
    is_half = weight.dtype == types.uint16
    step_bytes = PANEL * (2 if is_half else 4)

    def generate(context: Any, b: ir.IRBuilder, signature: Any, args: Any) -> Any:
        given = [context.make_array(kind)(context, b, value) for kind, value in ((weight, args[0]), (out, args[2]))]
        w_at, out_at = (b.ptrtoint(one.data, _I64) for one in given)
        depth = cgutils.unpack_tuple(b, given[0].shape)[1]
        w_at = b.add(w_at, b.mul(args[1], b.mul(depth, _I64(step_bytes))))
        with cgutils.for_range(b, depth) as loop:
            at = b.add(w_at, b.mul(loop.index, _I64(step_bytes)))
            _called_for(b, b.add(at, _I64(_AHEAD_BYTES)))
            to = b.add(out_at, b.mul(loop.index, _I64(PANEL * 4)))
            for lane, numbers in enumerate(_weights(b, at, is_half)):
                b.store(numbers, b.inttoptr(b.add(to, _I64(lane * _LANES * 4)), _REGISTER.as_pointer()), align=4)
        return context.get_dummy_value()

    return types.void(weight, types.int64, out), generate


_widened: Any = intrinsic(_widen)


@compiled
def _panel_times(x, weight, panel, out, place):
    """Rows [N, >= K] times a panel of a weight, into the columns of ``place`` of [N, P * PANEL]."""
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


@compiled
def times(x, weight, out):
    """Rows [N, >= K] times a weight in panels [P, K, PANEL] into [N, P * PANEL]."""
    panels = len(weight)
    if len(x) == 1:
        for panel in range(0, panels - 1, 2):
            _tile_of_1_by_2(x, 0, weight, panel, out, panel)
        if panels % 2:
            _tile_of_1(x, 0, weight, panels - 1, out, panels - 1)
    elif weight.itemsize == 4 or len(x) == 2 or len(x) == 4:
        for panel in range(panels):
            _panel_times(x, weight, panel, out, panel)
    else:
        wide = np.empty((1, weight.shape[1], PANEL), np.float32)
        for panel in range(panels):
            _widened(weight, panel, wide)
            _panel_times(x, wide, 0, out, panel)


@compiled
def linear(x, gain, weight, bias):
    """Rows [N, K], scaled by ``gain [K]``, times a weight in panels, and ``bias [O]``: [N, O]."""
    scaled = np.empty_like(x)
    for row in range(len(x)):
        for i in range(x.shape[1]):
            scaled[row, i] = x[row, i] * gain[i]
    whole = np.empty((len(x), len(weight) * PANEL), np.float32)
    times(scaled, weight, whole)
    out = np.empty((len(x), len(bias)), np.float32)
    for row in range(len(x)):
        for i in range(len(bias)):
            out[row, i] = whole[row, i] + bias[i]
    return out


@compiled
def exponential(x):
    """e to the power of a float32 up to 88, within some 2 units of the last place; below -87 nearly 0."""
    x = _LOWEST if x < _LOWEST else x  # what is no number stays so
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


@compiled
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


@compiled
def unit(x, gain, out):
    """Rows [N, D], each divided by its length and scaled by [D]."""
    for row in range(len(x)):
        square = np.float32(0)
        for i in range(x.shape[1]):
            square += x[row, i] * x[row, i]
        scale = _ONE / np.sqrt(square)
        for i in range(x.shape[1]):
            out[row, i] = x[row, i] * scale * gain[i]


@compiled
def attended(h, qkv, gain, head_gains, out, keys, values, rows, starts, lengths, turns):
    """Add to tokens [N, D], the last of those their rows hold, what they attend to, and keep their keys and values.

    Args:
        qkv, out: in panels.
        gain: [D], of what is projected; ``head_gains`` [2, d] of queries and keys.
        keys, values: a ring of each slot, [slots, H, S, d].
        rows: int64 [N], whose slot; ``starts``, ``lengths`` int64 [slots], the new token not counted.
        turns: of each token, float32 [N, d], cosine and sine in turn.
    """
    count, width = h.shape
    heads, ring, d = keys.shape[1:]
    x = np.empty((count, width), np.float32)
    unit(h, gain, x)
    wide = np.empty((count, len(qkv) * PANEL), np.float32)
    times(x, qkv, wide)
    longest = 0
    for b in range(count):
        longest = max(longest, lengths[rows[b]] + 1 - starts[rows[b]])
    scores = np.empty(longest, np.float32)
    for b in range(count):
        slot = rows[b]
        at, begin, held = lengths[slot] % ring, starts[slot] % ring, lengths[slot] + 1 - starts[slot]
        _kept(wide[b], head_gains, keys[slot], values[slot], at, turns[b])
        for head in range(heads):
            q = wide[b, head * d : (head + 1) * d]
            _mixed(q, keys[slot, head], values[slot, head], begin, held, scores, x[b, head * d : (head + 1) * d])
    told = np.empty((count, len(out) * PANEL), np.float32)
    times(x, out, told)
    for b in range(count):
        for i in range(width):
            h[b, i] += told[b, i]


@compiled
def kept(wide, head_gains, keys, values, first, turns):
    """Place queries and keys of tokens [N, >= 3 D] of one row where they stand, and keep keys and values.

    Args:
        keys, values: the row's ring, [H, S, d].
        first: the first token's position; ``turns`` of each, float32 [N, d].
    """
    for token in range(len(wide)):
        _kept(wide[token], head_gains, keys, values, (first + token) % keys.shape[1], turns[token])


@compiled
def seen(wide, keys, values, start, first, out):
    """What each of tokens [N, >= D] of one row attends to, into [N, D], in one order whatever N is.

    Args:
        keys, values: the row's ring, [H, S, d], with their own; ``start`` the oldest held.
        first: the first token's position.
    """
    heads, ring, d = keys.shape
    scores = np.empty(first + len(wide) - start, np.float32)
    for token in range(len(wide)):
        held = first + token + 1 - start
        for head in range(heads):
            part = slice(head * d, (head + 1) * d)
            _mixed(wide[token, part], keys[head], values[head], start % ring, held, scores, out[token, part])


@compiled
def _kept(wide, head_gains, keys, values, at, turn):
    """A token's query, key and value [>= 3 D], of which the latter two go to a place of the ring."""
    heads, _, d = keys.shape
    width = heads * d
    for head in range(heads):
        q, k = wide[head * d : (head + 1) * d], wide[width + head * d : width + (head + 1) * d]
        _placed(q, head_gains[0], turn)
        _placed(k, head_gains[1], turn)
        keys[head, at] = k
        values[head, at] = wide[2 * width + head * d : 2 * width + (head + 1) * d]


@compiled
def _placed(x, gain, turn):
    """A head's query or key [d], divided by its length, scaled, and turned where it stands."""
    square = np.float32(0)
    for i in range(len(x)):
        square += x[i] * x[i]
    scale = _ONE / np.sqrt(square)
    for i in range(0, len(x), 2):
        real, imaginary = x[i] * scale * gain[i], x[i + 1] * scale * gain[i + 1]
        x[i] = real * turn[i] - imaginary * turn[i + 1]
        x[i + 1] = real * turn[i + 1] + imaginary * turn[i]


@compiled
def _mixed(q, keys, values, begin, held, scores, out):
    """Attention of a query [d] over ``held`` tokens of a ring [S, d] from place ``begin`` on, into [d]."""
    ring = len(keys)
    first = min(held, ring - begin)
    best = _scored(q, keys[begin : begin + first], scores[:first])
    if first < held:
        best = max(best, _scored(q, keys[: held - first], scores[first:held]))
    total = np.float32(0)
    for t in range(held):
        scores[t] = exponential(scores[t] - best)
        total += scores[t]
    out[:] = 0
    _gathered(scores[:first], values[begin : begin + first], out)
    if first < held:
        _gathered(scores[first:held], values[: held - first], out)
    scale = _ONE / total
    for i in range(len(out)):
        out[i] *= scale


@compiled
def _scored(q, keys, scores):
    best = np.float32(-np.inf)
    for t in range(len(keys)):
        score = np.float32(0)
        for i in range(len(q)):
            score += q[i] * keys[t, i]
        scores[t] = score
        best = max(best, score)
    return best


@compiled
def _gathered(shares, values, out):
    for t in range(len(values)):
        share = shares[t]
        for i in range(len(out)):
            out[i] += share * values[t, i]


@compiled
def fed(h, up, gain, down):
    """Add to tokens [N, D] their feed-forward, whose inner numbers are squared where they are above 0."""
    count, width = h.shape
    x = np.empty((count, width), np.float32)
    unit(h, gain, x)
    wide = np.empty((count, len(up) * PANEL), np.float32)
    times(x, up, wide)
    for b in range(count):
        for i in range(wide.shape[1]):
            above = max(wide[b, i], np.float32(0))
            wide[b, i] = above * above
    told = np.empty((count, len(down) * PANEL), np.float32)
    times(wide, down, told)
    for b in range(count):
        for i in range(width):
            h[b, i] += told[b, i]


@compiled
def stepped(h, qkv, gains, head_gains, out, up, up_gains, down, keys, values, rows, starts, lengths, turns):
    """Tokens [N, D] through all layers, in place: of each layer, in a tuple, what ``attended`` and ``fed`` take."""
    for layer in range(len(qkv)):
        attended(
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
            turns,
        )
        fed(h, up[layer], up_gains[layer], down[layer])


@compiled
def normed(x, eps, gain, bias, out):
    """Rows [N, D] without their mean, at unit variance, scaled and shifted."""
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


@compiled
def causal_block(x, tail, taps, eps, gain, shift, wide, wide_bias, narrow, narrow_bias):
    """A ``CausalBlock`` over [B, T, C] after ``tail [B, kernel - 1, C]``, which moves on.

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
        for k in range(kernel - 1):  # the oldest first, each from where none was overwritten
            place = steps + k - (kernel - 1)
            tail[b, k] = x[b, place] if place >= 0 else tail[b, kernel - 1 + place]
    normed(mixed, eps, gain, shift, mixed)
    inner = np.empty((rows * steps, len(wide) * PANEL), np.float32)
    times(mixed, wide, inner)
    for row in range(len(inner)):
        for i in range(len(wide_bias)):
            inner[row, i] = gelu(inner[row, i] + wide_bias[i])
    told = np.empty((rows * steps, len(narrow) * PANEL), np.float32)
    times(inner, narrow, told)
    out = np.empty_like(x)
    for b in range(rows):
        for t in range(steps):
            for i in range(width):
                out[b, t, i] = x[b, t, i] + told[b * steps + t, i] + narrow_bias[i]
    return out
