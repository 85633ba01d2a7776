"""The package's front door: what it offers, and what it does not load."""

import subprocess
import sys

import pytest

import studio


def test_the_public_names():
    assert studio.__all__ == ["open_trace", "synthesize"]
    assert studio.__version__
    assert callable(studio.open_trace)
    assert callable(studio.synthesize)
    with pytest.raises(AttributeError, match="nothing_such"):
        studio.__getattr__("nothing_such")


def test_import_is_light():
    code = "import sys, studio; studio.open_trace, studio.synthesize; print({'torch', 'gradio'} & set(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "set()"
