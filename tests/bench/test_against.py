"""This code beside an earlier commit's, which is slower and has its family elsewhere, in a checkout of its own."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from needs import needs
from tinyvoice import write_tiny_voice

from studio.bench.speed import against, commits
from studio.bench.speed.against import AgainstSetting, CannotSpeak, bench_against
from studio.bench.summary import summarise
from studio.cli import main
from studio.core.errors import BadOption, BadVoice, NeedsPackage
from studio.measure.report import plain, write_result

ROOT = Path(__file__).parents[2]
SLEEP_MS = 25.0
ENTRY = "studio.engine.families.speakstream.family:INFO"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three commits: ``bare`` has code and no voice, ``slow`` a voice and code that sleeps, ``empty`` no code."""
    needs(shutil.which("git"), "git (apt-get install git)")
    root = tmp_path_factory.mktemp("checkout") / "studio-checkout"
    shutil.copytree(ROOT / "studio", root / "studio", ignore=shutil.ignore_patterns("__pycache__", "ui", "*.png"))
    shutil.copy(ROOT / "pyproject.toml", root)
    git(root, "init", "--quiet")
    committed(root, "bare")
    write_tiny_voice(root / "assets" / "voices", speakers=("low", "high"))
    moved = root / "studio" / "engine" / "elsewhere.py"
    family, pool, project = (
        root / "studio" / "engine" / "families" / "base.py",
        root / "studio" / "engine" / "hosting" / "pool.py",
        root / "pyproject.toml",
    )
    now = {path: path.read_text() for path in (family, pool, project)}
    moved.write_text("from studio.engine.families.speakstream.family import INFO as INFO\n")
    project.write_text(now[project].replace(ENTRY, "studio.engine.elsewhere:INFO"))
    pool.write_text(now[pool].replace("import logging", "import logging\nimport time").replace(
        "        did, wants = False", f"        time.sleep({SLEEP_MS / 1000})\n        did, wants = False"
    ))  # fmt: skip
    committed(root, "slow")
    git(root, "rm", "--quiet", "-r", "--cached", "studio")
    git(root, "commit", "--quiet", "-m", "empty")
    git(root, "tag", "empty")
    moved.unlink()
    for path, text in now.items():
        path.write_text(text)
    return root


def git(root: Path, *said: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", str(root), *who, *said], check=True, capture_output=True)


def committed(root: Path, name: str) -> None:
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "-m", name)
    git(root, "tag", name)


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    path = tmp_path / "texts.txt"
    path.write_text("The rain stopped.\nA horse ran.\n")
    return path


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where temporary folders are made; none of them is left."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    yield folder
    assert not [*folder.iterdir()]


def test_both_codes_speak_the_same_weights_by_turns(
    checkout: Path, texts: Path, scratch: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = AgainstSetting(commit="slow", voice="tiny:high", setting="m=2", texts=texts, checkout=checkout)
    out = bench_against(replace(asked, count=2, rounds=2))
    assert (out["voice"], out["speaker"], out["setting"], out["n"]) == ("tiny", "high", "m=2", 2)
    for one in out["rounds"]:
        assert one["then_ms"] > SLEEP_MS and one["now_ms"] > 0, "the commit's own code ran"
        assert one["now_frames"] == one["then_frames"] > 0, "the same weights, the same words, the same seed"
        assert one["ratio"] == pytest.approx(one["now_ms"] / one["then_ms"])
    ratios = sorted(one["ratio"] for one in out["rounds"])
    assert [out["ratio"][name] for name in ("low", "median", "high")] == pytest.approx(
        [ratios[0], sum(ratios) / 2, ratios[1]]
    )
    json.dumps(plain(out), allow_nan=False)
    printed = capsys.readouterr().out
    assert "A frame of tiny:high, m=2, 2 texts" in printed and f"code of {out['commit']}" in printed
    write_result("against", out, tmp_path / "results")
    page = summarise(tmp_path / "results", tmp_path / "page.md").read_text()
    assert "## A frame, beside an earlier commit's code, tiny" in page and "round 2" in page


def test_what_cannot_be_compared_is_refused_in_words(
    checkout: Path, texts: Path, scratch: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = AgainstSetting(commit="slow", texts=texts, count=1, rounds=1, checkout=checkout, quiet=True)
    for change, error, words in (
        ({"commit": "nope"}, BadOption, "no commit 'nope'"),
        ({"commit": "--all"}, BadOption, "no commit '--all'"),
        ({"commit": "slow:studio"}, BadOption, "no commit"),
        ({"commit": "bare"}, BadVoice, "holds no voice; --voice-from"),
        ({"commit": "empty"}, BadOption, "holds no studio"),
        ({"voice": "wren"}, BadVoice, "no voice 'wren'; there are tiny"),
        ({"setting": "q=5"}, BadOption, "'q=5' sets no option"),
        ({"checkout": checkout / "studio"}, BadOption, "no checkout of git"),
        ({"checkout": tmp_path}, BadOption, "no checkout of git"),
    ):
        with pytest.raises(error, match=words):
            bench_against(replace(asked, **change))
    monkeypatch.setattr(commits.shutil, "which", lambda name: None)
    with pytest.raises(NeedsPackage, match="git, which is not installed"):
        bench_against(asked)


def test_code_that_does_not_speak_says_why(
    checkout: Path, texts: Path, scratch: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("raise SystemExit('no family is called toy')\n")
    monkeypatch.setattr(against.spoken_once, "__file__", str(broken))
    asked = AgainstSetting(commit="bare", voice_from="slow", texts=texts, count=1, rounds=1, checkout=checkout)
    with pytest.raises(CannotSpeak, match="does not speak it: no family is called toy"):
        bench_against(asked)


def test_the_command_refuses_in_words(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["studio", "bench", "against", "no-such-commit"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2 and "studio: " in capsys.readouterr().err
