"""Training of S5-TTS and T5-TTS: aligned words, masks, losses, references."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tinyfeatures import (
    TINY_CONFIGS,
    TINY_FRAMES,
    TINY_SILENCE,
    TINY_WORDS,
    steps_on,
    tiny_recipe,
    tiny_references,
    tiny_sentence,
    write_tiny_vocoder,
)
from tinyfeatures import TINY_ENDS as ENDS

from studio.core import events as ev
from studio.core.errors import BadOption
from studio.core.ports import SpeakRequest
from studio.engine.engine import open_engine
from studio.engine.families.common.text_tokens import END, SPACE, spell
from studio.engine.families.s5.model import S5Config
from studio.engine.tokenizers import dmel
from studio.text.normalise import best
from studio.text.phonemes import pronounce
from studio.train.families.registry import training_for
from studio.train.families.s5_batches import WHOLE, S5Batch, collate, sequence
from studio.train.families.s5_fit import S5TrainingModule, path_loss
from studio.train.fit.loop import run
from studio.train.pack import pack_voice
from studio.train.recipes.fits import S5Fit, T5Fit
from studio.train.recipes.recipe import read_recipe

ROOT = Path(__file__).parents[3]


def a_batch(*sequences) -> S5Batch:
    return collate(sequences, ["one", "two"], 0.0, np.random.default_rng(0), offset_positions=False)


def test_sequence_has_the_phonemes_seen_when_streaming():
    made = sequence(tiny_sentence(), TINY_SILENCE, k=1)
    spelled = [spell(said) for said in pronounce(TINY_WORDS)]
    assert made.symbols.tolist() == [*[i for word in spelled for i in word], END] and made.begins
    assert made.words.tolist() == [*[i for i, word in enumerate(spelled) for _ in word], 4]
    assert "ði" in pronounce(["the", "apple,"]), "so the first word was spoken with the second in view"


def test_pause_belongs_to_the_mark_before_it():
    made = sequence(tiny_sentence(), TINY_SILENCE, k=1)
    assert np.bincount(made.spoken).tolist() == [8, 17, 9, 18], "and the rest of the sentence to its full stop"
    unmarked = replace(tiny_sentence(), words=["the", "apple", "then", "tea"])
    assert np.bincount(sequence(unmarked, TINY_SILENCE, k=1).spoken).tolist() == [8, 14, 12, 10, 8], "to the end"


def test_sequence_may_start_within_a_text():
    made = sequence(tiny_sentence(), TINY_SILENCE, k=1, skip=2)
    assert made.symbols[0] == SPACE and made.words[0] == 0 and not made.begins and made.prompt == 1
    assert (
        made.levels.shape == (1 + TINY_FRAMES - ENDS[1], 80)
        and (made.levels[0] == tiny_sentence().levels[ENDS[1] - 1]).all()
    )
    # The pause of "apple," stays its own; it precedes the first visible word.
    assert made.spoken.min() == -1 and made.spoken.max() == 1


def test_every_frame_is_predicted_from_the_previous_one():
    whole, cut = sequence(tiny_sentence(), TINY_SILENCE, 1), sequence(tiny_sentence("two", 1), TINY_SILENCE, 2, skip=1)
    batch = a_batch(whole, cut)
    assert batch.predicted == TINY_FRAMES + TINY_FRAMES - ENDS[0] and batch.speaker.tolist() == [0, 1]
    assert batch.is_bos[:, 0].tolist() == [True, False] and not batch.is_bos[:, 1:].any()
    for row, one in enumerate((whole, cut)):
        count = len(one.spoken)
        steps = batch.step_of[row, :count]
        for frame in (1, 7, count - 1):
            assert torch.equal(batch.fed[row, steps[frame]], batch.frames[row, frame - 1])
        assert torch.equal(batch.fed[row, steps[0]], torch.from_numpy(one.levels[one.prompt - 1]))
        assert torch.equal(batch.fed[row, batch.last[row]], batch.frames[row, count - 1]), "the stop token follows"
        assert torch.equal(batch.frame_of[row, steps], torch.arange(count))


def test_clear_path_costs_less_than_an_unclear_or_wrong_one():
    frames, symbols = torch.tensor([8]), torch.tensor([4])
    right = torch.full((1, 8, 4), -9.0)
    for f in range(8):
        right[0, f, f // 2] = 0.0
    losses = [float(path_loss(x, frames, symbols)) for x in (right, torch.full((1, 8, 4), -1.4), right.flip(2))]
    assert losses[0] < 0.7 < losses[1] < losses[2]


@pytest.mark.parametrize(("encoder_mask", "decoder_mask"), [(True, True), (True, False), (False, True), (False, False)])
def test_ablations_mask_what_they_name(encoder_mask, decoder_mask):
    """With k = 1 the first word's decoder steps see two words, or without the mask all text so far."""
    config = S5Config(**TINY_CONFIGS["s5"], encoder_mask=encoder_mask, decoder_mask=decoder_mask)
    settings = tiny_recipe("s5", alignment="corpus").fit
    assert isinstance(settings, S5Fit)
    torch.manual_seed(1)
    fitter = S5TrainingModule(config, settings)
    with torch.no_grad():
        for parameter in fitter.net.encoder.parameters():
            parameter.normal_(std=0.2)  # a layer is initialised as the identity
    one = sequence(tiny_sentence(), TINY_SILENCE, k=1)
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
    recipe = tiny_recipe("s5")
    batch = a_batch(*(sequence(tiny_sentence(seed=i), TINY_SILENCE, 1) for i in range(3)))
    found, matrices = steps_on(recipe, batch, 20)
    first, last = found[0], found[-1]
    assert last["frame"] < 0.8 * first["frame"] and last["aux"] < first["aux"] and last["cross"] < first["cross"]
    assert last["stop"] < first["stop"] + 0.05 and last["aligned"] > 0.7
    assert matrices == 1 * 4 + 2 * (4 + 3)


