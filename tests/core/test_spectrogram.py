"""Spectrogram pictures: tones are in their band, and the colour map's lightness increases."""

import numpy as np
import pytest

from studio.measure.signal import colour_map, log_mel, mel_filters, picture

RATE_HZ = 24000


def tone(hz: float, seconds: float = 0.5) -> np.ndarray:
    return (32767 * np.sin(2 * np.pi * hz * np.arange(int(seconds * RATE_HZ)) / RATE_HZ)).astype(np.int16)


@pytest.mark.parametrize("hz", [300.0, 1000.0, 4000.0, 9000.0])
def test_tone_peaks_near_full_scale_in_its_band(hz):
    column = log_mel(tone(hz), RATE_HZ).mean(axis=1)
    filters = mel_filters(RATE_HZ, 1024, 80, 40.0, RATE_HZ / 2)
    band = filters[:, round(hz / (RATE_HZ / 1024))].argmax()
    assert abs(int(column.argmax()) - int(band)) <= 1
    assert -8.0 < column.max() < 6.0


def test_shape_is_bins_by_hops_and_silence_is_the_floor():
    out = log_mel(np.zeros(RATE_HZ, np.int16), RATE_HZ, bins=64)
    assert out.shape == (64, 100)
    assert out.dtype == np.float32
    assert np.all(out == -100.0)


def test_long_and_short_recordings_agree():
    noise = (np.random.default_rng(0).normal(size=30 * RATE_HZ) * 3000).astype(np.int16)
    whole = log_mel(noise, RATE_HZ)
    tail = log_mel(noise[20 * RATE_HZ :], RATE_HZ)
    assert np.allclose(whole[:, 2010:], tail[:, 10:], atol=1e-3)


def test_empty_recording_gives_an_empty_picture():
    assert log_mel(np.zeros(0, np.int16), RATE_HZ).shape == (80, 0)


def test_no_band_is_empty_even_where_bands_are_narrow():
    assert (mel_filters(16000, 512, 128, 20.0, 8000.0).max(axis=1) > 0).all()


def test_colour_map_increases_in_lightness_and_differs_from_grey():
    table = colour_map()
    assert table.shape == (256, 3)
    assert table.dtype == np.uint8
    luma = table @ np.array([0.2126, 0.7152, 0.0722])
    assert (np.diff(luma) > -0.6).all()
    assert luma[-1] - luma[0] > 180
    assert np.ptp(table.astype(int), axis=1).max() > 100


def test_picture_has_high_bands_at_the_top():
    image = picture(log_mel(tone(300.0), RATE_HZ))
    brightest = image.sum(axis=2).mean(axis=1).argmax()
    assert image.shape[2] == 3
    assert brightest > image.shape[0] // 2
