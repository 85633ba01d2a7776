"""S5-TTS's net: sizes, masks, streaming against whole sequences, the auxiliary attention, what no word may see."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from tinyvoice import NETS, write_tiny_voice

from studio.core import events as ev
from studio.core.cards import read_card, sha256_of, write_card
from studio.core.errors import BadOption, BadVoice
from studio.core.ports import SpeakRequest
from studio.engine.engine import open_engine
from studio.engine.families.common.text_tokens import END, spell, words_of
from studio.engine.families.s5.model import (
    S5,
    AuxiliaryAttention,
    S5Config,
    decoder_mask,
    monotonic_alignment,
    seen_steps,
)
from studio.engine.families.s5.policy import S5StepInput
from studio.engine.families.s5.runner import CAPACITY_SYMBOLS, S5Family, S5Runner
from studio.engine.nets.linear import FORMATS
from studio.engine.nets.transformer import CrossAttention
from studio.text.normalise import best

WORDS = "the light came in, over walls.".split()
PAPER_PARAMETERS = 160e6  # "about 160 million", a codec's embeddings and outputs among them
CPU = torch.device("cpu")


def parameters(name: str) -> int:
    with torch.device("meta"):
        return sum(p.numel() for p in S5(S5Config.named(name)).parameters())


def test_sizes():
    paper = S5Config.named("paper")
    assert (paper.encoder_layers, paper.decoder_layers, paper.heads, paper.width, paper.hidden) == (4, 8, 8, 768, 4096)
    assert paper.alignment_scale == 5e-5
    # dMel's levels need 1.3M parameters where the paper's codec, eight books of 1,000 codes in and out, needs 12M.
    assert 0.7 < parameters("paper") / PAPER_PARAMETERS < 1.0
    assert parameters("small") * 2 <= 6e6 and parameters("tiny") <= 1e6
    with pytest.raises(BadOption, match="there is no config 'huge'; there are paper, small, tiny"):
        S5Config.named("huge")


def test_every_decoder_layer_attends_to_the_encoder():
    with torch.device("meta"):
        net = S5(S5Config.named("paper"))
    assert sum(isinstance(m, CrossAttention) for m in net.modules()) == 8


@torch.inference_mode()
def test_without_its_mask_the_encoder_sees_everything():
    net = NETS["s5"](0.0)
    words = torch.tensor([words_of([[0, 5], [0, 6], [0, 7], [0, 8]])])
    symbols = torch.tensor([[0, 5, 0, 6, 0, 7, 0, 8]])
    other = symbols.clone()
    other[0, -1] = 9
    places, k = torch.arange(8)[None], torch.tensor([1])
    masked = seen_steps(words, words, k)
    one_layer = net.encoder.blocks[:1]
    net.encoder.blocks = one_layer  # a second one would see what the first one's words saw
    for seen, differs in ((masked, [False] * 4 + [True] * 4), (torch.ones_like(masked), [True] * 8)):
        a, b = (net.encode(net.embed_symbols(s), places, seen)[0] for s in (symbols, other))
        assert [not torch.equal(x, y) for x, y in zip(a, b, strict=True)] == differs


def a_step(
    words: list[str], frames: np.ndarray, begins: bool = True, at: int = 0, k: int = 2, spoken: Sequence[int] = ()
) -> S5StepInput:
    spelled = [*map(spell, words), [END]]
    return S5StepInput(
        symbols=[i for word in spelled for i in word],
        words=words_of(spelled),
        position=3,
        k=k,
        start=0,
        at=at,
        begins=begins,
        frames=frames,
        speaker=1,
        temperature=0.0,
        seed=1,
        frame=0,
        spoken=spoken,
    )


@torch.inference_mode()
@pytest.mark.parametrize("way", ["numpy", "torch"])
@pytest.mark.parametrize(("look_ahead", "spoken"), [(2, []), (1, [0] * 6 + [1] * 5)])
def test_streaming_equals_whole(look_ahead, spoken, way, monkeypatch):
    """Teacher-forced frames through modules and slots, against one pass of the net as trained, masks and all.

    Steps run in numpy, as on every CPU, and in torch, as on a GPU.
    """
    if way == "torch":
        monkeypatch.setattr(S5Runner, "_cpu_decoder", lambda self, *_: None)
    net = NETS["s5"](0.0)
    with torch.no_grad():
        for parameter in net.parameters():
            if parameter.ndim == 1 and len(parameter) > 1:
                parameter.uniform_(0.5, 1.5)
    family = S5Family(net, 3, CPU)
    fed = torch.randint(0, 16, (16, 80), dtype=torch.uint8)
    given = a_step(["lˈIt", "kˈAm"], fed[:10].numpy(), k=look_ahead, spoken=spoken)
    drawn = [family.modules["word"].run(family.slots, [(2,)], [given])[0]]
    for frame in fed[10:]:
        family.slots.last[2] = frame
        drawn += family.modules["decode"].run(family.slots, [(2,)], [None])
    symbols, words = torch.tensor([[*given.symbols]]), torch.tensor([[*given.words]])
    k = torch.tensor([look_ahead])
    memory = net.encode(
        net.embed_symbols(symbols), 3 + torch.arange(symbols.shape[1])[None], seen_steps(words, words, k)
    )
    x = torch.cat((net.bos[None], net.embed_frames(fed)))[None] + net.embed_row(torch.tensor([1]), k)
    asking = torch.tensor([[*(spoken or [0] * 11), *[1] * 6]])  # of the last word all is in view
    hidden, shares = net.decode(x, memory, seen_steps(asking, words, k))
    levels, stop = net.heads(hidden[0, 10:])
    assert np.array_equal(np.concatenate([d.levels for d in drawn]), levels.argmax(-1).numpy().astype(np.uint8))
    np.testing.assert_allclose([d.p_stop for d in drawn], stop.sigmoid().numpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(np.stack([d.shares for d in drawn]), shares[0, 10:].numpy(), rtol=1e-3, atol=1e-5)


@torch.inference_mode()
def test_a_frame_fed_again_leaves_no_trace_of_the_first_time():
    """A word's last frame is fed twice, with fewer and with more words in view; only the second time counts."""
    net = NETS["s5"](0.0)
    fed = torch.randint(0, 16, (12, 80), dtype=torch.uint8).numpy()
    results = []
    for view in (["lˈIt"], ["kˈAm", "ˈɪn,"]):
        family = S5Family(net, 1, CPU)
        family.modules["word"].run(family.slots, [(0,)], [a_step(view, fed[:11])])
        again = a_step(["lˈIt", "kˈAm"], fed[10:11], begins=False, at=11)
        held = family.slots.frames.keys[0][0, :, :11].clone()
        results.append(family.modules["word"].run(family.slots, [(0,)], [again])[0])
        assert torch.equal(family.slots.frames.keys[0][0, :, :11], held), "older tokens stay as they were made"
    assert [r.levels.shape for r in results] == [(1, 80)] * 2
    assert int(family.slots.frames.length[0]) == 12


