"""Batches of interleaved sequences, padded and turned into tensors."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from studio.engine.alphabets import dmel
from studio.engine.families.speakstream.rule import FILLER, Options
from studio.train.families.speakstream.interleave import BOS, EOS, FRAME, SYMBOL, Interleaved, crop, interleave
from studio.train.features import Sentence
from studio.train.loop.spoken import BUCKET, SpokenText, cut, in_batches, join, noisy
from studio.train.recipes.fits import SpeakStreamFit


@dataclass(frozen=True)
class Batch:
    """Tensors of one step; positions are flat indices into [B * T].

    Attributes:
        symbols: int64 [B, T], filler where something else stands.
        speaker: int64 [B].
        bos_at [N], bos_windows [N, 3], frame_at [M], frame_levels uint8 [M, 80] (s_eos among them).
        target_at [P], target_levels uint8 [P, 80], target_phones [P].
        stop_at [Q], stop float32 [Q].
    """

    symbols: Tensor
    speaker: Tensor
    bos_at: Tensor
    bos_windows: Tensor
    frame_at: Tensor
    frame_levels: Tensor
    target_at: Tensor
    target_levels: Tensor
    target_phones: Tensor
    stop_at: Tensor
    stop: Tensor

    @property
    def predicted(self) -> int:
        """How many frames are predicted."""
        return len(self.target_at)

    def to(self, device: torch.device) -> "Batch":
        """The same on another device."""
        return replace(self, **{k: v.to(device) for k, v in vars(self).items()})


def training_batches(text: SpokenText, recipe: SpeakStreamFit, seed: int, number: int) -> Iterator[Batch]:
    """One pass over every sentence in random order and company; the same for the same seed and number."""
    rng = np.random.default_rng([seed, number])

    def make(plans: Sequence[list[Sentence]]) -> list[Interleaved]:
        seeds = rng.integers(0, 2**63, size=BUCKET)
        return [_make([*one], text, recipe, np.random.default_rng(s)) for one, s in zip(plans, seeds, strict=False)]

    for group in in_batches(text, recipe, rng, make):
        yield collate(group, text.speakers, recipe.noise_share, rng)


def validation_batches(text: SpokenText, options: Options, batch_tokens: int, each: int = 24) -> Iterator[Batch]:
    """The first unseen sentences of every speaker, with a fixed window and no noise."""
    rng = np.random.default_rng(0)
    made = [
        interleave(s, text.silence[speaker], options, rng, prompt=10)
        for speaker in text.speakers
        for s in text.validation[speaker][:each]
    ]
    made.sort(key=len)
    for group in cut(made, batch_tokens):
        yield collate(group, text.speakers, 0.0, rng)


def _make(group: list[Sentence], text: SpokenText, recipe: SpeakStreamFit, rng: np.random.Generator) -> Interleaved:
    silence = text.silence[group[0].speaker]
    made = interleave(join(group, silence, rng), silence, recipe.windows, rng)
    once = bool((made.windows[:, 0] == 0).all())  # S1 only: after a drop S2's words would be gone
    if len(group) > 1 and once and rng.random() < recipe.crop_share:
        made = crop(made, made.starts[int(rng.integers(0, max(1, len(made.starts) // 2)))])
    return made


def collate(group: list[Interleaved], speakers: list[str], noise_share: float, rng: np.random.Generator) -> Batch:
    """Pad sequences to the longest and gather what stands where."""
    length = max(len(s) for s in group)
    symbols = np.full((len(group), length), FILLER, np.int64)
    parts: dict[str, list[np.ndarray]] = {k: [] for k in Batch.__dataclass_fields__ if k not in ("symbols", "speaker")}
    for row, s in enumerate(group):
        at = row * length + np.arange(len(s))
        is_symbol = s.kind == SYMBOL
        symbols[row, : len(s)][is_symbol] = s.value[is_symbol]
        is_bos = s.kind == BOS
        parts["bos_at"].append(at[is_bos])
        parts["bos_windows"].append(s.windows[s.value[is_bos]])
        is_frame = (s.kind == FRAME) | (s.kind == EOS)
        levels = noisy(s.levels, noise_share, rng)[np.where(s.kind == FRAME, s.value, 0)[is_frame]]
        levels[s.kind[is_frame] == EOS] = dmel.EOS
        parts["frame_at"].append(at[is_frame])
        parts["frame_levels"].append(levels)
        has_target = s.target >= 0
        parts["target_at"].append(at[has_target])
        parts["target_levels"].append(s.levels[s.target[has_target]])
        parts["target_phones"].append(s.phones[s.target[has_target]].astype(np.int64))
        has_stop = ~np.isnan(s.stop)
        parts["stop_at"].append(at[has_stop])
        parts["stop"].append(s.stop[has_stop])
    speaker = torch.tensor([speakers.index(s.speaker) for s in group])
    tensors = {k: torch.from_numpy(np.concatenate(v)) for k, v in parts.items()}
    return Batch(symbols=torch.from_numpy(symbols), speaker=speaker, **tensors)
