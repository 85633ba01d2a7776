"""dMel against its authors' own package, on real recordings."""

from typing import Any

import numpy as np
import pytest
import soundfile
import torch
import torchaudio.functional
from dmel.dmel import DiscretizedLogMelFbank, LogMelFbank
from needs import data_folder

from studio.core.errors import BadFile
from studio.engine.tokenizers import dmel


def test_equals_the_authors_package_on_real_recordings():
    clips = sorted((data_folder() / "ljspeech_clips").glob("*.flac"))
    assert len(clips) == 32
    theirs = DiscretizedLogMelFbank(LogMelFbank(), n_bits=4)
    same = total = 0
    for clip in clips:
        pcm, rate_hz = soundfile.read(clip, dtype="float32")
        sound = dmel.resample(torch.from_numpy(pcm), rate_hz, 16_000)
        ours = dmel.quantise(dmel.log_mel_16k(sound))
        wanted = theirs.discretize_func(theirs.logmelfbank(sound.unsqueeze(0))[0])[0]
        assert wanted.shape == ours.shape
        same += int((ours == wanted).sum())
        total += ours.numel()
    assert same / total >= 0.999, f"{same / total:.5f} of the bins are identical"


def test_frames_own_their_samples():
    base = dmel.TIME_BASE
    assert (base.rate_hz, base.frame_samples, base.phase) == (24_000, 600, 300)
    for samples, frames in [(899, 1), (900, 2), (1499, 2), (1500, 3), (24_000, 40), (24_300, 41)]:
        assert dmel.log_mel(torch.zeros(samples)).shape == (frames, dmel.CHANNELS)


def test_a_click_lands_in_the_frame_that_owns_it():
    pcm = torch.zeros(24_000)
    at = 10_000
    pcm[at] = 1.0
    energy = dmel.log_mel(pcm).mean(-1)
    owner = (at + dmel.TIME_BASE.phase) // dmel.TIME_BASE.frame_samples
    assert abs(int(energy.argmax()) - owner) <= 1
    assert energy[: owner - 1].max() < energy[owner] and energy[owner + 2 :].max() < energy[owner]


def test_levels_are_nearest_and_come_back():
    values = torch.linspace(-8, 3, 1000)
    levels = dmel.quantise(values)
    assert levels.dtype == torch.uint8 and int(levels.min()) == 0 and int(levels.max()) == 15
    inside = (values >= -7) & (values <= 2)
    assert float((dmel.dequantise(levels) - values).abs()[inside].max()) <= 0.3 + 1e-5
    assert torch.equal(dmel.quantise(dmel.dequantise(levels)), levels)


def test_the_resampler_keeps_tones_and_removes_what_does_not_fit():
    time_s = np.arange(24_000) / 24_000
    low = torch.from_numpy(np.sin(2 * np.pi * 1000 * time_s)).float()
    high = torch.from_numpy(np.sin(2 * np.pi * 11_000 * time_s)).float()
    kept, gone = dmel.resample(low, 24_000, 16_000), dmel.resample(high, 24_000, 16_000)
    assert abs(float(kept[1000:-1000].std()) - 0.7071) < 1e-3
    assert float(gone[1000:-1000].std()) < 1e-3


@pytest.mark.parametrize("rate_hz", [1000, 8000, 11_025, 16_000, 22_050, 24_000, 37_800, 44_100, 48_000, 768_000])
def test_a_rate_that_is_in_use_is_met_exactly(rate_hz):
    made = dmel.resample(torch.zeros(rate_hz), rate_hz, 24_000)
    assert made.shape == (24_000,)


@pytest.mark.parametrize("rate_hz", [1001, 11_127, 22_255, 44_056, 44_101, 767_999])
def test_an_odd_rate_takes_little_memory_or_is_refused(rate_hz):
    """Its filters would be tables of gigabytes; within a millionth the rate may be another, with small ones."""
    tone = torch.sin(2 * torch.pi * 440 * torch.arange(rate_hz) / rate_hz)
    try:
        made = dmel.resample(tone, rate_hz, 24_000)
    except BadFile as error:
        assert "give 16000, 22050" in str(error)
        return
    wanted = torch.sin(2 * torch.pi * 440 * torch.arange(24_000) / 24_000)
    middle = slice(4000, 20_000)
    assert abs(len(made) - 24_000) <= 1 and float((made[middle] - wanted[middle]).abs().max()) < 0.02


def test_what_cannot_be_met_is_refused():
    with pytest.raises(BadFile, match="24,005 samples a second cannot be made 24,000"):
        dmel.resample(torch.zeros(24_005), 24_005, 24_000)


@pytest.mark.parametrize("rate_hz", [768_000, 44_101, 44_100, 16_000, 1_000])
def test_long_sounds_are_resampled_in_blocks(monkeypatch: pytest.MonkeyPatch, rate_hz: int) -> None:
    """Ten minutes at once took 1.2 GB; the blocks make the same samples."""
    pcm = torch.from_numpy(np.random.default_rng(0).standard_normal(300_007).astype(np.float32))
    at_once = dmel.resample(pcm, rate_hz, 24_000)
    lengths: list[int] = []
    resample = torchaudio.functional.resample

    def counted(part: torch.Tensor, *given: int, **options: Any) -> torch.Tensor:
        lengths.append(part.shape[-1])
        return resample(part, *given, **options)

    monkeypatch.setattr(torchaudio.functional, "resample", counted)
    monkeypatch.setattr(dmel, "_RESAMPLED_AT_ONCE", 20_000)
    made = dmel.resample(pcm, rate_hz, 24_000)
    assert len(lengths) > 1 and max(lengths) < 200_000
    assert made.shape == at_once.shape and float((made - at_once).abs().max()) < 1e-5
