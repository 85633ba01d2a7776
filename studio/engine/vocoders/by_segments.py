"""Frames vocoded causally, as they are spoken; and a segment at a time, spliced and cross-faded, to compare with.

The second is what systems do whose vocoder knows nothing of the chunk before (papers 001 and 004): each segment is
vocoded from silence with the last frames of the one before it, over which the two are cross-faded.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

from studio.core.clips import to_int16
from studio.core.traces.trace import Trace
from studio.engine.vocoders.base import Vocoder
from studio.engine.vocoders.fades import FADES, Fade

EQUAL_POWER = FADES["equal-power"]


@torch.inference_mode()
def streamed(vocoder: Vocoder[Any], log_mels: torch.Tensor, seed: int = 0) -> np.ndarray:
    """Samples float32 [T] of frames [F, C] given one at a time, as a stream gives them, from silence."""
    device = next(vocoder.parameters()).device
    state = vocoder.init_state(1, device, seed)
    pieces = [np.zeros(0, np.float32)]
    for frame in log_mels.to(device).unsqueeze(0).split(1, dim=1):
        pcm, state = vocoder.step(frame, state)
        pieces.append(pcm[0].float().cpu().numpy())
    return np.concatenate(pieces)


def by_segments(
    vocoder: Vocoder[Any],
    log_mels: torch.Tensor,
    spans: Iterable[tuple[int, int]],
    seed: int = 0,
    fade: Fade = EQUAL_POWER,
) -> np.ndarray:
    """Samples int16 [T] of frames [F, C], each span of frames [first, end) vocoded by itself and cross-faded.

    Args:
        spans: one after the other; those without frames are left out.
    """
    samples = vocoder.config.frame_samples
    out = np.zeros(0, np.float32)
    for first, end in spans:
        if end <= first:
            continue
        before = min(fade.frames, first)
        made = streamed(vocoder, log_mels[first - before : end], seed)
        faded = before * samples
        if faded:
            rise, fall = (side.numpy() for side in fade.curve(faded))
            out[-faded:] = out[-faded:] * fall + made[:faded] * rise
        out = np.concatenate([out, made[faded:]])
    return to_int16(out)


def spans_of(trace: Trace, frame_samples: int) -> list[tuple[int, int]]:
    """The frames [first, end) of each segment."""
    count = len(trace.frames)
    return [(min(one.start // frame_samples, count), min(one.end // frame_samples, count)) for one in trace.segments()]
