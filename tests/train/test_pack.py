"""Packing: a failure leaves the existing voice unchanged and names the wrong file."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tinyfeatures import tensors_changed, times, tiny_recipe
from tinyvoice import VOCODERS

from studio.core.cards import read_card, read_cards
from studio.core.errors import BadFile, BadOption
from studio.core.folders import VOICES
from studio.engine.engine import open_engine
from studio.engine.families.base import family_info
from studio.engine.vocoders.module import build_vocoder
from studio.text.normalise import best
from studio.train.pack import pack_voice


def speaks(voices: Path) -> None:
    engine = open_engine(voices, best(), device="cpu", threads=1)
    engine.close()


def in_weights(change):
    """A change of the tensors of a training's weights."""
    return lambda made: tensors_changed(made / "state/t5.safetensors", change)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (in_weights(lambda t: t.popitem()), "does not fit this net"),
        (lambda made: (made / "state/t5.safetensors").write_bytes(b"\x80\x04."), "is no file of weights"),
        (in_weights(lambda t: times(t, float("nan"))), "has numbers that are not finite"),
        (in_weights(lambda t: t.update({k: v.long() for k, v in t.items()})), "does not fit this net"),
        (lambda made: (made / "vocoders/sourcefilter.json").unlink(), "a vocoder.s configuration"),
        (lambda made: (made / "vocoders/sourcefilter.json").write_text("["), "a vocoder.s configuration"),
        (
            lambda made: (made / "vocoders/sourcefilter.json").write_text('{"config": []}'),
            "is not a vocoder.s configuration",
        ),
        (lambda made: (made / "vocoders/sourcefilter.json").write_bytes(b"\xff"), "a vocoder.s configuration"),
        (lambda made: (made / "vocoders/sourcefilter.safetensors").write_bytes(b"no"), "is no file of weights"),
        ("too large", "the voice would be"),
    ],
)
def test_failed_packing_leaves_the_voice_unchanged(made, monkeypatch, spoil, message):
    if spoil == "too large":
        monkeypatch.setattr("studio.train.pack.MAX_BYTES", 1000)
    else:
        spoil(made)
    before = {path: path.read_bytes() for path in (made / "voices").rglob("*") if path.is_file()}
    with pytest.raises(BadFile, match=message):
        pack_voice(tiny_recipe("t5"), made / "state", made / "vocoders", made / "voices")
    assert {path: path.read_bytes() for path in (made / "voices").rglob("*") if path.is_file()} == before
    speaks(made / "voices")


@pytest.mark.parametrize("change", [{"name": "../../out"}, {"name": ""}, {"name": "a/b"}, {"fit": None}])
def test_recipe_without_a_voice_is_refused(made, change):
    with pytest.raises(BadOption, match=r"trains no voice|a voice cannot be called"):
        pack_voice(replace(tiny_recipe("t5"), **change), made / "state", made / "vocoders", made / "voices")
    assert [path.name for path in (made / "voices").iterdir()] == ["small"]


def test_repacked_voice_replaces_the_old_one(made):
    tensors_changed(made / "state/t5.safetensors", lambda t: times(t, 1.5))
    before = (made / "voices/small/t5.safetensors").read_bytes()
    folder = pack_voice(tiny_recipe("t5"), made / "state", made / "vocoders", made / "voices")
    assert (folder / "t5.safetensors").read_bytes() != before
    assert np.isfinite(load_file(folder / "t5.safetensors")["levels_out.weight"].float().numpy()).all()
    assert json.loads((folder / "card.json").read_text())["name"] == "small"
    speaks(made / "voices")


def test_recipe_sets_default_options(made):
    place, before = (made / "state", made / "vocoders", made / "voices"), family_info("t5").options
    pack_voice(replace(tiny_recipe("t5"), options={"chunk_frames": 3}), *place)
    card, _ = read_cards(made / "voices")["small"]
    changed = [(one.name, one.default) for one, own in zip(card.options, before, strict=True) if one != own]
    assert changed == [("chunk_frames", 3)], "and no others"
    speaks(made / "voices")
    for options, message in (({"loud": 1}, "no option 'loud'"), ({"chunk_frames": -1}, "chunk_frames")):
        with pytest.raises(BadOption, match=message):
            pack_voice(replace(tiny_recipe("t5"), options=options), *place)
    assert read_cards(made / "voices")["small"][0] == card


def test_recipe_names_the_vocoder(made):
    place = (made / "state", made / "vocoders", made / "voices")
    vocoder = build_vocoder("hifigan", VOCODERS["hifigan"])
    save_file(vocoder.state_dict(), made / "vocoders/hifigan.safetensors")
    (made / "vocoders/hifigan.json").write_text(json.dumps({"config": vocoder.plain_config()}))
    for asked, speaks_by in (("", "sourcefilter"), ("hifigan", "hifigan"), ("sourcefilter", "sourcefilter")):
        pack_voice(replace(tiny_recipe("t5"), default_vocoder=asked), *place)
        card, _ = read_cards(made / "voices")["small"]
        assert card.vocoder == speaks_by and set(card.vocoders) == {"hifigan", "sourcefilter"}
        speaks(made / "voices")
    with pytest.raises(BadFile, match="has no vocoder 'loud'; it has hifigan, sourcefilter"):
        pack_voice(replace(tiny_recipe("t5"), default_vocoder="loud"), *place)
    assert read_cards(made / "voices")["small"][0] == card


def test_voice_may_reuse_the_vocoder_of_another_voice(made):
    folder = pack_voice(tiny_recipe("t5"), made / "state", made / "voices/small", made / "others")
    assert (folder / "card.json").read_text() == (made / "voices/small/card.json").read_text()
    speaks(made / "others")
    shipped = pack_voice(tiny_recipe("t5"), made / "state", VOICES / "finch", made / "more")
    assert read_card(shipped).vocoders == read_card(VOICES / "wren").vocoders
    ours, theirs = (load_file(one / "sourcevocos.safetensors") for one in (shipped, VOICES / "wren"))
    assert ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)
    speaks(made / "more")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda voice: (voice / "card.json").write_text("["), "give another voice's folder"),
        (lambda voice: (voice / "sourcefilter.safetensors").unlink(), "lacks the sourcefilter.safetensors"),
        (lambda voice: (voice / "sourcefilter.safetensors").write_bytes(b"no"), "lacks the sourcefilter.safetensors"),
    ],
)
def test_vocoder_of_a_damaged_voice_is_refused(made, spoil, message):
    spoil(made / "voices/small")
    with pytest.raises(BadFile, match=message):
        pack_voice(tiny_recipe("t5"), made / "state", made / "voices/small", made / "others")
    assert not (made / "others/small").exists()