@torch.inference_mode()
@pytest.mark.parametrize("number_format", FORMATS)
def test_law_3_a_row_does_not_know_its_neighbours(number_format):
    net = NETS["s5"](0.0)
    frames = torch.randint(0, 16, (5, 10, 80), dtype=torch.uint8).numpy()
    texts = [["lˈIt"], ["kˈAm", "ˈɪn,"], ["slˈOli,", "ði"], ["ˈOld"], ["stˈOn", "wˈɔl."]]

    def run(rows: list[int]) -> list:
        family = S5Family(net, 5, CPU, number_format)
        for row in rows:
            family.modules["word"].run(family.slots, [(row,)], [a_step(texts[row], frames[row])])
        found = []
        for _ in range(3):
            found.append(family.modules["decode"].run(family.slots, [(row,) for row in rows], [None] * len(rows)))
        return [[step[n] for step in found] for n in range(len(rows))]

    together = run([0, 1, 2, 3, 4])
    for row, wanted in enumerate(together):
        for one, other in zip(run([row])[0], wanted, strict=True):
            assert one.p_stop == other.p_stop
            assert np.array_equal(one.shares, other.shares) and np.array_equal(one.levels, other.levels)


def test_the_auxiliary_attention():
    """e = softmax(-delta * sum over c of (Q' - K')^2), over what is there."""
    torch.manual_seed(2)
    aligner = AuxiliaryAttention(8, 6, 0.05)
    frames, symbols = torch.randn(2, 7, 8), torch.randn(2, 4, 8)
    real = torch.tensor([[True] * 4, [True] * 3 + [False]])
    found = aligner(frames, symbols, real).exp()
    q, k = (net(x.transpose(1, 2)).transpose(1, 2) for net, x in ((aligner.query, frames), (aligner.key, symbols)))
    distance = (q[:, :, None] - k[:, None]).square().sum(-1)
    torch.testing.assert_close(found[0], (-0.05 * distance[0]).softmax(-1))
    torch.testing.assert_close(found[1, :, :3], (-0.05 * distance[1, :, :3]).softmax(-1))
    assert (found[1, :, 3] == 0).all()


def test_monotonic_alignment_is_the_best_path():
    """Against every path there is: of one to five symbols in eight frames."""
    rng = np.random.default_rng(3)
    scores = rng.normal(size=(5, 8, 5))
    frames, symbols = np.array([8, 8, 6, 8, 5]), np.array([1, 3, 4, 5, 5])
    found = monotonic_alignment(scores, frames, symbols)
    for row, (f, t) in enumerate(zip(frames, symbols, strict=True)):
        path = found[row, :f]
        assert path[0] == 0 and path[-1] == t - 1 and set(np.diff(path)) <= {0, 1}
        paths = [np.searchsorted(cuts, np.arange(f), side="right") for cuts in combinations(range(1, f), t - 1)]
        best_sum = max(scores[row, np.arange(f), p].sum() for p in paths)
        assert scores[row, np.arange(f), path].sum() == pytest.approx(best_sum)
        assert (found[row, f:] == t - 1).all()


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    root = tmp_path_factory.mktemp("voices")
    write_tiny_voice(root, family="s5")
    engine = open_engine(root, best(), device="cpu", threads=1)
    yield engine
    engine.close()


