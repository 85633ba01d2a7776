"""Vocoder training: aligned targets, meaningful losses, resumable runs."""

import json
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from needs import needs
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file

from studio.core.clips import write_wav
from studio.core.errors import BadFile, BadOption
from studio.engine.tokenizers import dmel
from studio.engine.vocoders.module import build_vocoder
from studio.engine.vocoders.vocstream import NARROW
from studio.train.corpus.shards import LEFT_OUT, read_sound
from studio.train.fit.resources import lock_state_folder
from studio.train.vocoder.data import VocoderDataset, analyse, collate, crop, degrade, hop_pitch, load_shard
from studio.train.vocoder.fit import VocoderFit, VocoderTrainer, fit
from studio.train.vocoder.losses import (
    Discriminators,
    SampleDiscriminators,
    SpectralLoss,
    WaveDiscriminator,
    fine_log_mel,
    pitch_loss,
)

RATE = dmel.TIME_BASE.rate_hz
CONFIGS = {
    "hifigan": {"width": 16, "upsampling": (10, 10, 6), "kernels": (3,), "dilations": (1,), "overlap_frames": 4},
    "sourcefilter": {"width": 32, "blocks": 1, "fine_width": 16, "fine_blocks": 1},
    "sourcevocos": {
        "width": 32,
        "blocks": 1,
        "fine_width": 16,
        "fine_blocks": 1,
        "refine_width": 32,
        "refine_blocks": 1,
    },
    "vocstream": asdict(
        replace(NARROW, upsampler_width=8, upsampler_layers=2, generator_width=8, generator_layers=2, generator_cycle=2)
    ),
}


