"""RichTTS training: whole texts and pieces, targets, losses, restarts, packed voices that speak."""

from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import torch
from tinyfeatures import TINY_FRAMES, TINY_SILENCE, TINY_WORDS, steps_on, tiny_recipe, tiny_sentence

from studio.core.errors import BadOption
from studio.engine.families.richtts.model import RichTts, RichTtsConfig
from studio.engine.families.richtts.policy import S_BOS, symbols
from studio.engine.families.richtts.runner import RichTtsFamily
from studio.engine.families.speakstream.model import SpeakStream, SpeakStreamConfig
from studio.engine.families.speakstream.policy import spell
from studio.engine.tokenizers import dmel
from studio.train.families.registry import training_for
from studio.train.families.richtts_fit import RichTtsBatch, RichTtsSequence, collate, options_of, pieces
from studio.train.families.speakstream_fit import FRAME, SYMBOL
from studio.train.recipes.fits import RichTtsFit
from studio.train.recipes.recipe import read_recipe

ROOT = Path(__file__).parents[3]
PROMPT = 8


def cut(words: int) -> list[RichTtsSequence]:
    return pieces(tiny_sentence(), TINY_SILENCE, options_of(words), PROMPT)


def parameters(net: type, config: object) -> int:
    with torch.device("meta"):
        return sum(p.numel() for p in net(config).parameters())


def test_sizes():
    """Section IV.A: 36 layers, 258M parameters, RichTTS's own; the baseline has the same size."""
    for name, most in (("paper", 263.2e6), ("small", 3e6), ("tiny", 1e6)):
        count = parameters(RichTts, RichTtsConfig.named(name))
        assert count <= most
        like = parameters(SpeakStream, SpeakStreamConfig.named(name))
        assert name == "small" or abs(count / like - 1) < 0.02
    assert (
        abs(parameters(RichTts, RichTtsConfig.named("paper")) / 258e6 - 1) < 0.02
        and RichTtsConfig.named("paper").layers == 36
    )
    with pytest.raises(BadOption, match="there is no config 'huge'; there are paper, small, tiny"):
        RichTtsConfig.named("huge")


def test_whole_text_is_one_sequence_as_in_the_paper():
    (made,) = cut(0)
    text = symbols(TINY_WORDS)
    is_text = made.kind == SYMBOL
    assert (
        made.value[is_text].tolist() == text and is_text[: len(text)].all() and (made.kind[len(text) :] == FRAME).all()
    )
    assert len(made) == len(text) + PROMPT + TINY_FRAMES and text[-1] == S_BOS
    assert np.array_equal(made.levels[:PROMPT], np.resize(TINY_SILENCE, (PROMPT, 80)))
    assert np.array_equal(made.levels[PROMPT:], tiny_sentence().levels)
    assert made.target[made.target >= 0].tolist() == [*range(PROMPT, PROMPT + TINY_FRAMES)]
    at = np.flatnonzero(made.target >= 0)
    assert at[0] == len(text) + PROMPT - 1, "the silence is never predicted"
    stops = np.flatnonzero(~np.isnan(made.stop))
    assert stops.tolist() == [*at, len(made) - 1] and made.stop[stops].tolist() == [0.0] * TINY_FRAMES + [1.0]


@pytest.mark.parametrize(("words", "frames"), [(1, [8, 17, 9, 18]), (2, [25, 27]), (3, [34, 18]), (4, [52])])
def test_pieces_of_n_words_are_separate_texts(words, frames):
    made = cut(words)
    lengths = [int((one.target >= 0).sum()) for one in made]
    assert lengths == frames and sum(lengths) == TINY_FRAMES, "every frame once, a pause with the mark before it"
    for k, one in enumerate(made):
        text = symbols(TINY_WORDS[k * words : (k + 1) * words])
        assert one.value[one.kind == SYMBOL].tolist() == text
        assert np.array_equal(one.levels[:PROMPT], np.resize(TINY_SILENCE, (PROMPT, 80)))


