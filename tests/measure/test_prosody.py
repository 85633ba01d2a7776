"""Rate, pauses, level and pitch of sounds that are known to the sample."""

import numpy as np
import pytest

from studio.measure.signal.prosody import pitch_in_pieces, prosody, speaking_rate

RATE_HZ = 24_000


def voice(hz: float, length_s: float, amplitude: float = 8000.0) -> np.ndarray:
    """A buzz with ten harmonics, int16: WORLD hears no voice in a pure tone's absence of them."""
    time_s = np.arange(round(length_s * RATE_HZ)) / RATE_HZ
    wave = sum(np.sin(2 * np.pi * hz * k * time_s) / k for k in range(1, 11))
    return (amplitude * np.asarray(wave) / np.abs(wave).max()).astype(np.int16)


def quiet(length_s: float) -> np.ndarray:
    return np.zeros(round(length_s * RATE_HZ), np.int16)


def test_pauses_are_silences_of_150_ms_between_sounds() -> None:
    sound = np.concatenate([quiet(0.3), voice(120, 0.5), quiet(0.2), voice(120, 0.4), quiet(0.1), voice(120, 0.4)])
    found = prosody(np.concatenate([sound, quiet(0.5)]), RATE_HZ)
    assert found.audible == pytest.approx((0.3, 1.9), abs=0.01)
    [(start_s, end_s)] = found.pauses()  # a tenth of a second is the closure of a stop
    assert (start_s, end_s) == pytest.approx((0.8, 1.0), abs=0.01)
    rate = speaking_rate(8, found, found.pauses())
    assert rate is not None
    assert rate.words_per_min == pytest.approx(60 * 8 / 1.6, rel=0.02)
    assert rate.articulation_per_min == pytest.approx(60 * 8 / 1.4, rel=0.02)


@pytest.mark.parametrize("hz", [90.0, 210.0, 330.0])
def test_pitch_is_that_of_the_voice(hz: float) -> None:
    found = prosody(voice(hz, 0.6), RATE_HZ)
    assert found.pitch_of(50) == pytest.approx(hz, rel=0.01)
    assert len(found.pitch_hz) == len(found.level_db)


def test_a_jump_of_pitch_is_told_in_semitones() -> None:
    found = prosody(np.concatenate([voice(110, 0.5), voice(165, 0.5)]), RATE_HZ)
    assert found.pitch_jump_st(0.5) == pytest.approx(12 * np.log2(1.5), abs=1.5)
    apart = prosody(np.concatenate([voice(110, 0.5), quiet(0.5)]), RATE_HZ)
    assert apart.pitch_jump_st(0.5) is None


def test_level_and_pitch_stay_together_at_any_rate() -> None:
    """A step of 5 ms is no whole number of samples at 22,050 Hz; after a minute it still has to be the same place."""
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


def test_pitch_in_pieces_is_that_of_the_whole() -> None:
    """Also over the edges of pieces, and to the last step."""
    rate_hz, step = 24_000, 120
    time_s = np.arange(round(3.37 * rate_hz)) / rate_hz
    hz = 140 + 40 * np.sin(2 * np.pi * 0.7 * time_s)
    phase = 2 * np.pi * np.cumsum(hz) / rate_hz
    sound = sum(np.sin(k * phase) / k for k in range(1, 9)) / 4
    found = pitch_in_pieces(np.asarray(sound), rate_hz, step)
    assert len(found) == len(sound) // step
    inner = slice(10, -10)
    assert found[inner] == pytest.approx(hz[::step][: len(found)][inner], rel=0.02)


def test_a_hum_in_a_silence_has_no_pitch_and_speech_keeps_its_own() -> None:
    """Noise and a mains hum 45 dB below the speech beside them: DIO alone finds a voice there."""
    speech = voice(100, 1.0).astype(float)
    below = 10 ** (-45 / 20) * np.sqrt(np.mean(speech**2))
    hum = voice(150, 3.0).astype(float)
    noise = 0.1 * np.random.default_rng(2).standard_normal(3 * RATE_HZ)
    sound = below * (hum / np.sqrt(np.mean(hum**2)) + noise)
    sound[RATE_HZ : 2 * RATE_HZ] += speech
    pcm = sound.astype(np.int16)
    found = prosody(pcm, RATE_HZ)
    alone = pitch_in_pieces(pcm / 32768.0, RATE_HZ, 120)
    around = np.r_[0:190, 410:600]  # steps of 5 ms, with 50 ms left out beside the voice
    assert (alone[around] > 0).mean() > 0.5, "without the gate there is one"
    assert not (found.pitch_hz[around] > 0).any()
    inside = found.pitch_hz[210:390]
    assert (inside > 0).all() and np.median(inside) == pytest.approx(100, rel=0.01)
