"""`studio type` in a pseudo-terminal: keys in, sound in the sink, files on disk; what it says where it cannot run."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import numpy as np
import pytest
from tinyvoice import write_tiny_voice

from studio.core.sound_files import read_mono
from studio.core.traces.trace import open_trace, sent_text

pytestmark = pytest.mark.slow


def command(voices: Path, *args: object) -> list[str]:
    return [sys.executable, "-m", "studio", "type", *map(str, ("--voices", voices, "--device", "cpu", *args))]


def test_a_line_is_typed_heard_and_recorded(tmp_path: Path) -> None:
    write_tiny_voice(tmp_path)
    lines = tmp_path / "lines"
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm-256color", PYTHONPATH=str(Path(__file__).parents[1]))
        args = command(tmp_path, "--null-audio", "--speed", 1.5, "--record", lines)
        os.execv(args[0], args)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 110, 0, 0))
    shown, until_s = b"", time.monotonic() + 200.0
    readable = select.poll()  # select() takes no descriptors above 1,023
    readable.register(terminal, select.POLLIN)

    def read_until(text: bytes, *, or_file: str = "") -> None:
        nonlocal shown
        while text not in shown and not (or_file and list(lines.glob(or_file))):
            assert time.monotonic() < until_s, shown[-2000:]
            if readable.poll(500.0):
                shown += os.read(terminal, 65536)

    read_until(b"Speech starts")
    os.write(terminal, b"one two three four\x7f\x7f\x7f\x7ffive")
    read_until(b"five")
    os.write(terminal, b"\r")
    read_until(b"no such text", or_file="*.trace")
    shown = b""
    read_until(b"word to sound")
    os.write(terminal, b"\x11")  # Ctrl+Q
    while True:
        try:
            if not os.read(terminal, 65536):
                break
        except OSError:  # the terminal is closed
            break
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    (path,) = lines.glob("*.trace")
    trace = open_trace(path)
    assert trace.meta["speed"] == 1.5
    assert sent_text(trace.events).strip() == "one two three five"
    assert np.array_equal(read_mono(path.with_suffix(".wav"))[0], trace.pcm) and len(trace.pcm)


@pytest.mark.parametrize(
    ("sounddevice", "args", "messages"),
    [
        ("raise OSError('PortAudio library not found')", [], ["libportaudio2", "--null-audio"]),
        ("class PortAudioError(Exception): ...\nquery_devices = lambda **_: []", [], ["no audio output", "pipewire"]),
        ("", ["--null-audio"], ["needs a terminal"]),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, sounddevice: str, args: list[str], messages: list[str]) -> None:
    (tmp_path / "sounddevice.py").write_text(sounddevice)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    asked = command(tmp_path / "none", *args)
    done = subprocess.run(asked, capture_output=True, text=True, timeout=250, env=env, stdin=subprocess.DEVNULL)
    assert done.returncode == 2 and all(one in done.stderr for one in messages), done.stderr
    assert "Traceback" not in done.stderr
