"""One reader of sound files: headers of streams, many channels, codings, damage; and its memory."""

import io
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from studio.core.clips import to_float, to_int16, wav_bytes
from studio.core.errors import BadFile
from studio.core.sound_files import SoundStream, read_mono, read_pcm
from studio.inspection.opening import open_bytes, read_sound
from studio.serve.traces import LIMITS, MAX_FILE_BYTES, read_recording

RATE_HZ = 16_000
PCM = to_int16((0.3 * np.sin(0.1 * np.arange(11_200))).astype(np.float32))
PLAIN = wav_bytes(PCM, RATE_HZ)


def written(kind: str, subtype: str, channels: int = 1, **more: str) -> bytes:
    file = io.BytesIO()
    sound = np.stack([to_float(PCM)] * channels, 1)
    soundfile.write(file, sound, RATE_HZ, format=kind, subtype=subtype, **more)
    return file.getvalue()


def sized(data_size: int, riff_size: int = 0, data: bytes = PLAIN) -> bytes:
    """A WAV with other sizes in its header."""
    return data[:4] + struct.pack("<I", riff_size) + data[8:40] + struct.pack("<I", data_size) + data[44:]


def chunk(name: bytes, body: bytes) -> bytes:
    return name + struct.pack("<I", len(body)) + body


def extensible(pcm: np.ndarray, mask: int) -> bytes:
    """WAVE_FORMAT_EXTENSIBLE of int16 [T, C]."""
    channels = pcm.shape[1]
    guid = struct.pack("<IHH8s", 1, 0, 16, bytes.fromhex("800000aa00389b71"))
    form = struct.pack("<HHIIHHHHI", 0xFFFE, channels, RATE_HZ, 2 * channels * RATE_HZ, 2 * channels, 16, 22, 16, mask)
    chunks = b"WAVE" + chunk(b"fmt ", form + guid) + chunk(b"data", pcm.tobytes())
    return b"RIFF" + struct.pack("<I", len(chunks)) + chunks


def rf64(name: bytes = b"RF64") -> bytes:
    sizes = struct.pack("<QQQI", 0, PCM.nbytes, len(PCM), 0)
    data = b"data" + struct.pack("<I", 0xFFFFFFFF) + PCM.tobytes()
    return name + struct.pack("<I", 0xFFFFFFFF) + b"WAVE" + chunk(b"ds64", sizes) + PLAIN[12:36] + data


def id3(data: bytes) -> bytes:
    return b"ID3\4\0\0\0\0\1\4" + bytes(132) + data


def flac_of_unknown_length() -> bytes:
    return flac_that_states(0)


def flac_that_states(frames: int, channels: int = 1) -> bytes:
    data = bytearray(written("FLAC", "PCM_16", channels))
    data[21] &= 0xF0  # the last 36 bits before the MD5 of STREAMINFO
    data[22:26] = frames.to_bytes(4, "big")
    return bytes(data)


def channels(count: int, *sounding: int) -> np.ndarray:
    pcm = np.zeros((len(PCM), count), np.int16)
    pcm[:, list(sounding)] = PCM[:, None]
    return pcm


EXACT = {
    "streamed, FFFFFFFF": sized(0xFFFFFFFF, 0xFFFFFFFF),
    "streamed, 7FFFFFFF": sized(0x7FFFFFFF, 0x7FFFFFFF),
    "streamed, 7FFFF000": sized(0x7FFFF000, 0x7FFFF024),
    "streamed, 80000000": sized(0x80000000, 0x80000024),
    "streamed, 0": sized(0),
    "streamed, with a list before": sized(0)[:36] + chunk(b"LIST", b"INFOISFT") + sized(0)[36:],
    "extensible": extensible(PCM[:, None], 4),
    "RF64": rf64(),
    "BW64": rf64(b"BW64"),
    "RF64 by libsndfile": written("RF64", "PCM_16"),
    "big endian": written("WAV", "PCM_16", endian="BIG"),
    "odd chunk with padding": PLAIN[:36] + chunk(b"LIST", b"INFOx") + b"\0" + PLAIN[36:],
    "odd chunk without padding": PLAIN[:36] + chunk(b"LIST", b"INFOx") + PLAIN[36:],
    "chunks after the data": PLAIN + chunk(b"LIST", b"INFOISFT"),
    "WAV behind an ID3 tag": id3(PLAIN),
    "FLAC": written("FLAC", "PCM_16"),
    "FLAC of unknown length": flac_of_unknown_length(),
    "FLAC behind an ID3 tag": id3(written("FLAC", "PCM_16")),
    "FLAC of unknown length behind two ID3 tags": id3(id3(flac_of_unknown_length())),
    "FLAC before an ID3v1 tag": id3(written("FLAC", "PCM_16")) + b"TAG" + bytes(125),
    "AIFF": written("AIFF", "PCM_16"),
    "W64": written("W64", "PCM_16"),
    "CAF": written("CAF", "PCM_16"),
    "AU": written("AU", "PCM_16"),
    "two equal channels": written("WAV", "PCM_16", 2),
    "eight equal channels": written("FLAC", "PCM_16", 8),
    "right only": extensible(channels(2, 1), 3),
    "5.1, speech in the centre": extensible(channels(6, 2), 0x3F),
    "5.1, only the LFE": extensible(channels(6, 3), 0x3F),
    "32 channels, one sounds": extensible(channels(32, 17), 0),
}
CLOSE = {
    **{f"WAV {s}": ("WAV", s) for s in ("PCM_24", "PCM_32", "PCM_U8", "FLOAT", "DOUBLE", "ULAW", "ALAW", "MS_ADPCM")},
    **{f"WAVEX {s}": ("WAVEX", s) for s in ("PCM_24", "PCM_32", "FLOAT", "ULAW")},
    **{f"{kind} {s}": (kind, s) for kind, s in (("WAV", "IMA_ADPCM"), ("WAV", "GSM610"), ("AIFF", "FLOAT"))},
    **{f"{kind} {s}": (kind, s) for kind, s in (("FLAC", "PCM_24"), ("OGG", "VORBIS"), ("OGG", "OPUS"))},
    "MP3": ("MP3", "MPEG_LAYER_III"),
}


