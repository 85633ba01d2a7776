"""Triton kernels of VocStream on a GPU: WaveNet layers over ring buffers.

A ring buffer holds the inputs of one causal convolution: the steps it looks back over and those of one frame. A kernel
reads one ring and writes the next, so no program reads what another one writes. Steps of all rows are counted together:
step n is step n % T of row n // T. Widths are powers of two; the weights of further channels are 0.

Weights and rings are bfloat16 (float16 or float32 in Triton's interpreter), all sums are float32. Steps before a
stream's beginning are 0 and are not read. There are no atomics: the same inputs give the same bits on the same card.
For ``PDL`` see ``studio.engine.nets.cuda.kernels``.

Arguments of all kernels:
    slot_ptr: int64 [B], each row's slot; position_ptr: int64 [slots], each slot's next sample, a multiple of FRAME.
    COUNT: B * T steps, T of each row; BT steps in a program.
    ROWS: rows of all rings in a slot; LENGTH: those of one ring [slots, LENGTH, W], whose slots are ROWS * W apart.
"""

# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false, reportCallIssue=false
# pyright: reportGeneralTypeIssues=false, reportIndexIssue=false, reportOperatorIssue=false

from collections.abc import Callable
from typing import Any, cast

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from studio.engine.nets.cuda.kernels import jit
from studio.engine.nets.cuda.sampling_kernels import hash32

_NOISE_SCALE = tl.constexpr(3.0**0.5 / 2.0**31)
_SIZES = ("COUNT", "ROWS", "LENGTH", "NEXT_LENGTH", "DILATION")  # one compiled kernel serves all
jit_sizes = cast("Callable[[Callable[..., Any]], Any]", triton.jit(do_not_specialize=_SIZES))


