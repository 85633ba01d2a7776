"""Data of vocoder training: crops of PCM, mel frames and pitch from shards of WAV files, analysed once and cached."""

import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from studio.core.clips import to_float
from studio.core.errors import BadFile, bad_file
from studio.engine.tokenizers import dmel
from studio.measure.prosody import pitch_hz
from studio.train.corpus.shards import left_out, read_sound

_HOPS_PER_FRAME = 4
_FULL_SCALE = 32768.0


@dataclass(frozen=True)
class VocoderSample:
    """A sentence, cut to whole frames.

    Attributes:
        pcm: [F * frame_samples] int16, from the start of frame 0's span (so it begins with ``phase`` zeros).
        mels: [F, channels] float16, log10.
        f0_hz: [F * 4] float32, 0 where unvoiced.
    """

    pcm: NDArray[np.int16]
    mels: NDArray[np.float16]
    f0_hz: NDArray[np.float32]


@dataclass(frozen=True)
class VocoderBatch:
    """Crops of one length: `mels [B, F, channels]`, `pcm [B, F * frame_samples]`, `f0_hz [B, 4 F]`."""

    mels: Tensor
    pcm: Tensor
    f0_hz: Tensor


def analyse(pcm: NDArray[np.int16]) -> VocoderSample:
    """Frames and pitch of a sound [T]."""
    base = dmel.TIME_BASE
    sound = to_float(pcm)
    mels = dmel.log_mel(torch.from_numpy(sound)).to(torch.float16).numpy()
    f0_hz = hop_pitch(
        sound,
        len(mels) * _HOPS_PER_FRAME,
        sample_rate_hz=base.rate_hz,
        hop_samples=base.frame_samples // _HOPS_PER_FRAME,
        phase=base.phase,
    )
    spans = np.pad(pcm, (base.phase, 0))[: len(mels) * base.frame_samples]
    return VocoderSample(spans, mels, f0_hz)


def hop_pitch(
    pcm: NDArray[np.float32], hops: int, *, sample_rate_hz: int, hop_samples: int, phase: int
) -> NDArray[np.float32]:
    """Pitch at the end of every control hop, in Hz; 0 where unvoiced. Raises NeedsPackage.

    Hop j owns samples [j * hop - phase, (j + 1) * hop - phase), so it ends at sample (j + 1) * hop - phase.

    Args:
        pcm: [T] sound in [-1, 1].
        hops: their number.
    """
    period_ms = 1000 * hop_samples / sample_rate_hz
    fine = pitch_hz(pcm, sample_rate_hz, period_ms, 55.0, 420.0)
    at = np.arange(1, hops + 1) - round(phase / hop_samples)
    inside = (at >= 0) & (at < len(fine))
    return np.where(inside, fine[at.clip(0, len(fine) - 1)], 0.0).astype(np.float32)


def load_shard(shard: Path, cache: Path) -> list[VocoderSample]:
    """Analyse a shard's WAV files in the order of their names, without those that `studio train hear` left out.

    The result is cached under ``cache``.

    Raises:
        BadFile: a sound or the cache cannot be read.
    """
    path = cache / f"{shard.name}.npz"
    if not path.exists():
        without = left_out(shard)
        sounds = [analyse(read_sound(wav)) for wav in sorted(shard.rglob("*.wav")) if wav.name not in without]
        if not sounds:
            raise BadFile(f"there are no WAV files in {shard}", "make them with `studio train corpus`")
        cache.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part.npz")
        np.savez(
            part,
            frames=np.array([len(sound.mels) for sound in sounds]),
            pcm=np.concatenate([sound.pcm for sound in sounds]),
            mels=np.concatenate([sound.mels for sound in sounds]),
            f0_hz=np.concatenate([sound.f0_hz for sound in sounds]),
        )
        part.rename(path)
    with bad_file(
        f"{path} is damaged",
        "remove it: it will be made again",
        ValueError,
        LookupError,
        EOFError,
        RuntimeError,
        zipfile.BadZipFile,
        zlib.error,
    ):
        return _load(path)


