"""Where a figure or an utterance came from: the sources, the versions, the machine's part; enough to repeat it."""

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
_COMPUTED_BY = ("python", "streaming-tts-studio", "numpy", "torch", "torchaudio")  # of a sound


def provenance(card: Card, *, device: str, threads: int, temperature: float) -> dict[str, Any]:
    """What every trace says about who spoke it, beside its ``ready`` event (voice, speaker, seed, options).

    Args:
        device: what computed it, ``cpu`` or ``cuda``.
        threads: of arithmetic.
        temperature: the one in force, the card's own where nobody asked for another.
    """
    found = versions()
    return {
        "git_sha": sources(),
        "versions": {name: found[name] for name in _COMPUTED_BY if name in found},
        "device": device,
        "threads": threads,
        "dtype": card.number_format,
        "vocoder": card.vocoder,
        "checkpoint_sha256": dict(card.sha256),
        "temperature": temperature,
    }


@cache
def versions() -> dict[str, str]:
    """Versions of Python and of the packages that matter to a figure."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


@cache
def sources() -> str:
    """``git_sha`` of this program as it was when it was first asked: what a process loaded stays what it was."""
    return git_sha()


def git_sha(folder: Path | None = None) -> str:
    """The commit of the sources, with ``+`` where files differ from it; empty outside a checkout."""
    where = folder or Path(__file__).resolve().parent
    sha = lines_of(["git", "-C", str(where), "rev-parse", "--short=12", "HEAD"])
    changed = lines_of(["git", "-C", str(where), "status", "--porcelain", "--untracked-files=no"])
    return sha[0] + ("+" if changed else "") if sha else ""


def lines_of(command: list[str]) -> list[str]:
    """Output of a program that may not be there; nothing where it is not, or fails."""
    if shutil.which(command[0]) is None:
        return []
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip().splitlines() if done.returncode == 0 else []
