"""DSM-TTS's net: sizes, what runs against what was trained, guidance, speakers, and voices that are not whole."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tinyvoice import BPE_SIZE, NETS, write_tiny_bpe, write_tiny_voice

from studio.core import events as ev
from studio.core.cards import sha256_of
from studio.core.errors import BadOption, BadVoice
from studio.core.ports import SpeakRequest
from studio.engine.engine import open_engine
from studio.engine.families.common.text_tokens import Bpe
from studio.engine.families.dsm.depth import GROUP_CHANNELS, GROUPS, DepthTransformer
from studio.engine.families.dsm.model import Dsm, DsmConfig
from studio.engine.families.dsm.policy import DsmInput, DsmOutput
from studio.engine.families.dsm.runner import DsmFamily, DsmRunner
from studio.engine.nets.transformer import CrossAttention
from studio.engine.tokenizers import dmel
from studio.text.normalise import best

PAPER_PARAMETERS = 1.8e9  # 32 codebooks among them; ours are eight groups of channels
CPU = torch.device("cpu")
DELAY, ACOUSTIC = 6, 2  # of the tiny net


def parameters(name: str) -> int:
    with torch.device("meta"):
        return sum(p.numel() for p in Dsm(DsmConfig.named(name)).parameters())


def test_sizes():
    paper = DsmConfig.named("paper")
    assert (paper.layers, paper.width, paper.heads) == (16, 2048, 16)
    assert (paper.depth_layers, paper.depth_width, paper.depth_shared) == (4, 1024, False)
    assert (paper.delay_s, paper.delay_frames, paper.look_ahead_words, paper.acoustic_delay_frames) == (1.28, 51, 2, 2)
    with torch.device("meta"):
        net = Dsm(paper)
    backbone = sum(p.numel() for one in (net.decoder, net.cross) for p in one.parameters())
    assert 0.9e9 < backbone < 1.2e9, "a backbone of 1B"
    # Of the depth transformer the paper's last 24 codebooks, which share three sets of layers, are not there.
    assert 0.75 < parameters("paper") / PAPER_PARAMETERS < 1.0
    assert parameters("small") * 2 <= 6e6 and parameters("tiny") <= 1e6
    with pytest.raises(BadOption, match="there is no config 'huge'; there are paper, small, tiny"):
        DsmConfig.named("huge")


def test_every_layer_attends_to_the_speakers_and_every_group_has_its_own_layers():
    with torch.device("meta"):
        net = Dsm(DsmConfig.named("paper"))
    assert sum(isinstance(one, CrossAttention) for one in net.modules()) == 16
    assert sum(isinstance(one, DepthTransformer) for one in net.modules()) == 1 and len(net.depth.stacks) == GROUPS


def tiny(**sizes) -> Dsm:
    net = NETS["dsm"](0.0, **sizes).eval()
    with torch.no_grad():
        for parameter in net.parameters():
            if parameter.ndim == 1 and len(parameter) > 1:
                parameter.uniform_(0.5, 1.5)
    return net


@pytest.fixture(scope="module")
def bpe(tmp_path_factory) -> Bpe:
    path = tmp_path_factory.mktemp("bpe") / "bpe.json"
    write_tiny_bpe(path)
    return Bpe.read(path)


def a_step(at: int, text: int = 0, ahead: int = 0, **changes) -> DsmInput:
    groups = "none" if at < DELAY else "first" if at < DELAY + ACOUSTIC else "all"
    given = DsmInput(text, ahead, 0, at, at == 0, groups, (0,), 1.0, temperature=0.0, seed=1)
    return replace(given, **changes)


def steps_of(family: DsmFamily, given: list[DsmInput], row: tuple[int, int] = (0, 1)) -> list[DsmOutput]:
    found = []
    for one in given:
        module = family.modules["warm" if one.groups == "none" else "decode"]
        found += module.run(family.slots, [row], [one])
    return found


@pytest.fixture(params=["numpy", "torch"])
def way(request, monkeypatch):
    """Steps run in numpy, as in float32, and in torch, as in int8."""
    if request.param == "torch":
        monkeypatch.setattr(DsmRunner, "_for_cpu", lambda self, *_: None)


@torch.inference_mode()
@pytest.mark.parametrize("depth_shared", [True, False])
def test_what_is_made_ready_to_run_says_what_the_net_says(bpe, depth_shared, way):
    """Steps through modules and slots against one pass of the net over the whole."""
    net = tiny(depth_shared=depth_shared)
    family = DsmFamily(net, bpe, 1, CPU)
    rng = np.random.default_rng(3)
    text, ahead = (rng.integers(0, net.config.symbols.count, 24).tolist() for _ in range(2))
    drawn = steps_of(family, [a_step(s, text[s], ahead[s]) for s in range(24)])
    levels = torch.from_numpy(np.stack([one.levels for one in drawn]))
    fed = torch.cat((torch.full((1, 80), dmel.PAD, dtype=torch.uint8), levels[:-1]))
    x = net.embed(torch.tensor([text]), torch.tensor([ahead]), fed[None])
    speakers = net.speakers(net.encoder(net.extract), torch.tensor([[0, -1, -1, -1, -1]]))
    hidden = net.hidden(x, speakers)[0]
    action = net.action_out(hidden).squeeze(-1).sigmoid()
    np.testing.assert_allclose([one.p_word for one in drawn], action.numpy(), rtol=1e-4, atol=1e-5)
    assert [one.begins for one in drawn] == (action >= 0.5).tolist()
    logits = net.depth(hidden, net.level(levels.long()))
    wanted = logits.argmax(-1).to(torch.uint8)
    assert (levels[:DELAY] == dmel.PAD).all() and (levels[DELAY : DELAY + ACOUSTIC, 10:] == dmel.PAD).all()
    assert torch.equal(levels[DELAY:, :10], wanted[DELAY:, :10])
    assert torch.equal(levels[DELAY + ACOUSTIC :], wanted[DELAY + ACOUSTIC :])


@torch.inference_mode()
def test_only_what_is_remembered_matters(bpe):
    """With a context of 12 steps, what was fed before them has no say in one layer."""
    net = tiny(context_frames=12)
    net.decoder.blocks, net.cross = net.decoder.blocks[:1], net.cross[:1]
    results = []
    for first in (3, 9):
        family = DsmFamily(net, bpe, 1, CPU)
        given = [a_step(s, first if s < 9 else 1, start=max(0, s - 11)) for s in range(21)]
        for one in given:
            family.slots.last[0] = torch.full((80,), one.at % 16, dtype=torch.uint8)
            (found,) = steps_of(family, [one])
        results.append(found.p_word)
    assert results[0] == results[1]


@torch.inference_mode()
@pytest.mark.parametrize("is_shared", [True, False])
def test_a_group_knows_those_before_it_and_no_other(is_shared):
    net = tiny(depth_shared=is_shared)
    hidden, levels = torch.randn(1, 64), torch.randint(0, 16, (1, 80))
    base = net.depth(hidden, net.level(levels))
    for group in range(GROUPS):
        other = levels.clone()
        other[0, group * GROUP_CHANNELS] = (other[0, group * GROUP_CHANNELS] + 5) % 16
        changed = (net.depth(hidden, net.level(other)) != base).flatten(2).any(2).view(GROUPS, GROUP_CHANNELS).any(1)
        assert changed.tolist() == [g > group for g in range(GROUPS)]


# ------------------------------------------------------------------ guidance


@torch.inference_mode()
def test_guidance_is_equation_8(bpe, way):
    """l = l0 + alpha (lc - l0), group by group, the channels before being the same for both; the action is lc's."""
    net, alpha = tiny(), 2.5
    family = DsmFamily(net, bpe, 1, CPU)
    symbols, count = net.config.symbols, 14
    text = np.random.default_rng(5).integers(0, symbols.count, count).tolist()
    drawn = steps_of(family, [a_step(s, text[s], text[-s], guidance=alpha) for s in range(count)])
    levels = torch.from_numpy(np.stack([one.levels for one in drawn]))
    fed = torch.cat((torch.full((1, 80), dmel.PAD, dtype=torch.uint8), levels[:-1]))
    embedded = net.encoder(net.extract)

    def logits(text: list[int], ahead: list[int], who: int) -> tuple[torch.Tensor, torch.Tensor]:
        speakers = net.speakers(embedded, torch.tensor([[who, -1, -1, -1, -1]]))
        hidden = net.hidden(net.embed(torch.tensor([text]), torch.tensor([ahead]), fed[None]), speakers)[0]
        return net.depth(hidden, net.level(levels.long())), net.action_out(hidden).squeeze(-1).sigmoid()

    conditioned, action = logits(text, [text[-s] for s in range(count)], 0)
    without, _ = logits([symbols.nothing] * count, [symbols.nothing] * count, -1)
    wanted = (without + alpha * (conditioned - without)).argmax(-1).to(torch.uint8)
    assert torch.equal(levels[DELAY + ACOUSTIC :], wanted[DELAY + ACOUSTIC :])
    assert not torch.equal(wanted, conditioned.argmax(-1).to(torch.uint8)), "or nothing was tested"
    np.testing.assert_allclose([one.p_word for one in drawn], action.numpy(), rtol=1e-4, atol=1e-5)


