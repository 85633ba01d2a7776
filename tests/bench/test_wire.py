"""The wire and measure benchmarks, briefly."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from tinyvoice import write_tiny_voice

from studio.bench.speed import throughput
from studio.bench.speed.throughput import MeasuringSetting, bench_measure
from studio.bench.summary import summarise
from studio.core import events as ev
from studio.core.cards import read_cards
from studio.core.clips import write_wav
from studio.core.errors import BadFile
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
    setting = throughput.WireSetting(frames=120, warm=20, block=25, voices=tmp_path / "voices")
    with ThreadPoolExecutor(1) as thread:  # this one may have a loop, that of a browser's tests
        out = thread.submit(throughput.bench_wire, setting).result()
    assert out["frames"] == 100, "whole blocks"
    assert told == [600 * k for k in range(120)]
    for name in ("clock_ms", "cpu_ms"):
        assert out[name]["n"] == 4 and 0 < out[name]["p50"] <= out[name]["p95"]
    assert out["process_ms"] > 0
    json.dumps(plain(out), allow_nan=False)
    throughput.show_wire(out)
    assert "wall time" in capsys.readouterr().out
    write_result("wire", out, tmp_path / "results")
    page = summarise(tmp_path / "results", tmp_path / "README.md").with_name("speed.md")
    assert "## Server CPU time per frame" in page.read_text()


def test_steps_are_those_of_an_engine(tmp_path: Path) -> None:
    write_tiny_voice(tmp_path)
    ((card, _),) = read_cards(tmp_path).values()
    events = [event for step in throughput._step_events(card, 24, 1) for event in step]
    assert isinstance(events[0], ev.Ready) and isinstance(events[-1], ev.Ended)
    count = {kind: sum(isinstance(one, kind) for one in events) for kind in (ev.Audio, ev.Frames, ev.WordStart, ev.Eos)}
    assert count == {ev.Audio: 24, ev.Frames: 24, ev.WordStart: 2, ev.Eos: 2}
    assert [one.to_dict()["type"] for one in events[:5]] == ["ready", "committed", "segment", "word_start", "audio"]


def test_every_clip_is_measured_and_the_ratio_uses_their_lengths(tmp_path, capsys):
    rng = np.random.default_rng(0)
    for number, rate_hz in enumerate((16_000, 24_000, 24_000)):
        sound = rng.normal(0, 3000, rate_hz).astype(np.int16)
        write_wav(tmp_path / f"{number}.wav", sound, rate_hz)
    setting = MeasuringSetting(sounds=tmp_path, clips=12, workers=1, with_pitch=False)
    out = bench_measure(setting)
    assert out["clips"] == 12 and 12.0 < out["audio_s"] < 12 * 2.8
    assert out["words"] >= 12 * 3
    assert out["x_real_time"] == pytest.approx(out["audio_s"] / out["wall_s"])
    throughput.show_measure(out)
    assert "12 clips measured by 1 processes, without pitch" in " ".join(capsys.readouterr().out.split())
    again = bench_measure(MeasuringSetting(sounds=tmp_path, clips=12, workers=1, with_pitch=False, quiet=True))
    assert again["audio_s"] == out["audio_s"], "the same seed makes the same clips"


def test_folder_without_sounds_is_reported(tmp_path):
    with pytest.raises(BadFile, match="no WAV or FLAC"):
        bench_measure(MeasuringSetting(sounds=tmp_path))
