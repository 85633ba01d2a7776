"""Weight files, nets initialised from another family, optimisers."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from studio.core.errors import BadFile
from studio.engine.families.dsm.model import Dsm, DsmConfig
from studio.engine.families.ist.model import Ist, IstConfig
from studio.engine.families.speakstream.model import SpeakStream, SpeakStreamConfig
from studio.engine.nets.loading import quantise_int8
from studio.train.families.dsm_fit import lay_text_apart, tokens_of
from studio.train.fit.resources import load_initial_weights, load_shared_weights
from studio.train.fit.training import Float32Muon


def net(width: int = 3, layers: int = 2) -> nn.Sequential:
    return nn.Sequential(*(nn.Linear(width, width) for _ in range(layers)))


def kept(net: nn.Module, path: Path) -> Path:
    save_file({name: tensor.bfloat16() for name, tensor in net.state_dict().items()}, path)
    return path


def test_half_precision_weights_are_accepted(tmp_path: Path) -> None:
    old, new = net(), net()
    load_initial_weights(new, kept(old, tmp_path / "a.safetensors"))
    weight = new.state_dict()["0.weight"]
    assert weight.dtype == torch.float32 and torch.equal(weight, old.state_dict()["0.weight"].bfloat16().float())


def test_upper_layers_may_be_missing(tmp_path: Path) -> None:
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
def test_mismatched_weights_change_nothing(tmp_path: Path, given: nn.Module, why: str) -> None:
    new = net()
    before = {name: tensor.clone() for name, tensor in new.state_dict().items()}
    with pytest.raises(BadFile, match=f"does not fit this net: {why}"):
        load_initial_weights(new, kept(given, tmp_path / "a.safetensors"))
    assert all(torch.equal(before[name], tensor) for name, tensor in new.state_dict().items())


def test_invalid_weight_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.safetensors").write_bytes(b"\x80\x04no weights")
    for path in (tmp_path / "a.safetensors", tmp_path / "missing.safetensors"):
        with pytest.raises(BadFile, match="is no file of weights"):
            load_initial_weights(net(), path)


SETTINGS = {"lr": 0.01, "weight_decay": 0.02, "adjust_lr_fn": "match_rms_adamw"}


@pytest.mark.parametrize("shape", [(48, 16), (16, 48), (32, 32)])
def test_steps_equal_torchs_within_bfloat16_rounding(shape: tuple[int, int]) -> None:
    torch.manual_seed(0)
    begin = torch.randn(shape)
    ours, theirs = (torch.nn.Parameter(begin.clone()) for _ in range(2))
    optims = [Float32Muon([ours], **SETTINGS), torch.optim.Muon([theirs], **SETTINGS)]
    for _ in range(6):
        gradient = torch.randn(shape)
        for weight, optim in zip((ours, theirs), optims, strict=True):
            weight.grad = gradient.clone()
            optim.step()
    moved, wanted = (ours - begin).detach(), (theirs - begin).detach()
    assert float((moved - wanted).norm() / wanted.norm()) < 0.03
    assert float(wanted.norm()) > 0.1
    optims[0].load_state_dict(optims[1].state_dict())
    assert torch.equal(optims[0].state[ours]["momentum_buffer"], optims[1].state[theirs]["momentum_buffer"])


def test_parameters_without_gradient_stay_and_closures_run() -> None:
    moved, still = (torch.nn.Parameter(torch.eye(4)) for _ in range(2))
    optim = Float32Muon([moved, still], **SETTINGS)
    moved.grad = torch.ones(4, 4)
    assert optim.step(lambda: 0.25) == 0.25
    assert not torch.equal(moved, torch.eye(4)) and torch.equal(still, torch.eye(4))


def test_other_rate_adjustment_is_refused() -> None:
    weight = torch.nn.Parameter(torch.eye(3))
    weight.grad = torch.ones(3, 3)
    with pytest.raises(ValueError, match="match_rms_adamw"):
        Float32Muon([weight]).step()


@pytest.fixture
def spoken(tmp_path):
    torch.manual_seed(1)
    net = SpeakStream(SpeakStreamConfig(2, 32, 2, 64, 2))
    path = tmp_path / "speakstream.safetensors"
    save_file({name: tensor.contiguous() for name, tensor in net.state_dict().items()}, path)
    return path


def test_layers_of_equal_name_and_shape_are_taken_over(spoken):
    torch.manual_seed(2)
    net, theirs = Ist(IstConfig(2, 32, 2, 64, 70, 2)), load_file(spoken)
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    names = load_shared_weights(net, spoken)
    assert {"decoder.blocks.1.qkv.weight", "frame.weight", "levels_out.bias", "level.weight"} <= set(names)
    after = net.state_dict()
    assert all(torch.equal(after[name], theirs[name]) for name in names)
    own = {"symbol.weight", "ratio.weight", "text_place", "prompt"}
    assert not own & set(names) and all(torch.equal(after[name], before[name]) for name in own)


def test_deeper_net_keeps_its_upper_layers_and_eight_bit_weights_are_read(spoken):
    save_file(quantise_int8(load_file(spoken)), spoken)
    net = Ist(IstConfig(3, 32, 2, 64, 70, 2))
    upper = net.decoder.blocks[2].get_parameter("up.weight").detach().clone()
    assert not any(name.startswith("decoder.blocks.2.") for name in load_shared_weights(net, spoken))
    assert torch.equal(net.decoder.blocks[2].get_parameter("up.weight"), upper)


def voiced(count):
    """Frames uint8 [count, 80] that are each one of six, so they span six directions."""
    kinds = torch.randint(0, 16, (6, 80), dtype=torch.uint8, generator=torch.Generator().manual_seed(4))
    return kinds[torch.arange(count) % 6]


@pytest.fixture
def dsm(spoken):
    """A tiny net with two speakers, with frames initialised as in a trained net, ten times the default norm."""
    weights = load_file(spoken)
    weights["frame.weight"] *= 10.0
    save_file(weights, spoken)
    torch.manual_seed(3)
    net = Dsm(replace(DsmConfig.named("tiny"), layers=2, width=32, heads=2, hidden=64, text_tokens=70))
    for speaker in range(2):
        net.set_extract(speaker, voiced(90))
    assert "frame.weight" in load_shared_weights(net, spoken)
    return net


def frames_of(net):
    return net.frame(net.level(voiced(90).long()).flatten(-2)).detach()


def told_apart(net, symbols):
    """The smallest share of any symbol's norm that is orthogonal to the frames."""
    _, sizes, directions = torch.linalg.svd(frames_of(net), full_matrices=False)
    some = directions[: int((sizes > 1e-3 * sizes[0]).sum())]
    return float(((symbols - symbols @ some.T @ some).norm(dim=-1) / symbols.norm(dim=-1)).min())


