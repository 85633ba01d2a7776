"""Loudness, seams, spectral distance, resampling, rate, pauses, level and pitch of known signals."""

import numpy as np
import pytest

from studio.measure.prosody import pitch_in_pieces, prosody, speaking_rate
from studio.measure.seams import seam_jumps
from studio.measure.signal import RATE_HZ as RECOGNISER_HZ
from studio.measure.signal import active_level_db, at_16k, first_audible_sample, stft_distance

RATE_HZ = 24000


def noise(seconds: float, level: float = 3000.0, seed: int = 0) -> np.ndarray:
    return (np.random.default_rng(seed).normal(size=int(seconds * RATE_HZ)) * level).astype(np.int16)


def test_active_level_leaves_pauses_out():
    speech = noise(1.0)
    expected_db = 20 * np.log10(3000 / 32768)
    assert active_level_db(speech, RATE_HZ) == pytest.approx(expected_db, abs=0.2)
    mostly_pause = np.concatenate([noise(3.0, level=10.0, seed=1), speech, np.zeros(2 * RATE_HZ, np.int16)])
    assert active_level_db(mostly_pause, RATE_HZ) == pytest.approx(expected_db, abs=0.2)
    assert active_level_db(np.zeros(RATE_HZ, np.int16), RATE_HZ) == float("-inf")


def test_first_audible_block():
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
    good, bad = ([one.roughness for one in seam_jumps(pcm, RATE_HZ, seams)] for pcm in (smooth, clicky))
    assert len(good) == len(bad) == len(seams)
    assert np.median(good) < 2.5
    assert min(bad) > 5.0


def test_spectral_distance_is_zero_for_equal_sounds_and_grows():
    speech = noise(1.0)
    louder = (speech * 1.1).astype(np.int16)
    assert stft_distance(speech, speech) == 0.0
    assert stft_distance(louder, speech) == pytest.approx(0.1 + np.log(1.1), abs=0.01)
    assert stft_distance(noise(1.0, seed=5), speech) > 0.5
    assert stft_distance(speech[:-500], speech) == 0.0


def test_seam_measures_separate_level_click_and_pitch() -> None:
    """A tone that gets 12 dB louder, then a click, then another pitch; and a tone without changes."""
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


def voice(hz: float, length_s: float, amplitude: float = 8000.0) -> np.ndarray:
    """A buzz with ten harmonics, int16: WORLD finds no voice in a pure tone."""
    time_s = np.arange(round(length_s * RATE_HZ)) / RATE_HZ
    wave = sum(np.sin(2 * np.pi * hz * k * time_s) / k for k in range(1, 11))
    return (amplitude * np.asarray(wave) / np.abs(wave).max()).astype(np.int16)


def quiet(length_s: float) -> np.ndarray:
    return np.zeros(round(length_s * RATE_HZ), np.int16)


def test_pauses_are_silences_of_150_ms_between_sounds() -> None:
    sound = np.concatenate([quiet(0.3), voice(120, 0.5), quiet(0.2), voice(120, 0.4), quiet(0.1), voice(120, 0.4)])
    found = prosody(np.concatenate([sound, quiet(0.5)]), RATE_HZ)
    assert found.audible == pytest.approx((0.3, 1.9), abs=0.01)
    [(start_s, end_s)] = found.pauses()  # a tenth of a second is a stop's closure
    assert (start_s, end_s) == pytest.approx((0.8, 1.0), abs=0.01)
    rate = speaking_rate(8, found, found.pauses())
    assert rate is not None
    assert rate.words_per_min == pytest.approx(60 * 8 / 1.6, rel=0.02)
    assert rate.articulation_per_min == pytest.approx(60 * 8 / 1.4, rel=0.02)


@pytest.mark.parametrize("hz", [90.0, 210.0, 330.0])
def test_pitch_equals_that_of_the_voice(hz: float) -> None:
    found = prosody(voice(hz, 0.6), RATE_HZ)
    assert found.pitch_of(50) == pytest.approx(hz, rel=0.01)
    assert len(found.pitch_hz) == len(found.level_db)


def test_pitch_jump_is_in_semitones() -> None:
    found = prosody(np.concatenate([voice(110, 0.5), voice(165, 0.5)]), RATE_HZ)
    assert found.pitch_jump_st(0.5) == pytest.approx(12 * np.log2(1.5), abs=1.5)
    apart = prosody(np.concatenate([voice(110, 0.5), quiet(0.5)]), RATE_HZ)
    assert apart.pitch_jump_st(0.5) is None


def test_level_and_pitch_stay_aligned_at_any_rate() -> None:
    """5 ms is no whole number of samples at 22,050 Hz; after a minute the positions must still agree."""
    rate_hz = 22_050
    time_s = np.arange(60 * rate_hz) / rate_hz
    buzz = sum(np.sin(2 * np.pi * 130 * k * time_s) / k for k in range(1, 8))
    pcm = (4000 * np.asarray(buzz)).astype(np.int16)
    pcm[: 59 * rate_hz] = 0
    found = prosody(pcm, rate_hz)
    first = np.flatnonzero(found.pitch_hz)[0] * found.step_s
    assert first == pytest.approx(59.0, abs=0.03) and found.audible is not None
    assert found.audible[0] == pytest.approx(59.0, abs=0.03)


def test_silence_has_neither_rate_nor_pitch() -> None:
    found = prosody(quiet(1.0), RATE_HZ)
    assert found.audible is None or found.pitch_of(50) is None
    assert speaking_rate(3, prosody(np.zeros(0, np.int16), RATE_HZ), []) is None
    assert prosody(voice(120, 0.3), RATE_HZ, with_pitch=False).pitch_of(50) is None


def test_pitch_by_pieces_equals_the_whole() -> None:
    """Across the edges of pieces, up to the last step."""
    rate_hz, step = 24_000, 120
    time_s = np.arange(round(3.37 * rate_hz)) / rate_hz
    hz = 140 + 40 * np.sin(2 * np.pi * 0.7 * time_s)
    phase = 2 * np.pi * np.cumsum(hz) / rate_hz
    sound = sum(np.sin(k * phase) / k for k in range(1, 9)) / 4
    found = pitch_in_pieces(np.asarray(sound), rate_hz, step)
    assert len(found) == len(sound) // step
    inner = slice(10, -10)
    assert found[inner] == pytest.approx(hz[::step][: len(found)][inner], rel=0.02)


def test_hum_in_silence_has_no_pitch_and_speech_keeps_its_own() -> None:
    """Noise and mains hum 45 dB below the speech beside them: DIO alone finds a voice there."""
    speech = voice(100, 1.0).astype(float)
    below = 10 ** (-45 / 20) * np.sqrt(np.mean(speech**2))
    hum = voice(150, 3.0).astype(float)
    noise = 0.1 * np.random.default_rng(2).standard_normal(3 * RATE_HZ)
    sound = below * (hum / np.sqrt(np.mean(hum**2)) + noise)
    sound[RATE_HZ : 2 * RATE_HZ] += speech
    pcm = sound.astype(np.int16)
    found = prosody(pcm, RATE_HZ)
    alone = pitch_in_pieces(pcm / 32768.0, RATE_HZ, 120)
    around = np.r_[0:190, 410:600]  # steps of 5 ms, leaving out 50 ms beside the voice
    assert (alone[around] > 0).mean() > 0.5, "without the gate there is one"
    assert not (found.pitch_hz[around] > 0).any()
    inside = found.pitch_hz[210:390]
    assert (inside > 0).all() and np.median(inside) == pytest.approx(100, rel=0.01)
