"""``studio compare``: the table, JSON and pictures, and invalid comparisons."""

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from inspection.spoken import RATE_HZ, pcm, story
from tinyvoice import write_tiny_voice
from typer.testing import CliRunner

from studio.cli import cli
from studio.core import events as ev
from studio.core.clips import write_wav
from studio.core.errors import BadFile, BadOption, StudioError
from studio.core.ports import SpeakRequest
from studio.core.traces.trace import Trace, collect_trace
from studio.core.traces.trace_writer import TraceWriter
from studio.engine.engine import open_engine
from studio.inspection.comparison.compare import compare, compared_utterance, labels
from studio.inspection.opening import open_source
from studio.inspection.picture import draw_comparison
from studio.text.normalise import best


def traced(path: Path, **ready: object) -> Path:
    writer = TraceWriter(path.with_suffix(""), {})
    writer.write(*(ev.Ready(**{**vars(one), **ready}) if isinstance(one, ev.Ready) else one for one in story()))
    return writer.close()


@pytest.fixture
def pair(tmp_path: Path) -> list[Path]:
    return [traced(tmp_path / f"{k}.trace", options={"m": m, "n": 1}) for k, m in (("a", 1), ("b", 3))]


def output_of(*arguments: object) -> str:
    done = CliRunner().invoke(cli, ["compare", *map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_terminal_lists_utterances_words_and_pairs(pair: list[Path]) -> None:
    found = output_of(*pair)
    for part in ("1 m=1", "2 m=3", "three", "175 +75", "2 against 1", "1.00"):
        assert part in found, part
    assert "220" in found, "the pitch of the tone"


def test_json_holds_the_same(pair: list[Path]) -> None:
    found = json.loads(output_of(*pair, "--json"))
    assert [one["name"] for one in found["utterances"]] == ["m=1", "m=3"]
    assert [word["text"] for word in found["words"]] == ["one", "two", "three"]
    assert found["words"][1]["said"][1]["start_s"] == pytest.approx(0.1)
    (one,) = found["pairs"]
    assert (one["words"], one["duration_ratio"], one["spectral_db"]) == (3, 1.0, 0.0)
    assert one["duration_r"] == pytest.approx(1.0) and one["pitch_st"] == 0.0
    assert json.loads(output_of(*pair, "--json", "--no-pitch"))["words"][0]["said"][0]["pitch_hz"] is None


def test_pictures_show_every_word_of_each(pair: list[Path], tmp_path: Path) -> None:
    svg, png = tmp_path / "c.svg", tmp_path / "c.png"
    output_of(*pair, "--no-pitch", "--svg", svg, "--png", png)
    ElementTree.parse(svg)
    assert png.read_bytes().startswith(b"\x89PNG")
    traces = [open_source(path) for path in pair]
    lanes = draw_comparison(compare([compared_utterance("", trace) for trace in traces]), labels(traces)).axes[0]
    assert [text.get_text() for text in lanes.texts] == ["one", "two", "three"] * 2
    assert [one.get_text() for one in lanes.get_yticklabels()] == ["1 m=1", "2 m=3"]


def test_wav_is_compared_using_the_files_beside_it(pair: list[Path], tmp_path: Path) -> None:
    wav = tmp_path / "said.wav"
    write_wav(wav, pcm(), RATE_HZ)
    assert "is not known" in output_of(pair[0], wav, "--text", "one two three", "--no-pitch")
    from praatio import textgrid
    from praatio.utilities.constants import Interval

    grid = textgrid.Textgrid(0.0, 0.25)
    words = [Interval(0.0, 0.05, "one"), Interval(0.05, 0.15, "two"), Interval(0.15, 0.25, "three")]
    grid.addTier(textgrid.IntervalTier("words", words, 0.0, 0.25))
    grid.save(str(tmp_path / "said.TextGrid"), format="long_textgrid", includeBlankSpaces=True)
    found = json.loads(output_of(pair[0], wav, "--no-pitch", "--json"))
    assert found["words"][1]["said"][1]["duration_s"] == pytest.approx(0.1)
    assert found["utterances"][1]["name"] == "recording"


def test_different_text_is_reported(pair: list[Path], tmp_path: Path) -> None:
    wav = tmp_path / "other.wav"
    write_wav(wav, pcm(), RATE_HZ)
    assert "0% of the words" in output_of(pair[0], wav, "--text", "nothing of that", "--no-pitch")


@pytest.mark.parametrize(
    ("arguments", "why", "kind"),
    [
        (["a.trace"], "1 to compare", BadOption),
        (["a.trace"] * 9, "9 to compare", BadOption),
        (["a.trace", "nothing.trace"], "there is no", BadFile),
        (["a.trace", "a.trace", "--svg", "c.png"], "--svg", StudioError),
    ],
)
def test_invalid_comparison_is_reported(
    pair: list[Path], monkeypatch: pytest.MonkeyPatch, arguments: list[str], why: str, kind: type[StudioError]
) -> None:
    monkeypatch.chdir(pair[0].parent)
    done = CliRunner().invoke(cli, ["compare", *arguments])
    assert isinstance(done.exception, kind) and why in str(done.exception)


def test_utterances_are_labelled_by_their_differences() -> None:
    def of(voice: str, **more: object) -> Trace:
        return Trace({"voice": voice, "speaker": "a", "rate_hz": RATE_HZ, **more}, [], pcm())

    assert labels([of("v", options={"m": 1}), of("v", options={"m": 2})]) == ["m=1", "m=2"]
    assert labels([of("v", options={"m": 1}), of("w", options={"k": 2})]) == ["v", "w"], "an option that only one has"
    assert labels([of("v", vocoder="p"), of("v", vocoder="q")]) == ["p", "q"]
    assert labels([of("v"), Trace({"source": "recording", "rate_hz": 1}, [], pcm())]) == ["v:a", "recording"]
    assert labels([of("v", temperature=0.1), of("w", temperature=0.2)]) == ["v", "w"], "each voice has its own"
    hot = [of("v", temperature=0.1), of("v", temperature=0.3), of("w", temperature=0.2)]
    assert labels(hot) == ["v temperature=0.1", "v temperature=0.3", "w temperature=0.2"]
    assert len(labels([of("v" * 500), of("w")])[0]) <= 60
    keys = [ev.TextReceived(t_ms=600.0 * k, char_start=k, text="x") for k in range(2)]
    typed = Trace(of("v").meta, keys, pcm())
    at_once = Trace(of("v").meta, [replace(one, t_ms=0.0) for one in keys], pcm())
    assert labels([typed, at_once]) == ["v:a, typed", "v:a, text at once"]
    assert labels([typed, typed]) == ["v:a", "v:a"]


def test_trace_is_compared_with_its_overlapped_vocoding(tmp_path: Path) -> None:
    write_tiny_voice(tmp_path / "voices")
    engine = open_engine(tmp_path / "voices", best(), "cpu")
    utterance = engine.open(SpeakRequest(voice="tiny:one", seed=3))
    utterance.push_text("several words of one sentence")
    utterance.end()
    made = collect_trace(utterance.provenance, utterance.events())
    engine.close()
    writer = TraceWriter(tmp_path / "a", made.meta)
    writer.write(*made.events)
    given = [writer.close(), "--overlapped", "--voices", tmp_path / "voices", "--no-pitch"]
    found = json.loads(output_of(*given, "--json"))
    names = [one["name"] for one in found["utterances"]]
    assert names == [made.meta["vocoder"], f"{made.meta['vocoder']}, overlapped"]
    assert found["utterances"][0]["audio_s"] == found["utterances"][1]["audio_s"]
    assert found["pairs"][0]["spectral_db"] > 0.0