def test_dsm_text_starts_orthogonal_to_frames_with_equal_norm(dsm):
    """Otherwise the sum of a step, and so the first layers, hardly depends on the text."""
    before, ahead = dsm.text.weight.detach().clone(), dsm.ahead.weight.detach().clone()
    assert told_apart(dsm, before) < 0.9
    lay_text_apart(dsm, None)
    text, pad = dsm.text.weight.detach(), dsm.config.symbols.pad
    words = torch.cat((text[:pad], text[pad + 1 :]))
    assert told_apart(dsm, words) > 0.97
    assert told_apart(dsm, dsm.ahead.weight.detach()) > 0.97
    length = float(frames_of(dsm).norm(dim=-1).mean())
    assert float(text[:pad].norm(dim=-1).mean()) == pytest.approx(length, rel=0.1)
    assert length > 3.0 * float(before.norm(dim=-1).mean())
    assert not text[pad].any()  # padding has no embedding
    assert bool((dsm.ahead.weight.norm(dim=-1) <= ahead.norm(dim=-1) + 1e-5).all())  # not what is spoken


def test_dsm_tokens_start_from_a_net_with_the_same_text(dsm, tmp_path):
    theirs, own = tmp_path / "theirs", tmp_path / "bpe.json"
    theirs.mkdir()
    net = Ist(IstConfig(2, 32, 2, 64, 70, 2))
    save_file({k: v.contiguous() for k, v in net.state_dict().items()}, theirs / "ist.safetensors")
    own.write_text("one encoding")
    assert tokens_of(theirs / "ist.safetensors", own) is None  # no file says which encoding they have
    (theirs / "bpe.json").write_text("another encoding")
    assert tokens_of(theirs / "ist.safetensors", own) is None
    (theirs / "bpe.json").write_text("one encoding")
    tokens = tokens_of(theirs / "ist.safetensors", own)
    assert tokens is not None and torch.equal(tokens, net.symbol.weight)
    lay_text_apart(dsm, tokens)
    alike = torch.nn.functional.cosine_similarity(dsm.text.weight[:70], net.symbol.weight[:70]).detach()
    assert float(alike.min()) > 0.6  # except in the frames' subspace
    assert not torch.allclose(dsm.text.weight[71], net.symbol.weight[71])  # no token: the two nets' own symbols


def test_nothing_in_common_is_an_error(spoken, tmp_path):
    with pytest.raises(BadFile, match="has no layer of this net's sizes"):
        load_shared_weights(Ist(IstConfig(2, 48, 2, 80, 70, 2)), spoken)
    (tmp_path / "none.safetensors").write_bytes(b"no")
    with pytest.raises(BadFile, match="is no file of weights"):
        load_shared_weights(Ist(IstConfig(2, 32, 2, 64, 70, 2)), tmp_path / "none.safetensors")
