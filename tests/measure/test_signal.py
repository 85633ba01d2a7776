"""Loudness, seams, spectral distance and resampling of known signals."""

import numpy as np
import pytest

from studio.measure.seams import seam_jumps, seam_report
from studio.measure.signal.loudness import active_level_db, first_audible_sample
from studio.measure.signal.spectral import RATE_HZ as RECOGNISER_HZ
from studio.measure.signal.spectral import at_16k, stft_distance

RATE_HZ = 24000


def noise(seconds: float, level: float = 3000.0, seed: int = 0) -> np.ndarray:
    return (np.random.default_rng(seed).normal(size=int(seconds * RATE_HZ)) * level).astype(np.int16)


def test_the_active_level_leaves_pauses_out():
    speech = noise(1.0)
    expected_db = 20 * np.log10(3000 / 32768)
    assert active_level_db(speech, RATE_HZ) == pytest.approx(expected_db, abs=0.2)
    mostly_pause = np.concatenate([noise(3.0, level=10.0, seed=1), speech, np.zeros(2 * RATE_HZ, np.int16)])
    assert active_level_db(mostly_pause, RATE_HZ) == pytest.approx(expected_db, abs=0.2)
    assert active_level_db(np.zeros(RATE_HZ, np.int16), RATE_HZ) == float("-inf")


def test_the_first_audible_block():
    level_db = 20 * np.log10(3000 / 32768)
    quiet = noise(0.1, level=3000 * 10 ** (-36 / 20), seed=1)
    soft = noise(0.1, level=3000 * 10 ** (-25 / 20), seed=2)
    pcm = np.concatenate([np.zeros(600, np.int16), quiet, soft, noise(0.1)])
    assert first_audible_sample(pcm, RATE_HZ, level_db) == 600 + len(quiet)
    assert first_audible_sample(quiet, RATE_HZ, level_db) is None


def tone(count: int, phase: float = 0.0) -> np.ndarray:
    return 8000 * np.sin(2 * np.pi * 200 * np.arange(count) / RATE_HZ + phase)


def test_clicks_at_seams_are_found_and_smooth_joins_are_not():
    count, seams = RATE_HZ, list(range(600, RATE_HZ - 600, 600))
    breath = np.random.default_rng(0).normal(size=count) * 5
    smooth = (tone(count) + breath).astype(np.int16)
    clicky = (tone(count) + breath + 300 * (np.arange(count) // 600 % 2)).astype(np.int16)
    good, bad = seam_report(smooth, seams), seam_report(clicky, seams)
    assert good.seams == bad.seams == len(seams)
    assert good.ratio < 2.5
    assert good.audible <= 0.1 * len(seams)
    assert bad.ratio > 5.0
    assert bad.audible == len(seams)


def test_silence_and_edges_have_no_seams_to_judge():
    assert seam_report(np.zeros(5000, np.int16), [600, 1200]).seams == 0
    assert seam_report(noise(0.1), [0, 1, 10**6]).seams == 0


def test_spectral_distance_is_zero_at_home_and_grows_with_difference():
    speech = noise(1.0)
    louder = (speech * 1.1).astype(np.int16)
    assert stft_distance(speech, speech) == 0.0
    assert stft_distance(louder, speech) == pytest.approx(0.1 + np.log(1.1), abs=0.01)
    assert stft_distance(noise(1.0, seed=5), speech) > 0.5
    assert stft_distance(speech[:-500], speech) == 0.0


def test_a_seam_tells_what_changes_there_and_a_smooth_place_does_not() -> None:
    """A tone that gets louder by 12 dB, then a click, then another pitch; and the same tone where nothing changes."""
    at = np.arange(RATE_HZ)
    tone = 2000.0 * np.sin(2 * np.pi * 220 * at / RATE_HZ)
    tone[6000:] *= 4.0
    tone[12_000] += 9000.0
    tone[18_000:] = 8000.0 * np.sin(2 * np.pi * 1760 * at[18_000:] / RATE_HZ)
    loud, click, other, smooth = seam_jumps(tone.astype(np.int16), RATE_HZ, [6000, 12_000, 18_000, 9000])
    assert loud.level_db == pytest.approx(12.04, abs=0.1) and abs(smooth.level_db) < 0.1
    assert loud.spectrum_db < 4.0 < 8.0 < other.spectrum_db, "louder is not another spectrum"
    assert smooth.spectrum_db < 1.0
    assert click.roughness > 5.0 > smooth.roughness
    report = seam_report(tone.astype(np.int16), [12_000])
    assert click.roughness == pytest.approx(report.ratio), "both tell the same roughness"


def test_seams_without_sound_on_both_sides_are_left_out() -> None:
    pcm = np.ones(1000, np.int16)
    assert seam_jumps(pcm, RATE_HZ, [0, 10, 995]) == []
    assert [one.sample for one in seam_jumps(pcm, RATE_HZ, [500, 520])] == [500, 520]
    assert seam_jumps(pcm[:0], RATE_HZ, [0]) == []


@pytest.mark.parametrize("rate_hz", [8000, 22050, 24000, 48000])
def test_resampling_keeps_tones_times_and_lengths(rate_hz):
    count = rate_hz // 2 + 7
    at_s = np.arange(count) / rate_hz
    tone = (10000 * np.sin(2 * np.pi * 1000 * at_s) * np.hanning(count)).astype(np.int16)
    out = at_16k(tone, rate_hz)
    assert out.dtype == np.int16
    assert abs(len(out) - count * RECOGNISER_HZ / rate_hz) <= 1
    times_s = np.arange(len(out)) / RECOGNISER_HZ
    expected = 10000 * np.sin(2 * np.pi * 1000 * times_s) * np.interp(times_s, at_s, np.hanning(count))
    assert np.abs(out - expected).max() < 20
