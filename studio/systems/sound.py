"""Sound of third-party systems: 16-bit mono samples at the studio's rate, from a stream of WAV or raw PCM."""

import struct
from fractions import Fraction
from typing import Any

import numpy as np

from studio.core.clips import to_int16
from studio.core.errors import StudioError, needs

RATE_HZ = 24_000  # of every system's utterances: listening tests and comparisons need one rate
LOWEST_RATE_HZ, HIGHEST_RATE_HZ = 8_000, 192_000
_MAX_HEADER_BYTES = 65_536
_SNIFF_BYTES = 12
_UNKNOWN_BYTES = 1 << 28  # programs that stream a WAV state sizes from here to the largest, or 0
_INEXACT_BYTES = 1024  # tolerance: some programs state the size of the file, not of the data
_KINDS = {b"ID3": "MP3", b"OggS": "Ogg", b"fLaC": "FLAC", b"\x1aE\xdf\xa3": "WebM"}
_MP3_FRAMES = (b"\xff\xfb", b"\xff\xf3", b"\xff\xf2", b"\xff\xfa")
_WANTED = "have it send 16-bit mono WAV or PCM"


class SystemFailed(StudioError, code="system_failed"):
    """A third-party system failed to speak; the utterance ends."""


class SoundReader:
    """Turns the bytes of one answer into samples.

    Args:
        rate_hz: of raw PCM; None if unknown. A WAV states its own.
    """

    def __init__(self, rate_hz: int | None) -> None:
        self._pcm_rate_hz = rate_hz
        self._head: bytes | None = b""  # until the format is known
        self._left: int | None = None  # bytes of the WAV's data chunk
        self._samples: SampleBytes | None = None  # once the format is known

    def feed(self, data: bytes) -> np.ndarray:
        """Samples int16 [T] that these bytes complete; T may be 0. Raises SystemFailed."""
        if self._head is not None:
            self._head += data
            if len(self._head) < _SNIFF_BYTES:
                return _NOTHING
            begin = self._read_head(self._head)
            if begin is None:
                if len(self._head) > _MAX_HEADER_BYTES:
                    raise SystemFailed("the system sent a WAV without samples", _WANTED)
                return _NOTHING
            data, self._head = self._head[begin:], None
        return self._decoded(data)

    def finish(self) -> np.ndarray:
        """The last samples. Raises SystemFailed."""
        if self._head is not None:
            head, self._head = self._head, None
            if not head:
                return _NOTHING
            _check_kind(head)
            if head[:4] == b"RIFF":
                raise SystemFailed("the system sent a WAV that breaks off in its header", "try it again")
            self._samples = SampleBytes(self._plain_rate())
            last = self._decoded(head)
        else:
            last = _NOTHING
        if self._left is not None and self._left > _INEXACT_BYTES:
            raise SystemFailed(f"the system sent a WAV that lacks its last {self._left:,} bytes", "try it again")
        return last if self._samples is None else np.concatenate([last, self._samples.finish()])

    def _read_head(self, head: bytes) -> int | None:
        """Offset of the samples; None while the header is incomplete."""
        _check_kind(head)
        if head[:4] != b"RIFF" or head[8:12] != b"WAVE":
            self._samples = SampleBytes(self._plain_rate())
            return 0
        at = 12
        while at + 8 <= len(head):
            name, size = head[at : at + 4], int.from_bytes(head[at + 4 : at + 8], "little")
            at += 8
            if name == b"data":
                if self._samples is None:
                    raise SystemFailed("the system sent a WAV without a format", _WANTED)
                self._left = size if 0 < size < _UNKNOWN_BYTES else None
                return at
            if at + size > len(head):
                return None
            if name == b"fmt " and size >= 16:
                self._read_format(head[at : at + 16])
            at += size + size % 2
        return None

    def _read_format(self, chunk: bytes) -> None:
        kind, channels, rate_hz, _, _, bits = struct.unpack("<HHIIHH", chunk)
        if channels != 1:
            raise SystemFailed(f"the system sent {channels} channels", _WANTED)
        if (kind, bits) not in ((1, 16), (3, 32), (0xFFFE, 16)):
            raise SystemFailed(f"the system sent a WAV of format {kind} with {bits} bits", _WANTED)
        self._samples = SampleBytes(rate_hz, is_float=bits == 32)

    def _plain_rate(self) -> int:
        if self._pcm_rate_hz is None:
            raise SystemFailed(
                "the system sent samples without a rate", "give its --sample-rate-hz, or have it send WAV"
            )
        return self._pcm_rate_hz

    def _decoded(self, data: bytes) -> np.ndarray:
        assert self._samples is not None
        if self._left is not None:
            data = data[: self._left]
            self._left -= len(data)
        return self._samples.feed(data)


