"""Pitch targets: what the teacher's larynx does in each control hop."""

import numpy as np
from numpy.typing import NDArray

from studio.measure.signal.pitch import pitch_hz


def hop_pitch(
    pcm: NDArray[np.float32],
    hops: int,
    *,
    sample_rate_hz: int,
    hop_samples: int,
    phase: int,
    low_hz: float = 55.0,
    high_hz: float = 420.0,
) -> NDArray[np.float32]:
    """The pitch reached at the end of every control hop, in Hz; 0 where there is no voice.

    Hop j owns samples [j * hop - phase, (j + 1) * hop - phase), so it ends at sample (j + 1) * hop - phase.

    Args:
        pcm: [T] sound in [-1, 1].
        hops: how many hops are wanted.

    Raises:
        NeedsPackage: pyworld is not installed.
    """
    period_ms = 1000 * hop_samples / sample_rate_hz
    fine = pitch_hz(pcm, sample_rate_hz, period_ms, low_hz, high_hz)
    at = np.arange(1, hops + 1) - round(phase / hop_samples)
    inside = (at >= 0) & (at < len(fine))
    return np.where(inside, fine[at.clip(0, len(fine) - 1)], 0.0).astype(np.float32)
