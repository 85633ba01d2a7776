"""Triton kernels of DSM-TTS's step on a GPU: what connects the backbone with the groups of the depth transformer.

See ``studio.engine.nets.cuda.kernels``.
"""

# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false, reportCallIssue=false
# pyright: reportIndexIssue=false, reportOperatorIssue=false

import triton.language as tl

from studio.engine.nets.cuda.kernels import jit
from studio.engine.nets.cuda.sampling_kernels import uniform

UNGUIDED, NO_GUIDE = (
    -1,
    -2,
)  # in place of the index of the token that guides a token; NO_GUIDE: it guides, or is padding


@jit
def read_actions(
    entered_ptr, bias_ptr, low_ptr, high_ptr, frame_ptr, out_ptr, WIDTH, COLUMN, CHANNEL: tl.constexpr,
):  # fmt: skip
    """out[n] = the logit of each token's action, its noise (of CHANNEL), and 0, which ``guide_logits`` adds to.

    entered [N, WIDTH], the logit at COLUMN; out float32 [N, 3].
    """
    n = tl.program_id(0)
    logit = tl.load(entered_ptr + n * WIDTH + COLUMN).to(tl.float32) + tl.load(bias_ptr)
    low = tl.load(low_ptr + n).to(tl.uint32, bitcast=True)
    high = tl.load(high_ptr + n).to(tl.uint32, bitcast=True)
    frame = tl.load(frame_ptr + n).to(tl.uint32, bitcast=True)
    tl.store(out_ptr + n * 3, logit)
    tl.store(out_ptr + n * 3 + 1, uniform(low, high, frame, tl.full((), CHANNEL + 1, tl.uint32)))
    tl.store(out_ptr + n * 3 + 2, 0.0)


@jit
def enter_group(
    entered_ptr, bias_ptr, table_ptr, levels_ptr, x_ptr, WIDTH, FIRST, OUT, CHANNEL,
    C: tl.constexpr, CP: tl.constexpr, SYMBOLS: tl.constexpr, STRIDE: tl.constexpr, BD: tl.constexpr,
    IS_FIRST: tl.constexpr,
):  # fmt: skip
    """x[n] = the backbone's part + bias + the levels of the group before (unless IS_FIRST), float32 [N, OUT].

    entered [N, WIDTH], the backbone's part begins at FIRST; bias [OUT]; table [C * SYMBOLS, OUT]; levels uint8
    [N, STRIDE], those of the group before begin at CHANNEL.
    """
    n = tl.program_id(0)
    d = tl.program_id(1) * BD + tl.arange(0, BD)
    here = d < OUT
    x = tl.load(entered_ptr + n * WIDTH + FIRST + d, mask=here, other=0.0).to(tl.float32)
    x += tl.load(bias_ptr + d, mask=here, other=0.0)
    if not IS_FIRST:
        c = tl.arange(0, CP)
        row = c * SYMBOLS + tl.load(levels_ptr + n * STRIDE + CHANNEL + c, mask=c < C, other=0).to(tl.int32)
        at = table_ptr + row[:, None] * OUT + d[None, :]
        x += tl.sum(tl.load(at, mask=(c < C)[:, None] & here[None, :], other=0.0).to(tl.float32), 0)
    tl.store(x_ptr + n * OUT + d, x, mask=here)


@jit
def guide_logits(logits_ptr, guide_ptr, alpha_ptr, out_ptr, WIDTH, WP: tl.constexpr):
    """Classifier-free guidance in place (equation 8): l0 + alpha (lc - l0) for a token and for the one that guides it.

    logits [N, WIDTH]; guide int32 [N]; alpha float32 [N]. The sum of a token's logits is added to out[n, 2].
    """
    n, k = tl.program_id(0), tl.arange(0, WP)
    here, guide = k < WIDTH, tl.load(guide_ptr + n)
    if guide != -2:
        x = tl.load(logits_ptr + n * WIDTH + k, mask=here, other=0.0).to(tl.float32)
        if guide >= 0:
            without = tl.load(logits_ptr + guide * WIDTH + k, mask=here, other=0.0).to(tl.float32)
            x = without + tl.load(alpha_ptr + n) * (x - without)
            tl.store(logits_ptr + n * WIDTH + k, x.to(logits_ptr.dtype.element_ty), mask=here)
            tl.store(logits_ptr + guide * WIDTH + k, x.to(logits_ptr.dtype.element_ty), mask=here)
        tl.store(out_ptr + n * 3 + 2, tl.load(out_ptr + n * 3 + 2) + tl.sum(x))
