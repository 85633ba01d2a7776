"""Encode PCM as it comes: raw samples, WAV, and what FFmpeg (PyAV) encodes; other rates and speeds by its filters."""

import asyncio
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from studio.core.errors import BadOption, needs

UNKNOWN_BYTES = 0xFFFFFFFF  # the size in a WAV header whose sound is not finished
MIN_SPEED, MAX_SPEED = 0.25, 4.0
_MIN_TEMPO = 0.5  # of one atempo filter; slower speech passes through two
_CODECS = {  # the container, the codec and what makes the container write each packet at once, without seeking back
    "mp3": ("mp3", "libmp3lame", {"write_xing": "0", "id3v2_version": "0"}),
    "opus": ("ogg", "libopus", {"page_duration": "20000"}),
    "aac": ("adts", "aac", {}),
    "flac": ("flac", "flac", {}),
    "ulaw": ("mulaw", "pcm_mulaw", {}),
    "alaw": ("alaw", "pcm_alaw", {}),
    "pcm": ("s16le", "pcm_s16le", {}),
    "wav": ("s16le", "pcm_s16le", {}),
}
_MEDIA_TYPES = {
    "mp3": "audio/mpeg", "opus": "audio/ogg", "aac": "audio/aac", "flac": "audio/flac", "wav": "audio/wav",
    "ulaw": "audio/basic", "alaw": "audio/x-alaw-basic", "pcm": "audio/pcm",
}  # fmt: skip


@dataclass(frozen=True)
class AudioFormat:
    """How a client wants its audio.

    Attributes:
        name: a key of ``_CODECS``.
        rate_hz: of the encoded audio.
        bits_per_s: of a lossy codec; 0 for the codec's default.
        is_float: ``pcm`` and ``wav`` have samples of 32 bit in [-1, 1).
    """

    name: str
    rate_hz: int
    bits_per_s: int = 0
    is_float: bool = False

    @property
    def media_type(self) -> str:
        """The Content-Type; that of raw samples names their rate."""
        kind = _MEDIA_TYPES[self.name]
        return f"{kind};rate={self.rate_hz};channels=1" if self.name == "pcm" else kind


class Encoder:
    """Encodes int16 samples [T]; made by ``open_encoder``."""

    def __init__(self, header: bytes, pipeline: "_Pipeline | None", *, is_float: bool = False) -> None:
        self._header, self._pipeline, self._is_float = header, pipeline, is_float

    @property
    def held_samples(self) -> int:
        """How many of the samples are in no bytes yet."""
        return 0 if self._pipeline is None else self._pipeline.held_samples

    async def encode(self, pcm: np.ndarray) -> bytes:
        """The bytes that these samples complete, perhaps none."""
        header, self._header = self._header, b""
        if self._pipeline is None:
            return header + self._samples(pcm.astype("<i2", copy=False).tobytes())
        return header + self._samples(await asyncio.to_thread(self._pipeline.encode, pcm))

    async def finish(self) -> bytes:
        """The last bytes."""
        header, self._header = self._header, b""
        return header + (
            b"" if self._pipeline is None else self._samples(await asyncio.to_thread(self._pipeline.finish))
        )

    def _samples(self, data: bytes) -> bytes:
        return (np.frombuffer(data, "<i2") / np.float32(32768.0)).astype("<f4").tobytes() if self._is_float else data


async def open_encoder(wanted: AudioFormat, rate_hz: int, speed: float = 1.0) -> Encoder:
    """An encoder of samples at ``rate_hz`` into a format, at a speed that keeps the pitch.

    Raises:
        BadOption: the speed is out of range.
        NeedsPackage: the format, another rate or another speed needs PyAV.
    """
    if not MIN_SPEED <= speed <= MAX_SPEED:
        raise BadOption(f"the speed is {speed:g}", f"give {MIN_SPEED:g} to {MAX_SPEED:g}")
    header = wav_header(wanted.rate_hz, is_float=wanted.is_float) if wanted.name == "wav" else b""
    is_plain = wanted.name in ("pcm", "wav") and wanted.rate_hz == rate_hz and speed == 1.0
    pipeline = None if is_plain else await asyncio.to_thread(_Pipeline, wanted, rate_hz, speed)
    return Encoder(header, pipeline, is_float=wanted.is_float)


