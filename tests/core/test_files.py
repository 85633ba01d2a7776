"""User files, and clips: addresses, writing of WAV files."""

import hashlib
import os
import struct
import tracemalloc
import wave
from pathlib import Path

import numpy as np
import pytest
from needs import needs

from studio.core.clips import clip_id, to_float, to_int16, wav_bytes, write_wav
from studio.core.errors import BadFile
from studio.core.files import open_unbuffered, read_bounded, read_lines
from studio.core.sound_files import read_mono


def test_lines_without_blank_ones(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_bytes("\ufeffOne. \n\n \t\r\nZwei, drei.".encode())
    assert read_lines(path) == ["One.", "Zwei, drei."]


@pytest.mark.parametrize(
    ("data", "message"), [(b"a\xff\n", "no UTF-8, at byte 1"), (b"a\0b\n", "NUL"), (b"a" * 99, "larger")]
)
def test_non_text_file_is_refused(tmp_path, data, message):
    (tmp_path / "texts.txt").write_bytes(data)
    with pytest.raises(OSError, match=message):
        read_lines(tmp_path / "texts.txt", 50)


def test_blocking_device_is_not_read(tmp_path):
    needs(Path("/dev/ptmx").exists(), "the device /dev/ptmx, which waits for a terminal")
    (tmp_path / "texts.txt").symlink_to("/dev/ptmx")
    with pytest.raises(OSError, match="it is a device, not a file"):
        read_lines(tmp_path / "texts.txt")


def test_shell_pipe_is_read():
    read, write = os.pipe()
    with os.fdopen(write, "wb") as file:
        file.write(b"One.\nTwo.\n")
    assert read_lines(Path(f"/dev/fd/{read}")) == ["One.", "Two."]
    os.close(read)


def test_named_pipe_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "texts.txt")
    with pytest.raises(OSError, match="pipe"):
        read_lines(tmp_path / "texts.txt")


PCM = np.array([0, 1, -1, 32767, -32768, 1234], np.int16)


def test_address_is_the_sha_of_rate_and_samples():
    assert clip_id(PCM, 24000) == hashlib.sha256(struct.pack("<I", 24000) + PCM.astype("<i2").tobytes()).hexdigest()
    assert clip_id(PCM, 24000) != clip_id(PCM, 16000)
    changed = PCM.copy()
    changed[2] += 1
    assert clip_id(changed, 24000) != clip_id(PCM, 24000)


def test_every_int16_survives_float():
    every = np.arange(-32768, 32768).astype(np.int16)
    assert np.array_equal(to_int16(to_float(every)), every)


def test_loud_floats_are_clipped():
    assert to_int16(np.array([2.0, -2.0, 0.5])).tolist() == [32767, -32768, 16384]


def test_wav_round_trips_and_the_standard_library_agrees(tmp_path):
    write_wav(tmp_path / "a.wav", PCM, 24000)
    samples, rate_hz = read_mono(tmp_path / "a.wav")
    assert rate_hz == 24000
    assert np.array_equal(samples, PCM)
    with wave.open(str(tmp_path / "a.wav")) as wav:
        assert wav.getparams()[:4] == (1, 2, 24000, len(PCM))
        assert wav.readframes(99) == PCM.astype("<i2").tobytes()


def test_empty_wav_is_a_wav():
    samples, rate_hz = read_mono(wav_bytes(PCM[:0], 16000))
    assert (len(samples), rate_hz) == (0, 16000)


def test_missing_file_is_named(tmp_path):
    with pytest.raises(BadFile, match=r"there is no file .*none\.wav"):
        read_mono(tmp_path / "none.wav")


def test_pipes_and_devices_are_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for name in ("pipe", "zero"):
        for mode in ("rb", "ab", "a+b"):
            with pytest.raises(OSError, match=r"it is a|No such device"):
                open_unbuffered(tmp_path / name, mode)
    open_unbuffered(tmp_path / "new", "ab").close()
    assert not (tmp_path / "new").stat().st_mode & 0o111  # not executable


def test_larger_file_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "sparse").touch()
    os.truncate(tmp_path / "sparse", 1 << 40)
    tracemalloc.start()
    with pytest.raises(OSError, match="larger than 100,000,000 bytes"):
        read_bounded(tmp_path / "sparse", 100_000_000)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 1_000_000