@torch.inference_mode()
def test_guided_and_unguided_rows_of_different_phases_in_one_batch(bpe, way):
    net = tiny()
    rows, starts = [(0, 1), (2, 3), (4, 5)], [0, 3, 7]
    ways = [{"guidance": 2.0}, {"guidance": 1.0, "speakers": (1,)}, {"guidance": 1.5, "temperature": 0.6}]

    def given(k: int, s: int) -> DsmInput:
        return a_step(s, (s * 7 + k) % BPE_SIZE, (s * 5) % BPE_SIZE, **ways[k])

    alone = []
    for k in range(3):
        family = DsmFamily(net, bpe, 3, CPU)
        alone.append(steps_of(family, [given(k, s) for s in range(14)], rows[k]))
    family, together = DsmFamily(net, bpe, 3, CPU), [[], [], []]
    for turn in range(21):
        for name in ("warm", "decode"):
            here = [
                (k, given(k, turn - starts[k]))
                for k in range(3)
                if 0 <= turn - starts[k] < 14 and (turn - starts[k] < DELAY) == (name == "warm")
            ]
            if here:
                found = family.modules[name].run(family.slots, [rows[k] for k, _ in here], [one for _, one in here])
                for (k, _), one in zip(here, found, strict=True):
                    together[k].append(one)
    for mine, theirs in zip(alone, together, strict=True):
        assert [one.p_word for one in mine] == [one.p_word for one in theirs]
        assert all(np.array_equal(a.levels, b.levels) for a, b in zip(mine, theirs, strict=True))


