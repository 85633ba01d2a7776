"""What the socket costs for each frame: all that is prepared is told, and timed."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tinyvoice import write_tiny_voice

from studio.bench.speed import wire
from studio.bench.summary import summarise
from studio.core import events as ev
from studio.core.cards import read_cards
from studio.measure.report import plain, write_result
from studio.serve.live.stream import UtteranceStream


def test_every_frame_is_served_and_timed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_tiny_voice(tmp_path / "voices")
    told: list[int] = []
    packet = UtteranceStream.packet

    def counted(stream: UtteranceStream, audio: ev.Audio) -> bytes:
        told.append(audio.sample)
        return packet(stream, audio)

    monkeypatch.setattr(UtteranceStream, "packet", counted)
    setting = wire.WireSetting(frames=120, warm=20, block=25, voices=tmp_path / "voices")
    with ThreadPoolExecutor(1) as thread:  # this one may have a loop, that of a browser's tests
        out = thread.submit(wire.bench_wire, setting).result()
    assert out["frames"] == 100, "whole blocks"
    assert told == [600 * k for k in range(120)]
    for name in ("clock_ms", "cpu_ms"):
        assert out[name]["n"] == 4 and 0 < out[name]["p50"] <= out[name]["p95"]
    assert out["process_ms"] > 0
    json.dumps(plain(out), allow_nan=False)
    assert "wall time" in capsys.readouterr().out
    write_result("wire", out, tmp_path / "results")
    page = summarise(tmp_path / "results", tmp_path / "README.md").with_name("speed.md")
    assert "## Server CPU time per frame" in page.read_text()


def test_its_turns_are_those_of_an_engine(tmp_path: Path) -> None:
    write_tiny_voice(tmp_path)
    ((card, _),) = read_cards(tmp_path).values()
    events = [event for turn in wire._turns(card, 24) for event in turn]
    assert isinstance(events[0], ev.Ready) and isinstance(events[-1], ev.Ended)
    count = {kind: sum(isinstance(one, kind) for one in events) for kind in (ev.Audio, ev.Frames, ev.WordStart, ev.Eos)}
    assert count == {ev.Audio: 24, ev.Frames: 24, ev.WordStart: 2, ev.Eos: 2}
    assert [one.to_dict()["type"] for one in events[:5]] == ["ready", "committed", "segment", "word_start", "audio"]
