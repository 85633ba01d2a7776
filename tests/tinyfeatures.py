"""Tiny features of made-up sentences, and a tiny vocoder beside them: what a family's training starts from."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from tinyvoice import VOCODERS

from studio.engine.vocoders.registry import build_vocoder
from studio.train.features import Sentence
from studio.train.recipes.fits import T5Fit
from studio.train.recipes.recipe import CorpusRecipe, Recipe

TINY_ENDS = [8, 22, 34, 44]  # of the words of a tiny sentence, in frames


TINY_T5 = {"encoder_layers": 1, "decoder_layers": 2, "width": 32, "heads": 2, "hidden": 64, "speakers": 2}


def tiny_t5_recipe(**changes: Any) -> Recipe:
    """Four steps of a tiny T5-TTS of the speakers one and two; ``changes`` are of its fit."""
    fit = T5Fit(
        config=TINY_T5,
        steps=4,
        peak_rate=0.003,
        warmup_share=0.1,
        decay_share=0.3,
        batch_tokens=400,
        max_frames=200,
        join_share=0.5,
        noise_share=0.3,
        own_share=0.3,
        cross_weight=0.1,
        stop_weight=0.3,
    )
    return Recipe("small", "A small one", 5, 0.5, CorpusRecipe(["one", "two"], 3, 1), replace(fit, **changes))


def tiny_sentence(words: Sequence[str], frames: int, speaker: str = "one", seed: int = 0) -> Sentence:
    """Four words, each with a level of its own; three frames of pause follow the second, and all after the last."""
    phones = np.ones(frames, np.uint8)
    phones[22:25] = phones[44:] = 0
    own = np.searchsorted(TINY_ENDS, np.arange(frames), side="right").astype(np.uint8)[:, None] * 3
    levels = np.repeat(own, 80, 1) + np.random.default_rng(seed).integers(0, 2, (frames, 80), np.uint8)
    return Sentence(speaker, [*words], [*TINY_ENDS], levels, phones)


def write_tiny_features(folder: Path, sentence: Callable[[str, int], Sentence]) -> Path:
    """Two shards of three sentences for each of two speakers; ``sentence`` makes one of a speaker and a number."""
    for speaker in ("one", "two"):
        for shard in range(2):
            made = [sentence(speaker, 10 * shard + i) for i in range(3)]
            tensors = {
                "levels": torch.from_numpy(np.concatenate([s.levels for s in made])),
                "phones": torch.from_numpy(np.concatenate([s.phones for s in made])),
                "frames": torch.tensor([len(s.levels) for s in made], dtype=torch.int32),
                "word_ends": torch.tensor([end for s in made for end in s.word_ends], dtype=torch.int32),
                "silence": torch.full((10, 80), 2, dtype=torch.uint8),
            }
            meta = {"words": json.dumps([s.words for s in made]), "speaker": speaker}
            save_file(tensors, folder / f"{speaker}-{shard:03d}.safetensors", meta)
    return folder


def write_tiny_vocoder(folder: Path) -> Path:
    """A vocoder of random weights, as ``studio train vocoder`` leaves one."""
    folder.mkdir()
    vocoder = build_vocoder("sourcefilter", VOCODERS["sourcefilter"])
    save_file(vocoder.state_dict(), folder / "sourcefilter.safetensors")
    (folder / "sourcefilter.json").write_text(json.dumps({"config": vocoder.plain_config()}))
    return folder


def tensors_changed(path: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    """Write a file of tensors anew after something was done to them."""
    with safe_open(path, "pt") as file:
        meta = file.metadata()
    tensors = load_file(path)
    change(tensors)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path, meta)


def times(tensors: dict[str, torch.Tensor], factor: float) -> None:
    """Multiply all that are no whole numbers."""
    tensors.update({name: one * factor for name, one in tensors.items() if one.is_floating_point()})
