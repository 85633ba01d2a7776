"""What a test needs from the machine: skipped and named where it is absent, a failure where it must be there."""

import os
from pathlib import Path

import pytest


def needs(present: object, what: str) -> None:
    """Skip the running test unless ``present``; fail instead where STUDIO_NO_SKIPS=1 or CI=true: all must be there."""
    if present:
        return
    if os.environ.get("STUDIO_NO_SKIPS") == "1" or os.environ.get("CI") == "true":
        pytest.fail(f"this machine must have {what}", pytrace=False)
    pytest.skip(f"needs {what}")


def data_folder() -> Path:
    """The folder of recordings and sentence lists that STUDIO_DATA names."""
    folder = Path(os.environ.get("STUDIO_DATA", "/nonexistent"))
    needs((folder / "ljspeech_clips").is_dir(), "STUDIO_DATA=folder holding ljspeech_clips and ljspeech_sentences.txt")
    return folder
