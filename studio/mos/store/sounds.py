"""Import of audio files: decoding and checks, resampling, loudness measurement and normalisation."""
# pyright: reportMissingTypeStubs=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# (scipy, pyloudnorm and soundfile carry no types)

import io
import math
import os
import warnings
import wave
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyloudnorm
from scipy.signal import resample_poly

from studio.core.clips import to_float
from studio.core.errors import BadFile, BadOption, NeedsPackage, Unavailable

MAX_FILE_BYTES = 64 * 2**20
SHORTEST_S, LONGEST_S = 0.5, 120.0
LOWEST_RATE_HZ, HIGHEST_RATE_HZ = 16_000, 192_000
TELEPHONE_RATE_HZ = 8_000  # the lowest rate of a campaign with ``narrowband``
HIGHEST_CAMPAIGN_RATE_HZ = 48_000
TARGET_LUFS = -23.0  # EBU R 128
PEAK_LIMIT_DBFS = -1.0
_SILENT_LUFS = -70.0  # the absolute gate of BS.1770-4
_SILENT_PEAK = 1e-3
_FULL_SCALE = 32767 / 32768
_CANCELLED = 0.25  # share of the channels' power left in their mean; below it they are in antiphase
_FADE_S = 0.005  # the raised cosine that BS.1534-3 section 5.3 asks for where content is cut


@dataclass(frozen=True, eq=False)
class SourceSound:
    """Mono samples, float32 [T], full scale at 1."""

    pcm: np.ndarray
    rate_hz: int
    name: str = "the sound"
    clipped: bool = False  # at least three consecutive samples are at full scale
    mixed: bool = False  # the mean of channels that differ

    @property
    def duration_s(self) -> float:
        """Duration in seconds."""
        return len(self.pcm) / self.rate_hz


@dataclass(frozen=True, eq=False)
class NormalisedSound:
    """A sound at its new level, float32 [T], with measurements."""

    pcm: np.ndarray
    gain_db: float
    lufs_before: float
    lufs_after: float
    peak_dbfs: float


def read_sound(path: Path, longest_s: float = LONGEST_S, lowest_rate_hz: int = LOWEST_RATE_HZ) -> SourceSound:
    """Read a WAV or FLAC file, mixed down to mono. 16-bit WAV needs no package, other formats need soundfile.

    Raises BadFile: missing, too large, damaged, another format, stereo whose channels cancel each other, too short, too
    long, a rate below ``lowest_rate_hz``, or silent; NeedsPackage: the format needs soundfile, which is not installed.
    """
    data = _bytes_of(path)
    if data[:4] == b"RIFF" and data[8:12] == b"WAVE":
        found = _plain_wav(data, path.name) or _by_soundfile(data, path.name, longest_s, lowest_rate_hz)
    elif data[:4] == b"fLaC":
        found = _by_soundfile(data, path.name, longest_s, lowest_rate_hz)
    else:
        raise BadFile(f"{path.name} is neither WAV nor FLAC", "convert it to mono 16-bit WAV")
    return _checked(*found, path.name, longest_s, lowest_rate_hz)


def sound_from_pcm(pcm: np.ndarray, rate_hz: int, name: str) -> SourceSound:
    """A sound from int16 samples [T], with the same checks as a file. Raises BadFile."""
    return _checked(to_float(pcm)[:, None], rate_hz, name, LONGEST_S, LOWEST_RATE_HZ)


def _checked(channels: np.ndarray, rate_hz: int, name: str, longest_s: float, lowest_rate_hz: int) -> SourceSound:
    """A sound from channels float32 [T, C]. Raises BadFile."""
    _check_length(name, len(channels), rate_hz, longest_s, lowest_rate_hz)
    if not np.isfinite(channels).all():
        raise BadFile(f"{name} holds samples that are not numbers", "write it again")
    mixed = not (channels == channels[:, :1]).all()
    pcm = channels.mean(axis=1, dtype=np.float64).astype(np.float32) if mixed else np.ascontiguousarray(channels[:, 0])
    if np.abs(channels).max() < _SILENT_PEAK:
        raise BadFile(f"{name} is silent", "give a recording, or leave the script out")
    if mixed and np.square(pcm, dtype=np.float64).mean() < _CANCELLED * np.square(channels, dtype=np.float64).mean():
        raise BadFile(
            f"{name} has {channels.shape[1]} channels that cancel each other",
            f"make it mono of one of them, for example: ffmpeg -i {name} -af pan=mono|c0=c0 mono.wav",
        )
    full = np.abs(channels).max(axis=1) >= _FULL_SCALE
    return SourceSound(pcm, rate_hz, name, bool((full[:-2] & full[1:-1] & full[2:]).any()), mixed)


