"""`studio desktop`: the server starts, a browser opens its page, and the server ends with the window."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tinyvoice import write_tiny_voice

pytestmark = pytest.mark.slow

# Stands for a browser: opens the page with cookies, as one does, and closes the window.
BROWSER = """#!{python}
import sys, urllib.request
from http.cookiejar import CookieJar
(link,) = [one.removeprefix("--app=") for one in sys.argv[1:] if one.startswith("--app=")]
opened = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar())).open(link, timeout=100)
print(opened.status, opened.url, b"<main" in opened.read())
"""


def run(tmp_path: Path, *args: object) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "studio", "desktop", *map(str, args)]
    env = {**os.environ, "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path / "share")}
    return subprocess.run(command, capture_output=True, text=True, timeout=280, env=env)


def test_the_server_lives_as_long_as_the_window(tmp_path: Path) -> None:
    write_tiny_voice(tmp_path / "voices")
    browser = tmp_path / "browser"
    browser.write_text(BROWSER.format(python=sys.executable))
    browser.chmod(0o755)
    given = ("--voices", tmp_path / "voices", "--device", "cpu", "--port", 0, "--no-demo", "--data", tmp_path / "data")
    done = run(tmp_path, "--browser", browser, *given)
    assert done.returncode == 0, done.stderr
    status, url, has_page = done.stdout.split()
    assert (status, has_page) == ("200", "True") and "owner=" not in url  # signed in, and led to the plain address
    assert "signs this browser in" in done.stderr


def test_mistakes_are_named(tmp_path: Path) -> None:
    done = run(tmp_path, "--browser", "no-such-browser")
    assert done.returncode == 2 and "no program 'no-such-browser'" in done.stderr and "chromium" in done.stderr
    done = run(tmp_path, "--browser", sys.executable, "--voices", tmp_path / "none", "--port", 0)
    assert done.returncode == 2 and "Traceback" not in done.stderr
