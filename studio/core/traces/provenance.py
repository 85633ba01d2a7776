"""Provenance of a figure or an utterance: source commit, package versions, device."""

import importlib.metadata
import platform
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

from studio.core.cards import Card

_PACKAGES = (
    "streaming-tts-studio",
    "numpy",
    "torch",
    "torchaudio",
    "pocketsphinx",
    "faster-whisper",
    "ctranslate2",
    "whisper-normalizer",
    "distillmos",
    "gradio",
)
_IN_TRACES = ("python", "streaming-tts-studio", "numpy", "torch", "torchaudio")

ANOTHER_SYSTEM = "another system"  # ``device`` of speech that is not by a voice of the studio


def provenance(card: Card, *, device: str, threads: int, temperature: float) -> dict[str, Any]:
    """Provenance in a trace's ``meta``, in addition to its ``ready`` event (voice, speaker, seed, options).

    Args:
        device: ``cpu`` or ``cuda``.
        threads: CPU threads of arithmetic.
        temperature: the effective one.
    """
    installed = versions()
    return {
        "git_sha": loaded_git_sha(),
        "versions": {name: installed[name] for name in _IN_TRACES if name in installed},
        "device": device,
        "threads": threads,
        "dtype": card.number_format,
        "vocoder": card.vocoder,
        "checkpoint_sha256": dict(card.sha256),
        "temperature": temperature,
    }


@cache
def versions() -> dict[str, str]:
    """Versions of Python and of the relevant packages."""
    installed = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            installed[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return installed


@cache
def loaded_git_sha() -> str:
    """``git_sha`` at the first call, since later changes do not affect this process."""
    return git_sha()


def git_sha(folder: Path | None = None) -> str:
    """The commit of the sources, with ``+`` for uncommitted changes; empty outside a checkout."""
    where = folder or Path(__file__).resolve().parent
    sha = command_lines(["git", "-C", str(where), "rev-parse", "--short=12", "HEAD"])
    changed = command_lines(["git", "-C", str(where), "status", "--porcelain", "--untracked-files=no"])
    return sha[0] + ("+" if changed else "") if sha else ""


def command_lines(command: list[str]) -> list[str]:
    """Output lines of a program; none if it is missing or fails."""
    if shutil.which(command[0]) is None:
        return []
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip().splitlines() if done.returncode == 0 else []
