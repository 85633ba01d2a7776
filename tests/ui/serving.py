"""Servers as processes forked from one with all imports loaded: most of a start is imports."""

import atexit
import multiprocessing
import os
import runpy
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

_FORKED = multiprocessing.get_context("forkserver")
_FORKED.set_forkserver_preload(
    [
        "studio.serve.app",
        "studio.serve.server",
        "studio.ui.app",
        "studio.ui.components",
        *(f"studio.ui.pages.{name}" for name in ("campaigns", "results", "engine", "speak")),
        "studio.mos.service",
        "studio.mos.stimuli.building",
        "pyloudnorm",
    ]
)


class Serving:
    """A script of the tests as a process with its own home folder. Its output goes to ``<home>/said.txt``."""

    def __init__(self, script: Path, *arguments: str, home: Path) -> None:
        self.said = home / "said.txt"
        env = {**os.environ, "HOME": str(home)}  # keep the tests' traces out of the user's folders
        self._process = _FORKED.Process(target=_run, args=(script, arguments, env, self.said), daemon=True)
        self._process.start()
        atexit.register(self._process.kill)  # otherwise the end of the tests waits for the server to drain

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        assert self._process.pid is not None
        os.kill(self._process.pid, number)

    def kill(self) -> None:
        """Kill it, as a power loss would."""
        self._process.kill()

    def wait(self, timeout_s: float) -> None:
        """Wait until it has ended. Raises TimeoutError."""
        self._process.join(timeout_s)
        if self.is_alive:
            raise TimeoutError(f"the server runs on after {timeout_s:g} s")

    @property
    def is_alive(self) -> bool:
        """Whether it runs."""
        return self._process.is_alive()


def _run(script: Path, arguments: tuple[str, ...], env: Mapping[str, str], said: Path) -> None:
    os.environ.clear()
    os.environ.update(env)
    for name in [one for one in sys.modules if one.partition(".")[0] == "huggingface_hub"]:
        del sys.modules[name]  # Gradio loaded it; it reads HF_ENDPOINT and others when it is imported
    with said.open("ab") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    print(f"{script.name} begins", flush=True)
    sys.argv = [str(script), *arguments]
    runpy.run_path(str(script), run_name="__main__")
