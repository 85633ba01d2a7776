"""``studio words``: spoken words and their places, from an argument or a pipe."""

import json
import subprocess
import sys

from typer.testing import CliRunner

from studio.cli import cli
from studio.core.errors import BadOption, BadText
from studio.core.text.livetext import MAX_FIELD_CHARS


def test_words_and_their_places_are_printed() -> None:
    result = CliRunner().invoke(cli, ["words", "Now 7 − 2"])
    assert result.stdout.splitlines() == ["0-3\tnow", "4-5\tseven", "6-7\tminus", "8-9\ttwo"]


def test_french_is_read() -> None:
    result = CliRunner().invoke(cli, ["words", "--language", "fr", "7 − 2 : ça va ?"])
    assert result.stdout.splitlines() == ["0-1\tsept", "2-3\tmoins", "4-7\tdeux:", "8-10\tça", "11-15\tva?"]
    refused = CliRunner().invoke(cli, ["words", "--language", "de", "Nein"]).exception
    assert isinstance(refused, BadOption) and "there are en, fr" in str(refused)


def test_json_is_a_list_of_words() -> None:
    result = CliRunner().invoke(cli, ["words", "It&#39;s 5%", "--json"])
    assert json.loads(result.stdout) == [
        {"word": "it's", "char_start": 0, "char_end": 8},
        {"word": "five", "char_start": 9, "char_end": 11},
        {"word": "percent", "char_start": 9, "char_end": 11},
    ]


def test_a_pipe_is_read() -> None:
    command = [sys.executable, "-m", "studio", "words", "-", "--json"]
    out = subprocess.run(command, input="w/o \U0001d407i\n".encode(), capture_output=True, check=True).stdout
    assert [(one["word"], one["char_start"], one["char_end"]) for one in json.loads(out)] == [
        ("without", 0, 3),
        ("hi", 4, 6),
    ]


def test_what_is_not_spoken_is_told() -> None:
    result = CliRunner().invoke(cli, ["words", "hi \N{GRINNING FACE} you"])
    assert "left out: 3-4: this voice has no reading" in result.stderr


def test_a_text_is_bounded() -> None:
    result = CliRunner().invoke(cli, ["words", "x" * (MAX_FIELD_CHARS + 1)])
    assert isinstance(result.exception, BadText)
