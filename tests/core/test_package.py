"""The package's public API, and what importing it does not load."""

import subprocess
import sys

import pytest
from tinyvoice import write_tiny_voice

import studio
from studio.core.errors import BadOption, BadText, BadVoice


def test_public_names():
    assert studio.__all__ == ["open_trace", "replay", "speak", "synthesize"]
    assert studio.__version__
    assert all(callable(getattr(studio, name)) for name in studio.__all__)
    with pytest.raises(AttributeError, match="nothing_such"):
        studio.__getattr__("nothing_such")


def test_import_is_light():
    code = "import sys, studio; studio.open_trace, studio.synthesize; print({'torch', 'gradio'} & set(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "set()"


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        ({"text": None}, BadText, "the text is None, of type NoneType; give a str"),
        ({"text": b"Good morning."}, BadText, "of type bytes; give a str"),
        ({"text": ["Good", "morning."]}, BadText, "of type list; give a str"),
        ({"voice": 3}, BadVoice, "the voice is 3, of type int"),
        ({"voice": None}, BadVoice, "the voice is None"),
        ({"seed": "1"}, BadOption, "the seed is '1', of type str; give an int"),
        ({"seed": 1.5}, BadOption, "the seed is 1.5"),
        ({"seed": True}, BadOption, "the seed is True"),
        ({"seed": -1}, BadOption, "seed"),
        ({"temperature": "hot"}, BadOption, "give a number, 0 to 2, or None"),
        ({"temperature": float("nan")}, BadOption, "the temperature is nan"),
        ({"temperature": 9}, BadOption, "temperature"),
        ({"device": None}, BadOption, "give auto, cpu or cuda"),
        ({"device": "tpu"}, BadOption, "cpu"),
        ({"voices": 7}, BadOption, "give the path of a folder of voices"),
        ({"voices": "/nowhere"}, BadVoice, "/nowhere"),
        ({"m": None}, BadOption, "m"),
        ({"m": "three"}, BadOption, "m"),
        ({"nothing_such": 1}, BadOption, "nothing_such"),
    ],
)
def test_wrong_type_is_reported_with_the_valid_ones(tmp_path, given, kind, message):
    write_tiny_voice(tmp_path)
    asked = {"text": "one", "voices": tmp_path, "device": "cpu", **given}
    with pytest.raises(kind) as refused:
        studio.synthesize(**asked)
    assert message in str(refused.value) and refused.value.do, refused.value


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            "\N{PARTY POPPER} \N{PARTY POPPER}",
            ": this voice has no reading for \N{PARTY POPPER} (party popper): write it in words",
        ),
        ("<b></b> \N{PARTY POPPER}", ": HTML tags are skipped; this voice has no reading"),
        ("?!", ": it holds nothing to speak; give at least one word"),
    ],
)
def test_a_text_without_a_word_says_why_and_what_to_do(tmp_path, text, why):
    write_tiny_voice(tmp_path)
    with pytest.raises(BadText) as refused:
        studio.synthesize(text, voices=tmp_path, device="cpu")
    assert refused.value.what.startswith("nothing of the text can be spoken") and why in str(refused.value)
    assert refused.value.do == "give at least one word"