def wav_header(rate_hz: int, *, is_float: bool = False) -> bytes:
    """The header of a mono WAV of unknown length, of 16 bit samples or of 32 bit floats."""
    kind, size = (3, 4) if is_float else (1, 2)  # WAVE_FORMAT_IEEE_FLOAT or _PCM; bytes
    return struct.pack(
        "<4sI4s4sIHHIIHH4sI",
        *(b"RIFF", UNKNOWN_BYTES, b"WAVE", b"fmt ", 16, kind, 1, rate_hz, size * rate_hz, size, 8 * size),
        *(b"data", UNKNOWN_BYTES),
    )


class _Pipeline:
    """PyAV's filters, encoder and container, for one stream."""

    def __init__(self, wanted: AudioFormat, rate_hz: int, speed: float) -> None:
        with needs(f"{wanted.name} at {wanted.rate_hz} Hz and speed {speed:g} needs the package av", "app"):
            import av
        self._av, self._rate_hz, self._speed = av, rate_hz, speed
        self._at, self._encoded_s = 0, 0.0
        self._sink = _Sink()
        container, codec, options = _CODECS[wanted.name]
        self._container = av.open(self._sink, "w", format=container, options=options | {"flush_packets": "1"})
        self._stream = self._container.add_stream(codec, rate=wanted.rate_hz, layout="mono")
        if wanted.bits_per_s:
            self._stream.bit_rate = wanted.bits_per_s
        self._graph = self._filters(speed, wanted.rate_hz)

    def _filters(self, speed: float, rate_hz: int) -> Any:
        graph = self._av.filter.Graph()
        chain: list[tuple[str, str]] = [
            ("abuffer", f"sample_rate={self._rate_hz}:sample_fmt=s16:channel_layout=mono:time_base=1/{self._rate_hz}")
        ]
        if speed < _MIN_TEMPO:
            chain.append(("atempo", str(_MIN_TEMPO)))
            speed /= _MIN_TEMPO
        if speed != 1.0:
            chain.append(("atempo", str(speed)))
        sample_format = self._stream.codec_context.format.name
        chain.append(("aformat", f"sample_fmts={sample_format}:sample_rates={rate_hz}:channel_layouts=mono"))
        chain.append(("abuffersink", ""))
        graph.link_nodes(*(graph.add(name, options or None) for name, options in chain)).configure()
        return graph

    def encode(self, pcm: np.ndarray) -> bytes:
        """The bytes that samples [T] complete."""
        frame = self._av.AudioFrame.from_ndarray(pcm.astype(np.int16, copy=False)[None], format="s16", layout="mono")
        frame.sample_rate, frame.pts, frame.time_base = self._rate_hz, self._at, Fraction(1, self._rate_hz)
        self._at += len(pcm)
        self._push(frame)
        return self._sink.take()

    def finish(self) -> bytes:
        """The last bytes; nothing can be encoded afterwards."""
        self._push(None)
        self._mux(self._stream.encode(None))
        self._container.close()
        return self._sink.take()

    def _push(self, frame: Any) -> None:
        self._graph.push(frame)
        while True:
            try:
                filtered = self._graph.pull()
            except (self._av.BlockingIOError, self._av.EOFError):
                return
            filtered.pts = None  # the encoder counts samples
            self._mux(self._stream.encode(filtered))

    def _mux(self, packets: Iterable[Any]) -> None:
        for packet in packets:
            self._encoded_s += float((packet.duration or 0) * packet.time_base)
            self._container.mux(packet)

    @property
    def held_samples(self) -> int:
        """How many of the samples are in no packet yet."""
        return max(0, self._at - round(self._encoded_s * self._speed * self._rate_hz))


class _Sink:
    """A file that a container writes to and cannot seek in."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def write(self, data: bytes) -> int:
        self._bytes += bytes(data)
        return len(data)

    def take(self) -> bytes:
        """What was written since the last call."""
        out, self._bytes = bytes(self._bytes), bytearray()
        return out
