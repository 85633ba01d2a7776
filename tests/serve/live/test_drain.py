"""Shutdown: committed text is spoken, the rest cut off, all clients informed, and the process ends in time."""

import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from serve.live.test_socket_speaks import FIVE, samples_of
from serve.serving import Serving, Talk, kinds, of, pcm
from tones import Script
from websockets.exceptions import ConnectionClosed

SERVER = """
import sys
from pathlib import Path
from fakes import FakeEngine
from tones import Script
from studio.serve.app import create_app
from studio.serve.server import run
from studio.serve.settings import ServeSettings

settings = ServeSettings(port=int(sys.argv[1]), traces_folder=Path(sys.argv[2]))
run(create_app(FakeEngine(Script(speed=1.0)), settings), settings)
"""


def test_drain_speaks_committed_text_and_starts_nothing_new(serving: Serving) -> None:
    server = serving(script=Script(speed=5.0), drain_ms=3_000)
    with server.talk() as talk, server.talk() as other, server.talk() as silent:
        talk.open(credit_ms=60_000)
        for number in range(2, 5):
            other.open(number)
        other.say("open", 5)
        other.until("queued")
        talk.say("text", text=FIVE + " half")
        heard = talk.until("word_start")
        server._server.should_exit = True
        assert silent.hear()["code"] == "closing"
        late = silent.open(9)
        assert (late["type"], late["code"], late["utterance"]) == ("error", "closing", 9) and "retry_ms" not in late
        heard += talk.until("trace")
        waited = other.until("failed", utterance=5)[-1]
        assert waited["code"] == "closing"
    assert of(heard, "error")[0]["code"] == "closing"
    assert kinds(heard)[-2:] == ["ended", "trace"] and not of(heard, "cancelled")
    assert [one["word"] for one in of(heard, "committed")] == FIVE.lower().split(), "a partial word is not spoken"
    assert len(pcm(heard)) == samples_of(FIVE)


def test_endless_speech_is_cut_off_and_the_process_ends_within_5_s(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    where = {"cwd": Path(__file__).parents[2], "env": {"PYTHONPATH": f".:{Path(__file__).parents[3]}"}}
    server = subprocess.Popen([sys.executable, "-c", SERVER, str(port), str(tmp_path / "traces")], **where)
    until_s = time.monotonic() + 60
    while True:
        try:
            talk = Talk(f"ws://127.0.0.1:{port}/ws/speak", max_size=None, proxy=None)
            break
        except OSError:
            assert time.monotonic() < until_s and server.poll() is None
            time.sleep(0.1)
    talk.open(credit_ms=60_000)
    talk.say("text", text=f"{FIVE} " * 40)
    talk.until("word_end")
    server.send_signal(signal.SIGTERM)
    began_s = time.monotonic()
    heard = talk.until("ended")
    assert of(heard, "error")[0]["code"] == "closing" and len(of(heard, "cancelled")) == 1
    assert of(heard, "word_start"), "it continued for a while"
    with pytest.raises(ConnectionClosed):
        talk.quiet(5.0)
    server.wait(20)
    assert time.monotonic() - began_s < 5.0