@pytest.mark.parametrize("name", EXACT)
def test_sound_is_read_bit_for_bit(name: str) -> None:
    pcm, rate_hz = read_mono(EXACT[name], name)
    assert rate_hz == RATE_HZ and np.array_equal(pcm, PCM)


@pytest.mark.parametrize("name", CLOSE)
def test_coding_is_read(name: str) -> None:
    pcm, rate_hz = read_mono(written(*CLOSE[name]), name)
    assert rate_hz == RATE_HZ and 0 <= len(pcm) - len(PCM) < 2048
    middle = slice(2000, 9000)
    assert np.corrcoef(pcm[middle], PCM[middle])[0, 1] > 0.95


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (PLAIN[:36], "x has no data chunk, so it holds no sound"),
        (PLAIN[:36] + chunk(b"LIST", b"INFOISFT"), "no data chunk"),
        (PLAIN[:12] + PLAIN[36:], "no fmt chunk"),
        (PLAIN[:20_000], r"announces 11200 samples, it has fewer \(9978\)"),
        (PLAIN[:12] + b"fmt \x10\0", "no data chunk"),
        (PLAIN[:20] + b"\x99\x01" + PLAIN[22:], "of a coding that is not read"),
        (PLAIN[:22] + b"\0\0" + PLAIN[24:], "damaged"),
        (PLAIN[:24] + struct.pack("<I", 999_999) + PLAIN[28:], "999999 samples a second; 1,000 to 768,000"),
        (b"", "x is empty"),
        (b"noise" * 9, "no sound file that is read: Format not recognised; WAV, FLAC"),
        (b"<html>not found</html>" * 9, "x is text, as of a failed download, which is not read; download"),
        (b"404: Not Found", "x is text, as of a failed download"),
        (bytes(5000), "x is zeros only, as after an interrupted copy, which is not read; copy it again"),
        (b"\0\0\0\x1cftypM4A " + bytes(99), r"x is an MPEG-4 file \(AAC or ALAC\), .* are read: ffmpeg -i x x.wav"),
        (b"\xff\xf1\x4c\x80" + bytes(99), "x is a stream of AAC"),
        (b"\x1aE\xdf\xa3" + bytes(99), "x is a WebM or Matroska file"),
        (b"RIFF\xff\0\0\0AVI LIST" + bytes(99), "x is in a format unknown to libsndfile"),
        (b"wvpk" + bytes(99), "x is in a format unknown to libsndfile"),
        (b"PK\x03\x04" + bytes(99), "x is an archive, which is not read; unpack it"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "x is a pointer of Git LFS"),
        (written("FLAC", "PCM_16")[:3000], "x is damaged after"),
        (extensible(np.stack([PCM, -PCM], 1), 3), "cancel each other; take one channel.* pan=mono.c0=c0"),
        (written("WAV", "FLOAT")[:-4] + b"\0\0\xc0\x7f", None),
    ],
)
def test_true_reason_is_told(data: bytes, message: str | None) -> None:
    if message is None:
        with pytest.raises(BadFile, match="not numbers"):
            read_mono(data, "x")
        return
    with pytest.raises(BadFile, match=message):
        read_mono(data, "x")


def test_empty_sounds_are_empty() -> None:
    for data in (wav_bytes(PCM[:0], RATE_HZ), wav_bytes(PCM[:0], RATE_HZ) + chunk(b"LIST", b"INFOISFT")):
        assert read_mono(data)[0].shape == (0,)


