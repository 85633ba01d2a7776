"""Reads sound files: WAV in all its forms, FLAC, AIFF, Ogg (Vorbis, Opus), MP3 and others, by libsndfile.

Sounds are decoded in blocks, so that memory is bounded by what is kept, and refused by length before decoding where the
header has a length. More than two channels are mixed by ITU-R BS.775-3, or the only one that is not silent is taken.
"""
# pyright: reportMissingTypeStubs=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUntypedBaseClass=false, reportUnknownArgumentType=false
# (soundfile carries no types)

import io
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

import numpy as np
import soundfile

from studio.core.clips import HIGHEST_RATE_HZ, LOWEST_RATE_HZ, to_int16
from studio.core.errors import BadFile, Unavailable
from studio.core.wav_chunks import is_wav, plain_wav

SUFFIXES = (
    ".wav",
    ".flac",
    ".aif",
    ".aiff",
    ".aifc",
    ".ogg",
    ".oga",
    ".opus",
    ".mp3",
    ".w64",
    ".rf64",
    ".bw64",
    ".caf",
    ".au",
)
MAX_FILE_BYTES = 64 * 2**20
MAX_MONO_BYTES = 1 << 29
MAX_CHANNELS = 64
MAX_MONO_S = 7200.0
MAX_MONO_SAMPLES = 345_600_000  # two hours at 48 kHz; a rate of 768 kHz and FLAC of silence make hours small
_MAX_MIXED_CHANNELS = 8  # of a sound of maximal length; shorter ones may have more
_READ = frozenset({"WAV", "WAVEX", "RF64", "W64", "FLAC", "AIFF", "OGG", "MP3", "MPEG", "CAF", "AU", "NIST"})
_NAMES = "WAV, FLAC, AIFF, Ogg Vorbis, Opus, MP3, CAF, AU and W64"
_BLOCK_VALUES = 1 << 18  # samples times channels
_UNKNOWN_FRAMES = 1 << 60
_FULL_SCALE = 32767 / 32768
_SILENT_SHARE = 1e-6  # of the loudest channel's power: a channel more than 60 dB below it is silent
_CANCELLED = 0.25  # share of the channels' power left in their mean; below it they are in antiphase
_VANISHED = 0.01  # of the peak, after mixing
_HALF = 0.5**0.5
# Weights of each loudspeaker for left and right (BS.775-3, annex 4; without low-frequency effects), by the bit of a
# WAV's mask: front left, right, centre, LFE, back left, right, left and right of centre, back centre, side left, right.
_TO_STEREO = (
    (1, 0), (0, 1), (_HALF, _HALF), (0, 0), (_HALF, 0), (0, _HALF), (1, 0), (0, 1), (0.5, 0.5), (_HALF, 0), (0, _HALF),
)  # fmt: skip
_ELSEWHERE = (0.5, 0.5)
# Loudspeakers by the number of channels where a file has no mask, as FLAC (RFC 9639, section 9.1.3) orders them.
_USUAL = {3: (0, 1, 2), 4: (0, 1, 4, 5), 5: (0, 1, 2, 4, 5), 6: (0, 1, 2, 3, 4, 5), 7: (0, 1, 2, 3, 8, 9, 10),
          8: (0, 1, 2, 3, 4, 5, 9, 10)}  # fmt: skip
_ID3V1_BYTES = 128  # of an ID3v1 tag, at the end of a file
# First bytes of other kinds of files: a pattern, the kind, and advice.
_OTHERS = (
    (rb"version https://git-lfs", "a pointer of Git LFS", "download the sound itself"),
    (rb"(?s:.{4})ftyp", "an MPEG-4 file (AAC or ALAC)", ""),
    (rb"\x1aE\xdf\xa3", "a WebM or Matroska file", ""),
    (rb"\xff[\xf0\xf1\xf8\xf9]", "a stream of AAC", ""),
    (rb"\x30\x26\xb2\x75\x8e\x66\xcf\x11", "a Windows Media file (WMA)", ""),
    (rb"wvpk|TTA1|MAC |DSD |FRM8|#!AMR|\x0bw|MThd|RIFF(?s:.{4})AVI ", "in a format unknown to libsndfile", ""),
    (rb"PK\x03\x04|\x1f\x8b|7z\xbc\xaf|Rar!", "an archive", "unpack it"),
    (rb"\0{64}", "zeros only, as after an interrupted copy", "copy it again"),
    (
        rb"(?i)\s*(?:<!doctype|<html|<\?xml|\{\s*\"|[45]\d\d\b|not found|access ?denied|forbidden)",
        "text, as of a failed download",
        "download the sound itself",
    ),
)  # fmt: skip


