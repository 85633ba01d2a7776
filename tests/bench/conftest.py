"""Fixtures of the evaluations: a tiny random voice, two texts, a predictor without a net."""

import shutil

import pytest
import torch
from fakepredictor import FakePredictor, by_length
from needs import needs
from tinyvoice import write_tiny_voice

TEXTS = ("The rain stopped just before noon.", "My sister sold the old brown horse.")


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    """Options of every command: a voice, one speaker, texts, a cache."""
    needs(shutil.which("festival"), "festival (apt-get install festival festvox-us-slt-hts)")
    torch.set_num_threads(1)
    root = tmp_path_factory.mktemp("bench")
    texts = root / "texts.txt"
    texts.write_text("\n".join(TEXTS) + "\n")
    voices = root / "voices"
    write_tiny_voice(voices, eos_bias=-50.0, speakers=("slt", "rms"))
    common = {"workers": 1, "recogniser": "pocketsphinx"}
    return {"voices": voices, "texts": texts, "count": 2, "cache": root / "cache", "speakers": ("slt",), **common}


@pytest.fixture
def steady(monkeypatch):
    """A predictor that returns the sound's length."""
    monkeypatch.setattr("studio.bench.evaluation.quality.DistillMos", lambda threads: FakePredictor(by_length))
