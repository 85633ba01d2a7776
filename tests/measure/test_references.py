"""Recordings for new speakers: what is refused, by its reason, and what is cleaned."""

from io import BytesIO

import numpy as np
import pytest
import soundfile

from studio.core.errors import BadFile
from studio.core.speakers import BadRecording
from studio.measure.references import LEVEL_DB, MAX_FILE_BYTES, read_reference
from studio.measure.signal import active_level_db

RATE_HZ = 24_000


def speechlike(seconds: float = 5.0, rate_hz: int = RATE_HZ, level: float = 0.1) -> np.ndarray:
    """Syllables of a buzz, four a second, with different loudness: float [T]."""
    t = np.arange(round(seconds * rate_hz)) / rate_hz
    buzz = sum(np.sin(2 * np.pi * 120 * k * t) / k for k in range(1, 20))
    loudness = np.sin(2 * np.pi * 2 * t) ** 2 * (0.4 + 0.6 * np.sin(2 * np.pi * 0.35 * t) ** 2)
    return level * buzz * loudness


def quiet(seconds: float, rate_hz: int = RATE_HZ, level: float = 1e-4) -> np.ndarray:
    return np.random.default_rng(1).normal(0.0, level, round(seconds * rate_hz))


def wav(sound: np.ndarray, rate_hz: int = RATE_HZ, form: str = "WAV") -> bytes:
    file = BytesIO()
    soundfile.write(file, sound, rate_hz, format=form)
    return file.getvalue()


def test_silence_rumble_and_offset_are_removed_and_the_level_is_set() -> None:
    sound = np.concatenate((quiet(0.8), speechlike(5.0, level=0.02), quiet(0.6)))
    t = np.arange(len(sound)) / RATE_HZ
    made = read_reference(wav(sound + 0.05 + 0.02 * np.sin(2 * np.pi * 30 * t)))
    assert made.length_s == pytest.approx(5.0, abs=0.25)
    assert active_level_db(made.samples, RATE_HZ) == pytest.approx(LEVEL_DB, abs=0.5)
    assert abs(float(made.samples.mean())) < 1e-3
    spectrum = np.abs(np.fft.rfft(made.samples))
    low = np.fft.rfftfreq(len(made.samples), 1 / RATE_HZ) < 40
    assert np.square(spectrum[low]).sum() < 1e-3 * np.square(spectrum).sum()
    assert made.steps[0].startswith("cut 0.") and made.steps[2].startswith("raised the level")
    assert len(made.sha256) == 64 and made.snr_db > 20


@pytest.mark.parametrize("rate_hz", [8_000, 16_000, 44_100, 48_000])
@pytest.mark.parametrize("form", ["WAV", "FLAC"])
def test_usual_rates_and_formats(rate_hz: int, form: str) -> None:
    made = read_reference(wav(speechlike(4.0, rate_hz), rate_hz, form))
    assert made.rate_hz == rate_hz and 3.0 <= made.length_s <= 4.0


def test_channels_that_are_equal_count_as_one() -> None:
    one = speechlike()
    assert read_reference(wav(np.stack([one, one], 1))).length_s > 4.0
    assert read_reference(wav(np.stack([one, 0 * one], 1))).length_s > 4.0


TONE = 0.2 * np.sin(2 * np.pi * 440 * np.arange(5 * RATE_HZ) / RATE_HZ)
BEEPS = TONE * (np.arange(len(TONE)) % RATE_HZ < RATE_HZ // 4)


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (wav(speechlike(2.0)), "lasts 2.00 s; speak for 3 to 10 s"),
        (wav(np.concatenate((quiet(2.0), speechlike(2.0), quiet(2.0)))), "of speech; record 3 to 10 s of speech"),
        (wav(speechlike(14.0)), "of speech; record 3 to 10 s of speech"),
        (wav(speechlike(61.0)), "lasts 61 s; cut it"),
        (wav(np.zeros(5 * RATE_HZ)), "is silent"),
        (wav(np.clip(speechlike(level=3.0), -1, 1)), "is clipped"),
        (wav(speechlike(level=0.002)), "is too quiet: -"),
        (wav(speechlike() + quiet(5.0, level=0.025)), "is noisy: the speech is"),
        (wav(TONE), "is a tone of 440 Hz, not speech"),
        (wav(BEEPS), "is a tone of 440 Hz, not speech"),
        (wav(quiet(5.0, level=0.1)), "is a steady sound, not speech"),
        (wav(np.concatenate((speechlike(0.6), quiet(6.0), speechlike(0.6)))), "is silence; speak without long pauses"),
        (wav(speechlike(5.0, 96_000), 96_000), "96,000 samples a second"),
        (wav(speechlike(5.0, 4_000), 4_000), "4,000 samples a second"),
        (wav(np.stack([speechlike(), TONE], 1)), "2 different channels; take one channel"),
    ],
)
def test_recording_that_is_refused(data: bytes, match: str) -> None:
    with pytest.raises(BadRecording, match=match):
        read_reference(data)


@pytest.mark.parametrize("data", [b"", b"GIF89a", wav(speechlike())[:200], b"RIFF" + bytes(MAX_FILE_BYTES)])
def test_no_sound_file(data: bytes) -> None:
    with pytest.raises(BadFile):
        read_reference(data)