def said(engine, words: list[str], k: int) -> tuple[np.ndarray, dict[int, int]]:
    """Samples of a text, and where each word ends."""
    utterance = engine.open(SpeakRequest(seed=5, options={"k": k}))
    utterance.push_text(" ".join(words))
    utterance.end()
    events = list(utterance.events())
    pcm = np.concatenate([e.pcm for e in events if isinstance(e, ev.Audio)])
    return pcm, {e.i: e.sample for e in events if isinstance(e, ev.WordEnd)}


@pytest.mark.parametrize("k", [1, 2, 3])
def test_perturbing_the_word_after_the_look_ahead_changes_no_sample(engine, k):
    whole, ends = said(engine, WORDS, k)
    for i in range(len(WORDS) - k - 1):
        other, _ = said(engine, [*WORDS[: i + k + 1], "apple", *WORDS[i + k + 2 :]], k)
        assert np.array_equal(other[: ends[i]], whole[: ends[i]]), f"word {i}"
    nearer, _ = said(engine, [*WORDS[:k], "apple", *WORDS[k + 1 :]], k)
    assert not np.array_equal(nearer[: ends[0]], whole[: ends[0]]), "a word within the look-ahead is heard"


def test_a_long_text_outlives_its_context(engine):
    """Phonemes and frames of old words are forgotten together."""
    utterance = engine.open(SpeakRequest(options={"k": 1}))
    utterance.push_text("a bright cold day in april " * 4 + "w " * 20)
    utterance.end()
    events = list(utterance.events())
    assert isinstance(events[-1], ev.Ended)
    ends = [e.i for e in events if isinstance(e, ev.WordEnd)]
    assert ends == [*range(4 * 6 + 20)]
    memory = engine.voice("tiny").family.slots
    assert max(int(n) for n in memory.text.length) <= CAPACITY_SYMBOLS


def net_with_references(frames: int = 30) -> S5:
    """Two speakers that are told by what they said before, and by nothing else."""
    torch.manual_seed(4)
    net = S5(S5Config(1, 2, 32, 2, 64, 2, reference_frames=40))
    with torch.no_grad():
        for parameter in net.parameters():
            if parameter.ndim == 2:
                parameter.normal_(std=0.3)
    for speaker, said in enumerate(("hˈaJ ðˈɛɹ.", "ɡˈʊd dˈA")):
        symbols = [symbol for word in said.split() for symbol in spell(word)]
        net.set_reference(speaker, symbols, torch.randint(0, 16, (frames, 80), dtype=torch.uint8))
    return net


@torch.inference_mode()
def test_a_reference_is_aligned_once_and_tells_the_speaker():
    net = net_with_references()
    assert net.speaker is None
    family = S5Family(net, 2, CPU)
    prompts = [family.prompt(speaker) for speaker in (0, 1)]
    assert [p.shape for p in prompts] == [(40, 80)] * 2 and not np.array_equal(*prompts)
    drawn = []
    for speaker in (0, 1):
        row = family.row((speaker,), speaker, {"k": 1}, 0.0, 3)
        row.commit(["one", "two"])
        given = row.next_input().inputs
        asked = [*given.spoken]
        assert len(asked) == given.tokens == 41 and asked == sorted(asked) and asked[0] == 0 and asked[-1] == 2
        drawn += family.modules["word"].run(family.slots, [(speaker,)], [given])
        seen = decoder_mask(net, given, CPU)
        assert seen.tolist() == [[word <= at + 1 for word in given.words] for at in asked] and not seen[0].all()
    assert not np.array_equal(drawn[0].shares[-3:], drawn[1].shares[-3:])


def test_a_reference_without_its_transcript_is_no_voice(tmp_path):
    folder = write_tiny_voice(tmp_path, family="s5")
    net = net_with_references()
    net.transcript[1] = -1
    save_file({k: v.contiguous() for k, v in net.state_dict().items()}, folder / "s5.safetensors")
    card = read_card(folder)
    sha256 = card.sha256 | {"s5.safetensors": sha256_of(folder / "s5.safetensors")}
    write_card(folder, replace(card, config=net.config.to_dict(), sha256=sha256))
    with pytest.raises(BadVoice, match="reference of two has 0 phonemes and 30 frames; a reference is speech with"):
        open_engine(tmp_path, best(), device="cpu", threads=1)


@pytest.mark.parametrize("wrong", [0, 4, 1.5, "2", True])
def test_a_look_ahead_that_the_net_does_not_know(engine, wrong):
    with pytest.raises(BadOption, match=r"k cannot be .*; give a whole number from 1 to 3"):
        engine.open(SpeakRequest(options={"k": wrong}))


def test_a_step_keeps_the_nets_memory_poisoned_where_nothing_was_written(engine):
    """The laws run on memory full of NaN: this says that it is."""
    assert torch.isnan(engine.voice("tiny").family.slots.text.keys[0]).any()
    assert isinstance(engine.voice("tiny").family.modules["word"]._prefill.__self__, S5Runner)
