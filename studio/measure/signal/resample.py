"""Sound at 16 kHz, the rate of recognisers and of predictors of quality."""

from math import gcd

import numpy as np

RATE_HZ = 16000


def at_16k(pcm: np.ndarray, rate_hz: int) -> np.ndarray:
    """int16 [T] at 16 kHz, by cutting or padding the spectrum: for measuring, not for a voice's features."""
    if rate_hz == RATE_HZ or not len(pcm):
        return pcm
    # A spectrum is periodic: silence keeps the end from ringing into the start. The length is a whole number of both
    # rates' common steps, so that no time is stretched.
    step = rate_hz // gcd(rate_hz, RATE_HZ)
    length = -(-(len(pcm) + rate_hz // 10) // step) * step
    padded = np.pad(pcm.astype(np.float64), (0, length - len(pcm)))
    count = length // step * (RATE_HZ * step // rate_hz)
    resampled = np.fft.irfft(np.fft.rfft(padded)[: count // 2 + 1], count) * (count / len(padded))
    out = resampled[: round(len(pcm) * RATE_HZ / rate_hz)]
    return np.clip(np.rint(out), -32768, 32767).astype(np.int16)