@pytest.mark.parametrize("words", [0, 2])
def test_frame_is_guided_to_the_letters_of_its_word(words):
    """And to nothing else: each word's tokens in order, once per frame."""
    frames = dict(zip(TINY_WORDS, [8, 17, 9, 18], strict=True))
    for k, made in enumerate(cut(words)):
        here = TINY_WORDS[k * words : (k + 1) * words] if words else TINY_WORDS
        text, first = symbols(here), 1
        stretches = []
        for word in here:
            stretches += [(first, first + len(spell(word)) - 1)] * frames[word]
            first += len(spell(word))
        assert [*zip(made.first_letter.tolist(), made.last_letter.tolist(), strict=True)] == stretches
        letters = [text[one : other + 1] for one, other in dict.fromkeys(stretches)]
        assert letters == [spell(word) for word in here]


def test_guided_head_learns_its_words():
    recipe = tiny_recipe("richtts", peak_rate=0.01, guide_weight=0.5)
    found, _ = steps_on(recipe, a_batch(0), 15, own_share=0.3)
    assert found[-1]["guide"] < 0.8 * found[0]["guide"]
    assert "guide" not in training_for(tiny_recipe("richtts")).module(a_batch(0))


def a_batch(words: int = 0) -> RichTtsBatch:
    return collate(cut(words), ["one", "two"], 0.0, np.random.default_rng(0))


def test_losses_fall_and_the_end_is_learned():
    recipe = tiny_recipe("richtts", peak_rate=0.01)
    found, _ = steps_on(recipe, a_batch(2), 15)
    assert found[-1]["frame"] < 0.8 * found[0]["frame"] and found[-1]["stop"] < found[0]["stop"]


def test_training_and_inference_agree():
    """The first frame's logits by the training code and by the modules, from one text."""
    fitter = training_for(tiny_recipe("richtts")).module.eval()
    with torch.no_grad():
        for p in fitter.net.parameters():
            p.normal_(std=0.2)
        fitter.net.silence.fill_(2)
    made = pieces(tiny_sentence(), TINY_SILENCE, options_of(0), prompt=10)
    batch = collate(made, ["one", "two"], 0.0, np.random.default_rng(0))
    with torch.no_grad():
        trained = fitter.net.levels_out(fitter.hidden(batch)[batch.target_at[:1]]).view(dmel.CHANNELS, dmel.LEVELS)
    family = RichTtsFamily(fitter.net, 1, torch.device("cpu"))
    row = family.row((0,), 0, {"mode": "whole", "n": 4}, 1e-4, 1)
    row.commit(TINY_WORDS)
    row.end()
    next_input = row.next_input()
    (drawn,) = family.modules["prefill"].run(family.slots, [(0,)], [next_input.inputs])
    chosen = trained.gather(1, torch.from_numpy(drawn.levels[0].astype(np.int64))[:, None])[:, 0]
    assert (chosen > trained.amax(1) - 0.01).all(), "almost no temperature: only equally likely levels are sampled"


@pytest.mark.parametrize("size", ["tiny", "small"])
@pytest.mark.parametrize("name", ["richtts", "ngram-richtts"])
def test_recipes_use_the_papers_corpus(name, size):
    recipe = read_recipe(ROOT / "assets" / "recipes" / f"{name}-{size}.toml")
    assert isinstance(recipe.fit, RichTtsFit) and recipe.fit.family == name
    assert recipe.fit.pieces == ([0] if name == "richtts" else [1, 2, 3, 4, 5, 6])


@pytest.mark.parametrize("size", ["tiny", "small"])
@pytest.mark.parametrize("name", ["richtts", "ngram-richtts"])
def test_speakstream_and_its_baselines_share_a_fit(name, size):
    ours, like = (read_recipe(ROOT / "assets" / "recipes" / f"{one}-{size}.toml") for one in (name, "speakstream"))
    assert ours.fit.config == like.fit.config
    assert ours.fit.guide_weight == 0.0
    shared = {one.name for one in fields(RichTtsFit)} - {"pieces", "crop_share", "guide_weight"}
    assert {one: getattr(ours.fit, one) for one in shared} == {one: getattr(like.fit, one) for one in shared}
    assert (ours.seed, ours.temperature, ours.corpus) == (like.seed, like.temperature, like.corpus)