def _load(path: Path) -> list[VocoderSample]:
    with np.load(path) as data:
        ends = np.cumsum(data["frames"])[:-1]
        parts = (
            np.split(data["pcm"], ends * dmel.TIME_BASE.frame_samples),
            np.split(data["mels"], ends),
            np.split(data["f0_hz"], ends * _HOPS_PER_FRAME),
        )
        return [VocoderSample(*each) for each in zip(*parts, strict=True)]


class VocoderDataset:
    """All sentences of a folder of shards; more may appear during training.

    The last ``held_out`` sentences of every shard are for validation.
    """

    def __init__(self, folder: Path, cache: Path, held_out: int = 5) -> None:
        self.folder, self.cache, self.held_out = folder, cache, held_out
        self.train: list[VocoderSample] = []
        self.validation: list[VocoderSample] = []
        self.shards: list[str] = []

    def refresh(self, limit: int) -> int:
        """Load up to ``limit`` new complete shards, alternating speakers; returns how many."""
        folders = [
            path.parent for path in self.folder.glob("[!.]*/labels.jsonl") if path.parent.name not in self.shards
        ]
        new = sorted(folders, key=lambda shard: (shard.name.rpartition("-")[2], shard.name))[:limit]
        for shard in new:
            sounds = load_shard(shard, self.cache)
            self.train += sounds[: -self.held_out]
            self.validation += sounds[-self.held_out :]
            self.shards.append(shard.name)
        return len(new)

    def batch(self, rng: np.random.Generator, rows: int, frames: int) -> VocoderBatch:
        """Random crops of ``frames`` frames; every frame is equally likely. Raises BadFile."""
        weights = np.array([max(0, len(sound.mels) - frames) for sound in self.train], dtype=np.float64)
        if not weights.any():
            raise BadFile(
                f"{self.folder} has no sound of over {frames} frames to train on",
                f"give more shards: the last {self.held_out} sounds of each are for validation",
            )
        chosen = rng.choice(len(self.train), size=rows, p=weights / weights.sum())
        starts = [int(rng.integers(0, len(self.train[i].mels) - frames + 1)) for i in chosen]
        return collate([crop(self.train[i], start, frames) for i, start in zip(chosen, starts, strict=True)])


def crop(sound: VocoderSample, start: int, frames: int) -> VocoderSample:
    """Cut some frames of a sentence, with their samples and hops."""
    size, end = dmel.TIME_BASE.frame_samples, start + frames
    hops = slice(start * _HOPS_PER_FRAME, end * _HOPS_PER_FRAME)
    return VocoderSample(sound.pcm[start * size : end * size], sound.mels[start:end], sound.f0_hz[hops])


def collate(sounds: Sequence[VocoderSample]) -> VocoderBatch:
    """Stack samples of the same length."""
    return VocoderBatch(
        torch.from_numpy(np.stack([sound.mels for sound in sounds]).astype(np.float32)),
        torch.from_numpy(np.stack([sound.pcm for sound in sounds]).astype(np.float32) / _FULL_SCALE),
        torch.from_numpy(np.stack([sound.f0_hz for sound in sounds])),
    )


def degrade(mels: Tensor, rng: np.random.Generator) -> Tensor:
    """Make mels look like a net's output: a fifth of the rows stays continuous, the others are quantised, half of
    these with 15% of the bins one level off (as from sampling); all get a little noise.

    Args:
        mels: [B, F, channels] log10 mel values.
    """
    rows = len(mels)
    shape = mels.shape
    kind = torch.from_numpy(rng.random((rows, 1, 1)).astype(np.float32))
    draw = torch.from_numpy(rng.random(shape, dtype=np.float32))
    off = (draw < 0.075).float() - (draw > 0.925).float()
    levels = dmel.quantise(mels).float() + off * (kind < 0.4)
    degraded = torch.where(kind > 0.8, mels, dmel.dequantise(levels.clamp(0, dmel.LEVELS - 1)))
    noise = torch.from_numpy(rng.standard_normal(shape, dtype=np.float32))
    return degraded + noise * torch.from_numpy(rng.uniform(0, 0.08, (rows, 1, 1)).astype(np.float32))
