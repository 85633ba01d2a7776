"""Clips: mono 16-bit PCM with a content address, and WAV files."""

import hashlib
import io
import struct
import wave
from pathlib import Path
from typing import BinaryIO

import numpy as np

from studio.core.errors import BadFile

WAV_HEADER_BYTES = 44
LOWEST_RATE_HZ, HIGHEST_RATE_HZ = 1_000, 768_000
MAX_WAV_SAMPLES = (2**32 - WAV_HEADER_BYTES) // 2 - 1


def clip_id(pcm: np.ndarray, rate_hz: int) -> str:
    """The content address of a clip: hex sha256 of the rate (u32 little endian) and the samples (s16le)."""
    return hashlib.sha256(struct.pack("<I", rate_hz) + _s16le(pcm)).hexdigest()


def to_int16(samples: np.ndarray) -> np.ndarray:
    """Float samples in [-1, 1) as int16, with clipping. The inverse of ``to_float``."""
    assert np.isfinite(samples).all(), "samples must be finite"
    return np.clip(np.rint(np.asarray(samples, np.float64) * 32768.0), -32768, 32767).astype(np.int16)


def to_float(pcm: np.ndarray) -> np.ndarray:
    """int16 samples as float32 in [-1, 1)."""
    return pcm.astype(np.float32) / np.float32(32768.0)


def wav_header(rate_hz: int, samples: int) -> bytes:
    """The 44-byte header of a mono 16-bit WAV of ``samples`` samples."""
    size = 2 * min(samples, MAX_WAV_SAMPLES)
    return struct.pack(
        "<4sI4s4sIHHIIHH4sI", b"RIFF", size + 36, b"WAVE", b"fmt ", 16, 1, 1, rate_hz, 2 * rate_hz, 2, 16, b"data", size
    )


def wav_bytes(pcm: np.ndarray, rate_hz: int) -> bytes:
    """A whole WAV file in memory."""
    return wav_header(rate_hz, len(pcm)) + _s16le(pcm)


def write_wav(path: Path, pcm: np.ndarray, rate_hz: int) -> None:
    """Write a mono 16-bit WAV file."""
    path.write_bytes(wav_bytes(pcm, rate_hz))


def read_wav(source: Path | bytes | BinaryIO) -> tuple[np.ndarray, int]:
    """Samples (int16 [T]) and rate of a mono 16-bit PCM WAV.

    Raises:
        BadFile: the file is absent, damaged, or of another kind.
    """
    name = str(source) if isinstance(source, Path) else "the WAV"
    file = io.BytesIO(source) if isinstance(source, bytes) else source
    if isinstance(source, Path) and source.exists() and not source.is_file():
        raise BadFile(f"{name} is no file", "mono 16-bit PCM is read")
    try:
        with wave.open(str(file) if isinstance(file, Path) else file, "rb") as wav:
            kind = (wav.getnchannels(), wav.getsampwidth())
            rate_hz, data = wav.getframerate(), wav.readframes(wav.getnframes()) if kind == (1, 2) else b""
    except FileNotFoundError as error:
        raise BadFile(f"there is no file {name}", "check the path") from error
    except (wave.Error, EOFError, OSError, RuntimeError) as error:  # RuntimeError: a chunk claims more than there is
        raise BadFile(
            f"{name} cannot be read as WAV: {str(error) or 'it is cut short'}", "mono 16-bit PCM is read"
        ) from error
    if not LOWEST_RATE_HZ <= rate_hz <= HIGHEST_RATE_HZ:
        allowed = f"{LOWEST_RATE_HZ:,} to {HIGHEST_RATE_HZ:,} are read"
        raise BadFile(f"{name} has {rate_hz:,} samples a second", allowed)
    if kind != (1, 2):
        raise BadFile(f"{name} has {kind[0]} channels of {8 * kind[1]} bits", "convert it to mono 16-bit PCM")
    return np.frombuffer(data[: len(data) // 2 * 2], "<i2").astype(np.int16), rate_hz


def _s16le(pcm: np.ndarray) -> bytes:
    assert pcm.dtype == np.int16 and pcm.ndim == 1, "a clip is int16 [T]"
    return pcm.astype("<i2", copy=False).tobytes()