class _Sequential(soundfile.SoundFile):
    """A file read sequentially: soundfile seeks after each block, which fails in a FLAC of unknown length."""

    def seekable(self) -> bool:
        return False


# First bytes of sound files, and messages of libsndfile that do not apply to a file in memory.
_SOUND_BEGINS = re.compile(rb"fLaC|ID3|OggS|FORM|caff|\.snd|riff|\xff[\xe2-\xfd]", re.DOTALL)
_NO_REASON = re.compile(r"File does not exist|Internal error|Error opening <")


@dataclass(frozen=True)
class Survey:
    """Measurements of one pass over a sound. ``power`` and ``peak``: float64 [C]."""

    frames: int
    power: np.ndarray
    peak: np.ndarray
    are_equal: bool  # all channels hold the same samples
    is_clipped: bool  # three consecutive samples at full scale in any channel
    is_cancelled: bool  # two channels in antiphase: mixed to one they lose most of their power

    @property
    def sounding(self) -> list[int]:
        """Channels within 60 dB of the loudest."""
        return [int(c) for c in np.flatnonzero(self.power > _SILENT_SHARE * self.power.max())]


class SoundStream:
    """A sound file that can be decoded repeatedly, in blocks.

    Args:
        source: a file, its bytes, or a stream of them.
        name: the file's name in messages.

    Raises:
        BadFile: it is missing, larger than ``max_bytes``, damaged, of a format that is not read, or has a rate beyond
            1 to 768 kHz or more than 64 channels.
        Unavailable: the disk failed.
    """

    def __init__(self, source: Path | bytes | BinaryIO, name: str = "", max_bytes: int = MAX_FILE_BYTES) -> None:
        self.name = name or (source.name if isinstance(source, Path) else "the sound")
        data = _without_tags(_bytes_of(source, self.name, max_bytes))
        self._data, self._mask = plain_wav(data, self.name) if is_wav(data) else (data, None)
        with self._open() as file:
            if file.format not in _READ:
                raise BadFile(f"{self.name} is a file of the format {file.format}", f"{_NAMES} are read")
            self.rate_hz, self.channels = int(file.samplerate), int(file.channels)
            self.is_int16 = file.subtype == "PCM_16"
            frames = int(file.frames)
        self.frames = frames if frames < _UNKNOWN_FRAMES else None
        if not LOWEST_RATE_HZ <= self.rate_hz <= HIGHEST_RATE_HZ:
            allowed = f"{LOWEST_RATE_HZ:,} to {HIGHEST_RATE_HZ:,} are read"
            raise BadFile(f"{self.name} has {self.rate_hz} samples a second", allowed)
        if self.channels > MAX_CHANNELS:
            raise BadFile(f"{self.name} has {self.channels} channels", f"at most {MAX_CHANNELS} are read")

    def blocks(
        self, dtype: Literal["float32", "int16"] = "float32", most_frames: int | None = None
    ) -> Iterator[np.ndarray]:
        """Blocks [T, C], full scale at 1, or int16 for a file of 16 bits.

        Raises BadFile: it is damaged, or longer than ``most_frames``.
        """
        count, size = 0, max(1, _BLOCK_VALUES // self.channels)
        with self._open() as file:
            while True:
                try:
                    block = file.read(size, dtype=dtype, always_2d=True)
                except (soundfile.SoundFileError, ValueError) as error:
                    raise BadFile(
                        f"{self.name} is damaged after {count / self.rate_hz:.2f} s", "write it again"
                    ) from error
                if not len(block):
                    return
                count += len(block)
                if most_frames is not None and count > most_frames:
                    raise BadFile(
                        f"{self.name} lasts more than {most_frames / self.rate_hz:.0f} s", "give a shorter one"
                    )
                yield block

    def survey(self, most_frames: int) -> Survey:
        """Decode it once, and measure. Raises BadFile: as ``blocks``, or a sample is not finite."""
        frames, power, peak = 0, np.zeros(self.channels), np.zeros(self.channels)
        are_equal, is_clipped, left_right, end = True, False, 0.0, np.zeros(2, bool)
        for block in self.blocks(most_frames=most_frames):
            sound = np.ascontiguousarray(block.T)  # [C, T]: numpy reduces rows ten times as fast as columns
            block_peak = np.maximum(sound.max(axis=1), -sound.min(axis=1))
            if not np.isfinite(block_peak).all():
                raise BadFile(f"{self.name} holds samples that are not numbers", "write it again")
            frames, power = frames + len(block), power + np.einsum("ct,ct->c", sound, sound, dtype=np.float64)
            peak = np.maximum(peak, block_peak)
            are_equal = are_equal and bool((sound == sound[0]).all())
            if block_peak.max() >= _FULL_SCALE or end.any():
                full = np.concatenate([end, (np.abs(sound) >= _FULL_SCALE).any(axis=0)])
                is_clipped, end = is_clipped or bool((full[:-2] & full[1:-1] & full[2:]).any()), full[-2:]
            else:
                end = np.zeros(2, bool)
            if self.channels == 2:
                left_right += float(np.square(sound.mean(axis=0, dtype=np.float64)).sum())
        count = max(frames, 1)
        is_cancelled = self.channels == 2 and left_right < _CANCELLED * float(power.mean())
        return Survey(frames, power / count, peak, are_equal, is_clipped, is_cancelled)

    def weights(self, survey: Survey) -> np.ndarray | None:
        """Weights that mix the channels to at most two: float32 [C, 1 or 2]; None for mono or stereo without mixing.

        Equal channels become one; of more than two, the only one that is not silent is taken, else all are mixed.
        """
        if self.channels == 1 or (self.channels == 2 and not survey.are_equal):
            return None
        if survey.are_equal or len(survey.sounding) == 1:
            return np.eye(self.channels, dtype=np.float32)[:, survey.sounding[:1] or [0]]
        speakers = [bit for bit in range(32) if (self._mask or 0) >> bit & 1]
        if len(speakers) != self.channels:
            speakers = list(_USUAL.get(self.channels, (99,) * self.channels))
        mix = np.array([_TO_STEREO[s] if s < len(_TO_STEREO) else _ELSEWHERE for s in speakers], np.float32)
        return mix / mix.sum(axis=0).max()

    def _open(self) -> _Sequential:
        try:
            return _Sequential(io.BytesIO(self._data))
        except (soundfile.SoundFileError, ValueError) as error:
            if not self._data:
                raise BadFile(f"{self.name} is empty", "copy or record it again") from error
            for begins, what, hint in _OTHERS:
                if re.match(begins, self._data) and not is_wav(self._data):
                    advice = hint or f"{_NAMES} are read: ffmpeg -i {self.name} {Path(self.name).stem}.wav"
                    raise BadFile(f"{self.name} is {what}, which is not read", advice) from error
            reason = str(getattr(error, "error_string", "") or error).removeprefix("Error : ").rstrip(".")
            why = "" if _NO_REASON.match(reason) else f": {reason}"
            if is_wav(self._data) or _SOUND_BEGINS.match(self._data):
                raise BadFile(
                    f"{self.name} is damaged or of a coding that is not read{why}", "write or copy it again"
                ) from error
            raise BadFile(f"{self.name} is no sound file that is read{why}", f"{_NAMES} are read") from error


def read_pcm(
    source: Path | bytes | BinaryIO, name: str = "", max_bytes: int = MAX_FILE_BYTES
) -> tuple[np.ndarray, int]:
    """Samples without mixing, int16 [T] or [T, C], and rate. Raises BadFile, Unavailable."""
    stream = SoundStream(source, name, max_bytes)
    blocks = list(stream.blocks("int16" if stream.is_int16 else "float32"))
    pcm = np.concatenate(blocks) if blocks else np.zeros((0, stream.channels), np.int16)
    pcm = pcm if stream.is_int16 else to_int16(pcm)
    return (pcm[:, 0] if stream.channels == 1 else pcm), stream.rate_hz


def read_mono(
    source: Path | bytes | BinaryIO,
    name: str = "",
    max_bytes: int = MAX_MONO_BYTES,
    longest_s: float = MAX_MONO_S,
    most_samples: int = MAX_MONO_SAMPLES,
) -> tuple[np.ndarray, int]:
    """Samples int16 [T] and rate; channels that differ are mixed, silent ones are left out.

    Args:
        most_samples: of the result; all channels together may have eight times as many (bounds the decoding time).

    Raises:
        BadFile: as ``SoundStream``, or it lasts more than ``longest_s``, has more samples, or its channels cancel each
            other.
        Unavailable: the disk failed.
    """
    stream = SoundStream(source, name, max_bytes)
    longest = int(longest_s * stream.rate_hz)
    most = min(longest, most_samples, _MAX_MIXED_CHANNELS * most_samples // stream.channels)
    if stream.frames is not None and stream.frames > most:
        length_s, allowed = stream.frames / stream.rate_hz, f"at most {most / stream.rate_hz:.0f} s are read"
        if most < longest:
            allowed += f" of {stream.channels} channels at {stream.rate_hz:,} samples a second"
        raise BadFile(f"{stream.name} lasts {length_s:.0f} s", allowed)
    if stream.channels == 1 and stream.is_int16:
        return _joined(stream.blocks("int16", most), lambda block: block[:, 0], stream.frames), stream.rate_hz
    survey = stream.survey(most)
    weights = stream.weights(survey)
    if weights is None:
        channels = survey.sounding or [0]
        weights = np.eye(stream.channels, dtype=np.float32)[:, channels]
    mix = weights.mean(axis=1, keepdims=True)
    pcm = _joined(stream.blocks(most_frames=most), lambda block: to_int16(block @ mix)[:, 0], stream.frames)
    if survey.is_cancelled or (
        len(pcm) and np.abs(pcm, dtype=np.float32).max() < _VANISHED * survey.peak.max() * 32768
    ):
        raise BadFile(f"{stream.name} has channels that cancel each other", one_channel_hint(stream, survey))
    return pcm, stream.rate_hz


def one_channel_hint(stream: SoundStream, survey: Survey) -> str:
    """Advice to make a file of one channel, the loudest."""
    loudest = int(np.argmax(survey.power))
    return f"take one channel, for example the loudest: ffmpeg -i {stream.name} -af pan=mono|c0=c{loudest} mono.wav"


def _joined(blocks: Iterator[np.ndarray], of: Callable[[np.ndarray], np.ndarray], frames: int | None) -> np.ndarray:
    """The blocks converted by ``of``, in one array: int16 [T]. ``frames``: the length in the header, if any."""
    pcm, at = np.empty(frames or 0, np.int16), 0  # pages that are never written take no memory
    for block in blocks:
        if at + len(block) > len(pcm):
            pcm = np.concatenate([pcm[:at], np.empty(max(at, len(block)), np.int16)])
        pcm[at : at + len(block)] = of(block)
        at += len(block)
    return pcm[:at]


def _bytes_of(source: Path | bytes | BinaryIO, name: str, max_bytes: int) -> bytes:
    """The file's bytes; the size is checked before reading."""
    too_large = f"a sound file may have {max_bytes // 2**20} MiB at most"
    if isinstance(source, Path):
        if not source.is_file():
            raise BadFile(f"there is no file {source}", "check the path")
        try:
            with source.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size > max_bytes:
                    raise BadFile(f"{name} has {size / 2**20:.0f} MiB", too_large)
                return file.read(max_bytes)
        except PermissionError as error:
            raise BadFile(f"{name} cannot be read: {error.strerror}", "check its permissions") from error
        except OSError as error:  # a disk error, not a bad file: it may be readable later
            raise Unavailable(f"{name} cannot be read: {error.strerror}", "try again") from error
    data = source if isinstance(source, bytes) else source.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise BadFile(f"{name} has {len(data) / 2**20:.0f} MiB", too_large)
    return data


def _without_tags(data: bytes) -> bytes:
    """The file without ID3 tags before a WAV or FLAC, and after a FLAC, where some programs write them."""
    at = 0
    while data[at : at + 3] == b"ID3" and len(data) >= at + 10:
        a, b, c, d = data[at + 6 : at + 10]
        at += 10 + (a << 21 | b << 14 | c << 7 | d) + (10 if data[at + 5] & 0x10 else 0)
    head = data[at : at + 12]
    if head[:4] == b"fLaC" and data[-_ID3V1_BYTES:][:3] == b"TAG":
        return data[at:-_ID3V1_BYTES]
    return data[at:] if at and (head[:4] == b"fLaC" or is_wav(head)) else data
