"""A training begins from a file's weights, or says why it cannot."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from studio.core.errors import BadFile
from studio.train.fit.weights import load_initial_weights


def net(width: int = 3, layers: int = 2) -> nn.Sequential:
    return nn.Sequential(*(nn.Linear(width, width) for _ in range(layers)))


def kept(net: nn.Module, path: Path) -> Path:
    save_file({name: tensor.bfloat16() for name, tensor in net.state_dict().items()}, path)
    return path


def test_weights_in_half_precision_are_taken(tmp_path: Path) -> None:
    old, new = net(), net()
    load_initial_weights(new, kept(old, tmp_path / "a.safetensors"))
    weight = new.state_dict()["0.weight"]
    assert weight.dtype == torch.float32 and torch.equal(weight, old.state_dict()["0.weight"].bfloat16().float())


def test_layers_on_top_may_lack(tmp_path: Path) -> None:
    old, new = net(), net(layers=3)
    top = new.state_dict()["2.weight"].clone()
    load_initial_weights(new, kept(old, tmp_path / "a.safetensors"), may_lack=("2.",))
    assert torch.equal(new.state_dict()["2.weight"], top)
    assert torch.equal(new.state_dict()["1.bias"], old.state_dict()["1.bias"].bfloat16().float())


@pytest.mark.parametrize(
    ("given", "why"),
    [(net(layers=1), "1.weight, 1.bias"), (net(layers=3), "2.bias, 2.weight"), (net(width=4), "0.bias, 0.weight")],
    ids=["too few layers", "too many", "another width"],
)
def test_what_does_not_fit_changes_nothing(tmp_path: Path, given: nn.Module, why: str) -> None:
    new = net()
    before = {name: tensor.clone() for name, tensor in new.state_dict().items()}
    with pytest.raises(BadFile, match=f"does not fit this net: {why}"):
        load_initial_weights(new, kept(given, tmp_path / "a.safetensors"))
    assert all(torch.equal(before[name], tensor) for name, tensor in new.state_dict().items())


def test_what_is_no_file_of_weights_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.safetensors").write_bytes(b"\x80\x04no weights")
    for path in (tmp_path / "a.safetensors", tmp_path / "missing.safetensors"):
        with pytest.raises(BadFile, match="is no file of weights"):
            load_initial_weights(net(), path)
