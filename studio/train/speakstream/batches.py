"""Batches of interleaved sequences, padded and turned into tensors."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from studio.core.errors import BadFile
from studio.engine import dmel
from studio.engine.families.speakstream.rule import FILLER, Options
from studio.train.features import Sentence, read_features, typical_silence
from studio.train.recipe import FitRecipe
from studio.train.speakstream.interleave import BOS, EOS, FRAME, SYMBOL, Interleaved, crop, interleave, join

_BUCKET = 384  # sequences sorted by length together


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

    def to(self, device: torch.device) -> "Batch":
        """The same on another device."""
        return Batch(**{k: v.to(device) for k, v in vars(self).items()})


class SpokenText:
    """All sentences of a features folder, by speaker."""

    def __init__(self, folder: Path, speakers: list[str], validation_shards: int) -> None:
        self.speakers = speakers
        self.training: dict[str, list[Sentence]] = {s: [] for s in speakers}
        self.validation: dict[str, list[Sentence]] = {s: [] for s in speakers}
        self.silence: dict[str, np.ndarray] = {}
        self.shards = 0
        for speaker in speakers:
            paths = sorted(folder.glob(f"{speaker}-*.safetensors"))
            self.shards += len(paths)
            silences = []
            for i, path in enumerate(paths):
                sentences, silence = read_features(path)
                silences.append(silence)
                side = self.validation if i < validation_shards else self.training
                side[speaker] += sentences
            if not silences:
                raise BadFile(f"{folder} has no features of {speaker}", "make them first with `studio train features`")
            self.silence[speaker] = typical_silence(silences)

    @property
    def hours(self) -> float:
        """Speech to learn from."""
        frames = sum(len(s.levels) for side in self.training.values() for s in side)
        return frames * dmel.TIME_BASE.frame_ms / 3.6e6


def training_batches(text: SpokenText, recipe: FitRecipe, seed: int, number: int) -> Iterator[Batch]:
    """One pass over every sentence in random order and company; the same for the same seed and number."""
    rng = np.random.default_rng([seed, number])
    plans: list[list[Sentence]] = []
    for speaker in text.speakers:
        sentences = [text.training[speaker][i] for i in rng.permutation(len(text.training[speaker]))]
        while sentences:
            group = [sentences.pop()]
            if rng.random() < recipe.join_share:
                wanted = rng.uniform(0.3, 1.0) * recipe.max_frames
                while sentences and sum(len(s.levels) + 12 for s in [*group, sentences[-1]]) <= wanted:
                    group.append(sentences.pop())
            plans.append(group)
    order = rng.permutation(len(plans))
    for start in range(0, len(order), _BUCKET):
        seeds = rng.integers(0, 2**63, size=_BUCKET)
        made = [
            _make([*plans[i]], text, recipe, np.random.default_rng(s))
            for i, s in zip(order[start : start + _BUCKET], seeds, strict=False)
        ]
        made.sort(key=len)
        groups = list(_cut(made, recipe.batch_tokens))
        for i in rng.permutation(len(groups)):
            yield collate(groups[i], text.speakers, recipe.noise_share, rng)


def validation_batches(text: SpokenText, options: Options, batch_tokens: int, each: int = 24) -> Iterator[Batch]:
    """The first unseen sentences of every speaker, with a fixed window and no noise."""
    rng = np.random.default_rng(0)
    made = [
        interleave(s, text.silence[speaker], options, rng, prompt=10)
        for speaker in text.speakers
        for s in text.validation[speaker][:each]
    ]
    made.sort(key=len)
    for group in _cut(made, batch_tokens):
        yield collate(group, text.speakers, 0.0, rng)


def _make(group: list[Sentence], text: SpokenText, recipe: FitRecipe, rng: np.random.Generator) -> Interleaved:
    silence = text.silence[group[0].speaker]
    made = interleave(join(group, silence, rng), silence, recipe.windows, rng)
    once = bool((made.windows[:, 0] == 0).all())  # S1 only: after a drop S2's words would be gone
    if len(group) > 1 and once and rng.random() < recipe.crop_share:
        made = crop(made, made.starts[int(rng.integers(0, max(1, len(made.starts) // 2)))])
    return made


def _cut(made: list[Interleaved], batch_tokens: int) -> Iterator[list[Interleaved]]:
    group: list[Interleaved] = []
    for sequence in made:
        if group and (len(group) + 1) * max(len(sequence), len(group[-1])) > batch_tokens:
            yield group
            group = []
        group.append(sequence)
    if group:
        yield group


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
        levels = _noisy(s.levels, noise_share, rng)[np.where(s.kind == FRAME, s.value, 0)[is_frame]]
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


def _noisy(levels: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    """Move the bins of some frames by at most one level, so that the voice learns to walk on its own mistakes."""
    if share == 0.0:
        return levels.copy()
    moved = rng.integers(-1, 2, size=levels.shape, dtype=np.int8)
    moved[rng.random(len(levels)) >= share] = 0
    return np.clip(levels.astype(np.int8) + moved, 0, dmel.LEVELS - 1).astype(np.uint8)
