"""Unseen speakers: all their sentences are for validation, and a recording alone identifies them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tinyvoice import BPE_SIZE, write_tiny_bpe

from studio.core.errors import BadFile, BadOption
from studio.engine.tokenizers import dmel
from studio.train.families.registry import training_for
from studio.train.features import Sentence, save_features
from studio.train.fit.dataset import SpeechDataset, find_prompts
from studio.train.fit.loop import run
from studio.train.fit.resources import read_weights
from studio.train.recipes.recipe import Recipe, read_recipe

ASSETS = Path(__file__).parents[2] / "assets"
SPEAKERS = ["ada", "ben", "cy"]
WORDS = [*"the light came in over the low wall and".split(), "rose."]
FRAMES_EACH = 8
OF_CY = range(10, 14)  # levels of cy's sentences


def sentence(speaker: str, number: int) -> Sentence:
    """Its only level encodes speaker and number."""
    frames = FRAMES_EACH * len(WORDS) + 2
    levels = np.full((frames, dmel.CHANNELS), SPEAKERS.index(speaker) * 5 + number, np.uint8)
    ends = [FRAMES_EACH * (i + 1) for i in range(len(WORDS))]
    return Sentence(speaker, WORDS, ends, levels, np.ones(frames, np.uint8))


@pytest.fixture
def features(tmp_path: Path) -> Path:
    """Two shards of two sentences of each speaker."""
    folder = tmp_path / "features"
    folder.mkdir()
    for speaker in SPEAKERS:
        for shard in range(2):
            made = [sentence(speaker, 2 * shard + k) for k in range(2)]
            silence = np.full((8, dmel.CHANNELS), SPEAKERS.index(speaker), np.uint8)
            save_features(speaker, made, silence, folder / f"{speaker}-{shard:03}.safetensors")
    return folder


def recipe_of(name: str, speakers: list[str], unseen: list[str]) -> Recipe:
    """The family's tiny recipe with these speakers, made smaller."""
    of = read_recipe(ASSETS / f"recipes/{name}-tiny.toml")
    assert of.fit is not None
    sizes = {"layers": 1, "width": 32, "heads": 2, "hidden": 64, "text_tokens": BPE_SIZE, "speakers": len(speakers)}
    fit = replace(of.fit, config={**of.fit.config, **sizes}, steps=2, batch_tokens=600, noise_share=0.0)
    return replace(of, fit=fit, corpus=replace(of.corpus, speakers=speakers, names={}, unseen=unseen))


@pytest.fixture
def state(tmp_path: Path) -> Path:
    folder = tmp_path / "state"
    folder.mkdir()
    write_tiny_bpe(folder / "bpe.json")
    return folder


@pytest.mark.parametrize("family", ["ist", "dsm"])
def test_unseen_speakers_are_not_trained_on(family: str, features: Path, state: Path) -> None:
    recipe = recipe_of(family, SPEAKERS, ["cy"])
    text = SpeechDataset.load(features, recipe.corpus)
    assert [len(text.training[one]) for one in SPEAKERS] == [2, 2, 0]
    assert [len(text.validation[one]) for one in SPEAKERS] == [2, 2, 4]
    fitting = training_for(recipe)
    fitting.prepare(text, state)
    batches = [batch for number in range(4) for batch in fitting.batches(text, number)]
    found = {int(v) for one in batches for t in vars(one).values() if _is_levels(t) for v in t.unique()}
    assert {2, 3, 7, 8} <= found and not found & {*OF_CY}, "a sentence of cy is in the training data"


def _is_levels(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype == torch.uint8 and value.shape[-1] == dmel.CHANNELS


def test_reference_recording_is_of_the_speakers_own_sentences(features: Path) -> None:
    text = SpeechDataset.load(features, recipe_of("ist", SPEAKERS, ["cy"]).corpus)
    found = find_prompts(text, 60, 120)
    assert [*found] == SPEAKERS and int(found["cy"].levels[0, 0]) in OF_CY


def test_training_starts_from_a_voice_of_other_speakers(features: Path, state: Path, tmp_path: Path) -> None:
    """Speaker embeddings are new; all else is taken over."""
    first = recipe_of("ist", SPEAKERS[:2], [])
    start = run(training_for(first), features, state, torch.device("cpu"), 1)
    more = tmp_path / "more"
    more.mkdir()
    write_tiny_bpe(more / "bpe.json")
    recipe = recipe_of("ist", SPEAKERS, ["cy"])
    stays = replace(recipe, fit=replace(recipe.fit, peak_rate=0.0))
    old, new = (
        read_weights(one) for one in (start, run(training_for(stays), features, more, torch.device("cpu"), 1, start))
    )
    assert old["prompt"].shape[0] == 2 and new["prompt"].shape[0] == 3
    assert int(new["prompt"][2, 0, 0]) in OF_CY
    assert all(torch.equal(new[name], old[name]) for name in old if not name.startswith("prompt"))


def test_unseen_speaker_needs_a_recording() -> None:
    for name in ("ist", "dsm"):
        assert recipe_of(name, SPEAKERS, ["ben", "cy"]).corpus.unseen == ["ben", "cy"]
    for unseen in (["dee"], SPEAKERS):
        with pytest.raises(BadOption, match="names some of \\[corpus\\] speakers, and not all of them"):
            recipe_of("ist", SPEAKERS, unseen)
    for name in ("speakstream", "tacotron", "richtts", "s5"):
        of = read_recipe(ASSETS / f"recipes/{name}-tiny.toml")
        with pytest.raises(BadOption, match="learns who its speakers are"):
            replace(of, corpus=replace(of.corpus, unseen=of.corpus.speakers[:1]))


def test_speaker_without_features_is_reported(features: Path) -> None:
    corpus = recipe_of("ist", [*SPEAKERS, "dee"], ["dee"]).corpus
    with pytest.raises(BadFile, match="has no features of dee"):
        SpeechDataset.load(features, corpus)
