"""Triton kernels of sampling: counter-based noise and the levels of all channels (see ``nets.sampling``)."""

# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false, reportCallIssue=false
# pyright: reportGeneralTypeIssues=false, reportIndexIssue=false, reportOperatorIssue=false

import triton.language as tl

from studio.engine.nets.cuda.kernels import jit


@jit
def hash32(x):
    """A hash of uint32, equal to ``sampling.hash32``."""
    x = (x ^ (x >> 16)) * tl.full((), 0x7FEB352D, tl.uint32)
    x = (x ^ (x >> 15)) * tl.full((), 0x846CA68B, tl.uint32)
    return x ^ (x >> 16)


@jit
def uniform(low, high, frame, column):
    """Numbers in (0, 1), equal to ``sampling.uniform``; ``column`` is a channel's index + 1."""
    row = hash32(hash32(low ^ hash32(high + tl.full((), 0x9E3779B9, tl.uint32))) + frame)
    bits = hash32(row ^ hash32(column * tl.full((), 0x85EBCA6B, tl.uint32)))
    return ((bits >> 8).to(tl.float32) + 0.5) * 5.9604644775390625e-08


@jit
def sample_frames(
    logits_ptr, bias_ptr, low_ptr, high_ptr, frame_ptr, temperature_ptr, target_ptr, last_ptr, levels_ptr, end_ptr,
    WIDTH, FIRST, CHANNEL, C: tl.constexpr, CP: tl.constexpr, L: tl.constexpr, END: tl.constexpr, STRIDE: tl.constexpr,
):  # fmt: skip
    """Sample C channels of L levels for each token by the inverse of each channel's distribution.

    Args:
        logits_ptr, bias_ptr: [N, WIDTH] and [WIDTH]; the C * L logits begin at FIRST, with END the last one is of the
            end.
        low_ptr, high_ptr, frame_ptr: int32 [N], halves of the seeds, and frames; CHANNEL is the first channel's noise.
        temperature_ptr: float32 [N]; 0 takes the most likely level.
        target_ptr: int32 [N], the slot whose ``last`` frame is set, or -1.
        last_ptr, levels_ptr: uint8 [slots, STRIDE] and [N, STRIDE], the C levels begin at CHANNEL.
        end_ptr: float32 [N, 2], the end's logit and a sum that is finite if all logits are.
    """
    n = tl.program_id(0)
    c, level = tl.arange(0, CP), tl.arange(0, L)
    here = c < C
    at = FIRST + c[:, None] * L + level[None, :]
    x = tl.load(logits_ptr + n * WIDTH + at, mask=here[:, None], other=0.0).to(tl.float32)
    x += tl.load(bias_ptr + at, mask=here[:, None], other=0.0)
    check = tl.sum(tl.sum(x, 1))
    best = tl.argmax(x, 1)
    heat = tl.load(temperature_ptr + n)
    share = tl.exp((x - tl.max(x, 1)[:, None]) / tl.maximum(heat, 1e-3))
    sums = tl.cumsum(share, 1)
    low = tl.load(low_ptr + n).to(tl.uint32, bitcast=True)
    high = tl.load(high_ptr + n).to(tl.uint32, bitcast=True)
    frame = tl.load(frame_ptr + n).to(tl.uint32, bitcast=True)
    u = uniform(low, high, frame, (CHANNEL + c + 1).to(tl.uint32)) * tl.sum(share, 1)
    sampled = tl.minimum(tl.sum((sums < u[:, None]).to(tl.int32), 1), L - 1)
    chosen = tl.where(heat > 0.0, sampled, best).to(tl.uint8)
    tl.store(levels_ptr + n * STRIDE + CHANNEL + c, chosen, mask=here)
    target = tl.load(target_ptr + n)
    tl.store(last_ptr + tl.maximum(target, 0).to(tl.int64) * STRIDE + CHANNEL + c, chosen, mask=here & (target >= 0))
    if END:
        end = tl.load(logits_ptr + n * WIDTH + WIDTH - 1).to(tl.float32) + tl.load(bias_ptr + WIDTH - 1)
        tl.store(end_ptr + n * 2, end)
        tl.store(end_ptr + n * 2 + 1, check + end)
