"""Training laws of every family: it fits, resumes, packs, and the voice speaks."""

import copy
import json
from collections.abc import Callable
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tinyfeatures import TINY_CONFIGS, tiny_recipe, tiny_training, write_tiny_vocoder
from tinyvoice import write_tiny_bpe

from studio.core import events as ev
from studio.core.cards import Card
from studio.core.errors import BadFile, BadOption
from studio.core.options import default_options
from studio.core.ports import SpeakRequest
from studio.engine.engine import open_engine
from studio.engine.families.dsm.model import DsmConfig
from studio.engine.families.richtts.model import RichTtsConfig
from studio.engine.families.s5.model import S5Config
from studio.engine.families.speakstream.model import SpeakStreamConfig
from studio.engine.families.t5.model import T5Config
from studio.engine.families.tacotron.model import TacotronConfig
from studio.text.normalise import best
from studio.train.families.registry import training_for
from studio.train.fit.loop import run
from studio.train.pack import pack_voice
from studio.train.recipes.fits import FITS
from studio.train.recipes.recipe import read_recipe

ROOT = Path(__file__).parents[3]
CPU = torch.device("cpu")
# By family: validation metrics, options to speak with, text of the card.
SPOKEN: dict[str, tuple[set[str], dict[str, Any], Callable[[Card], bool]]] = {
    "speakstream": ({"m1", "m3", "m5"}, {"m": 2}, lambda card: card.look_ahead_words == 2),
    "richtts": ({"all words"}, {}, lambda card: default_options(card.options)["mode"] == "whole" and bool(card.notes)),
    "ngram-richtts": (
        {f"{n} words" for n in range(1, 7)},
        {},
        lambda card: default_options(card.options)["mode"] == "ngram" and bool(card.notes),
    ),
    "t5": (
        {"whole"},
        {"chunk_frames": 3},
        lambda card: [one.name for one in card.options] == ["sentence_words", "chunk_frames"],
    ),
    "s5": (
        {"k1", "k2"},
        {"k": 1},
        lambda card: card.look_ahead_words == 2 and [one.name for one in card.options] == ["k"],
    ),
    "ist": ({"1:3", "3:9", "12:24", "whole"}, {"ratio": "3:9"}, lambda card: True),
    "dsm": ({"text", "no text"}, {"guidance": 2.0}, lambda card: (card.look_ahead_words, card.delay_frames) == (2, 10)),
    "tacotron": (
        {"2 words", "all words"},
        {"clause_words": 2},
        lambda card: card.look_ahead_words == 7 and "clause" in card.notes,
    ),
}


def test_every_family_is_in_the_table():
    assert {*SPOKEN} == {*TINY_CONFIGS} == {*FITS}


@pytest.mark.parametrize("family", SPOKEN)
def test_features_to_a_speaking_voice(family, features, tmp_path):
    """A resumed training reaches the same weights, a finished one changes nothing, and its voice speaks."""
    validated, options, describes = SPOKEN[family]
    states = {name: tmp_path / name for name in ("whole", "parts")}

    def fit(state: str, steps: int) -> Path:
        # A constant rate, and no random numbers from torch: a checkpoint does not hold its generator.
        config = {name: 0.0 if name.endswith("dropout") else value for name, value in TINY_CONFIGS[family].items()}
        plain = {"warmup_share": 0.0, "decay_share": 0.001, "own_share": 0.0, "config": config}
        recipe = tiny_recipe(family, steps=steps, **plain)
        return run(training_for(recipe), features, states[state], CPU, threads=1)

    if encoding := training_for(tiny_recipe(family)).voice_files:
        with pytest.raises(BadFile, match=r"no .*bpe\.json.*studio train bpe"):
            fit("whole", 4)
        for state in states.values():
            state.mkdir(exist_ok=True)
            write_tiny_bpe(state / "bpe.json")
    weights = fit("whole", 4)
    assert weights.name == f"{family}.safetensors"
    lines = [json.loads(line) for line in (states["whole"] / "metrics.jsonl").read_text().splitlines()]
    (found,) = [line["validation"] for line in lines if "validation" in line]
    assert {*found} == validated and all(0 < one["frame"] < 3 for one in found.values())
    shares = [one.get(name, 0.5) for one in found.values() for name in ("aligned", "attended", "phone_hits")]
    assert all(0 <= share <= 1 for share in shares)
    before = weights.read_bytes()
    assert fit("whole", 4).read_bytes() == before
    assert fit("parts", 2).read_bytes() != before and fit("parts", 4).read_bytes() == before
    assert torch.load(states["parts"] / "checkpoint.pt")["at"]["step"] == 4
    recipe = tiny_recipe(family)
    folder = pack_voice(recipe, states["whole"], write_tiny_vocoder(tmp_path / "vocoders"), tmp_path / "voices")
    assert {one.name for one in folder.iterdir()} >= {"card.json", "curves.jsonl", weights.name, *encoding}
    packed = load_file(folder / weights.name)
    assert torch.float32 not in {tensor.dtype for tensor in packed.values()}
    assert family != "t5" or not [name for name in packed if name.startswith(("aligner", "look_ahead"))]
    engine = open_engine(tmp_path / "voices", best(), device="cpu", threads=1)
    (card,) = engine.cards()
    assert card.family == family and describes(card)
    utterance = engine.open(SpeakRequest(options=options))
    utterance.push_text("the apple, then tea.")
    utterance.end()
    events = list(utterance.events())
    engine.close()
    assert isinstance(events[-1], ev.Ended) and events[-1].samples > 0


