"""Five nets are five nets: what each is made of, counted at its paper's sizes."""

from collections import Counter

import pytest
import torch
from torch import nn

from studio.engine.families.base import family_names
from studio.engine.families.dsm.depth import DepthTransformer
from studio.engine.families.dsm.model import Dsm, DsmConfig
from studio.engine.families.ist.model import Ist, IstConfig
from studio.engine.families.kyutai.config import KyutaiConfig
from studio.engine.families.kyutai.model import CrossAttention as KyutaiCrossAttention
from studio.engine.families.kyutai.model import DepthAttention, KyutaiLM
from studio.engine.families.richtts.model import RichTts, RichTtsConfig
from studio.engine.families.s5.model import S5, AuxiliaryAttention, S5Config
from studio.engine.families.speakstream.model import SpeakStream, SpeakStreamConfig
from studio.engine.families.t5.model import T5, T5Config
from studio.engine.families.tacotron.model import LocationSensitiveAttention, Tacotron, TacotronConfig
from studio.engine.nets.transformer import Block, CrossAttention
from studio.engine.nets.windowed import WindowedAttention

COUNTED = {
    "self-attention": Block | WindowedAttention,
    "cross-attention": CrossAttention | KyutaiCrossAttention,
    "LSTM": nn.RNNBase | nn.RNNCellBase,
    "depth": DepthTransformer | DepthAttention,
    "auxiliary attention": AuxiliaryAttention,
    "location-sensitive attention": LocationSensitiveAttention,
    "convolution": nn.Conv1d,
}


def named(config: type) -> object:
    return config.named("paper")


NETS = {
    "speakstream": lambda: SpeakStream(named(SpeakStreamConfig)),
    "richtts": lambda: RichTts(named(RichTtsConfig)),
    "s5": lambda: S5(named(S5Config)),
    "t5": lambda: T5(named(T5Config)),
    "dsm": lambda: Dsm(named(DsmConfig)),
    "ist": lambda: Ist(named(IstConfig)),
    "kyutai": lambda: KyutaiLM(KyutaiConfig()),
    "tacotron": lambda: Tacotron(named(TacotronConfig)),
}
WANTED = {
    "speakstream": {"self-attention": 36},  # one decoder over text and frames
    "richtts": {"self-attention": 36},  # the same decoder
    "s5": {"self-attention": 4 + 8, "cross-attention": 8, "auxiliary attention": 1, "convolution": 4},
    "t5": {"self-attention": 4 + 8, "cross-attention": 8},  # the same, and nothing that a mask needs
    # A backbone that attends to who speaks, four layers of depth for each of eight groups; convolutions hear a speaker.
    "dsm": {"self-attention": 16 + 8 * 4, "cross-attention": 16, "depth": 1, "convolution": 2},
    "ist": {"self-attention": 12},
    # The published net of paper 002: four layers of depth, whose weights depend on the codebook.
    "kyutai": {"self-attention": 16, "cross-attention": 16, "depth": 4},
    # The encoder's LSTM goes both ways; a convolution of the attention knows where it was.
    "tacotron": {"LSTM": 3, "location-sensitive attention": 1, "convolution": 3 + 1},
}


def made_of(name: str) -> tuple[dict[str, int], set[str]]:
    """How many of each kind a net has, and the names of its parts."""
    with torch.device("meta"):
        net = NETS[name]()
    found = Counter(kind for part in net.modules() for kind, one in COUNTED.items() if isinstance(part, one))
    return dict(found), {part for part, _ in net.named_children()}


@pytest.mark.parametrize("name", NETS)
def test_each_net_has_its_papers_modules(name):
    found, _ = made_of(name)
    assert found == WANTED[name]


def test_no_family_is_another_with_another_rule():
    """But the baselines of papers 000 and 001: their nets, told nothing of windows; the n-gram twin is the same net."""
    assert {*NETS, "ngram-richtts"} == {*family_names()}, "a new family says here what it is made of"
    parts = {name: made_of(name)[1] for name in NETS}
    # The two that are one decoder each are told how to interleave, each by tables of its own.
    assert parts["speakstream"] - parts["richtts"] == {"scheme", "spoken", "look_ahead"} and not (
        parts["richtts"] - parts["speakstream"]
    )
    assert parts["s5"] - parts["t5"] == {"look_ahead", "aligner"} and not (parts["t5"] - parts["s5"])
    assert "ratio" in parts["ist"] - parts["speakstream"] and parts["speakstream"] - parts["ist"]
    assert len({frozenset(one) for one in parts.values()}) == len(NETS)
