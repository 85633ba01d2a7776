"""Clips are made and measured, every one; what cannot be measured is told."""

import numpy as np
import pytest

from studio.bench.speed.measuring import MeasuringSetting, bench_measure
from studio.core.clips import write_wav
from studio.core.errors import BadFile


def test_every_clip_is_measured_and_the_ratio_is_of_their_lengths(tmp_path, capsys):
    rng = np.random.default_rng(0)
    for number, rate_hz in enumerate((16_000, 24_000, 24_000)):
        sound = rng.normal(0, 3000, rate_hz).astype(np.int16)
        write_wav(tmp_path / f"{number}.wav", sound, rate_hz)
    setting = MeasuringSetting(sounds=tmp_path, clips=12, workers=1, with_pitch=False)
    out = bench_measure(setting)
    assert out["clips"] == 12 and 12.0 < out["audio_s"] < 12 * 2.8
    assert out["words"] >= 12 * 3
    assert out["x_real_time"] == pytest.approx(out["audio_s"] / out["wall_s"])
    assert "12 clips measured by 1 processes, without pitch" in " ".join(capsys.readouterr().out.split())
    again = bench_measure(MeasuringSetting(sounds=tmp_path, clips=12, workers=1, with_pitch=False, quiet=True))
    assert again["audio_s"] == out["audio_s"], "the same seed makes the same clips"


def test_a_folder_without_sounds_is_told(tmp_path):
    with pytest.raises(BadFile, match="no WAV or FLAC"):
        bench_measure(MeasuringSetting(sounds=tmp_path))
