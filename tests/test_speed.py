"""Speed of ``studio say``, ``studio synth``, ``studio.synthesize`` and a replay."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import studio
from studio.cli import cli
from studio.core.errors import BadOption
from studio.core.sound_files import read_mono
from studio.engine.engine import open_engine
from studio.inspection.replay import replay
from studio.text.normalise import best

pytestmark = pytest.mark.slow

TEXT = "one two three four five six"


def command(voices: Path, *args: object) -> Result:
    words = [*map(str, args), "--voices", str(voices), "--device", "cpu"]
    return CliRunner().invoke(cli, words)


def test_say_is_faster_with_its_words_and_captions(voices: Path, tmp_path: Path) -> None:
    plain, fast, trace = tmp_path / "plain.wav", tmp_path / "fast.wav", tmp_path / "fast.trace"
    captions = tmp_path / "fast.srt"
    assert command(voices, "say", TEXT, "-o", plain).exit_code == 0
    done = command(voices, "say", TEXT, "-o", fast, "--speed", "2", "--trace", trace, "--captions", captions)
    assert done.exit_code == 0, done.output
    (before, rate_hz), (after, _) = read_mono(plain), read_mono(fast)
    assert abs(2 * len(after) / len(before) - 1.0) < 0.05
    kept = studio.open_trace(trace)
    assert np.array_equal(kept.pcm, after) and kept.meta["speed"] == 2
    words = kept.words()
    assert [word.text for word in words] == TEXT.split()
    ends = [word.end for word in words if word.end is not None]
    assert len(ends) == 6 and ends == sorted(ends) and ends[-1] <= len(after)
    last = captions.read_text(encoding="utf-8").split(" --> ")[-1].split()[0].replace(",", ".")
    parts = zip(map(float, last.split(":")), (3600, 60, 1), strict=True)
    assert ends[-1] / rate_hz - 0.01 <= sum(part * unit for part, unit in parts) <= len(after) / rate_hz + 1.0


@pytest.mark.parametrize("speed", ["0.4", "3", "nan"])
def test_other_speeds_are_refused(voices: Path, tmp_path: Path, speed: str) -> None:
    done = command(voices, "say", TEXT, "-o", tmp_path / "a.wav", "--speed", speed)
    assert done.exit_code != 0 and not (tmp_path / "a.wav").exists()


def test_synth_speaks_each_speed_once(voices: Path, tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text(f"one|{TEXT}\n")
    args: list[Any] = ["synth", "--texts", tmp_path / "texts.txt", "-o", tmp_path / "out", "--system", "tiny:one"]
    for speed in (1, 2, 2):
        assert command(voices, *args, "--speed", speed).exit_code == 0
    fast, usual = sorted(len(read_mono(path)[0]) for path in (tmp_path / "out").glob("*/*.wav"))
    assert abs(2 * fast / usual - 1.0) < 0.05


def test_a_replay_speaks_at_the_speed_of_the_trace(voices: Path) -> None:
    trace = studio.synthesize(TEXT, "tiny", seed=7, speed=1.5, voices=voices, device="cpu")
    assert trace.meta["speed"] == 1.5 and not len(trace.frames)
    engine = open_engine(voices, best(), device="cpu")
    try:
        assert replay(engine, trace).is_same
    finally:
        engine.close()
    with pytest.raises(BadOption, match="speed"):
        studio.synthesize(TEXT, "tiny", speed="fast", voices=voices, device="cpu")  # type: ignore[arg-type]
