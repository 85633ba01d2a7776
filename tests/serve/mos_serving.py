"""A served listening test, and a rater's HTTP client."""

import re
import socket
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
from fakes import FakeEngine
from mos.world import CLIP_MS, World
from serve.serving import eventually
from tones import Script

from studio.mos.store.database import Store
from studio.serve.app import create_app
from studio.serve.server import build_server as make_server
from studio.serve.settings import ServeSettings


def words_in(text: str, words: tuple[str, ...]) -> list[str]:
    """Return the words that occur in the text on their own, in any case; a random token may contain any of them."""
    return [word for word in words if re.search(rf"(?<![\w-]){word}s?(?![\w-])", text, re.IGNORECASE)]


class ServedTests:
    """The whole server with listening tests, in a thread, as ``studio app`` runs it."""

    def __init__(self, folder: Path, engine: FakeEngine | None = None, **settings: Any) -> None:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        self.world = World(Store(f"sqlite:///{folder / 'studio.sqlite'}"), folder / "clips")
        self.engine = engine or FakeEngine(Script())
        chosen = replace(ServeSettings(port=port, traces_folder=folder / "traces", drain_ms=0), **settings)
        self.app = create_app(self.engine, chosen, listening=self.world.listening)
        self._server = make_server(self.app, chosen)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        eventually(lambda: self._server.started, "the server")
        self.url = f"http://127.0.0.1:{port}"
        self.http = httpx.Client(base_url=f"{self.url}/mos/", timeout=30.0)
        self.owner = {"Authorization": f"Bearer {self.world.listening.access.first_token}"}

    def link(self, role: str = "panel", name: str = "first") -> dict[str, str]:
        """Query parameters of a link."""
        return {"campaign": name, "key": self.world.link(name, role)}

    def join(self, who: str = "p1", role: str = "panel") -> "Browser":
        """A rater who has just arrived from a panel."""
        answer = self.http.post("join", json={**self.link(role), "panel": {"PROLIFIC_PID": who}})
        assert answer.status_code == 200, answer.text
        return Browser(self.http, answer.json()["token"])

    def stop(self) -> None:
        """Stop the server, then close the store."""
        self.http.close()
        self._server.should_exit = True
        self._thread.join(10.0)
        assert not self._thread.is_alive()
        self.world.listening.close()


class Browser:
    """One rater's calls."""

    def __init__(self, http: httpx.Client, token: str) -> None:
        self._http = http
        self.headers = {"Authorization": f"Bearer {token}"}

    def get(self, path: str, method: str = "GET", **headers: str) -> httpx.Response:
        return self._http.request(method, path, headers=self.headers | headers)

    def post(self, path: str, body: Any) -> httpx.Response:
        answer = self._http.post(path, json=body, headers=self.headers)
        if answer.status_code == 200 and (token := answer.json().get("token")):
            self.headers = {"Authorization": f"Bearer {token}"}  # the visitor has consented
        return answer

    def agree(self) -> "Browser":
        """Become a rater."""
        self.post("stage", {"stage": "consent", "data": {"agreed": True, "version": 3}})
        return self

    def next(self) -> dict[str, Any]:
        answer = self.get("next")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def to_trials(self) -> dict[str, Any]:
        """Consent and read; returns the first screen."""
        answer = self.agree().post("stage", {"stage": "instructions"})
        assert answer.status_code == 200, answer.text
        return answer.json()


def reply(shown: dict[str, Any], value: int = 4) -> dict[str, Any]:
    """The answer to a screen of one question."""
    return {
        "trial": shown["trial"]["trial"],
        "scores": [{"question": "naturalness", "slot": 0, "value": value}],
        "plays": [{"slot": 0, "plays": 1, "heard_ms": CLIP_MS}],
        "response_ms": 1500.5,
    }
