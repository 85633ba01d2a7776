"""Run the app as a process, and type into it in headless Chromium."""

import base64
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from studio.core.errors import NeedsPackage, StudioError, needs

START_S = 120.0
LIVE = ".live .options input"
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --autoplay-policy=no-user-gesture-required"
).split()
# Speech rendered by the worklet: [first sample, base64 of s16le] of every block, in order.
RENDERED = """play => {
  const tap = document.querySelector('.live').tap;
  const parts = [];
  for (const block of tap.blocks) {
    if (block.play !== play) continue;
    for (const [offset, sample, count] of block.runs) {
      const pcm = Int16Array.from(block.pcm.subarray(offset, offset + count), (v) => Math.round(v * 32768));
      parts.push([sample, btoa(String.fromCharCode(...new Uint8Array(pcm.buffer)))]);
    }
  }
  return parts;
}"""


class PageFailed(StudioError, code="page_failed"):
    """The app or the page failed."""


def free_port() -> int:
    """An unused TCP port of this machine."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def own_command() -> list[str]:
    """The command of this package's app."""
    return [sys.executable, "-m", "studio", "app"]


@contextmanager
def running_app(command: Sequence[str] | None, traces: Path | None = None) -> Iterator[str]:
    """Run the app; yields its address. Raises PageFailed if it does not answer.

    Args:
        traces: folder of its traces; None for a temporary one.
    """
    with app_process(command, traces) as (process, url):
        wait_for(process, url + "health")
        yield url


@contextmanager
def app_process(
    command: Sequence[str] | None, traces: Path | None = None, log_path: Path | None = None
) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Start the app; yields the process and its future address."""
    port = free_port()
    with tempfile.TemporaryDirectory() as data:
        folders = {"STUDIO_SERVE_TRACES_FOLDER": str(traces or f"{data}/traces"), "STUDIO_DATA_FOLDER": f"{data}/data"}
        environ = {**os.environ, **folders}
        with (log_path or Path(data, "server.log")).open("wb") as log:  # hides the owner's token
            whole = [*(command or own_command()), "--port", str(port)]
            process = subprocess.Popen(whole, env=environ, stdout=log, stderr=log)
            try:
                yield process, f"http://127.0.0.1:{port}/"
            finally:
                process.terminate()
                process.wait(30.0)


def wait_for(process: subprocess.Popen[bytes], page: str) -> None:
    """Wait until a page of the app is served. Raises PageFailed."""
    until_s = time.monotonic() + START_S
    while time.monotonic() < until_s:
        if process.poll() is not None:
            raise PageFailed(f"the app ended with status {process.returncode}", "start it manually and read its output")
        try:
            with urllib.request.urlopen(page, timeout=START_S):
                return
        except OSError:
            time.sleep(0.05)
    raise PageFailed(f"the app did not answer within {START_S:g} s", "start it manually and read its output")


@contextmanager
def open_page(url: str, script: str = "", ready: str = LIVE, **context: Any) -> Iterator[Any]:
    """The Live page in a fresh headless Chromium, as a Playwright page; ``script`` runs before its own.

    Args:
        ready: a selector that matches once the page can be used.

    Raises:
        NeedsPackage: playwright or chromium is missing.
    """
    with needs("playwright is not installed", do="pip install playwright"):
        from playwright.sync_api import sync_playwright
    program = next(
        (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
    )
    if program is None:
        raise NeedsPackage("chromium was not found", "install the system package chromium")
    with (
        sync_playwright() as playwright,
        closing(playwright.chromium.launch(executable_path=program, args=FLAGS)) as browser,
    ):
        page = browser.new_context(**{"viewport": {"width": 1280, "height": 860}, **context}).new_page()
        if script:
            page.add_init_script(script)
        page.goto(url)
        page.wait_for_selector(ready, state="attached")
        yield page


def type_words(page: Any, words: Sequence[str], wpm: float) -> None:
    """Type at an even rate: a word and the space after it every 60 / wpm seconds."""
    page.locator("#live-text").focus()
    began_s = time.perf_counter()
    for index, word in enumerate(words):
        for k, key in enumerate(f"{word} "):
            due_s = began_s + (index + (k + 1) / (len(word) + 1)) * 60.0 / wpm
            page.wait_for_timeout(max(0.0, (due_s - time.perf_counter()) * 1000.0))
            page.keyboard.type(key)


def utterances_played(page: Any) -> int:
    """Number of utterances played to the end."""
    return page.evaluate("Number(document.querySelector('.live').dataset.spoken ?? 0)")


def wait_utterances_played(page: Any, count: int, timeout_s: float) -> None:
    """Wait until ``count`` utterances have been played."""
    script = "count => Number(document.querySelector('.live').dataset.spoken ?? 0) >= count"
    page.wait_for_function(script, arg=count, timeout=timeout_s * 1000.0)


def captured(page: Any, play: int) -> np.ndarray:
    """Rendered speech of a play (from 1), int16 [T], without pauses. Raises PageFailed.

    The page must have been opened with ``?tap=1``.
    """
    out: list[np.ndarray] = []
    expected = 0
    for sample, data in page.evaluate(RENDERED, play):
        if sample != expected:
            raise PageFailed(f"the page rendered sample {sample} where {expected} was due", "report this")
        out.append(np.frombuffer(base64.b64decode(data), "<i2"))
        expected += len(out[-1])
    return np.concatenate(out) if out else np.zeros(0, np.int16)
