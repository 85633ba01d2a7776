"""Every command of the README but ``make test`` is executed, as printed."""

import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(sh|python)\n(.*?)```", README, re.S)
COMMANDS = [block.strip() for kind, block in BLOCKS if kind == "sh" and "make" not in block]
SNIPPETS = [block for kind, block in BLOCKS if kind == "python"]


def test_the_readme_has_its_commands():
    assert len(COMMANDS) == 5 and len(SNIPPETS) == 1
    assert [b.split()[:2] for k, b in BLOCKS if k == "sh"][:2] == [["make", "app"], ["make", "test"]]


@pytest.mark.parametrize("command", COMMANDS)
def test_command(command, tmp_path):
    done = subprocess.run(
        command.replace(".venv/bin/studio", f"{sys.executable} -m studio"),
        shell=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT), "STUDIO_DATA_FOLDER": str(tmp_path / "data")},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    for name in re.findall(r"\S+\.(?:wav|trace)\b", command):
        assert (tmp_path / name).stat().st_size > 1000


@pytest.mark.parametrize("snippet", SNIPPETS)
def test_snippet(snippet, tmp_path):
    command = [sys.executable, "-c", snippet]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("24000 ") and "'rain'" in done.stdout


def test_make_app_serves_the_page(tmp_path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    # The environment is there already (this test runs in it), so the stamp is not remade.
    command = (
        ["make", "app", f"PORT={port}"] if _stamped() else [sys.executable, "-m", "studio", "app", "--port", str(port)]
    )
    env = os.environ | {"STUDIO_SERVE_TRACES_FOLDER": str(tmp_path), "STUDIO_DATA_FOLDER": str(tmp_path / "data")}
    with subprocess.Popen(command, cwd=ROOT, env=env, start_new_session=True) as process:
        try:
            assert "Streaming-TTS Studio" in _page(f"http://127.0.0.1:{port}/", process)
        finally:
            os.killpg(process.pid, 15)


def _stamped() -> bool:
    stamp, files = ROOT / ".venv/app.stamp", ("pyproject.toml", "constraints.txt")
    return stamp.is_file() and all((ROOT / f).stat().st_mtime <= stamp.stat().st_mtime for f in files)


def _page(url: str, process: subprocess.Popen) -> str:
    for _ in range(300):
        assert process.poll() is None, "the app stopped"
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return answer.read().decode("utf-8")
        except OSError:
            time.sleep(0.2)
    raise AssertionError("the page did not answer within a minute")
