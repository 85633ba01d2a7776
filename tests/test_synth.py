"""Many texts by several settings, and the tables that are made of them."""

import json
from pathlib import Path

from tinyvoice import write_tiny_voice
from typer.testing import CliRunner

from studio.cli import cli
from studio.core.errors import BadFile
from studio.inspection.batch.run import measure


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
