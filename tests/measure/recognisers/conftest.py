"""Real recordings."""

import pytest
import soundfile
from needs import data_folder

from studio.core.clips import to_int16

CLIPS = ("LJ001-0002", "LJ001-0004", "LJ001-0006")


@pytest.fixture(scope="session")
def clips():
    """(text, int16 samples, rate) of three recordings whose words are all in pocketsphinx's dictionary."""
    folder = data_folder()
    lines = (folder / "ljspeech_sentences.txt").read_text(encoding="utf-8").splitlines()
    texts = dict(line.split("|", 1) for line in lines)
    out = []
    for name in CLIPS:
        samples, rate_hz = soundfile.read(folder / "ljspeech_clips" / f"{name}.flac")
        out.append((texts[name], to_int16(samples), rate_hz))
    return out
