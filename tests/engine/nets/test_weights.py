"""Matrices in eight bits: how near they are, what a file must hold, and that it loads as any other."""

import pytest
import torch
from safetensors.torch import load_file, save_file
from tinyvoice import write_tiny_voice

from studio.core.cards import read_card, sha256_of, write_card
from studio.core.errors import BadFile, BadVoice
from studio.engine.engine import open_engine
from studio.engine.nets.loading import SCALE, dequantise, quantise_int8
from studio.text.normalise import best
from studio.train.fit.resources import load_initial_weights


def test_each_row_is_near_by_its_own_scale():
    torch.manual_seed(1)
    weights = {"big": torch.randn(64, 80) * torch.logspace(-3, 2, 64)[:, None], "bias": torch.randn(64)}
    weights |= {"kernel": torch.randn(32, 16, 9), "table": torch.arange(90).view(9, 10), "nothing": torch.zeros(64, 64)}
    kept = quantise_int8(weights)
    assert {name: kept[name].dtype for name in ("big", "kernel", "nothing")} == dict.fromkeys(
        ("big", "kernel", "nothing"), torch.int8
    )
    assert kept["bias"].dtype == torch.bfloat16 and kept["table"].dtype == torch.int64
    back = dequantise(kept)
    assert back.keys() == weights.keys()
    for name in ("big", "kernel"):
        off = (back[name] - weights[name]).abs().flatten(1).amax(1)
        assert (off <= weights[name].abs().flatten(1).amax(1) / 253).all(), "half a step of 127"
    assert torch.equal(back["table"], weights["table"]) and not back["nothing"].any()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda kept: kept.pop("big" + SCALE), "big has no scale"),
        (lambda kept: kept.update({"big" + SCALE: torch.ones(3)}), "big has no scale"),
        (lambda kept: kept.pop("big"), "has no int8 tensor"),
        (lambda kept: kept.update(big=kept["big"].float()), "has no int8 tensor"),
    ],
)
def test_a_file_that_is_not_whole(change, said, tmp_path):
    kept = quantise_int8({"big": torch.randn(64, 80)})
    change(kept)
    with pytest.raises(ValueError, match=said):
        dequantise(kept)
    save_file(kept, tmp_path / "net.safetensors")
    with pytest.raises(BadFile, match=said):
        load_initial_weights(torch.nn.Linear(80, 64), tmp_path / "net.safetensors")


def test_a_voice_is_loaded_from_eight_bits(tmp_path):
    folder = write_tiny_voice(tmp_path)
    path = folder / "speakstream.safetensors"
    save_file(kept := quantise_int8(load_file(path)), path)
    assert any(tensor.dtype == torch.int8 for tensor in kept.values())
    card = read_card(folder)
    with pytest.raises(BadVoice, match="sha256 differs"):
        open_engine(tmp_path, best(), device="cpu", threads=1)
    card.sha256[path.name] = sha256_of(path)
    write_card(folder, card)
    open_engine(tmp_path, best(), device="cpu", threads=1).close()
    kept.pop(next(name for name in kept if name.endswith(SCALE)))
    save_file(kept, path)
    card.sha256[path.name] = sha256_of(path)
    write_card(folder, card)
    with pytest.raises(BadVoice, match=r"does not fit the card's configuration: .* has no scale"):
        open_engine(tmp_path, best(), device="cpu", threads=1)