@jit
def _locate(slot_ptr, position_ptr, COUNT, FRAME: tl.constexpr, T: tl.constexpr, BT: tl.constexpr):
    """A program's steps n, which of them are there, their index in the frame, their slots and frames."""
    n = tl.program_id(0) * BT + tl.arange(0, BT)
    here = n < COUNT
    slot = tl.load(slot_ptr + n // T, mask=here, other=0)
    frame = (tl.load(position_ptr + slot, mask=here, other=0) // FRAME).to(tl.int32)
    return n, here, n % T, slot, frame


@jit
def _ring_rows(slot, frame, t, ROWS, LENGTH, T: tl.constexpr):
    """Rows of the steps ``t`` of a frame, -(LENGTH - T) <= t < T, and whether they are in the stream."""
    at = frame % LENGTH * T % LENGTH + t
    at = tl.where(at < 0, at + LENGTH, at)
    at = tl.where(at >= LENGTH, at - LENGTH, at)
    return slot * ROWS + at, tl.minimum(frame, 1 << 16) * T + t >= 0


@jit_sizes
def write_steps(
    source_ptr, ring_ptr, slot_ptr, position_ptr, COUNT, ROWS, LENGTH,
    FRAME: tl.constexpr, T: tl.constexpr, W: tl.constexpr, BT: tl.constexpr,
):  # fmt: skip
    """Write steps [COUNT, W] to a ring."""
    n, here, t, slot, frame = _locate(slot_ptr, position_ptr, COUNT, FRAME, T, BT)
    c = tl.arange(0, W)
    row, _ = _ring_rows(slot, frame, t, ROWS, LENGTH, T)
    x = tl.load(source_ptr + n[:, None] * W + c[None, :], mask=here[:, None], other=0.0)
    tl.store(ring_ptr + row[:, None] * W + c[None, :], x, mask=here[:, None])


@jit_sizes
def write_noise(
    weight_ptr, bias_ptr, ring_ptr, slot_ptr, position_ptr, seed_ptr, COUNT, ROWS, LENGTH,
    FRAME: tl.constexpr, T: tl.constexpr, S: tl.constexpr, W: tl.constexpr, BT: tl.constexpr,
):  # fmt: skip
    """The generator's first layer, float32 [S, W], over S samples of noise a step; see ``excitation.uniform_noise``.

    seed_ptr: int64 [slots].
    """
    _n, here, t, slot, frame = _locate(slot_ptr, position_ptr, COUNT, FRAME, T, BT)
    c = tl.arange(0, W)
    seed = (tl.load(seed_ptr + slot, mask=here, other=0) & 0xFFFFFFFF) + 0x9E3779B9
    mixed = (seed ^ (seed >> 16)).to(tl.uint32)  # the hash's first shift, of 33 bits
    key = hash32(mixed ^ (mixed >> 16))  # that shift of 32 bits, twice, changes nothing
    first = (tl.load(position_ptr + slot, mask=here, other=0) + t * S).to(tl.uint32)
    x = tl.zeros((BT, W), tl.float32) + tl.load(bias_ptr + c)[None, :]
    for s in tl.static_range(S):
        noise = (hash32((first + s) ^ key).to(tl.float32) - 2147483648.0) * _NOISE_SCALE
        x += noise[:, None] * tl.load(weight_ptr + s * W + c)[None, :]
    row, _ = _ring_rows(slot, frame, t, ROWS, LENGTH, T)
    tl.store(ring_ptr + row[:, None] * W + c[None, :], x.to(ring_ptr.dtype.element_ty), mask=here[:, None])


@jit_sizes
def gated_layer(
    ring_ptr, next_ptr, condition_ptr, gates_ptr, residual_ptr, bias_ptr, z_ptr, slot_ptr, position_ptr,
    COUNT, ROWS, LENGTH, NEXT_LENGTH, DILATION,
    FRAME: tl.constexpr, T: tl.constexpr, REPEAT: tl.constexpr, CONDITIONS: tl.constexpr, TAPS: tl.constexpr,
    W: tl.constexpr, BK: tl.constexpr, BT: tl.constexpr, LAST: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """A gated dilated convolution of one ring, its residual sum to the next ring, its gated output to ``z``.

    z = tanh(value) * sigmoid(gate), next = (x + z R + bias) / sqrt(2); the last layer has no next.

    Args:
        condition_ptr: [COUNT / REPEAT, CONDITIONS], with this layer's 2 W numbers first; they hold the gates' bias.
        gates_ptr: [TAPS, W, 2 W], oldest tap first, values before gates; residual_ptr [W, W]; bias_ptr float32 [W].
        z_ptr: [COUNT, W].
    """
    n, here, t, slot, frame = _locate(slot_ptr, position_ptr, COUNT, FRAME, T, BT)
    if PDL:
        gdc_wait()  # positions do not change during a frame; all else is the kernel before's
        gdc_launch_dependents()
    c, k = tl.arange(0, W), tl.arange(0, BK)
    value = tl.zeros((BT, W), tl.float32)
    gate = tl.zeros((BT, W), tl.float32)
    PARTS: tl.constexpr = W // BK
    for part in tl.range(TAPS * PARTS):
        row, inside = _ring_rows(slot, frame, t - (TAPS - 1 - part // PARTS) * DILATION, ROWS, LENGTH, T)
        at = ring_ptr + row[:, None] * W + (part % PARTS * BK + k)[None, :]
        x = tl.load(at, mask=(here & inside)[:, None], other=0.0)
        w = gates_ptr + (part * BK + k)[:, None] * (2 * W) + c[None, :]
        value = tl.dot(x, tl.load(w), value)
        gate = tl.dot(x, tl.load(w + W), gate)
    condition = condition_ptr + (n // REPEAT)[:, None] * CONDITIONS + c[None, :]
    value += tl.load(condition, mask=here[:, None], other=0.0).to(tl.float32)
    gate += tl.load(condition + W, mask=here[:, None], other=0.0).to(tl.float32)
    z = ((2.0 * tl.sigmoid(2.0 * value) - 1.0) * tl.sigmoid(gate)).to(z_ptr.dtype.element_ty)
    tl.store(z_ptr + n[:, None] * W + c[None, :], z, mask=here[:, None])
    if not LAST:
        row, _ = _ring_rows(slot, frame, t, ROWS, LENGTH, T)
        x = tl.load(ring_ptr + row[:, None] * W + c[None, :], mask=here[:, None], other=0.0).to(tl.float32)
        x += tl.load(bias_ptr + c)[None, :]
        x = tl.dot(z, tl.load(residual_ptr + c[:, None] * W + c[None, :]), x) * 0.7071067811865476
        row, _ = _ring_rows(slot, frame, t, ROWS, NEXT_LENGTH, T)
        tl.store(next_ptr + row[:, None] * W + c[None, :], x.to(next_ptr.dtype.element_ty), mask=here[:, None])


@jit
def _relu(x):
    return tl.where(x < 0.0, 0.0, x)  # NaN stays, so that a broken stream shows


@jit_sizes
def mix_layers(
    z_ptr, skip_ptr, skip_bias_ptr, mix_ptr, mix_bias_ptr, leave_ptr, leave_bias_ptr, out_ptr, slot_ptr, position_ptr,
    COUNT, ROWS, LENGTH,
    FRAME: tl.constexpr, T: tl.constexpr, LAYERS: tl.constexpr, W: tl.constexpr, OUT: tl.constexpr,
    WIDTH: tl.constexpr, BT: tl.constexpr, TO_RING: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """The skips of all layers, summed in float32 registers, and the last two layers of a WaveNet.

    Args:
        z_ptr: [LAYERS, COUNT, W]; skip_ptr [LAYERS, W, W], mix_ptr [W, W], leave_ptr [W, OUT]; biases are float32.
        out_ptr: a ring of WIDTH channels, or float32 [COUNT, WIDTH], limited to +-1.
    """
    n, here, t, slot, frame = _locate(slot_ptr, position_ptr, COUNT, FRAME, T, BT)
    if PDL:
        gdc_wait()
    c, o = tl.arange(0, W), tl.arange(0, OUT)
    square = c[:, None] * W + c[None, :]
    total = tl.zeros((BT, W), tl.float32)
    for layer in tl.range(LAYERS):
        z = z_ptr + (layer * COUNT + n)[:, None] * W + c[None, :]
        total = tl.dot(tl.load(z, mask=here[:, None], other=0.0), tl.load(skip_ptr + layer * W * W + square), total)
    total = _relu(total + tl.load(skip_bias_ptr + c)[None, :])
    total = tl.dot(total.to(z_ptr.dtype.element_ty), tl.load(mix_ptr + square))
    total = _relu(total + tl.load(mix_bias_ptr + c)[None, :])
    out = tl.dot(total.to(z_ptr.dtype.element_ty), tl.load(leave_ptr + c[:, None] * OUT + o[None, :]))
    out += tl.load(leave_bias_ptr + o)[None, :]
    mask = here[:, None] & (o < WIDTH)[None, :]
    if TO_RING:
        row, _ = _ring_rows(slot, frame, t, ROWS, LENGTH, T)
        tl.store(out_ptr + row[:, None] * WIDTH + o[None, :], out.to(out_ptr.dtype.element_ty), mask=mask)
    else:
        out = tl.where(out > 1.0, 1.0, tl.where(out < -1.0, -1.0, out))  # NaN stays
        tl.store(out_ptr + n[:, None] * WIDTH + o[None, :], out, mask=mask)


@jit_sizes
def convolve_ring(
    ring_ptr, weight_ptr, bias_ptr, out_ptr, slot_ptr, position_ptr, COUNT, ROWS, LENGTH,
    FRAME: tl.constexpr, T: tl.constexpr, TAPS: tl.constexpr, W: tl.constexpr, BT: tl.constexpr,
):  # fmt: skip
    """A causal convolution of a ring, [TAPS, W, W] with a float32 bias [W], to out [COUNT, W]."""
    n, here, t, slot, frame = _locate(slot_ptr, position_ptr, COUNT, FRAME, T, BT)
    c = tl.arange(0, W)
    acc = tl.zeros((BT, W), tl.float32) + tl.load(bias_ptr + c)[None, :]
    for tap in tl.range(TAPS):
        row, inside = _ring_rows(slot, frame, t - (TAPS - 1 - tap), ROWS, LENGTH, T)
        x = tl.load(ring_ptr + row[:, None] * W + c[None, :], mask=(here & inside)[:, None], other=0.0)
        acc = tl.dot(x, tl.load(weight_ptr + tap * W * W + c[:, None] * W + c[None, :]), acc)
    tl.store(out_ptr + n[:, None] * W + c[None, :], acc.to(out_ptr.dtype.element_ty), mask=here[:, None])