def test_own_frames_replace_predicted_frames():
    fitter = training_for(tiny_recipe("s5")).module
    batch = a_batch(sequence(tiny_sentence(), TINY_SILENCE, 1), sequence(tiny_sentence("two"), TINY_SILENCE, 1, skip=1))
    own = fitter.own_frames(batch, 1.0, 0.5)
    differs = (own.fed != batch.fed).any(2)
    for row in range(2):
        allowed = batch.step_of[row, batch.predicts[row]] + 1
        assert differs[row].sum() > 20 and set(differs[row].nonzero().flatten().tolist()) <= set(allowed.tolist())
    assert torch.equal(fitter.own_frames(batch, 0.0, 0.5).fed, batch.fed)


def test_references_come_from_the_corpus(features, tmp_path):
    recipe = tiny_recipe("s5", steps=1, **tiny_references("s5"))
    state = tmp_path / "state"
    run(training_for(recipe), features, state, torch.device("cpu"), threads=1)
    kept = load_file(state / "s5.safetensors")
    said = tiny_sentence("two", 10)
    symbols = [symbol for word in pronounce(TINY_WORDS) for symbol in spell(word)]
    assert kept["transcript"][1, : len(symbols) + 1].tolist() == [*symbols, -1] and "speaker.weight" not in kept
    assert torch.equal(kept["reference"][1, :TINY_FRAMES], torch.from_numpy(said.levels))
    assert (kept["reference"][1, TINY_FRAMES:] == dmel.PAD).all()


def test_card_lists_unseen_speakers(features, tmp_path):
    recipe = tiny_recipe("s5", steps=1, **tiny_references("s5"))
    recipe = replace(recipe, corpus=replace(recipe.corpus, unseen=["two"]))
    run(training_for(recipe), features, tmp_path / "state", torch.device("cpu"), threads=1)
    folder = pack_voice(recipe, tmp_path / "state", write_tiny_vocoder(tmp_path / "vocoders"), tmp_path / "voices")
    assert json.loads((folder / "card.json").read_text())["notes"].startswith("Two is untrained")


