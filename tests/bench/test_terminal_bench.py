"""`studio bench type`: figures of the terminal program."""

from pathlib import Path

import pytest
from tinyvoice import write_tiny_voice

from studio.bench.settings import TypeSetting
from studio.bench.speed.terminal import bench_type, show
from studio.core.errors import BadFile


def test_first_sound_and_underruns_are_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_tiny_voice(tmp_path)
    texts = tmp_path / "texts.txt"
    texts.write_text("one two three four five six seven\n" * 3)
    found = bench_type(
        TypeSetting(voices=tmp_path, device="cpu", texts=texts, long_texts=texts, n=2, warm=1, wpm=600.0, minutes=0.05)
    )
    assert found["key_ms"]["n"] == found["t2_t0_ms"]["n"] == 2
    assert found["key_ms"]["p50"] > found["t2_t0_ms"]["p50"] > 0
    assert found["spoken_s"] > 0 and found["underruns"] >= found["late_blocks"] >= 0
    show(found)
    shown = capsys.readouterr().out
    assert "2 texts at 600 wpm" in shown and "underruns in 0.05 minutes" in shown
    with pytest.raises(BadFile, match="only 3 texts"):
        bench_type(TypeSetting(voices=tmp_path, texts=texts, n=9, quiet=True))
