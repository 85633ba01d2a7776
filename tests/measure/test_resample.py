"""Sound brought to 16 kHz for measuring."""

import numpy as np
import pytest

from studio.measure.signal.resample import RATE_HZ, at_16k


@pytest.mark.parametrize("rate_hz", [8000, 22050, 24000, 48000])
def test_resampling_keeps_tones_times_and_lengths(rate_hz):
    count = rate_hz // 2 + 7
    at_s = np.arange(count) / rate_hz
    tone = (10000 * np.sin(2 * np.pi * 1000 * at_s) * np.hanning(count)).astype(np.int16)
    out = at_16k(tone, rate_hz)
    assert out.dtype == np.int16
    assert abs(len(out) - count * RATE_HZ / rate_hz) <= 1
    times_s = np.arange(len(out)) / RATE_HZ
    wanted = 10000 * np.sin(2 * np.pi * 1000 * times_s) * np.interp(times_s, at_s, np.hanning(count))
    assert np.abs(out - wanted).max() < 20
