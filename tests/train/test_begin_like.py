"""A net that begins like another family's: what is taken over, and what is refused."""

from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file

from studio.core.errors import BadFile
from studio.engine.eightbit import in_eight_bits
from studio.engine.families.dsm.net import Config as DsmConfig
from studio.engine.families.ist.net import Config, Ist
from studio.engine.families.speakstream.net import Config as SpeakStreamConfig
from studio.engine.families.speakstream.net import SpeakStream
from studio.train.dsm.fit import DsmFitter
from studio.train.weights import begin_like


@pytest.fixture
def spoken(tmp_path):
    torch.manual_seed(1)
    net = SpeakStream(SpeakStreamConfig(2, 32, 2, 64, 2))
    path = tmp_path / "speakstream.safetensors"
    save_file({name: tensor.contiguous() for name, tensor in net.state_dict().items()}, path)
    return path


def test_layers_of_the_same_name_and_shape_are_taken_over(spoken):
    torch.manual_seed(2)
    net, theirs = Ist(Config(2, 32, 2, 64, 70, 2)), load_file(spoken)
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    names = begin_like(net, spoken)
    assert {"decoder.blocks.1.qkv.weight", "frame.weight", "levels_out.bias", "level.weight"} <= set(names)
    after = net.state_dict()
    assert all(torch.equal(after[name], theirs[name]) for name in names)
    own = {"symbol.weight", "ratio.weight", "text_place", "prompt"}
    assert not own & set(names) and all(torch.equal(after[name], before[name]) for name in own)


def test_a_deeper_net_keeps_its_own_upper_layers_and_eight_bits_are_read(spoken):
    save_file(in_eight_bits(load_file(spoken)), spoken)
    net = Ist(Config(3, 32, 2, 64, 70, 2))
    upper = net.decoder.blocks[2].get_parameter("up.weight").detach().clone()
    assert not any(name.startswith("decoder.blocks.2.") for name in begin_like(net, spoken))
    assert torch.equal(net.decoder.blocks[2].get_parameter("up.weight"), upper)


def test_tokens_of_dsm_are_heard_beside_frames_that_began_elsewhere(spoken):
    """Else a step's sum, and with it the first layers, knows next to nothing of its text."""
    weights = load_file(spoken)
    weights["frame.weight"] *= 6.0  # a trained net's frames are longer than chance makes them
    save_file(weights, spoken)
    fitter = DsmFitter(replace(DsmConfig.named("tiny"), layers=2, width=32, heads=2, hidden=64))
    net = fitter.net
    for speaker in range(2):
        net.set_extract(speaker, torch.randint(0, 16, (90, 80), dtype=torch.uint8))
    chance = net.text.weight.detach().clone()
    fitter.match([])
    assert torch.equal(net.text.weight, chance)
    fitter.match(begin_like(net, spoken))
    levels = net.extract[0, :90]
    frames = net.frame(net.level(levels.long()).flatten(-2)).norm(dim=-1).mean().detach()
    tokens = torch.arange(90)
    text = (net.text(tokens) + net.ahead(tokens + 7)).norm(dim=-1).mean().detach()
    assert float(text) == pytest.approx(float(frames), rel=0.2) and float(text) > 3.0 * float(
        chance.norm(dim=-1).mean()
    )


def test_nothing_in_common_is_an_error(spoken, tmp_path):
    with pytest.raises(BadFile, match="has no layer of this net's sizes"):
        begin_like(Ist(Config(2, 48, 2, 80, 70, 2)), spoken)
    (tmp_path / "none.safetensors").write_bytes(b"no")
    with pytest.raises(BadFile, match="is no file of weights"):
        begin_like(Ist(Config(2, 32, 2, 64, 70, 2)), tmp_path / "none.safetensors")
