"""Recordings for new speakers: checked and cleaned. Each refusal states the fault and the remedy.

Cleaning: rumble and offset below 60 Hz are removed, silence around the speech is cut, and the speech is scaled to the
level of the shipped voices.
"""

import hashlib
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path

import numpy as np

from studio.core.clips import to_float
from studio.core.sound_files import SoundStream, one_channel_hint, read_mono
from studio.core.speakers import MAX_SPEECH_S, MIN_SPEECH_S, BadRecording
from studio.measure.signal import BLOCK_MS, active_level_db, block_levels_db

MAX_FILE_BYTES = 16_000_000
MAX_RECORDING_S = 60.0  # with the silence around the speech
LOWEST_RATE_HZ, HIGHEST_RATE_HZ = 8_000, 48_000
LEVEL_DB = -21.0  # active level of the shipped voices' speech, of full scale
RUMBLE_HZ = 60.0
_QUIET_DB = -45.0  # active level
_SILENT_DB = -65.0
_CLIPPED, _CLIPPED_SHARE = 32_700, 5e-4  # of the samples
_MIN_SNR_DB = 18.0  # active level above the quietest twentieth of the blocks
_MIN_SPREAD_DB = 3.0  # standard deviation of the levels of 20 ms: speech has 6 to 10, noise and tones below 2
_TONE_SHARE = 0.9  # of the power, within 3% of the strongest frequency
_BLOCKS = 4  # of 5 ms, averaged for a level
_EDGE_DB, _ABOVE_NOISE_DB = 30.0, 8.0  # speech begins this much below the active level, or above the noise
_PAUSE_S, _MARGIN_S = 0.2, 0.05
_MIN_SPEECH_SHARE = 0.4


@dataclass(frozen=True)
class CleanRecording:
    """A recording that can be used.

    Attributes:
        samples: float32 [T], cleaned.
        sha256: of the file.
        steps: the cleaning steps, as text for users.
        level_db: active level before cleaning.
        snr_db: active level above the quietest parts.
    """

    samples: np.ndarray = field(repr=False)
    rate_hz: int
    sha256: str
    steps: tuple[str, ...]
    level_db: float
    snr_db: float

    @property
    def length_s(self) -> float:
        return len(self.samples) / self.rate_hz


def read_reference(source: Path | bytes, name: str = "the recording") -> CleanRecording:
    """Read, check and clean a recording of one speaker.

    Raises:
        BadFile: no sound file, damaged, or too large.
        BadRecording: its rate, channels, length, level, noise or content do not fit.
    """
    data = source if isinstance(source, bytes) else _bytes_of(source)
    stream = SoundStream(data, name, MAX_FILE_BYTES)
    if not LOWEST_RATE_HZ <= stream.rate_hz <= HIGHEST_RATE_HZ:
        raise BadRecording(
            f"{name} has {stream.rate_hz:,} samples a second", f"record with {LOWEST_RATE_HZ:,} to {HIGHEST_RATE_HZ:,}"
        )
    most = round(MAX_RECORDING_S * stream.rate_hz)
    if stream.frames is not None and stream.frames > most:
        raise BadRecording(
            f"{name} lasts {stream.frames / stream.rate_hz:.0f} s", f"cut it to {MAX_SPEECH_S:.0f} s of speech"
        )
    if stream.channels > 1:
        survey = stream.survey(most)
        if not survey.are_equal and len(survey.sounding) > 1:
            raise BadRecording(f"{name} has {stream.channels} different channels", one_channel_hint(stream, survey))
    pcm, rate_hz = read_mono(BytesIO(data), name, most_samples=most)
    return clean(pcm, rate_hz, hashlib.sha256(data).hexdigest(), name)


