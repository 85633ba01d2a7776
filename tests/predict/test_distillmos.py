"""The predictor in its own process: the contract of every predictor, and process failure."""

import importlib.util
import re
import subprocess
import sys

import numpy as np
import pytest
from fakepredictor import FakePredictor, by_length, by_pitch

from studio.core.clips import to_int16
from studio.core.errors import NeedsPackage
from studio.predict.distillmos import DistillMos, PredictorFailed

RATE_HZ = 24_000


def vowel(noise: float = 0.0, seconds: float = 1.5) -> np.ndarray:
    """int16 [T]: harmonics with slow syllables, and noise."""
    at_s = np.arange(int(RATE_HZ * seconds)) / RATE_HZ
    voiced = sum(np.sin(2 * np.pi * 130 * k * at_s) / k for k in range(1, 25))
    hiss = np.random.default_rng(0).normal(0, noise, len(at_s))
    return to_int16(0.1 * voiced * np.sin(np.pi * 3 * at_s) ** 2 + hiss)


@pytest.fixture(scope="module")
def predictor():
    with DistillMos() as running:
        yield running


@pytest.fixture(params=["DistillMOS", "fake by length", "fake by pitch"])
def any_predictor(request, predictor):
    """Every predictor, including the tests' fake."""
    fakes = {"fake by length": FakePredictor(by_length), "fake by pitch": FakePredictor(by_pitch)}
    return predictor if request.param == "DistillMOS" else fakes[request.param]


def test_predictor_describes_itself(any_predictor):
    assert set(any_predictor.about) == {"name", "version", "sha256"}
    assert re.fullmatch("[0-9a-f]{64}", any_predictor.about["sha256"])


def test_version_is_the_pinned_one(predictor):
    assert (predictor.about["name"], predictor.about["version"]) == ("DistillMOS", "0.9.1")


def test_scores_are_on_the_scale_and_independent_of_order(any_predictor):
    predictor = any_predictor
    first = predictor.predict(vowel(), RATE_HZ)
    others = [predictor.predict(vowel(noise), RATE_HZ) for noise in (0.05, 0.3)]
    assert predictor.predict(vowel(), RATE_HZ) == first
    assert all(1.0 <= one <= 5.0 for one in (first, *others))
    assert 1.0 <= predictor.predict(np.zeros(0, np.int16), RATE_HZ) <= 5.0
    assert 1.0 <= predictor.predict(np.zeros(3, np.int16), 8000) <= 5.0


def test_dying_process_is_named_and_answers_nothing_more():
    with DistillMos() as predictor:
        predictor._process.kill()
        predictor._process.wait()
        for _ in range(2):
            with pytest.raises(PredictorFailed, match=r"stopped.*try again"):
                predictor.predict(vowel(), RATE_HZ)


def test_missing_package_is_named_with_how_to_install_it(monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "distillmos" else found(name))
    with pytest.raises(NeedsPackage, match=r"needs distillmos; pip install 'streaming-tts-studio\[predict\]'"):
        DistillMos()


def test_caller_loads_no_torch():
    code = (
        "import sys, numpy as np\n"
        "from studio.predict.distillmos import DistillMos\n"
        "with DistillMos() as one: print(1 <= one.predict(np.ones(9000, np.int16), 16000) <= 5)\n"
        "print('torch' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True\nFalse\n"
