"""Tiny features of synthetic sentences and a tiny vocoder: the inputs of a family's training."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from tinyvoice import BPE_SIZE, VOCODERS, write_tiny_bpe

from studio.engine.vocoders.module import build_vocoder
from studio.train.families.registry import training_for
from studio.train.features import Sentence, save_features
from studio.train.fit.dataset import SpeechDataset
from studio.train.fit.training import WorkingCopy, build_optimisers, train_step
from studio.train.recipes.fits import FITS, WindowDraw
from studio.train.recipes.recipe import CorpusRecipe, Recipe

TINY_ENDS = [8, 22, 34, 44]  # frames of the words of a tiny sentence


TINY_WORDS, TINY_FRAMES = ["the", "apple,", "then", "tea."], 52
TINY_SILENCE = np.full((10, 80), 2, np.uint8)
_DECODER = {"layers": 1, "width": 32, "heads": 2, "hidden": 64, "speakers": 2}
_ATTENDING = {"encoder_layers": 1, "decoder_layers": 2, "width": 32, "heads": 2, "hidden": 64, "speakers": 2}
TINY_CONFIGS: dict[str, dict[str, Any]] = {
    "speakstream": _DECODER,
    "richtts": _DECODER,
    "ngram-richtts": _DECODER,
    "t5": _ATTENDING,
    "s5": {**_ATTENDING, "alignment_scale": 0.01},
    "ist": {**_DECODER, "text_tokens": BPE_SIZE},
    "dsm": {
        **_DECODER,
        "depth_layers": 1,
        "depth_width": 16,
        "depth_heads": 2,
        "depth_hidden": 32,
        "encoder_width": 8,
        "text_tokens": BPE_SIZE,
        "delay_s": 0.25,
        "extract_frames": 60,
    },
    "tacotron": {
        "width": 32,
        "decoder_width": 48,
        "prenet_width": 24,
        "attention_width": 24,
        "head_width": 32,
        "speakers": 2,
        "location_filters": 4,
        "encoder_dropout": 0.0,
        "prenet_dropout": 0.2,
    },
}
_HEADS = {"phone_weight": 0.4, "eos_weight": 1.0}
_SPECIFIC: dict[str, dict[str, Any]] = {
    "speakstream": {**_HEADS, "windows": WindowDraw([1, 2, 3], [0.5, 0.3, 0.2], [0, 1], [0.5, 0.5], 0.3, 0.3, 0.3)},
    "richtts": {**_HEADS, "peak_rate": 0.004, "batch_tokens": 600},
    "ngram-richtts": {**_HEADS, "peak_rate": 0.004, "batch_tokens": 600},
    "t5": {"cross_weight": 0.1, "stop_weight": 0.3},
    "s5": {"cross_weight": 0.1, "stop_weight": 0.3, "aux_weight": 0.1, "look_ahead": [1, 2], "crop_share": 0.5},
    "ist": {**_HEADS, "prompt_frames": [20, 60], "next_share": 0.5, "flush_share": 0.2},
    "dsm": {
        "batch_tokens": 300,
        "max_frames": 160,
        "crop_share": 0.5,
        "phone_weight": 0.4,
        "action_weight": 1.0,
        "text_dropout": 0.2,
        "speaker_dropout": 0.2,
        "turn_share": 0.3,
        "flush_share": 0.2,
        "extract_frames": (20, 60),
    },
    "tacotron": {
        "peak_rate": 0.004,
        "batch_tokens": 300,
        "clause_words": [2, 0],
        "stop_weight": 0.3,
        "last_weight": 4.0,
        "guide_weight": 2.0,
        "guide_symbols": 2.0,
    },
}


def tiny_recipe(family: str, **changes: Any) -> Recipe:
    """Four steps of a tiny net of speakers one and two; ``changes`` apply to its fit."""
    settings = {"steps": 4, "peak_rate": 0.003, "warmup_share": 0.1, "decay_share": 0.3, "batch_tokens": 400}
    settings |= {"max_frames": 200, "join_share": 0.5, "noise_share": 0.3, "own_share": 0.3}
    fit = FITS[family](**{"config": TINY_CONFIGS[family], **settings, **_SPECIFIC[family], **changes})
    return Recipe("small", "A small one", 5, 0.5, CorpusRecipe(["one", "two"], 3, 1), fit)


def tiny_training(family: str, features: Path, state: Path, **changes: Any) -> tuple[Any, SpeechDataset]:
    """A training that is ready to make batches, and its data."""
    state.mkdir(exist_ok=True)
    write_tiny_bpe(state / "bpe.json")
    training, data = training_for(tiny_recipe(family, **changes)), SpeechDataset(features, ["one", "two"], 1)
    training.prepare(data, state)
    return training, data


def tiny_references(family: str) -> dict[str, Any]:
    """Recipe changes for T5-TTS or S5-TTS whose voice continues a reference."""
    return {"reference_frames": (20, 60), "config": {**TINY_CONFIGS[family], "reference_frames": 60}}


def steps_on(recipe: Recipe, batch: Any, steps: int, own_share: float = 0.0) -> tuple[list[dict[str, float]], int]:
    """The losses of so many steps on one batch, and the number of matrices that Muon optimises."""
    training = training_for(recipe)
    working_copy, optimisers = WorkingCopy(training.module), build_optimisers(training.module, recipe.voice_fit())
    found = [train_step(working_copy, optimisers, batch, training, 1.0, own_share) for _ in range(steps)]
    return found, len(optimisers[0].param_groups[0]["params"])


def tiny_sentence(
    speaker: str = "one", seed: int = 0, words: Sequence[str] = TINY_WORDS, frames: int = TINY_FRAMES
) -> Sentence:
    """Four words, each with a level of its own; three pause frames follow the second, and all after the last."""
    phones = np.ones(frames, np.uint8)
    phones[22:25] = phones[44:] = 0
    own = np.searchsorted(TINY_ENDS, np.arange(frames), side="right").astype(np.uint8)[:, None] * 3
    levels = np.repeat(own, 80, 1) + np.random.default_rng(seed).integers(0, 2, (frames, 80), np.uint8)
    return Sentence(speaker, [*words], [*TINY_ENDS], levels, phones)


def write_tiny_features(folder: Path, sentence: Callable[[str, int], Sentence] = tiny_sentence) -> Path:
    """Two shards of three sentences for each of two speakers; ``sentence`` makes one from a speaker and a number."""
    folder.mkdir(exist_ok=True)
    for speaker in ("one", "two"):
        for shard in range(2):
            made = [sentence(speaker, 10 * shard + i) for i in range(3)]
            save_features(speaker, made, TINY_SILENCE, folder / f"{speaker}-{shard:03d}.safetensors")
    return folder


def write_tiny_vocoder(folder: Path) -> Path:
    """A vocoder of random weights, as ``studio train vocoder`` writes it."""
    folder.mkdir()
    vocoder = build_vocoder("sourcefilter", VOCODERS["sourcefilter"])
    save_file(vocoder.state_dict(), folder / "sourcefilter.safetensors")
    (folder / "sourcefilter.json").write_text(json.dumps({"config": vocoder.plain_config()}))
    return folder


def tensors_changed(path: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    """Rewrite a file of tensors after a change."""
    with safe_open(path, "pt") as file:
        meta = file.metadata()
    tensors = load_file(path)
    change(tensors)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path, meta)


def times(tensors: dict[str, torch.Tensor], factor: float) -> None:
    """Multiply all floating-point tensors."""
    tensors.update({name: one * factor for name, one in tensors.items() if one.is_floating_point()})