@torch.inference_mode()
def test_a_run_may_be_tried_again(bpe):
    """A step run twice answers the same: nothing is moved on by a batch that failed."""
    family = DsmFamily(tiny(), bpe, 1, CPU)
    steps_of(family, [a_step(s, s, guidance=2.0) for s in range(10)])
    before = family.slots.last.clone()
    (first,) = steps_of(family, [a_step(10, 3, guidance=2.0)])
    family.slots.last[:] = before
    (again,) = steps_of(family, [a_step(10, 3, guidance=2.0)])
    assert first.p_word == again.p_word and np.array_equal(first.levels, again.levels)


# ------------------------------------------------------------------ speakers


@torch.inference_mode()
def test_a_recordings_length_does_not_depend_on_what_fills_it_up():
    net = tiny()
    frames = torch.randint(0, 16, (1, 9, 80), dtype=torch.uint8)
    filled = torch.cat((frames, torch.full((1, 8, 80), dmel.PAD, dtype=torch.uint8)), 1)
    torch.testing.assert_close(net.encoder(frames), net.encoder(filled), rtol=1e-5, atol=1e-5)


@torch.inference_mode()
def test_who_speaks_and_in_which_place_matters(bpe):
    net = tiny()

    def heard(*who: int) -> float:
        family = DsmFamily(net, bpe, 1, CPU)
        return steps_of(family, [a_step(0, 1, speakers=who)])[0].p_word

    answers = [heard(), heard(0), heard(1), heard(0, 1), heard(1, 0), heard(0, 1, 1, 0, 1)]
    assert len(set(answers)) == len(answers)


def test_a_turn_is_another_speakers(tmp_path):
    """Speakers and turns by the options of an utterance; a change of turn is told to the net."""
    write_tiny_voice(tmp_path, family="dsm")
    engine = open_engine(tmp_path, best(), device="cpu", threads=1)

    def said(**options) -> np.ndarray:
        utterance = engine.open(SpeakRequest(voice="tiny:one", seed=3, options=options))
        utterance.push_text("the old wall ")
        utterance.end()
        return np.concatenate([one.pcm for one in utterance.events() if isinstance(one, ev.Audio)])

    try:
        sounds = [said(), said(other_speaker=2), said(other_speaker=2, turn="other"), said(guidance=2.0)]
        assert len({one.tobytes() for one in sounds}) == 4
        with pytest.raises(BadOption, match="no speaker 3"):
            said(other_speaker=3)
    finally:
        engine.close()


# ------------------------------------------------------------------ voices that are not whole


def damaged(tmp_path, change) -> None:
    folder = write_tiny_voice(tmp_path, family="dsm")
    card = json.loads((folder / "card.json").read_text())
    change(folder, card)
    (folder / "card.json").write_text(json.dumps(card))
    open_engine(tmp_path, best(), device="cpu", threads=1).close()


def filled(folder, card, value: int) -> None:
    """The voice with recordings that hold one value throughout."""
    weights = load_file(folder / "dsm.safetensors")
    weights["extract"] = torch.full_like(weights["extract"], value)
    save_file(weights, folder / "dsm.safetensors")
    card["sha256"]["dsm.safetensors"] = sha256_of(folder / "dsm.safetensors")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda f, c: filled(f, c, dmel.PAD), "no recording of one"),
        (lambda f, c: filled(f, c, 17), "no recording of one"),
        (lambda f, c: c.update(speakers=["one"]), "has 2 speakers, and the card has 1"),
        (lambda f, c: c["config"].update(speakers=3), "has 3 speakers, and the card has 2"),
        (lambda f, c: c["config"].update(delay_s=0.0), "delays do not fit"),
        (lambda f, c: c["config"].update(delay_s=60.0), "delays do not fit"),
        (lambda f, c: c["config"].update(context_frames=10**6), "context_frames cannot be 1000000"),
        (lambda f, c: c["config"].update(look_ahead_words=-1), "look_ahead_words cannot be -1"),
        (lambda f, c: (f / "bpe.json").unlink(), "differs from the file in the card"),
        (lambda f, c: c["config"].update(text_tokens=7), "encoding has 65 tokens and the card 7"),
        (lambda f, c: c["config"].update(unheard_of=7), "describes no net"),
    ],
)
def test_a_voice_that_is_not_whole_is_refused(tmp_path, change, told):
    with pytest.raises(BadVoice, match=told):
        damaged(tmp_path, change)
