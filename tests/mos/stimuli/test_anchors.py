"""Anchors meet BS.1534-3's mask at every rate, and stand in step with their original."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from studio.core.errors import BadOption
from studio.mos.stimuli.derived import LOW_HZ, MID_HZ, anchor, anchor_taps
from studio.mos.store.sounds import SourceSound

RATES_HZ = (16_000, 22_050, 24_000, 44_100, 48_000)


def gain_db(taps, hz, rate_hz):
    response = np.exp(-2j * np.pi * np.outer(np.atleast_1d(hz), np.arange(len(taps))) / rate_hz) @ taps
    return 20 * np.log10(np.maximum(np.abs(response), 1e-12))


@pytest.mark.parametrize("rate_hz", RATES_HZ)
def test_the_low_anchor_meets_the_mask(rate_hz):
    taps = anchor_taps(rate_hz, LOW_HZ)
    assert np.abs(gain_db(taps, np.arange(0, 3501, 10), rate_hz)).max() <= 0.1
    assert gain_db(taps, np.arange(4000, 4500, 10), rate_hz).max() <= -25
    assert gain_db(taps, np.arange(4500, rate_hz / 2, 10), rate_hz).max() <= -50


@pytest.mark.parametrize("rate_hz", RATES_HZ)
def test_the_mid_anchor_meets_it_in_proportion(rate_hz):
    taps = anchor_taps(rate_hz, MID_HZ)
    assert np.abs(gain_db(taps, np.arange(0, 7001, 10), rate_hz)).max() <= 0.1
    assert gain_db(taps, np.arange(8000, rate_hz / 2 + 1, 10), rate_hz).max() <= -25
    assert gain_db(taps, np.arange(min(9000, rate_hz / 2), rate_hz / 2 + 1, 10), rate_hz).max() <= -50


@pytest.mark.parametrize("cutoff_hz", [LOW_HZ, MID_HZ])
@settings(max_examples=20, deadline=None)
@given(at=st.integers(1000, 20_000), rate_hz=st.sampled_from(RATES_HZ))
def test_an_impulse_stays_where_it_was(cutoff_hz, at, rate_hz):
    pcm = np.zeros(24_000, np.float32)
    pcm[at] = 0.5
    out = anchor(SourceSound(pcm, rate_hz), cutoff_hz).pcm
    assert len(out) == len(pcm) and out.dtype == np.float32
    assert int(np.argmax(np.abs(out))) == at
    assert np.allclose(out[at - 500 : at], out[at + 1 : at + 501][::-1], atol=1e-6)  # symmetric: no phase shift


def test_what_lies_below_passes_and_what_lies_above_goes():
    rate_hz = 24_000
    time_s = np.arange(2 * rate_hz) / rate_hz
    low, high = 0.2 * np.sin(2 * np.pi * 1000 * time_s), 0.2 * np.sin(2 * np.pi * 5000 * time_s)
    out = anchor(SourceSound((low + high).astype(np.float32), rate_hz), LOW_HZ)
    middle = slice(2000, -2000)
    assert np.abs(out.pcm - low)[middle].max() < 0.001
    both = anchor(SourceSound((low + high).astype(np.float32), rate_hz), MID_HZ)
    assert np.abs(both.pcm - low - high)[middle].max() < 0.001


def test_only_two_anchors_are_known():
    with pytest.raises(BadOption, match="3500 or 7000"):
        anchor(SourceSound(np.zeros(16_000, np.float32), 16_000), 5000)
