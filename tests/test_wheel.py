"""The installed wheel carries voices, texts and the demo, and speaks without a checkout."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import soundfile

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]
BUILT_FROM = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE", "studio", "assets")


def run(*command: str, cwd: Path, **variables: str) -> str:
    done = subprocess.run(
        [sys.executable, *command], cwd=cwd, env={**os.environ, **variables}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_wheel_speaks_outside_the_checkout(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name in BUILT_FROM:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, source / name)
    build = ("-m", "pip", "--disable-pip-version-check")
    run(
        *build,
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--wheel-dir",
        str(tmp_path),
        str(source),
        cwd=tmp_path,
    )
    (wheel,) = tmp_path.glob("*.whl")
    shutil.rmtree(source)
    site = tmp_path / "site"
    run(*build, "install", "--quiet", "--no-deps", "--target", str(site), str(wheel), cwd=tmp_path)
    where = run(
        "-c",
        "import studio, studio.core.folders as s; print(studio.__file__, s.ASSETS)",
        cwd=tmp_path,
        PYTHONPATH=str(site),
    )
    assert where.count(str(site)) == 2
    run("-m", "studio", "say", "Hello there.", "-o", "hello.wav", cwd=tmp_path, PYTHONPATH=str(site))
    pcm, rate = soundfile.read(tmp_path / "hello.wav")
    assert rate == 24000 and len(pcm) > rate / 3 and abs(pcm).max() > 0.05
    assert (site / "studio" / "assets" / "texts" / "examples.json").is_file()
    assert (site / "studio" / "assets" / "demo" / "manifest.json").is_file()
