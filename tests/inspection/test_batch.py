"""Tables of many utterances: columns, refusals, resuming after an interruption."""

import errno
import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from inspection.spoken import RATE_HZ, pcm, story
from typer.testing import CliRunner

from studio.cli import cli
from studio.core import files
from studio.core.clips import write_wav
from studio.core.errors import BadFile, BadOption
from studio.core.traces.trace_writer import TraceWriter
from studio.inspection import batch as run
from studio.inspection import opening, textgrid
from studio.inspection.batch_tables import TABLES
from studio.inspection.opening import find_sources

GRID = """File type = "ooTextFile"
Object class = "TextGrid"

xmin = 0
xmax = 0.25
tiers? <exists>
size = 1
item []:
    item [1]:
        class = "IntervalTier"
        name = "words"
        xmin = 0
        xmax = 0.25
        intervals: size = 3
        intervals [1]:
            xmin = 0
            xmax = 0.1
            text = "one"
        intervals [2]:
            xmin = 0.1
            xmax = 0.175
            text = "two"
        intervals [3]:
            xmin = 0.175
            xmax = 0.25
            text = "three"
"""


def a_trace(path: Path, *, played: bool = False) -> Path:
    writer = TraceWriter(path, {"voice": "v", "speaker": "a", "family": "speakstream", "options": {"m": 3}, "seed": 3})
    writer.write(*story(played=played))
    return writer.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two traces, one with its WAV and a reference beside it; a recording with a text and one without."""
    root = tmp_path / "sounds"
    for name in ("near", "far"):
        (root / name).mkdir(parents=True)
    a_trace(root / "near" / "first")
    a_trace(root / "near" / "second", played=True)
    write_wav(root / "near" / "first.wav", pcm(), RATE_HZ)
    (root / "near" / "first.TextGrid").write_text(GRID)
    write_wav(root / "far" / "said.wav", pcm(40), RATE_HZ)
    write_wav(root / "far" / "unknown.wav", pcm(40), RATE_HZ)
    (root / "texts.txt").write_text("said|Three words here\n")
    return root


def test_every_column_has_its_value(folder: Path) -> None:
    found = run.measure([folder])
    for name, columns in TABLES.items():
        for row in getattr(found, name):
            assert set(row) == {c.name for c in columns}
            for column in columns:
                kinds = {"text": str, "integer": int, "number": (int, float), "boolean": bool}[column.type]
                assert row[column.name] is None or isinstance(row[column.name], kinds), (column.name, row[column.name])
    files = [row["file"] for row in found.utterances]
    assert files == ["far/said.wav", "far/unknown.wav", "near/first.trace", "near/second.trace"]


def test_columns_of_a_trace(folder: Path) -> None:
    found = run.measure([folder])
    row = found.utterances[2]
    assert (row["system"], row["item"], row["options"]) == ("v:a?m=3", "first", "m=3")
    assert (row["words"], row["segments"], row["forced"]) == (3, 2, 1)
    assert row["audio_s"] == 0.25 and row["rtf"] == pytest.approx(0.4)
    assert (row["stalls"], row["stalls_s"]) == (1, pytest.approx(0.01))
    assert (row["reference_words"], row["reference_f1_25ms"], row["reference_miou"]) == (3, 1.0, pytest.approx(1.0))
    assert [w["duration_s"] for w in found.words if w["file"] == row["file"]] == pytest.approx([0.1, 0.075, 0.075])
    [seam] = [one for one in found.seams if one["file"] == row["file"]]
    assert (seam["start_s"], seam["word"], seam["forced"]) == (0.1, 1, False)


def test_columns_of_a_recording(folder: Path) -> None:
    said, unknown, *_ = run.measure([folder]).utterances
    assert (said["system"], said["item"], said["words"], said["text"]) == ("far", "said", 3, "Three words here")
    assert said["words_per_min"] == pytest.approx(180.0, rel=0.02)
    assert said["segments"] is None and said["first_audio_ms"] is None
    assert unknown["words"] == 0 and unknown["words_per_min"] is None


def test_reference_aligns_the_words_of_a_recording(folder: Path) -> None:
    (folder / "near" / "first.trace").unlink()
    found = run.measure([folder / "near"])
    assert [w["start_s"] for w in found.words if w["file"] == "first.wav"] == pytest.approx([0.0, 0.1, 0.175])
    assert found.utterances[0]["reference_words"] is None  # it is its own reference


def test_manifest_gives_system_and_text(folder: Path) -> None:
    described = {
        "systems": [{"name": "one"}],
        "items": [{"name": "hello", "text": "Two words"}],
        "files": [
            {"system": "one", "item": "hello", "file": "far/said.wav"},
            {"system": "v?m=3", "item": "typed", "file": "near/first.wav", "trace": "near/first.trace"},
        ],
    }
    (folder / "manifest.json").write_text(json.dumps(described))
    spoken, typed = run.measure([folder]).utterances
    assert (spoken["system"], spoken["item"], spoken["words"]) == ("one", "hello", 2)
    assert (typed["system"], typed["item"], typed["file"]) == ("v?m=3", "typed", "near/first.trace")


def test_only_new_files_are_measured_again(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = tmp_path / run.JOURNAL
    whole = run.measure([folder], journal=journal)
    journal.write_text(journal.read_text() + '{"file": "cut o')  # interrupted in the middle of a line
    shutil.copy(folder / "far" / "said.wav", folder / "far" / "third.wav")
    touched: list[str] = []
    true = run._measure

    def noted(source: Any, with_pitch: bool) -> Any:
        touched.append(source.file)
        return true(source, with_pitch)

    monkeypatch.setattr(run, "_measure", noted)
    again = run.measure([folder], journal=journal)
    assert touched == ["far/third.wav"]
    assert [row for row in again.utterances if row["file"] != "far/third.wav"] == whole.utterances
    touched.clear()
    run.measure([folder], journal=journal, with_pitch=False)
    assert len(touched) == 5  # other options


def test_unmeasurable_file_is_named_and_skipped(folder: Path, tmp_path: Path) -> None:
    (folder / "near" / "second.trace").write_bytes(b"PK\x03\x04 not a trace")
    (folder / "far" / "unknown.wav").write_bytes(b"RIFF")
    out = tmp_path / "out"
    done = CliRunner().invoke(cli, ["measure", str(folder), "-o", str(out), "--workers", "1"])
    assert done.exit_code == 1 and len(pq.read_table(out / "utterances.parquet")) == 2
    assert "near/second.trace" in done.stderr and "far/unknown.wav" in done.stderr


def test_parallel_processes_give_the_same_table(folder: Path) -> None:
    for n in range(8):
        write_wav(folder / "far" / f"more{n}.wav", np.roll(pcm(40), 7 * n), RATE_HZ)
    together, alone = run.measure([folder], workers=2), run.measure([folder], workers=1)
    assert together.utterances == alone.utterances and together.words == alone.words


def test_tables_are_files_with_a_dictionary(folder: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["measure", str(folder), "-o", str(tmp_path / "a"), "--workers", "1"])
    assert done.exit_code == 0 and "v:a?m=3" in done.stdout
    table = pq.read_table(tmp_path / "a" / "words.parquet")
    assert table.schema.field("known_ms").metadata[b"meaning"] == b"what completes it arrived"
    found = run.measure([folder])
    assert list(found.frame("words")["text"])[-3:] == ["one", "two", "three"] and len(found.frame()) == 4
    for kind in ("csv", "json"):
        done = CliRunner().invoke(
            cli, ["measure", str(folder), "-o", str(tmp_path / kind), "--format", kind, "--no-pitch", "--workers", "1"]
        )
        assert done.exit_code == 0 and (tmp_path / kind / f"seams.{kind}").is_file()


def test_missing_input_is_reported(tmp_path: Path) -> None:
    with pytest.raises(BadOption, match="nothing to measure"):
        find_sources([tmp_path])
    with pytest.raises(BadFile, match="there is no"):
        find_sources([tmp_path / "absent"])
    (tmp_path / "manifest.json").write_text(
        json.dumps({"items": [], "files": [{"system": "a", "item": "b", "file": "../../etc/passwd"}]})
    )
    with pytest.raises(BadFile, match="leads out"):
        find_sources([tmp_path])
    (tmp_path / "manifest.json").write_text('{"files": 3}')
    with pytest.raises(BadFile, match="not a manifest"):
        find_sources([tmp_path])
    done = CliRunner().invoke(cli, ["measure", str(tmp_path), "-o", str(tmp_path / "o"), "--format", "xls"])
    assert isinstance(done.exception, BadOption)


def test_foreign_journal_is_not_trusted(folder: Path, tmp_path: Path) -> None:
    journal = tmp_path / run.JOURNAL
    whole = run.measure([folder], journal=journal)
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    lines[0]["rows"] = {"problems": ["forged"]}
    lines[1]["rows"] = [1, 2]
    lines[2]["rows"]["utterances"][0].pop("system")
    journal.write_text("[" * 50_000 + "\n" + "\n".join(json.dumps(line) for line in lines))
    assert run.measure([folder], journal=journal) == whole
    journal.unlink()
    os.mkfifo(journal)
    with pytest.raises(BadFile, match="is no file"):
        run.measure([folder], journal=journal)


@pytest.mark.parametrize("name", ["near/first.TextGrid", "far/said.wav"])
def test_one_unreadable_file_is_a_problem_of_its_own(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    whole, real = run.measure([folder], workers=1), files.read_bounded

    def read(path: Path, limit: int) -> bytes:
        if path == folder / name:
            raise PermissionError(errno.EACCES, "Permission denied")
        return real(path, limit)

    for module in (opening, textgrid):
        monkeypatch.setattr(module, "read_bounded", read)
    found = run.measure([folder], workers=1)
    assert len(found.problems) == 1 and "Permission denied" in found.problems[0]
    assert len(found.utterances) == len(whole.utterances) - 1


def test_odd_rate_and_hostile_name_are_handled(folder: Path, tmp_path: Path) -> None:
    sound = bytearray((folder / "far" / "said.wav").read_bytes())
    sound[24:28] = (50).to_bytes(4, "little")
    (folder / "far" / "slow.wav").write_bytes(sound)
    writer = TraceWriter(folder / "loud", {"voice": "\x1b]0;mine\x07v", "seed": [1, 2], "temperature": "warm"})
    writer.write(*story()[1:])
    writer.close()
    found = run.measure([folder], workers=1)
    assert len(found.problems) == 1 and "far/slow.wav" in found.problems[0]
    [loud] = [row for row in found.utterances if row["file"] == "loud.trace"]
    assert (loud["voice"], loud["seed"], loud["temperature"]) == ("]0;minev", None, None)
    found.save(tmp_path)


def test_links_in_a_cycle_are_reported(tmp_path: Path) -> None:
    (tmp_path / "a.wav").symlink_to(tmp_path / "a.wav")
    described = {"items": [{"name": "i"}], "files": [{"system": "a", "item": "i", "file": "a.wav"}]}
    (tmp_path / "manifest.json").write_text(json.dumps(described), encoding="utf-8")
    result = CliRunner().invoke(cli, ["measure", str(tmp_path), "-o", str(tmp_path / "out")])
    assert result.exit_code == 1 and "a.wav is not a readable trace" in result.output