def test_recipe_names_the_family(tmp_path):
    written = (ROOT / "assets" / "recipes" / "s5-tiny.toml").read_text(encoding="utf-8")
    path = tmp_path / "recipe.toml"
    for wrong, message in [
        ('family = "s6"', r"family 's6' cannot be trained; it is one of speakstream, .*s5"),
        ('family = "s5"\nalignment = "guess"', r"alignment cannot be 'guess'; it is one of mas, corpus"),
        ('family = "speakstream"', "unknown keys"),
    ]:
        path.write_text(written.replace('family = "s5"', wrong), encoding="utf-8")
        with pytest.raises(BadOption, match=message):
            read_recipe(path)


# --- T5-TTS: the whole text in view ---


def test_sequence_has_the_phonemes_of_the_whole_text():
    made = sequence(tiny_sentence(), TINY_SILENCE, WHOLE)
    whole = [spell(said) for said in pronounce(TINY_WORDS)]
    assert made.symbols.tolist() == [*[i for word in whole for i in word], END] and made.k == WHOLE
    assert "ði" in pronounce(TINY_WORDS), "the next word starts with a vowel, and is known"


def test_every_frame_of_t5_sees_the_whole_text():
    torch.manual_seed(1)
    fitter = training_for(tiny_recipe("t5")).module
    with torch.no_grad():
        for parameter in fitter.net.encoder.parameters():
            parameter.normal_(std=0.2)  # a layer is initialised as the identity
    batch = a_batch(sequence(tiny_sentence(), TINY_SILENCE, WHOLE))
    _, shares = fitter.run(batch, fitter.words_of(batch))
    assert (shares[0] > 0).all(), "each step attends to all"
    other = replace(batch, symbols=batch.symbols.clone())
    other.symbols[0, -2] += 1  # of the last word
    _, changed = fitter.run(other, fitter.words_of(other))
    assert not torch.equal(changed[0, 0, :3], shares[0, 0, :3]), "so does the encoder"


def test_losses_of_t5_fall():
    recipe = tiny_recipe("t5")
    batch = a_batch(*(sequence(tiny_sentence(seed=i), TINY_SILENCE, WHOLE) for i in range(3)))
    found, _ = steps_on(recipe, batch, 20)
    first, last = found[0], found[-1]
    assert set(first) == {"frame", "stop", "cross", "attended"}
    assert last["frame"] < 0.8 * first["frame"] and last["cross"] < first["cross"]


def test_t5_speaks_a_sentence_at_its_final_mark(features, tmp_path):
    """With a reference, while the text continues."""
    recipe = tiny_recipe("t5", **tiny_references("t5"))
    run(training_for(recipe), features, tmp_path / "state", torch.device("cpu"), threads=1)
    pack_voice(recipe, tmp_path / "state", write_tiny_vocoder(tmp_path / "vocoders"), tmp_path / "voices")
    engine = open_engine(tmp_path / "voices", best(), device="cpu", threads=1)
    utterance = engine.open(SpeakRequest(options={"chunk_frames": 3}))
    utterance.push_text("the apple. then tea. ")
    events, stream = [], utterance.events()
    while not [one for one in events if isinstance(one, ev.Eos)]:
        events.append(next(stream))
    (segment,) = [one for one in events if isinstance(one, ev.Segment)]
    assert segment.words == [0, 1]
    utterance.end()
    events += stream
    engine.close()
    assert isinstance(events[-1], ev.Ended) and events[-1].samples > 0
    assert [one.words for one in events if isinstance(one, ev.Segment)] == [[0, 1], [2, 3]]


@pytest.mark.parametrize("name", ["tiny", "small"])
def test_t5_recipes_equal_their_s5_counterparts(name):
    recipe = read_recipe(ROOT / "assets/recipes" / f"t5-{name}.toml")
    beside = read_recipe(ROOT / "assets/recipes" / f"s5-{name}.toml")
    assert isinstance(recipe.fit, T5Fit) and isinstance(beside.fit, S5Fit)
    shared = "steps peak_rate batch_tokens max_frames noise_share own_share cross_weight stop_weight"
    assert {key: vars(recipe.fit)[key] for key in shared.split()} == {
        key: vars(beside.fit)[key] for key in shared.split()
    }
    assert recipe.seed == beside.seed and recipe.corpus == beside.corpus