@pytest.mark.parametrize("family", SPOKEN)
def test_batches_are_reproducible_in_another_process(family, features, tmp_path):
    """Pickled as `BatchPrefetcher` does, without the net."""
    training, data = tiny_training(family, features, tmp_path)
    maker = copy.copy(training)
    del maker.module
    here, there = Pipe()
    here.send(maker)
    first, again, other = (
        [*one.batches(data, epoch)] for one, epoch in ((training, 0), (there.recv(), 0), (training, 1))
    )
    assert first and all(map(is_same, first, again)) and len(first) == len(again)
    assert len(first) != len(other) or not all(map(is_same, first, other))


def is_same(one: object, other: object) -> bool:
    both = zip(vars(one).values(), vars(other).values(), strict=True)
    return all(a.shape == b.shape and torch.equal(a, b) for a, b in both)


@pytest.mark.parametrize("family", ["dsm", "ist"])
def test_other_encoding_size_is_refused(family, features, tmp_path):
    write_tiny_bpe(tmp_path / "bpe.json", [("t", "h")])
    with pytest.raises(BadFile, match=r"has 35 tokens and \[fit.config\]"):
        run(training_for(tiny_recipe(family)), features, tmp_path, CPU)


def sizes(family: str, **changes: Any) -> dict[str, Any]:
    return {"config": {**TINY_CONFIGS[family], **changes}}


@pytest.mark.parametrize(
    ("family", "change", "message"),
    [
        *[(family, sizes(family, speakers=3), r"3 speakers and \[corpus\] 2") for family in FITS],
        ("richtts", {"pieces": []}, r"pieces cannot be \[\]"),
        ("richtts", {"pieces": [7]}, r"pieces cannot be \[7\].*from 1 to 6, or 0"),
        ("richtts", {"pieces": [True]}, "pieces cannot be"),
        ("t5", sizes("t5", decoder_mask=True), "T5-TTS has no look-ahead masks"),
        ("s5", {"reference_frames": (20, 60)}, "references of at most 60 frames"),
        ("ist", {"ratios": ["3:1"]}, "more text than it speaks"),
        ("ist", {"ratios": ["2:7"]}, "no voice has learned"),
        ("dsm", {"extract_frames": (20, 80)}, "at most 80 frames; .* keeps 60"),
        ("dsm", {"extract_frames": (60, 20)}, r"extract_frames cannot be \(60, 20\); it is two lengths"),
        ("tacotron", {"alignment": "guess"}, "alignment cannot be 'guess'; it is one of corpus, straight"),
        ("tacotron", {"clause_words": [21]}, r"clause_words cannot be \[21\]"),
        ("tacotron", {"clause_words": []}, "clause_words cannot be"),
        ("tacotron", {"guide_symbols": 0.0}, "guide_symbols is not above 0"),
    ],
)
def test_invalid_recipes(family, change, message):
    with pytest.raises(BadOption, match=message):
        training_for(tiny_recipe(family, **change))


@pytest.mark.parametrize("family", ["t5", "s5"])
def test_references_without_sentences_are_refused(family, features, tmp_path):
    recipe = tiny_recipe(family, reference_frames=(500, 600), **sizes(family, reference_frames=600))
    with pytest.raises(BadFile, match="has 500 to 600 frames"):
        run(training_for(recipe), features, tmp_path, CPU)


@pytest.mark.parametrize(
    ("path", "config", "size", "own"),
    [
        *[(f"recipes/{one}-{size}.toml", S5Config, size, set()) for one, size in (("s5", "tiny"), ("s5", "small"))],
        ("recipes/s5-two.toml", S5Config, "small", set()),
        ("voices/finch/recipe.toml", S5Config, "small", {"speakers", "reference_frames"}),
        *[(f"recipes/t5-{size}.toml", T5Config, size, set()) for size in ("tiny", "small")],
        *[(f"recipes/dsm-{size}.toml", DsmConfig, size, set()) for size in ("tiny", "small")],
        *[(f"recipes/tacotron-{size}.toml", TacotronConfig, size, set()) for size in ("tiny", "small")],
        *[
            (f"recipes/{one}richtts-{size}.toml", RichTtsConfig, size, set())
            for one in ("", "ngram-")
            for size in ("tiny", "small")
        ],
        ("recipes/speakstream-tiny.toml", SpeakStreamConfig, "tiny", set()),
    ],
)
def test_recipes_have_the_named_sizes(path, config, size, own):
    fit = read_recipe(ROOT / "assets" / path).voice_fit()
    named, ours = config.named(size).to_dict(), config(**fit.config).to_dict()
    assert {key for key, value in ours.items() if value != named[key]} - {"alignment_scale"} == own
    assert FITS[fit.family] is type(fit)
