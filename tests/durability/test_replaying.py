"""Traces of every origin are replayed with a tiny voice; an altered one is found."""

from pathlib import Path

import pytest
from durability.harness import replaying
from durability.harness.replaying import MANNERS, ReplaySetting, bench_replay
from tinyvoice import write_tiny_voice

from studio.bench.durability import show_replay
from studio.core.errors import BadOption
from studio.core.traces.trace import Trace, open_trace


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> dict:
    root = tmp_path_factory.mktemp("replay")
    write_tiny_voice(root / "voices")
    texts = root / "texts.txt"
    texts.write_text("one two three four five six\nred hen told nine men so\n")
    return {"voices": root / "voices", "texts": texts, "device": "cpu"}


def test_every_manner_of_typing_and_every_origin_is_replayed(given: dict, tmp_path: Path, capsys) -> None:
    count = 3 * len(MANNERS)
    found = bench_replay(ReplaySetting(**given, count=count, keep_folder=tmp_path / "kept"))
    assert found["different"] == [] and found["made_otherwise"] == [] and (found["n"], found["same"]) == (count, count)
    assert {name: one["n"] for name, one in found["by_origin"].items()} == dict.fromkeys(("live", "say", "campaign"), 7)
    assert all(one["samples"] > 0 for one in found["by_origin"].values())
    traces = [open_trace(one) for one in sorted(tmp_path.glob("kept/live/*.trace"))]
    kinds = [{type(event).__name__ for event in one.events} for one in traces]
    manners = dict(zip(MANNERS, kinds, strict=True))
    assert "Flushed" in manners["pause"] and "Flushed" in manners["flush"] and "Flushed" not in manners["keys"]
    show_replay(found)
    printed = capsys.readouterr().out
    assert "Traces of tiny replayed" in printed and str(count) in printed
    with pytest.raises(BadOption, match="is not empty"):
        bench_replay(ReplaySetting(**given, count=3, keep_folder=tmp_path / "kept"))


def test_altered_trace_is_found(given: dict, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    def altered(path: Path) -> Trace:
        trace = open_trace(path)
        if path.parent.name == "say":
            trace.pcm[600] ^= 1
        return trace

    monkeypatch.setattr(replaying, "open_trace", altered)
    monkeypatch.setattr(replaying, "_live", lambda *_: [])  # the app takes time to start
    found = bench_replay(ReplaySetting(**given, count=3))
    assert (found["same"], found["failures"]) == (1, 1)
    assert [(one["origin"], one["first_difference"]) for one in found["different"]] == [("say", 600)]
    show_replay(found)
    assert "sample 600 differs" in " ".join(capsys.readouterr().out.split())


def test_too_few_traces_are_reported(given: dict) -> None:
    with pytest.raises(BadOption, match="2 traces are too few"):
        bench_replay(ReplaySetting(**given, count=2))
