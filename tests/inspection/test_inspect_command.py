"""``studio inspect``: facts in the terminal, pictures, and invalid files."""

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from inspection.spoken import RATE_HZ, TEXT, pcm, story
from typer.testing import CliRunner

from studio.cli import cli
from studio.core import events as ev
from studio.core.clips import wav_bytes, write_wav
from studio.core.errors import BadFile, BadOption, StudioError
from studio.core.traces.trace_writer import TraceWriter
from studio.inspection.opening import UnpackLimits, open_bytes


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    writer = TraceWriter(tmp_path / "a", {})
    writer.write(*story())
    return writer.close()


def output_of(*arguments: object) -> str:
    return output_of_command("inspect", *arguments)


def output_of_command(command: str, *arguments: object) -> str:
    done = CliRunner().invoke(cli, [command, *map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_terminal_lists_words_pauses_and_seams(trace: Path) -> None:
    found = output_of(trace)
    for part in (
        "v:a",
        "3 words",
        "2 segments (1 forced to end)",
        "three",
        "compute (stall)",
        "Seams",
        "known → heard",
    ):
        assert part in found


@pytest.mark.parametrize("ends", [True, False])
def test_word_ends_by_eos_only_if_the_family_has_one(tmp_path: Path, ends: bool) -> None:
    writer = TraceWriter(tmp_path / "c", {})
    writer.write(*(one for one in story() if ends or not isinstance(one, ev.Eos)))
    table = output_of(writer.close()).partition("Words (ms since ready)")[2].partition("Seams")[0]
    assert ("eos" in table, "forced" in table) == (ends, ends)


@pytest.mark.parametrize("options", [["m", 3], "m=3", None, {"m": "\x1b[2J3"}])
def test_hostile_trace_text_does_not_control_the_terminal(tmp_path: Path, options: object) -> None:
    names = {name: f"\x1b]0;{name}\x07\x1b[31m" for name in ("voice", "git_sha", "device")}
    writer = TraceWriter(tmp_path / "b", names | {"options": options})
    said = (replace(one, word=f"\x1b[2J{one.word}") if isinstance(one, ev.Committed) else one for one in story())
    writer.write(*said)
    file = writer.close()
    for found in (output_of(file), output_of_command("compare", file, file, "--no-pitch")):
        assert "\x1b" not in found and "\x07" not in found and "three" in found


def test_json_holds_the_same_facts(trace: Path) -> None:
    found = json.loads(output_of(trace, "--json"))
    assert found["text"] == TEXT and found["forced"] == [1]
    assert [one["heard_ms"] for one in found["words"]] == [600.0, 800.0, 875.0]
    assert found["lags"]["known_to_heard_ms"]["n"] == 3
    assert found["seams"][0]["sample"] == 2400


def test_pictures_show_every_word(trace: Path, tmp_path: Path) -> None:
    svg, png = tmp_path / "a.svg", tmp_path / "a.png"
    output_of(trace, "--svg", svg, "--png", png)
    ElementTree.parse(svg)
    assert png.read_bytes().startswith(b"\x89PNG")
    from studio.core.traces.trace import open_trace
    from studio.inspection.picture import draw
    from studio.inspection.timeline import timeline

    drawn = draw(timeline(open_trace(trace)), "title").axes[0]
    words = [text.get_text() for text in drawn.texts]
    assert words == ["One", "two", "3", "one", "two", "three"], "typed above, spoken below"
    assert [one.get_text() for one in drawn.get_yticklabels()] == ["typed", "made", "heard"]


def test_words_that_claim_the_whole_text_are_drawn_once(tmp_path: Path) -> None:
    from studio.core.traces.trace import collect_trace
    from studio.inspection.picture import draw
    from studio.inspection.timeline import timeline

    whole = {"char_start": 0, "char_end": len(TEXT)}
    said = (replace(one, **whole) if isinstance(one, ev.Committed) else one for one in story())
    drawn = draw(timeline(collect_trace({}, said)), "title").axes[0]
    assert [text.get_text() for text in drawn.texts].count(TEXT) == 1


def test_recording_is_shown_with_its_text(tmp_path: Path) -> None:
    wav = tmp_path / "a.wav"
    write_wav(wav, pcm(), RATE_HZ)
    assert "give the text" in output_of(wav)
    found = json.loads(output_of(wav, "--text", "one two", "--json"))
    assert [one["text"] for one in found["words"]] == ["one", "two"]
    assert found["words"][0]["heard_ms"] is None


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("a.trace", b"", "not a readable trace"),
        ("a.trace", b"PK\x03\x04 and then nothing", "not a readable trace"),
        ("a.wav", b"RIFF\x00\x00", "is no sound file that is read"),
        ("a.wav", wav_bytes(pcm()[:0], RATE_HZ), "holds no samples"),
        ("absent.trace", None, "there is no trace"),
    ],
)
def test_invalid_file_is_reported(name: str, content: bytes | None, why: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    done = CliRunner().invoke(cli, ["inspect", str(tmp_path / name)])
    assert isinstance(done.exception, BadFile) and why in str(done.exception)


def test_trace_takes_no_text_and_a_picture_its_own_suffix(trace: Path, tmp_path: Path) -> None:
    for arguments, kind in ((["--text", "x"], BadOption), (["--svg", str(tmp_path / "a.gif")], BadFile)):
        done = CliRunner().invoke(cli, ["inspect", str(trace), *arguments])
        assert isinstance(done.exception, kind) and isinstance(done.exception, StudioError)


def test_uploaded_file_unpacks_no_further_than_allowed(trace: Path) -> None:
    assert len(open_bytes(trace.read_bytes()).pcm) == 6000
    for wav_bytes_allowed, layer in ((10_000, 1 << 20), (1 << 20, 100)):
        parts = {"meta.json": 1 << 20, "events.jsonl": 1 << 20, "audio.wav": wav_bytes_allowed, "layers.npz": 1 << 20}
        with pytest.raises(BadFile, match="unpacks to more"):
            open_bytes(trace.read_bytes(), limits=UnpackLimits(parts, layer))