class SampleBytes:
    """Bytes of a stream as samples at ``RATE_HZ``; a message may end within a sample.

    Args:
        is_float: float32 in [-1, 1], else s16le.

    Raises:
        SystemFailed: the rate is not supported.
    """

    def __init__(self, rate_hz: int = RATE_HZ, *, is_float: bool = False) -> None:
        self._rest, self._is_float = b"", is_float
        self._resampler: Resampler | None = None
        self.set_rate(rate_hz)

    def set_rate(self, rate_hz: int) -> None:
        """Resample from this rate; only the first rate that differs from ``RATE_HZ`` counts. Raises SystemFailed."""
        if rate_hz != RATE_HZ and self._resampler is None:
            self._resampler = Resampler(rate_hz)

    def feed(self, data: bytes) -> np.ndarray:
        """Samples int16 [T] that these bytes complete; T may be 0."""
        data = self._rest + data
        whole = len(data) - len(data) % (4 if self._is_float else 2)
        self._rest = data[whole:]
        if self._is_float:
            pcm = float_to_pcm(np.frombuffer(data[:whole], "<f4"))
        else:
            pcm = np.frombuffer(data[:whole], "<i2").astype(np.int16)
        return pcm if self._resampler is None or not len(pcm) else self._resampler.feed(pcm)

    def finish(self) -> np.ndarray:
        """The last samples; T may be 0."""
        return _NOTHING if self._resampler is None else self._resampler.finish()


class Resampler:
    """Resamples a stream to ``RATE_HZ`` with FFmpeg. Raises SystemFailed: the rate is not supported."""

    def __init__(self, rate_hz: int) -> None:
        if not LOWEST_RATE_HZ <= rate_hz <= HIGHEST_RATE_HZ:  # from 1 Hz, a message would grow to gigabytes
            allowed = f"{LOWEST_RATE_HZ:,} to {HIGHEST_RATE_HZ:,} Hz can be played"
            raise SystemFailed(f"the system sent sound at {rate_hz:,} Hz", allowed)
        with needs(f"sound at {rate_hz:,} Hz needs the package av", "app"):
            import av
        self._av, self._rate_hz, self._at = av, rate_hz, 0
        self._resampler = av.AudioResampler(format="s16", layout="mono", rate=RATE_HZ)

    def feed(self, pcm: np.ndarray) -> np.ndarray:
        """Resampled samples [T'] that the input [T] completes."""
        frame: Any = self._av.AudioFrame.from_ndarray(pcm[None], format="s16", layout="mono")
        frame.sample_rate, frame.pts, frame.time_base = self._rate_hz, self._at, Fraction(1, self._rate_hz)
        self._at += len(pcm)
        return self._joined(self._resampler.resample(frame))

    def finish(self) -> np.ndarray:
        """The last samples."""
        return self._joined(self._resampler.resample(None)) if self._at else _NOTHING

    def _joined(self, frames: Any) -> np.ndarray:
        return np.concatenate([_NOTHING, *(frame.to_ndarray()[0] for frame in frames)])


_NOTHING = np.zeros(0, np.int16)


def float_to_pcm(samples: np.ndarray) -> np.ndarray:
    """Samples in [-1, 1] as int16; NaN becomes 0."""
    return to_int16(np.nan_to_num(samples, nan=0.0))


def _check_kind(head: bytes) -> None:
    """Raises SystemFailed for an answer that is neither WAV nor raw samples."""
    kind = next((name for mark, name in _KINDS.items() if head.startswith(mark)), None)
    if kind is None and head[:2] in _MP3_FRAMES and head[2:3] and 0x10 <= head[2] < 0xF0:
        kind = "MP3"
    if kind is not None:
        raise SystemFailed(f"the system sent {kind}, not samples", _WANTED)
    start = head.lstrip()[:1]
    if start in (b"<", b"{") and head.isascii() and b"\0" not in head:
        what = "a page of HTML" if start == b"<" else "JSON"
        raise SystemFailed(f"the system sent {what}, not sound: {_excerpt(head)}", "check its address and its key")


def _excerpt(data: bytes) -> str:
    text = data[:200].decode("utf-8", "replace")
    return repr(" ".join(text.split())[:120])
