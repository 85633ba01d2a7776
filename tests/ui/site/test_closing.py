"""Ctrl+C while pages are open: the server ends immediately and without a traceback."""

import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from ui.conftest import _free_port
from ui.owner_site import Site

STUCK = """
import sys, time
from studio.serve.app import guarded_app
from studio.serve.server import run
from studio.serve.settings import ServeSettings

settings = ServeSettings(port=int(sys.argv[1]))
app = guarded_app(settings)

@app.get("/health")
def health():
    return {}

@app.get("/stuck")
def stuck():
    print("in", flush=True)
    time.sleep(1000)

run(app, settings)
"""


def test_open_page_does_not_delay_the_exit(chromium: Any, tmp_path: Path) -> None:
    site, page = Site(tmp_path, "--empty"), chromium.new_page()
    with page.expect_request("**/gradio_api/queue/data**"):  # a stream of events
        page.goto(site.url + "campaigns")
    page.wait_for_timeout(500)
    site.process.send(signal.SIGINT)
    site.process.wait(60)
    page.close()
    said = site.process.said.read_text(encoding="utf-8")
    assert said.startswith("owner_server.py begins"), "its output is readable"
    assert "graceful" not in said
    assert "ASGI" not in said


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_endless_request_does_not_block_the_exit(sent: signal.Signals) -> None:
    port = _free_port()
    server = subprocess.Popen([sys.executable, "-c", STUCK, str(port)], stdout=subprocess.PIPE, text=True)
    until_s = time.monotonic() + 60
    while True:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1).close()
            break
        except OSError:
            assert time.monotonic() < until_s and server.poll() is None
            time.sleep(0.1)
    stuck = subprocess.Popen(
        [sys.executable, "-c", f"import urllib.request as u; u.urlopen('http://127.0.0.1:{port}/stuck')"]
    )
    assert server.stdout is not None and server.stdout.readline() == "in\n"
    server.send_signal(sent)
    began_s = time.monotonic()
    server.wait(20)
    assert time.monotonic() - began_s < 5.0
    stuck.kill()