def clean(pcm: np.ndarray, rate_hz: int, sha256: str, name: str = "the recording") -> CleanRecording:
    """Check and clean int16 samples [T]; see ``read_reference``. Raises BadRecording."""
    whole_s = len(pcm) / rate_hz
    if whole_s < MIN_SPEECH_S:
        raise BadRecording(f"{name} lasts {whole_s:.2f} s", f"speak for {MIN_SPEECH_S:.0f} to {MAX_SPEECH_S:.0f} s")
    if float((np.abs(pcm.astype(np.int32)) >= _CLIPPED).mean()) > _CLIPPED_SHARE:
        raise BadRecording(f"{name} is clipped: it is too loud for the recorder", "lower the input level, or step back")
    sound = to_float(pcm)
    sound, rumble_db = _without_rumble(sound, rate_hz)
    level_db = active_level_db(sound, rate_hz)
    if level_db < _SILENT_DB:
        raise BadRecording(f"{name} is silent", "check which microphone is used, and whether it is muted")
    blocks = block_levels_db(sound, rate_hz)
    power = 10.0 ** (blocks[: len(blocks) // _BLOCKS * _BLOCKS].reshape(-1, _BLOCKS) / 10.0)
    levels = 10.0 * np.log10(power.mean(axis=1))
    noise_db = float(np.percentile(levels, 5))
    _check_speech(sound, rate_hz, levels, level_db, name)
    if level_db < _QUIET_DB:
        raise BadRecording(
            f"{name} is too quiet: {level_db:.0f} dB", "speak closer to the microphone, or raise its level"
        )
    if level_db - noise_db < _MIN_SNR_DB:
        raise BadRecording(
            f"{name} is noisy: the speech is {level_db - noise_db:.0f} dB above the noise",
            f"record in a quiet room: at least {_MIN_SNR_DB:.0f} dB",
        )
    first, stop = _speech_extent(levels, max(level_db - _EDGE_DB, noise_db + _ABOVE_NOISE_DB), name)
    block = round(rate_hz * BLOCK_MS / 1000.0) * _BLOCKS
    margin = round(_MARGIN_S * rate_hz)
    start, end = max(0, first * block - margin), min(len(sound), stop * block + margin)
    length_s = (end - start) / rate_hz
    if not MIN_SPEECH_S <= length_s <= MAX_SPEECH_S:
        raise BadRecording(
            f"{name} has {length_s:.2f} s of speech", f"record {MIN_SPEECH_S:.0f} to {MAX_SPEECH_S:.0f} s of speech"
        )
    gain_db = LEVEL_DB - level_db
    steps = (
        f"cut {start / rate_hz:.1f} s before and {(len(sound) - end) / rate_hz:.1f} s after the speech",
        f"filtered out rumble below {RUMBLE_HZ:.0f} Hz ({rumble_db:.0f} dB)",
        f"{'raised' if gain_db > 0 else 'lowered'} the level by {abs(gain_db):.0f} dB",
    )
    samples = (sound[start:end] * 10.0 ** (gain_db / 20.0)).astype(np.float32)
    return CleanRecording(samples, rate_hz, sha256, steps, level_db, level_db - noise_db)


def _bytes_of(path: Path) -> bytes:
    """The bytes of a file; ``SoundStream`` raises the errors for unreadable files."""
    SoundStream(path, max_bytes=MAX_FILE_BYTES)
    return path.read_bytes()


def _without_rumble(sound: np.ndarray, rate_hz: int) -> tuple[np.ndarray, float]:
    """High-pass filter at 60 Hz: the filtered sound, and the level of the removed part, dB of full scale."""
    spectrum = np.fft.rfft(sound.astype(np.float64))
    freqs_hz = np.fft.rfftfreq(len(sound), 1.0 / rate_hz)
    edge = np.clip((freqs_hz - 0.75 * RUMBLE_HZ) / (0.5 * RUMBLE_HZ), 0.0, 1.0)
    filtered = np.fft.irfft(spectrum * np.sin(0.5 * np.pi * edge) ** 2, len(sound))
    removed = float(np.square(sound - filtered).mean())
    return filtered.astype(np.float32), 10.0 * float(np.log10(max(removed, 1e-12)))


def _check_speech(sound: np.ndarray, rate_hz: int, levels: np.ndarray, level_db: float, name: str) -> None:
    """Raises BadRecording for a tone, and for a sound whose level hardly changes."""
    power = np.square(np.abs(np.fft.rfft(sound)))
    peak_hz = float(power.argmax()) * rate_hz / len(sound)
    freqs_hz = np.fft.rfftfreq(len(sound), 1.0 / rate_hz)
    tone = power[np.abs(freqs_hz - peak_hz) <= 0.03 * peak_hz].sum() / power.sum()
    if tone > _TONE_SHARE:
        raise BadRecording(f"{name} is a tone of {peak_hz:.0f} Hz, not speech", "record a person who speaks")
    spread_db = float(levels[levels >= level_db - _EDGE_DB].std())
    if spread_db < _MIN_SPREAD_DB:
        raise BadRecording(f"{name} is a steady sound, not speech", "record a person who speaks")


def _speech_extent(levels: np.ndarray, threshold_db: float, name: str) -> tuple[int, int]:
    """First block of speech and the one after the last. Raises BadRecording: most of it is silence."""
    loud = levels >= threshold_db
    firm = np.flatnonzero(np.convolve(loud, np.ones(3), "same") >= 2)  # a click is shorter
    if not len(firm):
        raise BadRecording(f"{name} has no speech", "record a person who speaks")
    first, stop = int(firm[0]), int(firm[-1]) + 1
    pause = round(1000.0 * _PAUSE_S / BLOCK_MS / _BLOCKS)
    spoken = np.convolve(loud[first:stop], np.ones(pause), "same") > 0
    if spoken.mean() < _MIN_SPEECH_SHARE:
        raise BadRecording(f"most of {name} is silence", "speak without long pauses")
    return first, stop
