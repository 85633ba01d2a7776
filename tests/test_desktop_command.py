"""`studio desktop`: the server starts, a browser opens its page, and the server ends with the window."""

import os
import subprocess
import sys
import urllib.request
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


# Chromium as root, or without a display.
REFUSES = "#!{python}\nraise SystemExit(7)\n"


def start(tmp_path: Path, *args: object) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "studio", "desktop", *map(str, args)]
    env = {**os.environ, "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path / "share")}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)


def run(tmp_path: Path, *args: object) -> "subprocess.CompletedProcess[str]":
    with start(tmp_path, *args) as process:
        try:
            out, err = process.communicate(timeout=280)
        finally:
            process.kill()
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def with_browser(tmp_path: Path, script: str) -> tuple[object, ...]:
    """Options for a browser with this script, and for a server with a small voice."""
    write_tiny_voice(tmp_path / "voices")
    browser = tmp_path / "browser"
    browser.write_text(script.format(python=sys.executable))
    browser.chmod(0o755)
    app = ("--voices", tmp_path / "voices", "--device", "cpu", "--port", 0, "--no-demo", "--data", tmp_path / "data")
    return ("--browser", browser, *app)


def test_the_server_lives_as_long_as_the_window(tmp_path: Path) -> None:
    done = run(tmp_path, *with_browser(tmp_path, BROWSER))
    assert done.returncode == 0, done.stderr
    status, url, has_page = done.stdout.split()
    assert (status, has_page) == ("200", "True") and "owner=" not in url  # signed in, and led to the plain address
    assert "signs this browser in" in done.stderr


def test_the_link_stays_open_where_the_browser_does_not_start(tmp_path: Path) -> None:
    with start(tmp_path, *with_browser(tmp_path, REFUSES)) as process:
        assert process.stderr is not None
        lines = process.stderr
        try:
            link = next(line.split()[-1] for line in lines if "as the owner: " in line)
            assert next(line for line in lines if "ended with 7" in line)
            with urllib.request.urlopen(link.split("?")[0] + "health", timeout=100) as answer:
                assert answer.status == 200
            process.terminate()
            process.wait(100)
            with pytest.raises(OSError):  # the server has ended as well
                urllib.request.urlopen(link.split("?")[0] + "health", timeout=100)
        finally:
            process.kill()


def test_mistakes_are_named(tmp_path: Path) -> None:
    done = run(tmp_path, "--browser", "no-such-browser")
    assert done.returncode == 2 and "no program 'no-such-browser'" in done.stderr and "chromium" in done.stderr
    done = run(tmp_path, "--browser", sys.executable, "--voices", tmp_path / "none", "--port", 0)
    assert done.returncode == 2 and "Traceback" not in done.stderr
