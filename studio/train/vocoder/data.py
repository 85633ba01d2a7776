"""Sounds, frames and pitch for vocoder training: shards of WAV files, analysed once and kept."""

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
from studio.core.errors import BadFile
from studio.engine.alphabets import dmel
from studio.train.corpus.shards import left_out, read_sound
from studio.train.vocoder.pitch import hop_pitch

_HOPS_PER_FRAME = 4
_FULL_SCALE = 32768.0


@dataclass(frozen=True)
class Sound:
    """One sentence, cut to whole frames.

    Attributes:
        pcm: [F * frame_samples] int16, starting where frame 0's span starts (so with ``phase`` zeros).
        mels: [F, channels] float16, log10.
        f0_hz: [F * 4] float32, 0 where there is no voice.
    """

    pcm: NDArray[np.int16]
    mels: NDArray[np.float16]
    f0_hz: NDArray[np.float32]


@dataclass(frozen=True)
class Batch:
    """Crops of one length: `mels [B, F, channels]`, `pcm [B, F * frame_samples]`, `f0_hz [B, 4 F]`."""

    mels: Tensor
    pcm: Tensor
    f0_hz: Tensor


def analyse(pcm: NDArray[np.int16]) -> Sound:
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
    return Sound(spans, mels, f0_hz)


def load_shard(shard: Path, cache: Path) -> list[Sound]:
    """The sounds of a shard's WAV files in the order of their names, analysed once and kept under ``cache``.

    Those that `studio train hear` left out before are not among them.

    Raises:
        BadFile: a sound, or what was kept of them, cannot be read.
    """
    kept = cache / f"{shard.name}.npz"
    if not kept.exists():
        without = left_out(shard)
        sounds = [analyse(read_sound(path)) for path in sorted(shard.rglob("*.wav")) if path.name not in without]
        if not sounds:
            raise BadFile(f"there are no WAV files in {shard}", "make them with `studio train corpus`")
        cache.mkdir(parents=True, exist_ok=True)
        part = kept.with_suffix(".part.npz")
        np.savez(
            part,
            frames=np.array([len(sound.mels) for sound in sounds]),
            pcm=np.concatenate([sound.pcm for sound in sounds]),
            mels=np.concatenate([sound.mels for sound in sounds]),
            f0_hz=np.concatenate([sound.f0_hz for sound in sounds]),
        )
        part.rename(kept)
    try:
        return _kept(kept)
    except (OSError, ValueError, LookupError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise BadFile(f"{kept} is damaged: {error!s:.200}", "remove it: it is made again") from error


def _kept(path: Path) -> list[Sound]:
    with np.load(path) as data:
        ends = np.cumsum(data["frames"])[:-1]
        parts = (
            np.split(data["pcm"], ends * dmel.TIME_BASE.frame_samples),
            np.split(data["mels"], ends),
            np.split(data["f0_hz"], ends * _HOPS_PER_FRAME),
        )
        return [Sound(*each) for each in zip(*parts, strict=True)]


class Sounds:
    """All sounds of a folder of shards; more may appear while training runs.

    The last ``held_out`` sentences of every shard are never trained on.
    """

    def __init__(self, folder: Path, cache: Path, held_out: int = 5) -> None:
        self.folder, self.cache, self.held_out = folder, cache, held_out
        self.train: list[Sound] = []
        self.unseen: list[Sound] = []
        self.shards: list[str] = []

    def refresh(self, most: int) -> int:
        """Load up to ``most`` complete shards that are new, in turn of speakers; returns how many."""
        found = [path.parent for path in self.folder.glob("[!.]*/labels.jsonl") if path.parent.name not in self.shards]
        new = sorted(found, key=lambda shard: (shard.name.rpartition("-")[2], shard.name))[:most]
        for shard in new:
            sounds = load_shard(shard, self.cache)
            self.train += sounds[: -self.held_out]
            self.unseen += sounds[-self.held_out :]
            self.shards.append(shard.name)
        return len(new)

    def batch(self, rng: np.random.Generator, rows: int, frames: int) -> Batch:
        """Random crops of ``frames`` frames; long sentences are drawn more often, each frame being as likely.

        Raises:
            BadFile: no sentence is longer than that.
        """
        weights = np.array([max(0, len(sound.mels) - frames) for sound in self.train], dtype=np.float64)
        if not weights.any():
            raise BadFile(
                f"{self.folder} has no sound of over {frames} frames to learn from",
                f"give more shards: the last {self.held_out} sounds of each are never learned from",
            )
        chosen = rng.choice(len(self.train), size=rows, p=weights / weights.sum())
        starts = [int(rng.integers(0, len(self.train[i].mels) - frames + 1)) for i in chosen]
        return collate([crop(self.train[i], start, frames) for i, start in zip(chosen, starts, strict=True)])


def crop(sound: Sound, start: int, frames: int) -> Sound:
    """Some frames of a sound, with their samples and hops."""
    size, end = dmel.TIME_BASE.frame_samples, start + frames
    hops = slice(start * _HOPS_PER_FRAME, end * _HOPS_PER_FRAME)
    return Sound(sound.pcm[start * size : end * size], sound.mels[start:end], sound.f0_hz[hops])


def collate(sounds: Sequence[Sound]) -> Batch:
    """Sounds of one length as tensors."""
    return Batch(
        torch.from_numpy(np.stack([sound.mels for sound in sounds]).astype(np.float32)),
        torch.from_numpy(np.stack([sound.pcm for sound in sounds]).astype(np.float32) / _FULL_SCALE),
        torch.from_numpy(np.stack([sound.f0_hz for sound in sounds])),
    )


def roughen(mels: Tensor, rng: np.random.Generator) -> Tensor:
    """What a vocoder will really be given: a fifth of the rows as they are, the rest as levels, half of those
    with 15% of the bins one level off (as sampling does); all with a little noise.

    Args:
        mels: [B, F, channels] log10 mel values.
    """
    rows = len(mels)
    shape = mels.shape
    kind = torch.from_numpy(rng.random((rows, 1, 1)).astype(np.float32))
    draw = torch.from_numpy(rng.random(shape, dtype=np.float32))
    off = (draw < 0.075).float() - (draw > 0.925).float()
    levels = dmel.quantise(mels).float() + off * (kind < 0.4)
    heard = torch.where(kind > 0.8, mels, dmel.dequantise(levels.clamp(0, dmel.LEVELS - 1)))
    noise = torch.from_numpy(rng.standard_normal(shape, dtype=np.float32))
    return heard + noise * torch.from_numpy(rng.uniform(0, 0.08, (rows, 1, 1)).astype(np.float32))