def _bytes_of(path: Path) -> bytes:
    """The file's bytes; the size is checked before reading."""
    if not path.is_file():
        raise BadFile(f"there is no file {path}", "check the path")
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > MAX_FILE_BYTES:
                raise BadFile(
                    f"{path.name} has {size / 2**20:.0f} MiB", f"a clip may have {MAX_FILE_BYTES // 2**20} MiB at most"
                )
            return file.read(MAX_FILE_BYTES)
    except PermissionError as error:
        raise BadFile(f"{path.name} cannot be read: {error.strerror}", "check its permissions") from error
    except OSError as error:  # a disk error, not a bad file: it may be readable later
        raise Unavailable(f"{path.name} cannot be read: {error.strerror}", "try again") from error


def _plain_wav(data: bytes, name: str) -> tuple[np.ndarray, int] | None:
    """Channels float32 [T, C] and rate of a 16-bit PCM WAV; None for formats the standard library cannot read."""
    try:
        with wave.open(io.BytesIO(data), "rb") as wav:
            channels, frames, rate_hz = wav.getnchannels(), wav.getnframes(), wav.getframerate()
            if wav.getsampwidth() != 2:
                return None
            samples = wav.readframes(frames)
    except (EOFError, RuntimeError) as error:  # RuntimeError: a chunk is shorter than its header says
        raise BadFile(f"{name} is damaged: it is cut short", "write it again") from error
    except wave.Error:
        return None
    if len(samples) < 2 * channels * frames:
        raise BadFile(f"{name} is damaged: its header announces {frames} samples, it has fewer", "write it again")
    return to_float(np.frombuffer(samples, "<i2").reshape(-1, channels)), rate_hz


def _by_soundfile(data: bytes, name: str, longest_s: float, lowest_rate_hz: int) -> tuple[np.ndarray, int]:
    """Channels float32 [T, C] and rate of any other format; the length is checked before decoding."""
    try:
        import soundfile
    except ImportError as error:
        raise NeedsPackage(
            f"{name} is not plain 16-bit WAV", "convert it to mono 16-bit PCM WAV, or pip install soundfile"
        ) from error
    try:
        with soundfile.SoundFile(io.BytesIO(data)) as file:
            _check_length(name, file.frames, file.samplerate, longest_s, lowest_rate_hz)
            return file.read(dtype="float32", always_2d=True), file.samplerate
    except soundfile.SoundFileError as error:
        raise BadFile(f"{name} is damaged: {error}", "write it again as mono 16-bit WAV") from error


def _check_length(name: str, samples: int, rate_hz: int, longest_s: float, lowest_rate_hz: int) -> None:
    if not lowest_rate_hz <= rate_hz <= HIGHEST_RATE_HZ:
        telephone = f"; for telephone speech set narrowband = true, then {TELEPHONE_RATE_HZ}"
        raise BadFile(
            f"{name} has {rate_hz} samples a second",
            f"{lowest_rate_hz} to {HIGHEST_RATE_HZ} are allowed; make it again at a rate in that range"
            + (telephone if TELEPHONE_RATE_HZ <= rate_hz < lowest_rate_hz else ""),
        )
    if not SHORTEST_S <= samples / rate_hz <= longest_s:
        raise BadFile(f"{name} lasts {samples / rate_hz:.2f} s", f"a clip lasts {SHORTEST_S:g} to {longest_s:g} s")