def buzz(seconds: float, f0_hz: float, onset_s: float = 0.0, seed: int = 0) -> NDArray[np.int16]:
    """Harmonics of one pitch starting at ``onset_s``, over faint noise."""
    t = np.arange(round(seconds * RATE)) / RATE
    tone = sum(np.cos(2 * np.pi * f0_hz * h * t) / h for h in range(1, 20)) * (t >= onset_s)
    return (2500 * tone + 20 * np.random.default_rng(seed).standard_normal(len(t))).astype(np.int16)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Two shards of eight short sounds."""
    folder = tmp_path / "corpus"
    for shard, f0_hz in (("slt-000", 200), ("rms-000", 100)):
        (folder / shard).mkdir(parents=True)
        for i in range(8):
            write_wav(folder / shard / f"{i:04d}.wav", buzz(2.2, f0_hz + 5 * i, 0.2, seed=i), RATE)
        (folder / shard / "labels.jsonl").write_text("")
    return folder


def asked(corpus: Path, folder: Path, **changes: Any) -> VocoderFit:
    """Two steps of a small source filter."""
    settings = VocoderFit(corpus, folder / "state", folder / "out" / "voice.safetensors", "sourcefilter", device="cpu")
    small = {"config": CONFIGS["sourcefilter"], "steps": 2, "rows": 2, "crop_frames": 24, "warm_frames": 4}
    return replace(settings, **small | changes)


def test_pitch_targets_are_right_and_start_with_the_voice() -> None:
    needs(find_spec("pyworld"), "pyworld (pip install pyworld)")
    pcm = buzz(1.5, 140, onset_s=0.5).astype(np.float32) / np.float32(32768)
    f0 = hop_pitch(pcm, 236, sample_rate_hz=RATE, hop_samples=150, phase=300)
    voiced = np.flatnonzero(f0)
    onset = (0.5 * RATE + 300) / 150
    assert abs(voiced[0] - onset) < 5, "within 30 ms of the hop with the onset"
    assert f0[100:200] == pytest.approx(140, rel=0.01)


def test_frames_samples_and_hops_are_aligned() -> None:
    needs(find_spec("pyworld"), "pyworld (pip install pyworld)")
    pcm = buzz(1.3, 140, onset_s=0.6)
    sound = analyse(pcm)
    frames = len(sound.mels)
    assert frames == (len(pcm) + 300) // 600
    assert len(sound.pcm) == frames * 600 and len(sound.f0_hz) == frames * 4
    assert not sound.pcm[:300].any() and np.array_equal(sound.pcm[300:], pcm[: frames * 600 - 300])
    loud = sound.mels.astype(np.float32).max(axis=1)
    onset_frame = (0.6 * RATE + 300) / 600
    assert abs(np.flatnonzero(loud > loud.max() - 0.5)[0] - onset_frame) <= 1.5
    part = crop(sound, 10, 5)
    assert np.array_equal(part.pcm, sound.pcm[6000:9000]) and np.array_equal(part.f0_hz, sound.f0_hz[40:60])


def test_fine_frames_are_centred_and_see_no_further_than_dmel() -> None:
    pcm = torch.zeros(1, 6000)
    pcm[0, 3075] = 1.0
    fine = fine_log_mel(pcm, RATE, 150, 120)
    assert fine.shape == (1, 120, 40)
    heard = fine[0].mean(0) > -4.9
    assert heard.nonzero().flatten().tolist() == [18, 19, 20, 21, 22]


def test_losses_are_zero_for_the_target_and_ignore_phase() -> None:
    loss = SpectralLoss(RATE)
    t = torch.arange(24000) / RATE
    wanted = torch.sin(2 * torch.pi * 220 * t)[None] * 0.3
    same = loss(wanted, wanted)
    turned = loss(torch.cos(2 * torch.pi * 220 * t)[None] * 0.3, wanted)
    other = loss(torch.sin(2 * torch.pi * 330 * t)[None] * 0.3, wanted)
    assert all(float(value) < 1e-6 for value in same.values())
    assert float(turned["stft"]) < 0.3 * float(other["stft"])


def test_pitch_loss_is_minimal_at_the_target() -> None:
    f0 = torch.full((1, 1), 60 * (400 / 60) ** (20 / 63))
    losses = [float(pitch_loss(torch.eye(64)[i][None, None] * 8, f0, 60, 400)) for i in range(64)]
    assert int(np.argmin(losses)) == 20
    assert float(pitch_loss(torch.randn(1, 1, 64), f0 * 0, 60, 400)) == 0, "unvoiced hops have no target"


def test_roughened_frames_stay_within_a_level_and_a_half() -> None:
    mels = torch.randn(10, 30, 80) * 1.5 - 2.5
    mels = mels.clamp(-7, 2)
    rough = degrade(mels, np.random.default_rng(0))
    assert (rough - mels).abs().max() < 0.3 + 0.6 + 0.08 * 6
    assert (rough - mels).abs().mean() > 0.05
    assert torch.equal(rough, degrade(mels, np.random.default_rng(0)))


def test_discriminator_learns() -> None:
    torch.manual_seed(0)
    adversary = Discriminators({"pcm": WaveDiscriminator(1)}, 1e-3)
    assert sum(isinstance(m, torch.nn.Conv1d) for m in adversary.modules()) == 10
    pairs = {"pcm": (torch.randn(2, 1, 400), torch.randn(2, 1, 400) * 0.1)}
    before = adversary.update(pairs)
    for _ in range(30):
        after = adversary.update(pairs)
    assert after < 0.7 * before
    assert adversary.generator_loss(pairs).item() > 0.3


def test_folded_samples_and_spectra_separate_a_buzz_from_noise() -> None:
    torch.manual_seed(0)
    adversary = Discriminators({"pcm": SampleDiscriminators()}, 1e-3)
    sound = torch.from_numpy(buzz(0.3, 150)).float()[None, None] / 32768
    pairs = {"pcm": (sound, torch.randn_like(sound) * sound.std())}
    assert len(adversary.judges["pcm"](sound)) == 8
    before = adversary.update(pairs)
    for _ in range(20):
        after = adversary.update(pairs)
    assert after < 0.5 * before


@pytest.mark.parametrize("vocoder", sorted(CONFIGS))
def test_run_stops_resumes_and_exports(corpus: Path, tmp_path: Path, vocoder: str) -> None:
    needs(find_spec("pyworld"), "pyworld (pip install pyworld)")
    settings = asked(corpus, tmp_path, vocoder=vocoder, config=CONFIGS[vocoder], steps=3, adversarial_from=2)
    first = fit(settings)
    second = fit(replace(settings, steps=5))
    assert all(np.isfinite(value) for value in [*first.values(), *second.values()])
    lines = [json.loads(line) for line in (tmp_path / "state" / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [3, 5]
    assert lines[1]["trained_s"] > lines[0]["trained_s"] and "judge" in lines[1]["train"]
    card = json.loads((tmp_path / "out" / "voice.json").read_text())
    made = build_vocoder(card["vocoder"], card["config"])
    made.load_state_dict(load_file(settings.export), strict=True)
    assert made(torch.full((1, 3, 80), -3.0)).isfinite().all()
    begun = VocoderTrainer(replace(settings, state=tmp_path / "next", start=settings.export))
    assert begun.step == 0
    assert all(torch.equal(tensor, made.state_dict()[name]) for name, tensor in begun.average.state_dict().items())


def test_refined_spectra_start_from_a_source_filter(tmp_path: Path) -> None:
    sizes = {name: value for name, value in CONFIGS["sourcevocos"].items() if not name.startswith("refine")}
    plain = build_vocoder("sourcefilter", sizes)
    start = tmp_path / "sourcefilter.safetensors"
    save_file({name: tensor.contiguous() for name, tensor in plain.state_dict().items()}, start)
    asked = VocoderFit(tmp_path, tmp_path / "state", tmp_path / "x.safetensors", "sourcevocos", CONFIGS["sourcevocos"])
    model = VocoderTrainer(replace(asked, start=start)).model
    assert all(torch.equal(model.state_dict()[name], tensor) for name, tensor in plain.state_dict().items())
    assert not model.get_parameter("correct.weight").any(), "the refinement is initialised as the identity"
    with pytest.raises(BadFile, match="does not fit this net"):
        VocoderTrainer(replace(asked, vocoder="vocstream", config=CONFIGS["vocstream"], start=start))


def test_held_out_sounds_are_not_trained_on(corpus: Path, tmp_path: Path) -> None:
    needs(find_spec("pyworld"), "pyworld (pip install pyworld)")
    sounds = VocoderDataset(corpus, tmp_path / "cache", held_out=3)
    assert sounds.refresh(1) == 1 and sounds.refresh(5) == 1 and sounds.refresh(5) == 0
    assert (len(sounds.train), len(sounds.validation)) == (10, 6)
    again = VocoderDataset(corpus, tmp_path / "cache", held_out=3)
    again.refresh(2)
    a, b = (s.batch(np.random.default_rng(4), 3, 20) for s in (sounds, again))
    assert torch.equal(a.mels, b.mels) and torch.equal(a.pcm, b.pcm) and torch.equal(a.f0_hz, b.f0_hz)
    assert collate(sounds.validation[:1]).mels.shape[2] == 80


def test_misheard_sounds_are_not_trained_on(corpus: Path, tmp_path: Path) -> None:
    needs(find_spec("pyworld"), "pyworld (pip install pyworld)")
    (corpus / "rms-000" / LEFT_OUT).write_text("0001.wav\n0004.wav\n")
    assert [len(load_shard(corpus / name, tmp_path / "cache")) for name in ("rms-000", "slt-000")] == [6, 8]


def test_file_of_another_rate_is_refused(tmp_path: Path) -> None:
    write_wav(tmp_path / "x.wav", np.zeros(100, np.int16), 16_000)
    with pytest.raises(BadFile, match="24000 Hz"):
        read_sound(tmp_path / "x.wav")


@pytest.mark.parametrize("what", ["junk", "nothing", "half", "other keys", "other sizes"])
def test_checkpoint_that_cannot_be_resumed_is_named(corpus: Path, tmp_path: Path, what: str) -> None:
    needs(find_spec("pyworld"), "pyworld (pip install pyworld)")
    settings = asked(corpus, tmp_path)
    fit(settings)
    path = settings.state / "checkpoint.pt"
    data = path.read_bytes()
    if what == "other keys":
        torch.save({"model": {}}, path)
    elif what == "other sizes":
        settings = replace(settings, config=CONFIGS["sourcefilter"] | {"width": 48})
    else:
        path.write_bytes({"junk": b"junk", "nothing": b"", "half": data[:5000]}[what])
    with pytest.raises(BadFile, match=r"checkpoint\.pt is damaged, or of another recipe.*--state"):
        fit(settings)


def test_diverging_training_keeps_the_saved_state(corpus: Path, tmp_path: Path) -> None:
    needs(find_spec("pyworld"), "pyworld (pip install pyworld)")
    settings = asked(corpus, tmp_path)
    fit(settings)
    before = settings.export.read_bytes()
    trainer = VocoderTrainer(settings)
    with torch.no_grad():
        next(trainer.model.parameters()).fill_(float("nan"))
    with pytest.raises(BadFile, match=r"diverged: a weight is not finite after 2 steps.*learning_rate"):
        trainer.save()
    assert settings.export.read_bytes() == before


def test_small_or_damaged_corpus_is_named(corpus: Path, tmp_path: Path) -> None:
    needs(find_spec("pyworld"), "pyworld (pip install pyworld)")
    with pytest.raises(BadFile, match="corpus has no sound of over 500 frames to train on"):
        fit(asked(corpus, tmp_path, crop_frames=500))
    (kept, *_) = (tmp_path / "state" / "sounds").glob("*.npz")
    kept.write_bytes(kept.read_bytes()[:1000])
    with pytest.raises(BadFile, match=rf"{kept.name} is damaged.*remove it"):
        fit(asked(corpus, tmp_path))


def test_vocoder_state_belongs_to_one_training(corpus: Path, tmp_path: Path) -> None:
    with lock_state_folder(tmp_path / "state"), pytest.raises(BadFile, match="another training is at work"):
        fit(asked(corpus, tmp_path))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"steps": 0}, "steps cannot be 0; it is a whole number from 1"),
        ({"rows": 0}, "rows cannot be 0"),
        ({"learning_rate": float("nan")}, "learning_rate cannot be nan"),
        ({"warm_up_steps": 0}, "warm_up_steps cannot be 0"),
        ({"seed": -1}, "seed cannot be -1"),
        ({"warm_frames": 24}, "warm_frames are 24 of 24 crop_frames"),
    ],
)
def test_settings_out_of_range_are_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(BadOption, match=message):
        asked(tmp_path, tmp_path, **change)
