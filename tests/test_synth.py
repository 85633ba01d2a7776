"""`studio synth`: texts by settings become sounds, traces and captions, each once."""

import json
from pathlib import Path

import pytest
from tinyvoice import write_tiny_voice
from typer.testing import CliRunner

import studio
from studio.cli import cli
from studio.core.errors import BadFile, BadOption
from studio.core.sound_files import read_mono
from studio.core.traces.captions import cues, srt
from studio.inspection.batch import measure

pytestmark = pytest.mark.slow


def test_texts_by_settings_are_spoken_once_and_measured(tmp_path: Path) -> None:
    write_tiny_voice(tmp_path / "voices")
    texts, out = tmp_path / "texts.txt", tmp_path / "out"
    texts.write_text("hello|one two three\nfour five six\nseven eight\n")
    systems = ["tiny:one?m=1,n=1", "tiny:two?m=3,n=2"]
    command = ["synth", "--texts", str(texts), "--count", "2", "--voices", str(tmp_path / "voices"), "-o", str(out)]
    command += [part for system in systems for part in ("--system", system)]
    done = CliRunner().invoke(cli, command, catch_exceptions=False)
    assert done.exit_code == 0 and done.stdout.split() == [str(out / "manifest.json")]
    assert len(json.loads((out / "manifest.json").read_text())["files"]) == 4
    sounds = sorted(out.glob("*/*.wav"))
    made = [path.stat().st_mtime_ns for path in sounds]
    found = measure([out], with_pitch=False)
    assert sorted({row["system"] for row in found.utterances}) == systems
    assert {(row["item"], row["text"]) for row in found.utterances} == {
        ("hello", "one two three"),
        ("text002", "four five six"),
    }
    assert {row["words"] for row in found.utterances} == {3}
    assert all(row["options"].endswith(("m=1,n=1", "m=3,n=2")) for row in found.utterances)
    CliRunner().invoke(cli, command, catch_exceptions=False)
    assert [path.stat().st_mtime_ns for path in sounds] == made
    again = CliRunner().invoke(cli, [*command, "--texts", str(tmp_path / "absent.txt")])
    assert isinstance(again.exception, BadFile)


def test_synth_writes_captions_beside_each_sound(tmp_path: Path) -> None:
    write_tiny_voice(tmp_path / "voices")
    texts, out = tmp_path / "texts.txt", tmp_path / "out"
    texts.write_text("a.b|One two. Three four.\nfive six\n")
    command = ["synth", "--texts", str(texts), "--voices", str(tmp_path / "voices"), "-o", str(out)]
    command += ["--system", "tiny:one", "--system", "tiny:two"]
    done = CliRunner().invoke(cli, [*command, "--captions", "srt"], catch_exceptions=False)
    assert done.exit_code == 0 and "captions of 4 sounds" in done.stderr
    for wav in out.glob("*/*.wav"):
        trace, written = studio.open_trace(wav.with_suffix(".trace")), wav.with_suffix(".srt").read_text()
        assert written == srt(cues(trace)) and ("Three four." in written) == wav.name.startswith("a.b-")
    CliRunner().invoke(cli, [*command, "--captions", "vtt"], catch_exceptions=False)  # of sounds that are there
    assert {path.suffix for path in out.glob("*/*")} == {".wav", ".trace", ".srt", ".vtt"}
    assert all(path.read_text().startswith("WEBVTT\n") for path in out.glob("*/*.vtt"))
    wrong = CliRunner().invoke(cli, [*command, "--captions", "ass"])
    assert isinstance(wrong.exception, BadOption) and "--captions vtt" in str(wrong.exception)


def test_synth_reads_ssml(tmp_path: Path) -> None:
    write_tiny_voice(tmp_path / "voices")
    texts, out = tmp_path / "texts.txt", tmp_path / "out"
    texts.write_text('slow|<prosody rate="50%">one two</prosody>\nusual|one two\nbreak|<break time="1s"/>one two\n')
    command = ["synth", "--texts", str(texts), "--voices", str(tmp_path / "voices"), "-o", str(out)]
    done = CliRunner().invoke(cli, [*command, "--system", "tiny:one", "--markup", "ssml"], catch_exceptions=False)
    assert done.exit_code == 0
    lengths = {path.stem.partition("-")[0]: len(read_mono(path)[0]) for path in out.glob("*/*.wav")}
    rate_hz = read_mono(next(out.glob("*/usual-*.wav")))[1]
    assert abs(lengths["slow"] - 2 * lengths["usual"]) < 3
    assert lengths["break"] == lengths["usual"] + rate_hz
    CliRunner().invoke(cli, [*command, "--system", "tiny:one"], catch_exceptions=False)
    assert len([*out.glob("*/*.wav")]) == 6, "as plain text they are other utterances"
