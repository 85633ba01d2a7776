"""Caddy with deploy/Caddyfile in front of a server, as a process."""

import os
import shutil
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from needs import needs
from ui.conftest import START_S, _free_port

PATH = "/studio"
CADDYFILE = Path(__file__).resolve().parents[3] / "deploy" / "Caddyfile"


class Proxy:
    """Caddy at https://localhost, below ``PATH``, with a certificate of its own authority."""

    def __init__(self, folder: Path, backend: int) -> None:
        caddy = shutil.which("caddy")
        needs(caddy, "the system package caddy")
        assert caddy is not None
        self._caddy, self._folder, self.port = caddy, folder, _free_port()
        self.origin = f"https://localhost:{self.port}/"
        self.url = f"{self.origin[:-1]}{PATH}/"
        self.authority = folder / "caddy/pki/authorities/local/root.crt"
        self.start(backend)

    def start(self, backend: int) -> None:
        """Serve; ``backend`` is a port on loopback."""
        env = os.environ | {
            "HOME": str(self._folder),
            "XDG_DATA_HOME": str(self._folder),
            "XDG_CONFIG_HOME": str(self._folder),
            "STUDIO_HTTP_PORT": str(_free_port()),
            "STUDIO_HTTPS_PORT": str(self.port),
            "STUDIO_SERVE_ROOT_PATH": PATH,
            "STUDIO_BACKEND": f"127.0.0.1:{backend}",
        }
        log = self._folder / "caddy.log"
        with log.open("wb") as out:
            command = [self._caddy, "run", "--config", str(CADDYFILE), "--adapter", "caddyfile"]
            self._process = subprocess.Popen(command, env=env, stdout=out, stderr=out)
        until_s = time.monotonic() + START_S
        while not self._answers():
            assert self._process.poll() is None and time.monotonic() < until_s, log.read_text()
            time.sleep(0.1)

    def get(self, url: str, **headers: str) -> Any:
        """The response, by a client that trusts Caddy's authority alone."""
        trust = ssl.create_default_context(cafile=str(self.authority))
        return urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=30, context=trust)

    def _answers(self) -> bool:
        try:
            return self.authority.is_file() and self.get(self.origin).status == 200
        except urllib.error.HTTPError:
            return True
        except OSError:
            return False

    def stop(self) -> None:
        """End the process; ``start`` serves again at the same address."""
        self._process.kill()
        self._process.wait(10.0)
