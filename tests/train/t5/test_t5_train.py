"""T5-TTS's training: whole texts in, losses, restarts, a packed voice that speaks when its sentence is there."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tinyfeatures import TINY_T5, tiny_sentence, tiny_t5_recipe, write_tiny_features, write_tiny_vocoder

from studio.core import events as ev
from studio.core.errors import BadOption
from studio.core.ports import SpeakRequest
from studio.engine.engine import open_engine
from studio.engine.families.common.phoneme_ids import END, spell
from studio.engine.families.t5.model import T5Config
from studio.engine.tokenizers import dmel
from studio.text.normalise import best
from studio.text.phonemes import pronounce
from studio.train.families.registry import training_for
from studio.train.families.s5_batches import WHOLE, S5Batch, collate, sequence
from studio.train.features import Sentence
from studio.train.fit.loop import run
from studio.train.fit.optimisers import build_optimisers
from studio.train.fit.training import WorkingCopy, train_step
from studio.train.pack import pack_voice
from studio.train.recipes.fits import S5Fit, T5Fit
from studio.train.recipes.recipe import read_recipe

ROOT = Path(__file__).parents[3]
WORDS = ["then", "the", "apple,", "tea."]
FRAMES = 52
SILENCE = np.full((10, dmel.CHANNELS), 2, np.uint8)
SIZES = TINY_T5


def sentence(speaker: str = "one", seed: int = 0) -> Sentence:
    return tiny_sentence(WORDS, FRAMES, speaker, seed)


def a_batch(*sequences) -> S5Batch:
    return collate(sequences, ["one", "two"], 0.0, np.random.default_rng(0), places=False)


def test_a_sequence_has_the_phonemes_of_the_whole_text():
    made = sequence(sentence(), SILENCE, WHOLE)
    whole = [spell(said) for said in pronounce(WORDS)]
    assert made.symbols.tolist() == [*[i for word in whole for i in word], END] and made.k == WHOLE
    assert "ði" in pronounce(WORDS), "the word after it is a vowel's, and is known"


def test_every_frame_sees_the_whole_text():
    torch.manual_seed(1)
    fitter = training_for(tiny_t5_recipe()).module
    with torch.no_grad():
        for parameter in fitter.net.encoder.parameters():
            parameter.normal_(std=0.2)  # a layer begins as the identity
    batch = a_batch(sequence(sentence(), SILENCE, WHOLE))
    _, shares = fitter.run(batch, fitter.words_of(batch))
    assert (shares[0] > 0).all(), "each step attends to all"
    other = replace(batch, symbols=batch.symbols.clone())
    other.symbols[0, -2] += 1  # of the last word
    _, changed = fitter.run(other, fitter.words_of(other))
    assert not torch.equal(changed[0, 0, :3], shares[0, 0, :3]), "and the encoder too"


def test_losses_fall():
    recipe = tiny_t5_recipe()
    fitting = training_for(recipe)
    batch = a_batch(*(sequence(sentence(seed=i), SILENCE, WHOLE) for i in range(3)))
    copied, optims = WorkingCopy(fitting.module), build_optimisers(fitting.module, recipe.fit)
    found = [train_step(copied, optims, batch, fitting, 1.0, 0.0) for _ in range(20)]
    first, last = found[0], found[-1]
    assert set(first) == {"frame", "stop", "cross", "attended"}
    assert last["frame"] < 0.8 * first["frame"] and last["cross"] < first["cross"]


@pytest.mark.parametrize("reference", [False, True])
def test_from_features_to_a_voice_that_speaks(tmp_path, reference):
    changes = {"reference_frames": (20, 60), "config": {**SIZES, "reference_frames": 60}} if reference else {}
    recipe, state = tiny_t5_recipe(**changes), tmp_path / "state"
    (tmp_path / "features").mkdir()
    features = write_tiny_features(tmp_path / "features", sentence)
    weights = run(training_for(recipe), features, state, torch.device("cpu"), threads=1)
    assert weights.name == "t5.safetensors"
    lines = [json.loads(line) for line in (state / "metrics.jsonl").read_text().splitlines()]
    (checked,) = [line["validation"] for line in lines if "validation" in line]
    assert set(checked) == {"whole"}
    before = weights.read_bytes()
    assert run(training_for(recipe), features, state, torch.device("cpu"), threads=1).read_bytes() == before
    vocoders = write_tiny_vocoder(tmp_path / "vocoders")
    folder = pack_voice(recipe, state, vocoders, tmp_path / "voices")
    assert not [name for name in load_file(folder / "t5.safetensors") if name.startswith(("aligner", "look_ahead"))]
    engine = open_engine(tmp_path / "voices", best(), device="cpu", threads=1)
    (card,) = engine.cards()
    assert card.family == "t5" and [o.name for o in card.options] == ["sentence_words", "chunk_frames"]
    utterance = engine.open(SpeakRequest(options={"chunk_frames": 3}))
    utterance.push_text("the apple. then tea. ")
    events, stream = [], utterance.events()
    while not [one for one in events if isinstance(one, ev.Eos)]:
        events.append(next(stream))
    (segment,) = [one for one in events if isinstance(one, ev.Segment)]
    assert segment.words == [0, 1], "a sentence is spoken once its mark is there, though the text goes on"
    utterance.end()
    events += stream
    engine.close()
    assert isinstance(events[-1], ev.Ended) and events[-1].samples > 0
    assert [one.words for one in events if isinstance(one, ev.Segment)] == [[0, 1], [2, 3]]


@pytest.mark.parametrize("name", ["tiny", "small"])
def test_the_recipes_have_the_named_sizes_and_are_as_their_s5(name):
    recipe = read_recipe(ROOT / "assets/recipes" / f"t5-{name}.toml")
    beside = read_recipe(ROOT / "assets/recipes" / f"s5-{name}.toml")
    assert isinstance(recipe.fit, T5Fit) and isinstance(beside.fit, S5Fit)
    assert T5Config(**recipe.fit.config) == T5Config.named(name)
    same = {
        "steps",
        "peak_rate",
        "batch_tokens",
        "max_frames",
        "noise_share",
        "own_share",
        "cross_weight",
        "stop_weight",
    }
    assert {key: vars(recipe.fit)[key] for key in same} == {key: vars(beside.fit)[key] for key in same}
    assert recipe.seed == beside.seed and recipe.corpus == beside.corpus


def test_a_recipe_with_masks_is_told():
    with pytest.raises(BadOption, match="T5-TTS has no look-ahead masks"):
        training_for(tiny_t5_recipe(config={**SIZES, "decoder_mask": True}))
