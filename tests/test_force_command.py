"""``studio force``: a recording through a voice from the command line, and refusals."""

from pathlib import Path

import numpy as np
import pytest
from tinyvoice import write_tiny_voice
from typer.testing import CliRunner

from studio.cli import cli
from studio.core.clips import write_wav
from studio.core.errors import BadFile, BadOption, BadText, StudioError
from studio.core.traces.trace import open_trace

GRID = """File type = "ooTextFile"
Object class = "TextGrid"

0
1
<exists>
1
"IntervalTier"
"words"
0
1
3
0
0.25
""
0.25
0.5
"Good"
0.5
1
"morning"
"""


@pytest.fixture
def wav(tmp_path: Path) -> Path:
    write_tiny_voice(tmp_path / "voices")
    rng = np.random.default_rng(1)
    write_wav(tmp_path / "a.wav", (3000 * rng.standard_normal(24_000)).astype(np.int16), 24_000)
    return tmp_path / "a.wav"


def forced(wav: Path, *arguments: object) -> str:
    call = ["force", str(wav), "--voices", str(wav.parent / "voices"), "--device", "cpu", *map(str, arguments)]
    done = CliRunner().invoke(cli, call, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_recording_becomes_a_trace_beside_it(wav: Path) -> None:
    output = forced(wav, "--text", "Good morning.", "--voice", "tiny:two", "--option", "m=1")
    trace = open_trace(wav.with_suffix(".trace"))
    assert "1.00 s through tiny:two, 2 words" in output and "log-likelihood" in output
    assert trace.meta["source"] == "forced" and trace.meta["options"]["m"] == 1
    shown = CliRunner().invoke(cli, ["inspect", str(wav.with_suffix(".trace"))], catch_exceptions=False).stdout
    assert "a recording through tiny:two" in shown and "the recording's own time" in shown


def test_text_is_beside_it_or_in_a_textgrid(wav: Path) -> None:
    wav.with_suffix(".txt").write_text("Good morning.\n", encoding="utf-8")
    forced(wav)
    assert [word.text for word in open_trace(wav.with_suffix(".trace")).words()] == ["good", "morning."]
    wav.with_suffix(".TextGrid").write_text(GRID, encoding="utf-8")
    forced(wav, "--textgrid", wav.with_suffix(".TextGrid"), "-o", wav.with_name("b.trace"))
    words = open_trace(wav.with_name("b.trace")).words()
    assert [(one.start, one.end, one.source) for one in words] == [(6000, 12000, "aligner"), (12000, 24000, "aligner")]


def test_missing_or_ambiguous_input_is_reported(wav: Path) -> None:
    with pytest.raises(BadText, match=r"what a\.wav says is not known"):
        forced(wav)
    wav.with_suffix(".TextGrid").write_text(GRID, encoding="utf-8")
    with pytest.raises(BadOption, match="brings its own words"):
        forced(wav, "--text", "Good", "--textgrid", wav.with_suffix(".TextGrid"))
    with pytest.raises(BadFile, match="trace"):
        forced(wav, "--text", "Good", "-o", wav.with_name("b.wav"))
    with pytest.raises(StudioError):
        forced(wav.with_name("none.wav"), "--text", "Good")
    beyond = wav.with_name("c.TextGrid")
    beyond.write_text(GRID.replace("0.5\n1\n", "0.5\n7\n").replace("\n0\n1\n3\n", "\n0\n7\n3\n"), encoding="utf-8")
    with pytest.raises(BadFile, match="beyond"):
        forced(wav, "--textgrid", beyond)


def test_forced_trace_is_not_replayed(wav: Path) -> None:
    forced(wav, "--text", "Good")
    with pytest.raises(BadFile, match="recording that was sent through a model"):
        CliRunner().invoke(cli, ["replay", str(wav.with_suffix(".trace"))], catch_exceptions=False)
