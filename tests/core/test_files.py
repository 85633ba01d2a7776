"""Files of text that somebody names: bounded, UTF-8, never waited for."""

import os
from pathlib import Path

import pytest
from needs import needs

from studio.core.files import read_lines


def test_lines_that_hold_more_than_white_space(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_bytes("\ufeffOne. \n\n \t\r\nZwei, drei.".encode())
    assert read_lines(path) == ["One.", "Zwei, drei."]


@pytest.mark.parametrize(
    ("data", "told"), [(b"a\xff\n", "no UTF-8, at byte 1"), (b"a\0b\n", "NUL"), (b"a" * 99, "larger")]
)
def test_what_is_no_text_is_told(tmp_path, data, told):
    (tmp_path / "texts.txt").write_bytes(data)
    with pytest.raises(OSError, match=told):
        read_lines(tmp_path / "texts.txt", 50)


def test_a_device_that_waits_is_not_waited_for(tmp_path):
    needs(Path("/dev/ptmx").exists(), "the device /dev/ptmx, which waits for a terminal")
    (tmp_path / "texts.txt").symlink_to("/dev/ptmx")
    with pytest.raises(OSError, match="it is a device, not a file"):
        read_lines(tmp_path / "texts.txt")


def test_a_pipe_that_a_shell_gives_is_read():
    read, write = os.pipe()
    with os.fdopen(write, "wb") as file:
        file.write(b"One.\nTwo.\n")
    assert read_lines(Path(f"/dev/fd/{read}")) == ["One.", "Two."]
    os.close(read)


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "texts.txt")
    with pytest.raises(OSError, match="pipe"):
        read_lines(tmp_path / "texts.txt")
