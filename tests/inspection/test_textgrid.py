"""TextGrids: sample-exact round trips, and errors of unreadable files."""

import json
from pathlib import Path

import numpy as np
import pytest
from inspection.spoken import FRAME, RATE_HZ, pcm, story, trace
from typer.testing import CliRunner

from studio.cli import cli
from studio.core import events as ev
from studio.core.clips import write_wav
from studio.core.errors import BadFile
from studio.core.traces.trace import collect_trace
from studio.core.traces.trace_writer import TraceWriter
from studio.inspection.opening import recording_trace, with_word_times
from studio.inspection.textgrid import read_words, word_spans, write_textgrid
from studio.measure.word_timing import SpokenSpan


def test_thousand_random_words_round_trip_sample_exactly(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    edges = np.cumsum(rng.integers(1, 9000, 2001))
    sound = np.zeros(int(edges[-1]) + 1, np.int16)
    events: list[ev.Event] = [story()[0]]
    letters = list("abcäßé'\"ก")
    texts = ["".join(rng.choice(letters, rng.integers(1, 8))) for _ in range(1000)]
    for i, text in enumerate(texts):
        events.append(ev.Committed(i=i, word=text, written=i, char_start=i, char_end=i + 1))
        events.append(ev.WordStart(i=i, sample=int(edges[2 * i]), source="eos"))
        events.append(ev.WordEnd(i=i, sample=int(edges[2 * i + 1]), source="eos"))
    events.append(ev.Audio(sample=0, pcm=sound))
    made = collect_trace({}, events)
    write_textgrid(made, tmp_path / "a.TextGrid")
    back = read_words(tmp_path / "a.TextGrid")
    assert [one.text for one in back] == texts
    samples = [(round(one.start_s * RATE_HZ), round(one.end_s * RATE_HZ)) for one in back]
    assert samples == [(int(edges[2 * i]), int(edges[2 * i + 1])) for i in range(1000)]


def test_words_segments_and_seams_are_tiers(tmp_path: Path) -> None:
    from praatio import textgrid

    write_textgrid(trace(), tmp_path / "a.TextGrid")
    grid = textgrid.openTextgrid(str(tmp_path / "a.TextGrid"), includeEmptyIntervals=False)
    assert [tuple(entry) for entry in grid.getTier("segments").entries] == [
        (0.0, 0.1, "one two"),
        (0.1, 0.25, "two three"),
    ]
    assert [entry.time for entry in grid.getTier("seams").entries] == [0.1]
    assert [one.text for one in read_words(tmp_path / "a.TextGrid")] == ["one", "two", "three"]


def test_utf_16_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.TextGrid"
    write_textgrid(trace(), path)
    path.write_text(path.read_text(encoding="utf-8"), encoding="utf-16")
    assert read_words(path) == word_spans(trace())


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("", "cannot be read as a TextGrid"),
        ("not a grid", "cannot be read as a TextGrid"),
        ('File type = "ooTextFile"\nObject class = "TextGrid"\n\nxmin = 0', "cannot be read as a TextGrid"),
    ],
)
def test_invalid_textgrid_is_reported(content: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "a.TextGrid").write_text(content, encoding="utf-8")
    with pytest.raises(BadFile, match=why):
        read_words(tmp_path / "a.TextGrid")


def test_grid_without_words_or_of_another_recording_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "a.TextGrid"
    write_textgrid(trace(), path)
    path.write_text(path.read_text(encoding="utf-8").replace('"words"', '"phones"'), encoding="utf-8")
    with pytest.raises(BadFile, match="no tier named words"):
        read_words(path)
    with pytest.raises(BadFile, match=r"ends at 9\.00 s"):
        with_word_times(recording_trace(pcm(), RATE_HZ, ""), [SpokenSpan("late", 8.0, 9.0)])


def test_command_compares_a_trace_and_aligns_a_recording(tmp_path: Path) -> None:
    writer = TraceWriter(tmp_path / "a", {})
    writer.write(*story())
    path, grid, wav = writer.close(), tmp_path / "a.TextGrid", tmp_path / "a.wav"
    write_wav(wav, pcm(), RATE_HZ)

    def inspect_json(*arguments: str | Path) -> dict:
        done = CliRunner().invoke(cli, ["inspect", *map(str, arguments), "--json"], catch_exceptions=False)
        assert done.exit_code == 0
        return json.loads(done.stdout)

    inspect_json(path, "--textgrid", grid)
    text = grid.read_text(encoding="utf-8")
    grid.write_text(text.replace("0.175", "0.205"), encoding="utf-8")  # the end of "two" and the start of "three"
    compared = inspect_json(path, "--reference", grid)["reference"]
    assert (compared["matched"], compared["f1"]["25"], compared["f1"]["50"]) == (3, pytest.approx(1 / 3), 1.0)
    words = inspect_json(wav, "--reference", grid)["words"]
    assert [word["text"] for word in words] == ["one", "two", "three"]
    assert words[1]["start"] == 4 * FRAME and words[1]["heard_whole_ms"] == pytest.approx(205.0)
