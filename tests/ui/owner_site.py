"""The owner's server as a process, and HTTP calls to it."""

import json
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from ui.conftest import START_S, TESTS, _free_port
from ui.serving import Serving


class Site:
    """The owner's server as a process."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.folder, self.port = folder, _free_port()
        self.url = f"http://127.0.0.1:{self.port}/"
        script = TESTS / "ui" / "owner_server.py"
        self.process = Serving(script, str(folder), "--port", str(self.port), *arguments, home=folder)
        until_s = time.monotonic() + START_S
        while not self._answers():
            assert self.process.is_alive and time.monotonic() < until_s, "the server does not start"
            time.sleep(0.1)
        self.token = (folder / "token.txt").read_text(encoding="utf-8")
        with urllib.request.urlopen(self.url + "theme.css", timeout=START_S):
            pass  # Gradio, which is imported with the first request for it

    def _answers(self) -> bool:
        try:
            return bool(self.get("health"))
        except urllib.error.HTTPError:
            return True  # a key is required
        except OSError:
            return False

    def cookie(self) -> str:
        """The header of a browser that is signed in as the owner."""
        data = json.dumps({"token": self.token}).encode()
        request = urllib.request.Request(f"{self.url}mos/owner/session", data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.headers["set-cookie"].partition(";")[0]

    def get(self, path: str, **headers: str) -> str:
        request = urllib.request.Request(self.url + path, headers=headers)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.read().decode("utf-8")

    def sign_in(self, context: Any) -> None:
        """Sign a browser's context in as the owner."""
        assert context.request.post(f"{self.url}mos/owner/session", data={"token": self.token}).ok

    def post(self, path: str, body: dict[str, Any], token: str = "", cookie: str = "") -> str:
        data = json.dumps(body).encode()
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
        headers |= {"Cookie": cookie} if cookie else {}
        request = urllib.request.Request(self.url + path, data, headers)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.read().decode("utf-8")
        except urllib.error.HTTPError as error:
            return error.read().decode("utf-8")

    def states(self) -> dict[str, str]:
        rows = json.loads(self.get("mos/owner/campaigns", Authorization=f"Bearer {self.token}"))
        return {row["name"]: row["state"] for row in rows}
