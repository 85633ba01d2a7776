"""Requirements of a test: if absent, skip with a reason, or fail where they are mandatory."""

import os
from pathlib import Path

import pytest


def needs(present: object, what: str) -> None:
    """Skip the running test unless ``present``; fail instead if STUDIO_NO_SKIPS=1 or CI=true, where all must exist."""
    if present:
        return
    if os.environ.get("STUDIO_NO_SKIPS") == "1" or os.environ.get("CI") == "true":
        pytest.fail(f"this machine must have {what}", pytrace=False)
    pytest.skip(f"needs {what}")


def data_folder() -> Path:
    """The folder of recordings and sentence lists named by STUDIO_DATA."""
    folder = Path(os.environ.get("STUDIO_DATA", "/nonexistent"))
    needs((folder / "ljspeech_clips").is_dir(), "STUDIO_DATA=folder holding ljspeech_clips and ljspeech_sentences.txt")
    return folder