def campaign_rate_hz(rates_hz: Iterable[int]) -> int:
    """A campaign's rate: the highest of its sounds, 48 kHz at most."""
    return min(max(rates_hz), HIGHEST_CAMPAIGN_RATE_HZ)


def resample(sound: SourceSound, rate_hz: int) -> SourceSound:
    """Resample to ceil(T * rate_hz / sound.rate_hz) samples."""
    if rate_hz == sound.rate_hz:
        return sound
    shared = math.gcd(rate_hz, sound.rate_hz)
    pcm = resample_poly(sound.pcm.astype(np.float64), rate_hz // shared, sound.rate_hz // shared)
    return replace(sound, pcm=pcm.astype(np.float32), rate_hz=rate_hz)


def split_excerpts(sound: SourceSound, seconds: float = 30.0) -> tuple[SourceSound, SourceSound]:
    """The first and last ``seconds`` as separate stimuli (paper 002, section H.1); a shorter sound is returned whole.

    Cuts fade over 5 ms to avoid clicks.
    """
    count = round(seconds * sound.rate_hz)
    if len(sound.pcm) <= count:
        return sound, sound
    fade_samples = round(_FADE_S * sound.rate_hz)
    fade = (0.5 + 0.5 * np.cos(np.pi * (np.arange(fade_samples) + 1) / fade_samples)).astype(np.float32)
    first, last = sound.pcm[:count].copy(), sound.pcm[-count:].copy()
    first[-fade_samples:] *= fade
    last[:fade_samples] *= fade[::-1]
    return (
        replace(sound, pcm=first, name=f"the first {seconds:g} s of {sound.name}"),
        replace(sound, pcm=last, name=f"the last {seconds:g} s of {sound.name}"),
    )


def loudness_lufs(sound: SourceSound) -> float:
    """Integrated loudness of a mono sound (ITU-R BS.1770-4). Raises BadFile if it is silent or under 0.4 s."""
    if sound.duration_s < 0.4:
        raise BadFile(f"{sound.name} lasts {sound.duration_s:.2f} s", "loudness needs 0.4 s at least")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # no block passes the gate, handled below
        lufs = float(pyloudnorm.Meter(sound.rate_hz).integrated_loudness(sound.pcm.astype(np.float64)))
    if not lufs > _SILENT_LUFS:
        raise BadFile(f"{sound.name} is silent", "give a recording, or leave the script out")
    return lufs


def peak_dbfs(pcm: np.ndarray) -> float:
    """Peak level in dBFS."""
    return float(20.0 * np.log10(max(float(np.abs(pcm).max()), 1e-12)))


def max_level_lufs(sound: SourceSound) -> float:
    """The highest level, at most -23 LUFS, at which the sound stays below -1 dBFS. Raises BadFile if it is silent."""
    return min(TARGET_LUFS, _highest_lufs(loudness_lufs(sound), peak_dbfs(sound.pcm)))


def normalise(sound: SourceSound, target_lufs: float = TARGET_LUFS) -> NormalisedSound:
    """Scale a sound to ``target_lufs``; no limiter is applied.

    Raises:
        BadOption: its peak would exceed -1 dBFS; the error names a level that the campaign could use.
        BadFile: it is silent.
    """
    before = loudness_lufs(sound)
    gain_db = target_lufs - before
    peak = peak_dbfs(sound.pcm) + gain_db
    if peak > PEAK_LIMIT_DBFS:
        raise BadOption(
            f"{sound.name} at {target_lufs:.1f} LUFS would peak at {peak:+.1f} dBFS",
            f"take {_highest_lufs(before, peak - gain_db):.2f} LUFS or less for every sound of the campaign",
        )
    pcm = (sound.pcm * 10.0 ** (gain_db / 20.0)).astype(np.float32)
    return NormalisedSound(pcm, gain_db, before, loudness_lufs(replace(sound, pcm=pcm)), peak_dbfs(pcm))


def _highest_lufs(lufs: float, peak: float) -> float:
    """Rounded down to 0.01, so that the printed level is safe."""
    return math.floor(100.0 * (lufs + PEAK_LIMIT_DBFS - peak)) / 100.0
