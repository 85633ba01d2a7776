"""Every README command but ``make test`` is executed as printed, and the walkthrough of docs/listening-tests.md."""

import csv
import os
import re
import shlex
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from mos.postgres import server

from studio.cli import main
from studio.core.clips import write_wav

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(sh|python)\n(.*?)```", README, re.S)
COMMANDS = [block.strip() for kind, block in BLOCKS if kind == "sh" and "make" not in block]
SNIPPETS = [block for kind, block in BLOCKS if kind == "python"]


def test_readme_has_its_commands():
    assert len(COMMANDS) == 6 and len(SNIPPETS) == 1
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


def test_labs_own_test_is_created_as_documented(tmp_path, monkeypatch, capsys):
    """The section's files and sounds are written and its commands run, on PostgreSQL too."""
    page = (ROOT / "docs" / "listening-tests.md").read_text(encoding="utf-8")
    section = page.partition("## A test of your own sounds\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"```(\w+)(?: (\S+))?\n(.*?)```", section, re.S)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STUDIO_DATA_FOLDER", str(tmp_path / "data"))
    for _, name, text in blocks:
        if name:
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text, encoding="utf-8")
    rows = list(csv.DictReader((tmp_path / "sounds.csv").open(encoding="utf-8")))
    files = [row["file"] for row in rows] + [f"my-sounds/{row['system']}/{row['item']}.wav" for row in rows[:4]]
    for k, name in enumerate(files):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        write_wav(tmp_path / name, (3000 * np.sin(np.arange(16_000) / (5 + k))).astype(np.int16), 16_000)
    commands = [line for kind, _, text in blocks if kind == "sh" for line in text.splitlines()]
    assert len(commands) == 9
    with server() as folder:
        for command in commands:
            address = f"postgresql://studio@/postgres?host={folder}"
            adapted = command.replace("postgresql://studio@localhost/studio", address)
            monkeypatch.setattr(sys, "argv", shlex.split(adapted.replace(".venv/bin/studio", "studio")))
            with pytest.raises(SystemExit) as ended:
                main()
            out, err = capsys.readouterr()
            assert ended.value.code == 0, (command, err)
            if "lab.example" in command:
                assert "rater    https://lab.example/rate?test=" in out
    assert "own" in out and (tmp_path / "own.parquet").stat().st_size > 1000
    assert (tmp_path / "decisions.csv").read_text(encoding="utf-8").startswith("PROLIFIC_PID,")


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
    # The environment exists (this test runs in it), so the stamp is not remade.
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
    for _ in range(600):
        assert process.poll() is None, "the app stopped"
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return answer.read().decode("utf-8")
        except OSError:
            time.sleep(0.2)
    raise AssertionError("the page did not answer within two minutes")
