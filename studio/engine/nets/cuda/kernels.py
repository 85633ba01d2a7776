"""Triton kernels of a decoder step on a GPU: N tokens, each with its KV slot and its position.

Weights and KV cache are bfloat16 (float16 or float32 in Triton's interpreter), the residual stream and all sums are
float32. Gains of norms are folded into the weights, so a norm is a division by a length. Channels that rotate together
are j and j + d / 2 of a head. There are no atomics: the same inputs give the same bits on the same card.

With ``PDL`` (programmatic dependent launch, compute capability 9) a kernel loads its weights while the kernel before it
still runs; ``gdc_wait`` waits for that kernel's results.
"""

# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false, reportCallIssue=false
# pyright: reportGeneralTypeIssues=false, reportIndexIssue=false, reportOperatorIssue=false

from collections.abc import Callable
from typing import Any, cast

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

jit = cast("Callable[[Callable[..., Any]], Any]", triton.jit)  # a kernel has no type that a checker knows

NO_FRAME, INPUT_FRAME = -1, -2  # a token's source; else the slot whose last frame is fed back

_EPS = tl.constexpr(1e-12)
_LOW = tl.constexpr(-1e30)


@jit
def embed_tokens(
    x_ptr, table_ptr, rows_ptr, source_ptr, levels_ptr, last_ptr, WIDTH, STRIDE,
    EXTRAS: tl.constexpr, C: tl.constexpr, CP: tl.constexpr, SYMBOLS: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    """x[n] = the sum of table rows: EXTRAS rows by number (-1: none), and one for each channel of a frame.

    table [C * SYMBOLS + others, WIDTH]; rows int32 [EXTRAS, STRIDE]; source int32 [N]; levels uint8 [N, C]; last uint8
    [slots, C]; x float32 [N, WIDTH].
    """
    n = tl.program_id(0)
    d = tl.program_id(1) * BD + tl.arange(0, BD)
    here = d < WIDTH
    acc = tl.zeros((BD,), tl.float32)
    for e in tl.static_range(EXTRAS):
        row = tl.load(rows_ptr + e * STRIDE + n)
        acc += tl.load(table_ptr + tl.maximum(row, 0) * WIDTH + d, mask=here & (row >= 0), other=0.0).to(tl.float32)
    source = tl.load(source_ptr + n)
    if source != -1:
        c = tl.arange(0, CP)
        fed_back = tl.load(last_ptr + tl.maximum(source, 0).to(tl.int64) * C + c, mask=(c < C) & (source >= 0), other=0)
        levels = tl.load(levels_ptr + n * C + c, mask=(c < C) & (source < 0), other=0)
        frame_row = c * SYMBOLS + tl.where(source >= 0, fed_back, levels).to(tl.int32)
        at = table_ptr + frame_row[:, None] * WIDTH + d[None, :]
        acc += tl.sum(tl.load(at, mask=(c < C)[:, None] & here[None, :], other=0.0).to(tl.float32), 0)
    tl.store(x_ptr + n * WIDTH + d, acc, mask=here)


@jit
def compute_angles(position_ptr, rates_ptr, angles_ptr, HALF, HP: tl.constexpr):
    """Cosines and sines of each token's position, float32 [N, 2, HALF], once a step; angles are float64."""
    n, j = tl.program_id(0), tl.arange(0, HP)
    here = j < HALF
    turns = tl.load(position_ptr + n).to(tl.float64) * tl.load(rates_ptr + j, mask=here, other=0.0)
    angle = ((turns - tl.floor(turns)) * 6.283185307179586).to(tl.float32)
    tl.store(angles_ptr + n * 2 * HALF + j, tl.cos(angle), mask=here)
    tl.store(angles_ptr + n * 2 * HALF + HALF + j, tl.sin(angle), mask=here)


@jit
def gemv(
    x_ptr, w_ptr, out_ptr, OUT, K: tl.constexpr, KP: tl.constexpr, BN: tl.constexpr, ROWS: tl.constexpr,
    NORM: tl.constexpr, RELU2: tl.constexpr, ADD: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """out[b, n] (+)= act(w[n] . x[b] / |x[b]|) for ROWS rows in turn: whole rows of w [OUT, K] are read once."""
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    k = tl.arange(0, KP)
    here, inner = n < OUT, k < K
    w = tl.load(w_ptr + n[:, None] * K + k[None, :], mask=here[:, None] & inner[None, :], other=0.0).to(tl.float32)
    if PDL:
        gdc_wait()
        gdc_launch_dependents()
    for b in tl.static_range(ROWS):
        x = tl.load(x_ptr + b * K + k, mask=inner, other=0.0).to(tl.float32)
        acc = tl.sum(w * x[None, :], 1)
        if NORM:
            acc = acc / tl.sqrt(tl.sum(x * x) + _EPS)
        if RELU2:
            acc = tl.maximum(acc, 0.0)
            acc = acc * acc
        at = out_ptr + b * OUT + n
        if ADD:
            acc += tl.load(at, mask=here, other=0.0)
        tl.store(at, acc.to(out_ptr.dtype.element_ty), mask=here)


@jit
def join_gemv(
    top_ptr, total_ptr, part_ptr, w_ptr, x_ptr, OUT,
    H: tl.constexpr, HP: tl.constexpr, D: tl.constexpr, DP: tl.constexpr, SPLITS: tl.constexpr, BN: tl.constexpr,
    PDL: tl.constexpr,
):  # fmt: skip
    """x[n] += w[n] . attention of one row, joined from its SPLITS pieces; w [OUT, H * D]."""
    n, h, d = tl.program_id(0) * BN + tl.arange(0, BN), tl.arange(0, HP), tl.arange(0, DP)
    here, heads, inner = n < OUT, h < H, d < D
    at = w_ptr + n[:, None, None] * (H * D) + h[None, :, None] * D + d[None, None, :]
    w = tl.load(at, mask=here[:, None, None] & heads[None, :, None] & inner[None, None, :], other=0.0).to(tl.float32)
    if PDL:
        gdc_wait()
        gdc_launch_dependents()
    mixed = _join(top_ptr, total_ptr, part_ptr, 0, h, d, heads, inner, H, HP, D, DP, SPLITS)
    out = tl.sum(tl.sum(w * mixed[None], 2), 1)
    tl.store(x_ptr + n, tl.load(x_ptr + n, mask=here, other=0.0) + out, mask=here)


@jit
def join_splits(
    top_ptr, total_ptr, part_ptr, mixed_ptr,
    H: tl.constexpr, HP: tl.constexpr, D: tl.constexpr, DP: tl.constexpr, SPLITS: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """Attention [N, H * D] joined from SPLITS pieces: their maxima and sums [N, H, SPLITS], parts [N, H, SPLITS, D]."""
    n, h, d = tl.program_id(0), tl.arange(0, HP), tl.arange(0, DP)
    heads, inner = h < H, d < D
    if PDL:
        gdc_wait()
        gdc_launch_dependents()
    mixed = _join(top_ptr, total_ptr, part_ptr, n, h, d, heads, inner, H, HP, D, DP, SPLITS)
    at = mixed_ptr + n * H * D + h[:, None] * D + d[None, :]
    tl.store(at, mixed.to(mixed_ptr.dtype.element_ty), mask=heads[:, None] & inner[None, :])


@jit
def _join(
    top_ptr, total_ptr, part_ptr, n, h, d, heads, inner,
    H: tl.constexpr, HP: tl.constexpr, D: tl.constexpr, DP: tl.constexpr, SPLITS: tl.constexpr,
):  # fmt: skip
    first = (n * H + h) * SPLITS
    top = tl.full((HP,), _LOW, tl.float32)
    for s in tl.static_range(SPLITS):
        top = tl.maximum(top, tl.load(top_ptr + first + s, mask=heads, other=_LOW))
    total = tl.zeros((HP,), tl.float32)
    mixed = tl.zeros((HP, DP), tl.float32)
    for s in tl.static_range(SPLITS):
        share = tl.exp(tl.load(top_ptr + first + s, mask=heads, other=_LOW) - top)
        total += share * tl.load(total_ptr + first + s, mask=heads, other=0.0)
        part = part_ptr + (first + s)[:, None] * D + d[None, :]
        mixed += share[:, None] * tl.load(part, mask=heads[:, None] & inner[None, :], other=0.0)
    return mixed / tl.maximum(total, 1e-30)[:, None]


@jit
def _unit_rotated(base, gain_ptr, d, inner, cos, sin, HALF: tl.constexpr):
    """A head's channels divided by their length, scaled and rotated, float32."""
    other = tl.where(d < HALF, d + HALF, d - HALF)
    own = tl.load(base + d, mask=inner, other=0.0).to(tl.float32)
    paired = tl.load(base + other, mask=inner, other=0.0).to(tl.float32)
    scale = 1.0 / tl.sqrt(tl.sum(own * own) + _EPS)
    own_gain = tl.load(gain_ptr + d, mask=inner, other=0.0)
    paired_gain = tl.load(gain_ptr + other, mask=inner, other=0.0)
    return scale * (own * own_gain * cos + paired * paired_gain * sin)


@jit
def _load_angles(angles_ptr, n, d, inner, HALF: tl.constexpr):
    j = tl.where(d < HALF, d, d - HALF)
    cos = tl.load(angles_ptr + n * 2 * HALF + j, mask=inner, other=0.0)
    sin = tl.load(angles_ptr + n * 2 * HALF + HALF + j, mask=inner, other=0.0)
    return cos, tl.where(d < HALF, -sin, sin)


@jit
def _attend_ring(
    q, keys_ptr, values_ptr, ring, first, last, top, total, acc, d, inner,
    CAPACITY, D: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Online softmax of one query over the tokens [first, last) of a ring that begins at ``ring``."""
    block = tl.arange(0, BLOCK)
    for begin in tl.range(first, last, BLOCK):
        p = begin + block
        held = p < last
        row = ring + (p % CAPACITY).to(tl.int64) * D
        here = held[:, None] & inner[None, :]
        keys = tl.load(keys_ptr + row[:, None] + d[None, :], mask=here, other=0.0).to(tl.float32)
        values = tl.load(values_ptr + row[:, None] + d[None, :], mask=here, other=0.0).to(tl.float32)
        score = tl.where(held, tl.sum(keys * q[None, :], 1), _LOW)
        new = tl.maximum(top, tl.max(score))
        share = tl.where(held, tl.exp(score - new), 0.0)
        fade = tl.exp(top - new)
        acc = acc * fade + tl.sum(share[:, None] * values, 0)
        total = total * fade + tl.sum(share)
        top = new
    return top, total, acc


@jit
def _store_attention(
    out_ptr, top_ptr, total_ptr, n, h, s, top, total, acc, d, inner, H: tl.constexpr, D: tl.constexpr,
    SPLITS: tl.constexpr,
):  # fmt: skip
    if SPLITS == 1:
        tl.store(out_ptr + (n * H + h) * D + d, (acc / total).to(out_ptr.dtype.element_ty), mask=inner)
    else:
        at = (n * H + h) * SPLITS + s
        tl.store(out_ptr + at * D + d, acc, mask=inner)
        tl.store(top_ptr + at, top)
        tl.store(total_ptr + at, total)


@jit
def decode_attention(
    qkv_ptr, query_gain_ptr, key_gain_ptr, angles_ptr, keys_ptr, values_ptr, slot_ptr, position_ptr, start_ptr,
    out_ptr, top_ptr, total_ptr, CAPACITY,
    H: tl.constexpr, D: tl.constexpr, DP: tl.constexpr, BLOCK: tl.constexpr, SPLITS: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """One new token of each row: normalise, rotate, write its key and value, attend to the row's ring.

    qkv [N, 3, H, D]; keys, values [slots, H, CAPACITY, D]; the programs of a token and head share its tokens held.
    """
    n, h, s = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    HALF: tl.constexpr = D // 2
    d = tl.arange(0, DP)
    inner = d < D
    slot = tl.load(slot_ptr + n).to(tl.int64)
    position, start = tl.load(position_ptr + n), tl.load(start_ptr + n)
    if PDL:
        gdc_wait()
        gdc_launch_dependents()
    cos, sin = _load_angles(angles_ptr, n, d, inner, HALF)
    base = qkv_ptr + n * (3 * H * D) + h * D
    q = _unit_rotated(base, query_gain_ptr, d, inner, cos, sin, HALF)
    key = _unit_rotated(base + H * D, key_gain_ptr, d, inner, cos, sin, HALF).to(keys_ptr.dtype.element_ty)
    value = tl.load(base + 2 * H * D + d, mask=inner, other=0.0).to(values_ptr.dtype.element_ty)
    ring = (slot * H + h) * CAPACITY * D
    top = tl.full((), _LOW, tl.float32)
    total = tl.full((), 0.0, tl.float32)
    acc = tl.zeros((DP,), tl.float32)
    if s == SPLITS - 1:
        here = ring + (position % CAPACITY).to(tl.int64) * D
        tl.store(keys_ptr + here + d, key, mask=inner)
        tl.store(values_ptr + here + d, value, mask=inner)
        top = tl.sum(q * key.to(tl.float32))  # the new token itself: it is not read back
        total = total + 1.0
        acc = acc + value.to(tl.float32)
    part = (position - start + SPLITS - 1) // SPLITS
    first = start + s * part
    last = tl.minimum(first + part, position)
    top, total, acc = _attend_ring(
        q, keys_ptr, values_ptr, ring, first, last, top, total, acc, d, inner, CAPACITY, D, BLOCK
    )
    _store_attention(out_ptr, top_ptr, total_ptr, n, h, s, top, total, acc, d, inner, H, D, SPLITS)


@jit
def write_tokens(
    qkv_ptr, query_gain_ptr, key_gain_ptr, angles_ptr, keys_ptr, values_ptr, slot_ptr, position_ptr, CAPACITY,
    H: tl.constexpr, D: tl.constexpr, DP: tl.constexpr,
):  # fmt: skip
    """First half of a mixed step: normalise and rotate each token, write its key and value, keep its query in place."""
    n, h = tl.program_id(0), tl.program_id(1)
    HALF: tl.constexpr = D // 2
    d = tl.arange(0, DP)
    inner = d < D
    slot, position = tl.load(slot_ptr + n).to(tl.int64), tl.load(position_ptr + n)
    cos, sin = _load_angles(angles_ptr, n, d, inner, HALF)
    base = qkv_ptr + n * (3 * H * D) + h * D
    q = _unit_rotated(base, query_gain_ptr, d, inner, cos, sin, HALF)
    key = _unit_rotated(base + H * D, key_gain_ptr, d, inner, cos, sin, HALF)
    value = tl.load(base + 2 * H * D + d, mask=inner, other=0.0)
    here = ((slot * H + h) * CAPACITY + position % CAPACITY) * D
    tl.store(keys_ptr + here + d, key.to(keys_ptr.dtype.element_ty), mask=inner)
    tl.store(values_ptr + here + d, value.to(values_ptr.dtype.element_ty), mask=inner)
    tl.debug_barrier()  # both halves of the query were read
    tl.store(base + d, q.to(qkv_ptr.dtype.element_ty), mask=inner)


@jit
def mixed_attention(
    qkv_ptr, keys_ptr, values_ptr, slot_ptr, position_ptr, start_ptr, out_ptr, top_ptr, total_ptr, CAPACITY,
    H: tl.constexpr, D: tl.constexpr, DP: tl.constexpr, BLOCK: tl.constexpr, SPLITS: tl.constexpr,
):  # fmt: skip
    """Second half: each token attends to what its slot holds up to its own position, which is written."""
    n, h, s = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    d = tl.arange(0, DP)
    inner = d < D
    slot = tl.load(slot_ptr + n).to(tl.int64)
    start, until = tl.load(start_ptr + n), tl.load(position_ptr + n) + 1
    q = tl.load(qkv_ptr + n * (3 * H * D) + h * D + d, mask=inner, other=0.0).to(tl.float32)
    part = (until - start + SPLITS - 1) // SPLITS
    first = start + s * part
    top, total, acc = _attend_ring(
        q, keys_ptr, values_ptr, (slot * H + h) * CAPACITY * D, first, tl.minimum(first + part, until),
        tl.full((), _LOW, tl.float32), tl.full((), 0.0, tl.float32), tl.zeros((DP,), tl.float32), d, inner,
        CAPACITY, D, BLOCK,
    )  # fmt: skip
    _store_attention(out_ptr, top_ptr, total_ptr, n, h, s, top, total, acc, d, inner, H, D, SPLITS)


@jit
def cross_attention(
    q_ptr, gain_ptr, keys_ptr, values_ptr, slot_ptr, visible_ptr, out_ptr, scores_ptr, shares_ptr, CAPACITY,
    H: tl.constexpr, D: tl.constexpr, DP: tl.constexpr, BLOCK: tl.constexpr, SHARES: tl.constexpr,
    FIRST: tl.constexpr,
):  # fmt: skip
    """Each token attends to the first ``visible`` encoder steps in its slot.

    With SHARES, adds the shares of this layer to ``shares`` float32 [N, H, CAPACITY] (FIRST: sets them); ``scores`` is
    scratch memory of the same shape.
    """
    n, h = tl.program_id(0), tl.program_id(1)
    d = tl.arange(0, DP)
    inner = d < D
    slot, visible = tl.load(slot_ptr + n).to(tl.int64), tl.load(visible_ptr + n)
    q = tl.load(q_ptr + (n * H + h) * D + d, mask=inner, other=0.0).to(tl.float32)
    q = q / tl.sqrt(tl.sum(q * q) + _EPS) * tl.load(gain_ptr + d, mask=inner, other=0.0)
    ring = (slot * H + h) * CAPACITY * D
    mine = (n * H + h).to(tl.int64) * CAPACITY
    top = tl.full((), _LOW, tl.float32)
    total = tl.full((), 0.0, tl.float32)
    acc = tl.zeros((DP,), tl.float32)
    block = tl.arange(0, BLOCK)
    for begin in tl.range(0, visible, BLOCK):
        p = begin + block
        held = p < visible
        at = ring + p[:, None] * D + d[None, :]
        here = held[:, None] & inner[None, :]
        keys = tl.load(keys_ptr + at, mask=here, other=0.0).to(tl.float32)
        score = tl.where(held, tl.sum(keys * q[None, :], 1), _LOW)
        if SHARES:
            tl.store(scores_ptr + mine + p, score, mask=held)
        new = tl.maximum(top, tl.max(score))
        share = tl.where(held, tl.exp(score - new), 0.0)
        fade = tl.exp(top - new)
        values = tl.load(values_ptr + at, mask=here, other=0.0).to(tl.float32)
        acc = acc * fade + tl.sum(share[:, None] * values, 0)
        total = total * fade + tl.sum(share)
        top = new
    tl.store(out_ptr + (n * H + h) * D + d, (acc / tl.maximum(total, 1e-30)).to(out_ptr.dtype.element_ty), mask=inner)
    if SHARES:
        tl.debug_barrier()
        for begin in tl.range(0, visible, BLOCK):
            p = begin + block
            held = p < visible
            share = tl.exp(tl.load(scores_ptr + mine + p, mask=held, other=_LOW) - top) / total
            if not FIRST:
                share += tl.load(shares_ptr + mine + p, mask=held, other=0.0)
            tl.store(shares_ptr + mine + p, share, mask=held)


@jit
def add_and_normalise(x_ptr, y_ptr, out_ptr, WIDTH, WP: tl.constexpr, ADD: tl.constexpr):
    """x += y (with ADD), out = x / |x|; x float32 [N, WIDTH]."""
    n, d = tl.program_id(0), tl.arange(0, WP)
    here = d < WIDTH
    x = tl.load(x_ptr + n * WIDTH + d, mask=here, other=0.0)
    if ADD:
        x += tl.load(y_ptr + n * WIDTH + d, mask=here, other=0.0).to(tl.float32)
        tl.store(x_ptr + n * WIDTH + d, x, mask=here)
    x = x / tl.sqrt(tl.sum(x * x) + _EPS)
    tl.store(out_ptr + n * WIDTH + d, x.to(out_ptr.dtype.element_ty), mask=here)


@jit
def square_relu(h_ptr, COUNT, BLOCK: tl.constexpr):
    """h = max(h, 0)^2, in place."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    h = tl.maximum(tl.load(h_ptr + at, mask=at < COUNT, other=0.0).to(tl.float32), 0.0)
    tl.store(h_ptr + at, (h * h).to(h_ptr.dtype.element_ty), mask=at < COUNT)
