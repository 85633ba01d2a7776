"""`studio talk`: questions from a flag, a pipe and a terminal; replies in a file or through a loudspeaker."""

import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from chatserver import KEY, MODEL, ChatServer, Script, chat_server
from fakes import FakeEngine
from fakeutterance import FakeUtterance
from tones import Script as ToneScript
from typer.testing import CliRunner

from studio.cli import cli
from studio.core.ports import SpeakRequest
from studio.core.sound_files import read_mono
from studio.core.speakers import REFERENCE

pytestmark = pytest.mark.slow

# Stands for PortAudio: takes samples as slowly as a device.
SOUNDDEVICE = """
import threading, time
import numpy as np

class PortAudioError(Exception): ...

class OutputStream:
    def __init__(self, samplerate, callback, **_):
        self.rate_hz, self.callback, self.is_over = samplerate, callback, threading.Event()

    time = property(lambda self: time.monotonic())

    def start(self):
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while not self.is_over.wait(480 / self.rate_hz):
            now = time.monotonic()
            timing = type("Timing", (), {"currentTime": now, "outputBufferDacTime": now + 0.01})
            self.callback(np.zeros((480, 1), np.int16), 480, timing, None)

    def abort(self):
        self.is_over.set()

    close = abort
"""


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with chat_server() as served:
        yield served


def command(server: ChatServer, voices: Path, *args: object) -> list[str]:
    given = ["--llm", server.url, "--model", MODEL, "--voices", voices, "--device", "cpu", *args]
    return [sys.executable, "-m", "studio", "talk", *map(str, given)]


def test_a_question_becomes_a_wav(server: ChatServer, voices: Path, tmp_path: Path) -> None:
    wav = tmp_path / "reply.wav"
    asked = command(server, voices, "--text", "What is on?", "-o", wav, "--key-env", "LLM_KEY")
    server.script.kind = "key"
    env = {**os.environ, "LLM_KEY": KEY}
    done = subprocess.run(asked, env=env, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "The kettle is on the stove.\n"
    assert re.search(
        r"question -> first text [\d,]+ ms -> first word [\d,]+ ms -> first sound [\d,]+ ms -> end", done.stderr
    )
    assert len(read_mono(wav)[0]) > 0 and KEY not in done.stdout + done.stderr
    refused = subprocess.run(asked, env={**env, "LLM_KEY": "wrong"}, capture_output=True, text=True, timeout=200)
    assert refused.returncode == 2 and "refuses the key (401)" in refused.stderr
    assert "see the key in LLM_KEY" in refused.stderr


class Cloned(FakeEngine):
    """Its speakers were added from recordings."""

    def open(self, request: SpeakRequest) -> FakeUtterance:
        utterance = super().open(request)
        utterance.provenance |= {REFERENCE: {"consent_at": "2026-11-30T10:00:00Z"}}
        return utterance


def test_sound_of_an_added_speaker_names_the_consent(
    server: ChatServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Cloned(ToneScript(speed=200.0))
    monkeypatch.setattr("studio.systems.combined.open_voices", lambda *_, **__: engine)
    monkeypatch.setattr("studio.systems.combined.all_cards", lambda *_: {one.name: one for one in engine.cards()})
    wav = tmp_path / "reply.wav"
    asked = [
        "talk",
        "--llm",
        server.url,
        "--model",
        MODEL,
        "--voice",
        "tone:low",
        "--text",
        "What is on?",
        "-o",
        str(wav),
    ]
    done = CliRunner().invoke(cli, asked, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    comment = (
        b"voice tone:low, Streaming-TTS Studio. The speaker was cloned from a recording with consent given on 2026"
    )
    assert comment in wav.read_bytes()


def test_lines_of_a_pipe_are_one_conversation(server: ChatServer, voices: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        command(server, voices, "-o", tmp_path / "a.wav", "--system-prompt", ""),
        input="First?\n\nSecond?\n",
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "The kettle is on the stove.\n" * 2
    assert server.said() == [("user", "First?"), ("assistant", "The kettle is on the stove."), ("user", "Second?")]


@pytest.mark.parametrize("key", [b"\r", b"\x1b", b"\x03"])
def test_a_key_interrupts_and_the_conversation_goes_on(
    server: ChatServer, voices: Path, tmp_path: Path, key: bytes
) -> None:
    (tmp_path / "sounddevice.py").write_text(SOUNDDEVICE)
    server.script = Script(["word "], every_s=0.05, kind="endless")
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["PYTHONPATH"] = f"{tmp_path}:{Path(__file__).parents[1]}"
        args = command(server, voices)
        os.execv(args[0], args)
    shown, readable = "", select.poll()  # `select` takes no descriptor above 1,023
    readable.register(terminal, select.POLLIN)

    def until(text: str) -> str:
        """What is shown up to a text, since the last call."""
        nonlocal shown
        until_s = time.monotonic() + 100.0
        while text not in shown:
            assert time.monotonic() < until_s, shown
            if readable.poll(1000):
                shown += os.read(terminal, 4096).decode()
        before, _, shown = shown.partition(text)
        return before

    until("> ")
    os.write(terminal, b"Talk to me\r")
    heard = until("word word word").partition("Talk to me\r\n")[2] + "word word word"
    os.write(terminal, key)
    heard += until(" [interrupted]")
    server.script = Script()
    until("> ")
    os.write(terminal, b"Go on\r")
    until("The kettle is on the stove.")
    assert server.said() == [("user", "Talk to me"), ("assistant", f"{heard} …"), ("user", "Go on")]
    until("> ")
    server.stop()
    os.write(terminal, b"Still there?\r")
    until("see whether it runs there")
    until("> ")
    os.write(terminal, b"\x04")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    os.close(terminal)
