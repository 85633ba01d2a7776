"""Ctrl+C while pages are open: the server ends at once, and quietly."""

import signal
from pathlib import Path
from typing import Any

import pytest
from ui.owner_site import Site


def test_an_open_page_does_not_hold_up_the_end(
    chromium: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    site, page = Site(tmp_path, "--empty"), chromium.new_page()
    with page.expect_request("**/heartbeat/**"):  # its answer does not end by itself
        page.goto(site.url + "campaigns")
    page.wait_for_timeout(500)
    site.process.send_signal(signal.SIGINT)
    site.process.wait(60)
    page.close()
    said = capfd.readouterr().err
    assert "graceful" not in said
    assert "ASGI" not in said
