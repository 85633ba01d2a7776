"""Clips: 16-bit PCM, mono [T] or stereo [T, 2], with a content address; writing of WAV files."""

import hashlib
import struct
from pathlib import Path

import numpy as np

WAV_HEADER_BYTES = 44
LOWEST_RATE_HZ, HIGHEST_RATE_HZ = 1_000, 768_000
MAX_WAV_SAMPLES = (2**32 - WAV_HEADER_BYTES) // 2 - 1


def clip_id(pcm: np.ndarray, rate_hz: int) -> str:
    """The content address of a clip: hex sha256 of the rate (u32 little endian) and the samples (s16le).

    Bit 24 of the rate is set for stereo.
    """
    return hashlib.sha256(struct.pack("<I", rate_hz | (channels_of(pcm) - 1) << 24) + _s16le(pcm)).hexdigest()


def channels_of(pcm: np.ndarray) -> int:
    """1 for samples [T], C for samples [T, C]."""
    return 1 if pcm.ndim == 1 else pcm.shape[1]


def mixed_to_mono(pcm: np.ndarray) -> np.ndarray:
    """The mean of the channels of int16 [T, C], as int16 [T]; samples [T] as they are."""
    return pcm if pcm.ndim == 1 else to_int16(to_float(pcm).mean(axis=1))


def to_int16(samples: np.ndarray) -> np.ndarray:
    """Float samples in [-1, 1) as int16, with clipping. The inverse of ``to_float``."""
    assert np.isfinite(samples).all(), "samples must be finite"
    return np.clip(np.rint(np.asarray(samples, np.float64) * 32768.0), -32768, 32767).astype(np.int16)


def to_float(pcm: np.ndarray) -> np.ndarray:
    """int16 samples as float32 in [-1, 1)."""
    return pcm.astype(np.float32) / np.float32(32768.0)


def wav_header(rate_hz: int, samples: int, channels: int = 1, after_bytes: int = 0) -> bytes:
    """The 44-byte header of a 16-bit WAV of ``samples`` samples of each channel; ``after_bytes`` follow these."""
    frame = 2 * channels
    size = min(frame * samples, 2 * MAX_WAV_SAMPLES)
    about = (1, channels, rate_hz, frame * rate_hz, frame, 16)
    whole = size + 36 + after_bytes
    return struct.pack("<4sI4s4sIHHIIHH4sI", b"RIFF", whole, b"WAVE", b"fmt ", 16, *about, b"data", size)


def wav_comment(comment: str) -> bytes:
    """A chunk LIST INFO with a comment (ICMT), to follow a WAV's samples; empty for none."""
    if not comment:
        return b""
    text = comment.encode() + b"\0"
    text += b"\0" * (len(text) % 2)
    return struct.pack("<4sI4s4sI", b"LIST", len(text) + 12, b"INFO", b"ICMT", len(text)) + text


def wav_bytes(pcm: np.ndarray, rate_hz: int, comment: str = "") -> bytes:
    """A whole WAV file in memory, with a comment for people in its metadata."""
    after = wav_comment(comment)
    return wav_header(rate_hz, len(pcm), channels_of(pcm), len(after)) + _s16le(pcm) + after


def write_wav(path: Path, pcm: np.ndarray, rate_hz: int, comment: str = "") -> None:
    """Write a 16-bit WAV file of samples int16 [T] or [T, C]."""
    path.write_bytes(wav_bytes(pcm, rate_hz, comment))


def _s16le(pcm: np.ndarray) -> bytes:
    assert pcm.dtype == np.int16 and pcm.ndim in (1, 2), "a clip is int16 [T] or [T, C]"
    return pcm.astype("<i2", copy=False).tobytes()
