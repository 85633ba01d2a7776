"""S5-TTS's training: sequences with the right word everywhere, losses, restarts, a packed voice that speaks."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tinyfeatures import TINY_ENDS as ENDS
from tinyfeatures import tiny_sentence, write_tiny_features, write_tiny_vocoder

from studio.core import events as ev
from studio.core.errors import BadFile, BadOption
from studio.core.ports import SpeakRequest
from studio.engine.engine import open_engine
from studio.engine.families.common.phoneme_ids import END, SPACE, spell
from studio.engine.families.s5.model import S5Config
from studio.engine.tokenizers import dmel
from studio.text.normalise import best
from studio.text.phonemes import pronounce
from studio.train.families.registry import training_for
from studio.train.families.s5_batches import S5Batch, collate, sequence
from studio.train.families.s5_fit import S5TrainingModule, path_loss
from studio.train.features import Sentence
from studio.train.fit.loop import run
from studio.train.fit.optimisers import build_optimisers
from studio.train.fit.training import WorkingCopy, train_step
from studio.train.pack import pack_voice
from studio.train.recipes.fits import S5Fit
from studio.train.recipes.recipe import CorpusRecipe, Recipe, read_recipe

ROOT = Path(__file__).parents[3]
WORDS = ["the", "apple,", "then", "tea."]
FRAMES = 52
SILENCE = np.full((10, dmel.CHANNELS), 2, np.uint8)
SIZES = {"encoder_layers": 1, "decoder_layers": 2, "width": 32, "heads": 2, "hidden": 64, "speakers": 2}


def sentence(speaker: str = "one", seed: int = 0) -> Sentence:
    return tiny_sentence(WORDS, FRAMES, speaker, seed)


def a_recipe(**changes) -> Recipe:
    fit = S5Fit(
        config={**SIZES, "alignment_scale": 0.01},
        steps=4,
        peak_rate=0.003,
        warmup_share=0.1,
        decay_share=0.3,
        batch_tokens=400,
        max_frames=200,
        join_share=0.5,
        crop_share=0.5,
        noise_share=0.3,
        own_share=0.3,
        look_ahead=[1, 2],
        cross_weight=0.1,
        aux_weight=0.1,
        stop_weight=0.3,
    )
    corpus = CorpusRecipe(["one", "two"], 3, 1)
    return Recipe("small", "A small one", 5, 0.5, corpus, replace(fit, **changes))


def a_batch(*sequences) -> S5Batch:
    return collate(sequences, ["one", "two"], 0.0, np.random.default_rng(0), places=False)


def test_a_sequence_has_the_phonemes_that_streaming_will_see():
    made = sequence(sentence(), SILENCE, k=1)
    spelled = [spell(said) for said in pronounce(WORDS)]
    assert made.symbols.tolist() == [*[i for word in spelled for i in word], END] and made.begins
    assert made.words.tolist() == [*[i for i, word in enumerate(spelled) for _ in word], 4]
    assert "ði" in pronounce(["the", "apple,"]), "so the first word was said with the second in view"


def test_a_pause_belongs_to_the_mark_before_it():
    made = sequence(sentence(), SILENCE, k=1)
    assert np.bincount(made.spoken).tolist() == [8, 17, 9, 18], "and the rest of the sentence to its full stop"
    unmarked = replace(sentence(), words=["the", "apple", "then", "tea"])
    assert np.bincount(sequence(unmarked, SILENCE, k=1).spoken).tolist() == [8, 14, 12, 10, 8], "else to the end"


def test_a_sequence_may_begin_in_mid_text():
    made = sequence(sentence(), SILENCE, k=1, skip=2)
    assert made.symbols[0] == SPACE and made.words[0] == 0 and not made.begins and made.prompt == 1
    assert made.levels.shape == (1 + FRAMES - ENDS[1], 80) and (made.levels[0] == sentence().levels[ENDS[1] - 1]).all()
    # The pause of "apple," is still its own; it lies before the first word that is seen.
    assert made.spoken.min() == -1 and made.spoken.max() == 1


def test_every_frame_is_predicted_from_the_one_before_it():
    whole, cut = sequence(sentence(), SILENCE, 1), sequence(sentence("two", 1), SILENCE, 2, skip=1)
    batch = a_batch(whole, cut)
    assert batch.predicted == FRAMES + FRAMES - ENDS[0] and batch.speaker.tolist() == [0, 1]
    assert batch.is_bos[:, 0].tolist() == [True, False] and not batch.is_bos[:, 1:].any()
    for row, one in enumerate((whole, cut)):
        count = len(one.spoken)
        steps = batch.step_of[row, :count]
        for frame in (1, 7, count - 1):
            assert torch.equal(batch.fed[row, steps[frame]], batch.frames[row, frame - 1])
        assert torch.equal(batch.fed[row, steps[0]], torch.from_numpy(one.levels[one.prompt - 1]))
        assert torch.equal(batch.fed[row, batch.last[row]], batch.frames[row, count - 1]), "the stop token follows it"
        assert torch.equal(batch.frame_of[row, steps], torch.arange(count))


def test_a_clear_path_costs_less_than_an_unclear_or_a_wrong_one():
    frames, symbols = torch.tensor([8]), torch.tensor([4])
    right = torch.full((1, 8, 4), -9.0)
    for f in range(8):
        right[0, f, f // 2] = 0.0
    losses = [float(path_loss(x, frames, symbols)) for x in (right, torch.full((1, 8, 4), -1.4), right.flip(2))]
    assert losses[0] < 0.7 < losses[1] < losses[2]


@pytest.mark.parametrize(("encoder_mask", "decoder_mask"), [(True, True), (True, False), (False, True), (False, False)])
def test_the_ablations_hide_what_they_say(encoder_mask, decoder_mask):
    """With k = 1 the decoder steps of the first word see two words, or with their mask off all that is there."""
    config = S5Config(**SIZES, encoder_mask=encoder_mask, decoder_mask=decoder_mask)
    settings = a_recipe(alignment="corpus").fit
    assert isinstance(settings, S5Fit)
    torch.manual_seed(1)
    fitter = S5TrainingModule(config, settings)
    with torch.no_grad():
        for parameter in fitter.net.encoder.parameters():
            parameter.normal_(std=0.2)  # a layer begins as the identity
    one = sequence(sentence(), SILENCE, k=1)
    batch = a_batch(one)
    _, shares = fitter.run(batch, batch.spoken)
    first = batch.step_of[0, 3]
    beyond = torch.from_numpy(one.words > 1)
    assert (shares[0, first, beyond] == 0).all() == decoder_mask
    assert (shares[0, batch.last[0]] > 0).all(), "the stop token sees all"
    other = replace(batch, symbols=batch.symbols.clone())
    other.symbols[0, -2] += 1  # of the last word
    _, changed = fitter.run(other, batch.spoken)
    same = torch.equal(changed[0, first, ~beyond], shares[0, first, ~beyond])
    assert same == (encoder_mask and decoder_mask), "one encoder layer: the first two words see three"


def test_losses_fall_and_the_path_is_found():
    recipe = a_recipe()
    fitting = training_for(recipe)
    batch = a_batch(*(sequence(sentence(seed=i), SILENCE, 1) for i in range(3)))
    copied, optims = WorkingCopy(fitting.module), build_optimisers(fitting.module, recipe.fit)
    found = [train_step(copied, optims, batch, fitting, 1.0, 0.0) for _ in range(20)]
    first, last = found[0], found[-1]
    assert last["frame"] < 0.8 * first["frame"] and last["aux"] < first["aux"] and last["cross"] < first["cross"]
    assert last["stop"] < first["stop"] + 0.05 and last["aligned"] > 0.7
    assert len(optims[0].param_groups[0]["params"]) == 1 * 4 + 2 * (4 + 3)


def test_own_frames_are_fed_where_frames_were_predicted():
    fitter = training_for(a_recipe()).module
    batch = a_batch(sequence(sentence(), SILENCE, 1), sequence(sentence("two"), SILENCE, 1, skip=1))
    own = fitter.own_frames(batch, 1.0, 0.5)
    differs = (own.fed != batch.fed).any(2)
    for row in range(2):
        allowed = batch.step_of[row, batch.predicts[row]] + 1
        assert differs[row].sum() > 20 and set(differs[row].nonzero().flatten().tolist()) <= set(allowed.tolist())
    assert torch.equal(fitter.own_frames(batch, 0.0, 0.5).fed, batch.fed)


@pytest.fixture(scope="module")
def features(tmp_path_factory) -> Path:
    return write_tiny_features(tmp_path_factory.mktemp("features"), sentence)


def test_from_features_to_a_voice_that_speaks(features, tmp_path):
    recipe, state = a_recipe(), tmp_path / "state"
    weights = run(training_for(recipe), features, state, torch.device("cpu"), threads=1)
    assert weights.name == "s5.safetensors"
    lines = [json.loads(line) for line in (state / "metrics.jsonl").read_text().splitlines()]
    (checked,) = [line["validation"] for line in lines if "validation" in line]
    assert set(checked) == {"k1", "k2"} and 0 < checked["k1"]["aligned"] <= 1
    before = weights.read_bytes()
    assert run(training_for(recipe), features, state, torch.device("cpu"), threads=1).read_bytes() == before
    longer = run(training_for(a_recipe(steps=6)), features, state, torch.device("cpu"), threads=1)
    assert longer.read_bytes() != before and torch.load(state / "checkpoint.pt")["at"]["step"] == 6
    vocoders = write_tiny_vocoder(tmp_path / "vocoders")
    folder = pack_voice(recipe, state, vocoders, tmp_path / "voices")
    kept = load_file(folder / "s5.safetensors")
    assert {v.dtype for v in kept.values()} == {torch.bfloat16, torch.uint8}
    engine = open_engine(tmp_path / "voices", best(), device="cpu", threads=1)
    (card,) = engine.cards()
    assert card.family == "s5" and card.look_ahead_words == 2 and [o.name for o in card.options] == ["k"]
    utterance = engine.open(SpeakRequest(options={"k": 1}))
    utterance.push_text("the apple, then tea.")
    utterance.end()
    events = list(utterance.events())
    engine.close()
    assert isinstance(events[-1], ev.Ended) and events[-1].samples > 0


def test_references_are_taken_from_the_corpus(features, tmp_path):
    recipe = a_recipe(steps=1, reference_frames=(20, 60), config={**SIZES, "reference_frames": 60})
    state = tmp_path / "state"
    run(training_for(recipe), features, state, torch.device("cpu"), threads=1)
    kept = load_file(state / "s5.safetensors")
    said = sentence("two", 10)
    symbols = [symbol for word in pronounce(WORDS) for symbol in spell(word)]
    assert kept["transcript"][1, : len(symbols) + 1].tolist() == [*symbols, -1] and "speaker.weight" not in kept
    assert torch.equal(kept["reference"][1, :FRAMES], torch.from_numpy(said.levels))
    assert (kept["reference"][1, FRAMES:] == dmel.PAD).all()
    with pytest.raises(BadOption, match="references of at most 60 frames"):
        a_recipe(reference_frames=(20, 60))
    with pytest.raises(BadFile, match="has 500 to 600 frames"):
        run(
            training_for(a_recipe(reference_frames=(500, 600), config={**SIZES, "reference_frames": 600})),
            features,
            tmp_path / "other",
            torch.device("cpu"),
        )


def test_a_card_says_who_was_never_learned_from(features, tmp_path):
    recipe = a_recipe(steps=1, reference_frames=(20, 60), config={**SIZES, "reference_frames": 60})
    recipe = replace(recipe, corpus=replace(recipe.corpus, unseen=["two"]))
    run(training_for(recipe), features, tmp_path / "state", torch.device("cpu"), threads=1)
    folder = pack_voice(recipe, tmp_path / "state", write_tiny_vocoder(tmp_path / "vocoders"), tmp_path / "voices")
    assert json.loads((folder / "card.json").read_text())["notes"].startswith("Of two only a reference is known")


def test_the_recipe_names_the_family(tmp_path):
    written = (ROOT / "assets" / "recipes" / "s5-tiny.toml").read_text(encoding="utf-8")
    path = tmp_path / "recipe.toml"
    for wrong, message in [
        ('family = "s6"', r"family 's6' cannot be trained; it is one of speakstream, .*s5"),
        ('family = "s5"\nalignment = "guess"', r"alignment cannot be 'guess'; it is mas or corpus"),
        ('family = "speakstream"', "unknown keys"),
    ]:
        path.write_text(written.replace('family = "s5"', wrong), encoding="utf-8")
        with pytest.raises(BadOption, match=message):
            read_recipe(path)


@pytest.mark.parametrize(
    ("path", "name", "own"),
    [
        ("recipes/s5-tiny.toml", "tiny", set()),
        ("recipes/s5-small.toml", "small", set()),
        ("recipes/s5-two.toml", "small", set()),
        ("voices/finch/recipe.toml", "small", {"speakers", "reference_frames"}),
    ],
)
def test_the_recipes_have_the_named_sizes(path, name, own):
    recipe = read_recipe(ROOT / "assets" / path)
    assert isinstance(recipe.fit, S5Fit)
    named = S5Config.named(name).to_dict()
    differs = {key for key, value in S5Config(**recipe.fit.config).to_dict().items() if value != named[key]}
    assert differs - {"alignment_scale"} == own
