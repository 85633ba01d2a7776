"""``studio timing``: outputs of several aligners become a table, points for Praat, and a check by cuts."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from inspection.spoken import RATE_HZ, pcm, story, trace
from typer.testing import CliRunner

from studio.cli import cli
from studio.core.clips import write_wav
from studio.core.errors import BadFile, BadOption
from studio.core.traces.textgrid import TextGridEntry, TextGridTier, read_tiers, write_tiers
from studio.core.traces.trace_writer import TraceWriter
from studio.inspection import timing
from studio.inspection.opening import find_sources
from studio.inspection.textgrid import word_spans
from studio.inspection.timing import TimingSetting, summary, time_all
from studio.measure.recognisers.registry import open_aligner


@pytest.fixture
def utterance(tmp_path: Path) -> Path:
    """A trace and two other aligners' TextGrids of it, 10 ms early and 30 ms late."""
    (tmp_path / "in").mkdir()
    writer = TraceWriter(tmp_path / "in" / "a", {})
    writer.write(*story())
    path = writer.close()
    length_s = len(pcm()) / RATE_HZ
    for name, by_s in (("early", -0.01), ("late", 0.03)):
        (tmp_path / name).mkdir()
        words = [
            TextGridEntry(max(0.0, one.start_s + by_s), min(length_s, one.end_s + by_s), one.text)
            for one in word_spans(trace())
        ]
        (tmp_path / name / "a.TextGrid").write_text(
            write_tiers([TextGridTier("words", False, words)], length_s), "utf-8"
        )
    return path


def test_two_aligners_give_medians_intervals_and_points(utterance: Path, tmp_path: Path) -> None:
    folders = tmp_path / "early", tmp_path / "late"
    (found,) = time_all(find_sources([utterance]), TimingSetting(aligners=(), folders=folders))
    assert not isinstance(found, str) and found.takes == {"early": 1, "late": 1}
    rows = {(row["word"], row["edge"]): row for row in found.rows()}
    row = rows["two", "start"]
    assert row["own_s"] == pytest.approx(0.1)
    assert (row["low_s"], row["at_s"], row["high_s"]) == tuple(pytest.approx(x) for x in (0.09, 0.11, 0.13))
    assert row["is_inside"] is True and row["holds"] is None
    tiers = {one.name: one for one in read_tiers(found.textgrid().encode())}
    assert all(one.is_points for one in tiers.values()) and list(tiers) == ["boundaries", "low", "high"]
    at = [(one.start_s, one.text) for one in tiers["boundaries"].entries if "two" in one.text]
    assert at[0] == (pytest.approx(0.11), "one ] [ two")
    summarised = summary([found])
    assert summarised["own_inside"] == 1.0 and summarised["width_ms"]["p50"] == pytest.approx(40.0)
    assert summarised["cuts_held"] is None


def test_command_writes_a_table_and_a_grid_and_lists_unaligned_words(utterance: Path, tmp_path: Path) -> None:
    write_wav(utterance.parent / "b.wav", pcm(), RATE_HZ)
    out = tmp_path / "out"
    arguments = ["timing", utterance.parent, "-o", out, "--from", tmp_path / "early", "--format", "csv"]
    done = CliRunner().invoke(cli, [str(one) for one in arguments])
    assert done.exit_code == 1 and "b.wav: it has no words" in done.output
    rows = list(csv.DictReader((out / "boundaries.csv").open(encoding="utf-8")))
    assert [row["word"] for row in rows] == ["one", "one", "two", "two", "three", "three"]
    assert rows[0]["low_s"] == "" and float(rows[1]["at_s"]) == pytest.approx(0.09)
    assert (out / "a.TextGrid").is_file()
    assert "6 boundaries of 1 utterances" in done.output


def test_cut_words_are_recognised_and_shifted_cuts_are_a_control(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts, rate_hz = ("rain", "stopped", "early"), 1000
    sound = np.repeat(np.arange(1, 4, dtype=np.int16), 400)  # each word is a number

    class Hearing:
        """Recognises a complete word."""

        def transcribe(self, pcm: np.ndarray, rate_hz: int) -> str:
            return " ".join(text for k, text in enumerate(texts, 1) if (pcm == k).sum() == 400)

    write_wav(tmp_path / "a.wav", sound, rate_hz)
    words = [TextGridEntry(0.4 * k, 0.4 * (k + 1), text) for k, text in enumerate(texts)]
    grid = write_tiers([TextGridTier("words", False, words)], 1.2)
    (tmp_path / "other").mkdir()
    for place in (tmp_path, tmp_path / "other"):
        (place / "a.TextGrid").write_text(grid, "utf-8")
    monkeypatch.setattr(timing, "open_recogniser", lambda name: Hearing())
    setting = TimingSetting(aligners=(), folders=(tmp_path / "other",), recogniser="fake")
    (found,) = time_all(find_sources([tmp_path / "a.wav"]), setting)
    assert not isinstance(found, str)
    assert [one.holds for one in found.cuts] == [True, True] and len(found.moved) == 4
    summarised = summary([found])
    assert summarised["cuts_held"].value == 1.0 and summarised["moved_held"].value == 0.0
    assert [row["holds"] for row in found.rows() if row["edge"] == "end"] == [True, True, None]


def test_pocketsphinx_takes_resolve_less_than_a_frame(tmp_path: Path) -> None:
    """The demo's recording: ten takes, whose medians are not all on frames of 10 ms."""
    import soundfile

    from studio.core.folders import DEMO
    from studio.measure.word_timing import word_boundaries

    items = {one["name"]: one["text"] for one in json.loads((DEMO / "manifest.json").read_text())["items"]}
    path = next(DEMO.glob("teacher-*/bridge*.flac"))
    sound, rate_hz = soundfile.read(path, dtype="int16")
    text = items["bridge"]
    takes = open_aligner("pocketsphinx")(sound, rate_hz, text)
    assert len(takes) == 10
    words = [one.text for one in takes[0]]
    found = word_boundaries(words, {"pocketsphinx": takes})
    assert len(found) == len(words) > 3
    widths = [one.end.high - one.end.low for one in found if one.end]
    assert min(widths) >= 0.0 and np.median(widths) < 0.05
    assert any(round(1000 * one.end.value) % 10 for one in found if one.end)


def test_unavailable_aligner_is_reported(utterance: Path, tmp_path: Path) -> None:
    sources = find_sources([utterance])
    with pytest.raises(BadOption, match="no aligner 'mfa'"):
        time_all(sources, TimingSetting(aligners=("mfa",)))
    with pytest.raises(BadFile, match="no folder"):
        time_all(sources, TimingSetting(folders=(tmp_path / "nowhere",)))
    with pytest.raises(BadOption, match="there is no aligner"):
        time_all(sources, TimingSetting(aligners=()))
    (summarised,) = time_all(sources, TimingSetting(aligners=(), folders=(tmp_path / "in",)))
    assert isinstance(summarised, str) and "no aligner could place its words" in summarised
