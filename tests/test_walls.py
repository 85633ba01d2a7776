"""The walls between the rooms: they stand, and each one falls when something is planted against it."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PLANTED = [
    ("studio/core/words.py", "import torch", "core is the standard library and numpy"),
    ("studio/serve/guard.py", "import studio.engine.loop", "serve and ui see the engine through ports only"),
    ("studio/serve/guard.py", "import gradio", "serve knows no gradio"),
    ("studio/engine/sampling.py", "import fastapi", "the engine works on a bare machine"),
    ("studio/measure/wer.py", "import torch", "measure loads no torch"),
    ("studio/train/recipe.py", "import gradio", "train knows neither the page nor the server"),
    ("studio/core/words.py", "import studio.text.normalise", "rooms: each sees only those below"),
]


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    """import-linter over a checkout."""
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as main; main()", "--no-cache"]
    return subprocess.run(command, cwd=folder, env={"PYTHONPATH": str(folder)}, capture_output=True, text=True)


def test_every_wall_stands():
    done = lint(ROOT)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(("file", "line", "wall"), PLANTED)
def test_a_planted_violation_is_seen(file, line, wall, tmp_path):
    shutil.copytree(ROOT / "studio", tmp_path / "studio", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    with (tmp_path / file).open("a", encoding="utf-8") as planted:
        planted.write(f"\n{line}\n")
    done = lint(tmp_path)
    assert done.returncode != 0
    assert f"{wall} BROKEN" in done.stdout


@pytest.mark.parametrize("command", [["say"], ["train", "fit"], ["bench", "latency"], ["eval", "wer"]])
def test_help_needs_no_server_packages(command):
    """A bare GPU machine has torch, torchaudio, numpy, safetensors, typer and rich."""
    blocked = [
        "gradio",
        "fastapi",
        "pydantic",
        "sqlmodel",
        "uvicorn",
        "websockets",
        "num2words",
        "plotly",
        "pocketsphinx",
    ]
    code = (
        "import sys\n"
        f"for name in {blocked!r}: sys.modules[name] = None\n"
        f"sys.argv = ['studio', *{command!r}, '--help']\n"
        "from studio.cli import cli\ncli()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0 and "Usage" in done.stdout, done.stderr


def test_a_bare_machine_can_speak(tmp_path):
    blocked = [
        "gradio",
        "fastapi",
        "pydantic",
        "sqlmodel",
        "uvicorn",
        "websockets",
        "num2words",
        "plotly",
        "pocketsphinx",
    ]
    code = (
        "import sys\n"
        f"for name in {blocked!r}: sys.modules[name] = None\n"
        f"sys.argv = ['studio', 'say', 'Good morning.', '-o', {str(tmp_path / 'a.wav')!r}, '--device', 'cpu']\n"
        "from studio.cli import main\nmain()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "a.wav").stat().st_size > 1000


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("studio.serve.app", "torch"),
        ("studio.serve.app", "gradio"),
        ("studio.engine.loop", "gradio"),
        ("studio", "numpy"),
    ],
)
def test_what_an_import_does_not_load(module, absent):
    code = f"import sys, {module}; sys.exit({absent!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0
