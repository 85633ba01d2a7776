"""Triton kernels of Tacotron 2's decoder on a GPU: dropout by counter-based noise, and location-sensitive attention.

See ``studio.engine.nets.cuda.kernels``.
"""

# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false, reportCallIssue=false
# pyright: reportGeneralTypeIssues=false, reportIndexIssue=false, reportOperatorIssue=false

import triton.language as tl

from studio.engine.nets.cuda.kernels import _LOW, jit
from studio.engine.nets.cuda.sampling_kernels import uniform


@jit
def relu_dropout(
    x_ptr, low_ptr, high_ptr, frame_ptr, WIDTH, FIRST, SHARE, WP: tl.constexpr,
):  # fmt: skip
    """x = max(x, 0), or 0 where the noise is below SHARE, over 1 - SHARE; in place, float32 [B, WIDTH].

    Args:
        low_ptr, high_ptr, frame_ptr: int32 [B], halves of the seeds, and frames.
        FIRST: channel of the noise of the first number.
    """
    b, k = tl.program_id(0), tl.arange(0, WP)
    here = k < WIDTH
    low = tl.load(low_ptr + b).to(tl.uint32, bitcast=True)
    high = tl.load(high_ptr + b).to(tl.uint32, bitcast=True)
    frame = tl.load(frame_ptr + b).to(tl.uint32, bitcast=True)
    x = tl.load(x_ptr + b * WIDTH + k, mask=here, other=0.0)
    x = tl.where(x < 0.0, 0.0, x)  # unlike a maximum, it keeps what is no number
    is_held = uniform(low, high, frame, (FIRST + k + 1).to(tl.uint32)) >= SHARE
    tl.store(x_ptr + b * WIDTH + k, tl.where(is_held, x, 0.0) / (1.0 - SHARE), mask=here)


@jit
def attend_by_location(
    query_ptr, keys_ptr, encoded_ptr, last_ptr, total_ptr, kernel_ptr, score_ptr, slot_ptr, symbols_ptr, scores_ptr,
    context_ptr, attended_ptr, CAPACITY,
    A: tl.constexpr, AP: tl.constexpr, D: tl.constexpr, DP: tl.constexpr, K: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Attention of a frame of each row (``LocationSensitiveAttention``) over the symbols of its slot.

    Args:
        query_ptr: float32 [B, A].
        keys_ptr, encoded_ptr: [slots, CAPACITY, A] and [slots, CAPACITY, D].
        last_ptr, total_ptr: float32 [slots, CAPACITY], the shares of the last frame and the sum of all; updated.
        kernel_ptr, score_ptr: float32 [2, K, A], the convolution with the linear layer after it, and [A].
        slot_ptr, symbols_ptr: int32 [B], each row's slot, and how many symbols it holds.
        scores_ptr: float32 [B, CAPACITY], scratch memory.
        context_ptr, attended_ptr: float32 [B, D], and the symbol with the largest share, float32 [B].
    """
    b, a, d, block = tl.program_id(0), tl.arange(0, AP), tl.arange(0, DP), tl.arange(0, BLOCK)
    of_score, inner = a < A, d < D
    first = tl.load(slot_ptr + b).to(tl.int64) * CAPACITY
    count = tl.load(symbols_ptr + b)
    query = tl.load(query_ptr + b * A + a, mask=of_score, other=0.0)
    weight = tl.load(score_ptr + a, mask=of_score, other=0.0)
    mine = scores_ptr + b.to(tl.int64) * CAPACITY
    top = tl.full((), _LOW, tl.float32)
    total = tl.full((), 0.0, tl.float32)
    best = tl.full((), 0, tl.int32)
    for begin in tl.range(0, count, BLOCK):
        t = begin + block
        held = t < count
        at = (first + t)[:, None] * A + a[None, :]
        here = held[:, None] & of_score[None, :]
        x = query[None, :] + tl.load(keys_ptr + at, mask=here, other=0.0).to(tl.float32)
        for k in tl.range(0, K):
            near = t + k - K // 2
            seen = (near >= 0) & (near < count)
            last = tl.load(last_ptr + first + near, mask=seen, other=0.0)
            sums = tl.load(total_ptr + first + near, mask=seen, other=0.0)
            x += last[:, None] * tl.load(kernel_ptr + k * A + a, mask=of_score, other=0.0)[None, :]
            x += sums[:, None] * tl.load(kernel_ptr + (K + k) * A + a, mask=of_score, other=0.0)[None, :]
        decay = tl.exp(-2.0 * tl.abs(x))
        tanh = tl.where(x < 0.0, -1.0, 1.0) * (1.0 - decay) / (1.0 + decay)
        score = tl.where(held, tl.sum(tanh * weight[None, :], 1), _LOW)
        tl.store(mine + t, score, mask=held)
        new = tl.max(score)
        best = tl.where(new > top, begin + tl.argmax(score, 0), best)
        new = tl.maximum(new, top)
        total = total * tl.exp(top - new) + tl.sum(tl.where(held, tl.exp(score - new), 0.0))
        top = new
    tl.debug_barrier()  # the shares of the last frame were read, and all scores are written
    context = tl.zeros((DP,), tl.float32)
    for begin in tl.range(0, count, BLOCK):
        t = begin + block
        held = t < count
        share = tl.where(held, tl.exp(tl.load(mine + t, mask=held, other=_LOW) - top), 0.0) / total
        sums = tl.load(total_ptr + first + t, mask=held, other=0.0)
        tl.store(last_ptr + first + t, share, mask=held)
        tl.store(total_ptr + first + t, sums + share, mask=held)
        at = (first + t)[:, None] * D + d[None, :]
        steps = tl.load(encoded_ptr + at, mask=held[:, None] & inner[None, :], other=0.0).to(tl.float32)
        context += tl.sum(share[:, None] * steps, 0)
    tl.store(context_ptr + b * D + d, context, mask=inner)
    tl.store(attended_ptr + b, best.to(tl.float32))
