"""A server says that it listens when it does, and not before."""

import socket
import threading
from pathlib import Path

import httpx
from fakes import FakeEngine
from serve.serving import eventually

from studio.serve.app import create_app
from studio.serve.server import bind_port
from studio.serve.server import build_server as make_server
from studio.serve.settings import ServeSettings


def test_the_port_answers_when_it_is_told(tmp_path: Path) -> None:
    taken = bind_port(ServeSettings(port=0))
    settings = ServeSettings(port=taken.getsockname()[1], traces_folder=tmp_path, drain_ms=0)
    server = make_server(create_app(FakeEngine(), settings), settings)
    told: list[int] = []

    def listening() -> None:
        with socket.create_connection(
            ("127.0.0.1", settings.port), timeout=10.0
        ):  # refused by a port that is only taken
            told.append(settings.port)

    server.on_ready = listening
    thread = threading.Thread(target=server.run, args=([taken],), daemon=True)
    thread.start()
    eventually(lambda: told or not thread.is_alive(), "the server")
    assert told and httpx.get(f"http://127.0.0.1:{told[0]}/health", timeout=20.0).status_code == 200
    server.should_exit = True
    thread.join(10.0)