def test_channels_are_kept_where_they_are_asked_for() -> None:
    both = np.stack([PCM, PCM // 2], 1)
    pcm, rate_hz = read_pcm(wav_bytes(both, RATE_HZ))
    assert rate_hz == RATE_HZ and np.array_equal(pcm, both)
    assert read_pcm(PLAIN)[0].ndim == 1
    assert np.abs(read_mono(wav_bytes(both, RATE_HZ))[0] - 0.75 * PCM).max() <= 1


def test_long_sounds_are_refused_before_they_are_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadFile, match="lasts more than 0 s"):  # unknown length: after that many samples
        read_mono(flac_of_unknown_length(), longest_s=0.3)
    monkeypatch.setattr(soundfile.SoundFile, "read", lambda *_, **__: pytest.fail("it was decoded"))
    with pytest.raises(BadFile, match="at most 0 s are read"):
        read_mono(written("FLAC", "PCM_16"), longest_s=0.3)
    with pytest.raises(BadFile, match="may have 0 MiB"):
        read_mono(PLAIN, max_bytes=1000)


def test_samples_are_bounded_whatever_the_rate_and_the_channels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two hours of silence at 768 kHz are a FLAC of 17 MB and would be 11 GB of samples."""
    with pytest.raises(BadFile, match="lasts more than"):  # the header states no length
        read_mono(flac_of_unknown_length(), most_samples=len(PCM) - 1)
    assert len(read_mono(flac_of_unknown_length(), most_samples=len(PCM))[0]) == len(PCM)
    eight = written("FLAC", "PCM_16", 8)
    assert len(read_mono(eight, most_samples=len(PCM))[0]) == len(PCM)
    sixteen = written("WAV", "PCM_16", 16)
    monkeypatch.setattr(soundfile.SoundFile, "read", lambda *_, **__: pytest.fail("it was decoded"))
    for sound in (PLAIN, eight):
        with pytest.raises(BadFile, match=r"s are read of [18] channels at 16,000 samples a second"):
            read_mono(sound, most_samples=len(PCM) - 1)
    with pytest.raises(BadFile, match="16 channels"):
        read_mono(sixteen, most_samples=len(PCM))


@pytest.mark.parametrize("channels", [1, 2, 8])
def test_uploads_hold_at_most_64_mb_of_samples(monkeypatch: pytest.MonkeyPatch, channels: int) -> None:
    sound = flac_that_states(32_000_001, channels)
    monkeypatch.setattr(soundfile.SoundFile, "read", lambda *_, **__: pytest.fail("it was decoded"))
    for read in (
        lambda: open_bytes(sound, "", LIMITS),
        lambda: read_sound(sound, MAX_FILE_BYTES),
        lambda: read_recording(sound, "Hi.", 0, "", {}),
    ):
        with pytest.raises(BadFile, match="at most 2000 s are read"):
            read()


@settings(max_examples=300, deadline=None)
@given(
    at=st.integers(0, 80), new=st.binary(min_size=1, max_size=8), keep=st.integers(0, 23_000), kind=st.integers(0, 3)
)
def test_no_damage_raises_another_error(at: int, new: bytes, keep: int, kind: int) -> None:
    data = bytearray((PLAIN, EXACT["RF64"], EXACT["FLAC"], EXACT["extensible"])[kind])
    data[at : at + len(new)] = new
    try:
        pcm, _ = read_mono(bytes(data[:keep]))
        SoundStream(bytes(data)).survey(10**7)
    except BadFile:
        return
    assert pcm.ndim == 1


_PEAK = """
import resource, sys
from pathlib import Path
from studio.mos.store.sounds import max_level, read_sound, resample
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    sound = read_sound(Path(sys.argv[1]))
    print(sound.pcm.shape)
    max_level(resample(sound, 48_000))
except Exception as error:
    print(error)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.slow
def test_eight_channels_take_bounded_memory(tmp_path: Path) -> None:
    """Two minutes of eight channels at 48 kHz are 184 MB as floats and were 1.7 GB at the peak."""
    rng = np.random.default_rng(0)
    with soundfile.SoundFile(tmp_path / "a.flac", "w", 48_000, 8, "PCM_16") as file:
        for _ in range(120):
            file.write((200 * rng.standard_normal((48_000, 8))).astype(np.int16))
    done = subprocess.run(
        [sys.executable, "-c", _PEAK, tmp_path / "a.flac"], capture_output=True, text=True, check=True
    )
    shape, kib = done.stdout.splitlines()[-2:]
    assert shape == "(5760000, 2)" and int(kib) < 300 * 1024


def test_a_beginning_of_a_sound_is_called_damaged(tmp_path: Path) -> None:
    data = io.BytesIO()
    soundfile.write(data, np.zeros(16_000, np.float32), 16_000, format="MP3")
    with pytest.raises(BadFile, match=r"cut\.mp3 is damaged or of a coding that is not read; write or copy it again"):
        read_mono(data.getvalue()[:300], "cut.mp3")
    header = b"RIFF" + struct.pack("<I", 40) + b"WAVEfmt " + struct.pack("<IHHIIHH", 16, 1, 1, 0, 0, 2, 16)
    with pytest.raises(BadFile, match=r"is damaged or of a coding that is not read; write"):
        read_mono(header + b"data" + struct.pack("<I", 4) + bytes(4), "rate0.wav")
