"""Incremental Tacotron 2's net: sizes, what runs against what was trained, slots, and voices that are not whole."""

import json
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tinyvoice import NETS, write_tiny_voice
from torch import nn

from studio.core import events as ev
from studio.core.cards import sha256_of
from studio.core.errors import BadOption, BadVoice
from studio.core.ports import SpeakRequest
from studio.engine.engine import LocalEngine, open_engine
from studio.engine.families.tacotron.decode import CAPACITY_SYMBOLS
from studio.engine.families.tacotron.model import Tacotron, TacotronConfig, lstm_step
from studio.engine.families.tacotron.policy import TacotronChunk, TacotronClause
from studio.engine.families.tacotron.runner import TacotronFamily
from studio.engine.nets.kv_cache import ContextFull
from studio.text.normalise import best

PUBLIC_PARAMETERS = 28_193_153  # of Tacotron 2 as NVIDIA published it, 148 characters
POSTNET = 4_348_144  # of these: five convolutions that correct a mel; there is none here
CPU = torch.device("cpu")
WORDS = "the light came in".split()


def parameters(name: str) -> int:
    with torch.device("meta"):
        return sum(p.numel() for p in Tacotron(TacotronConfig.named(name)).parameters())


def test_sizes():
    paper = TacotronConfig.named("paper")
    assert (paper.width, paper.decoder_width, paper.prenet_width, paper.attention_width) == (512, 1024, 256, 128)
    assert (paper.convolutions, paper.kernel, paper.location_filters, paper.location_kernel) == (3, 5, 32, 31)
    # A feed-forward and sixteen levels in the place of one number a channel; fewer symbols; prosody and speakers.
    feed = 512 * (1024 + 512 + 80 * 8 + 2 * 1024) + (80 * 16 + 1) * 512
    heads, symbols = feed - (80 + 1) * (1024 + 512), (148 - 57 - 6 - 2) * 512
    assert abs(parameters("paper") / (PUBLIC_PARAMETERS - POSTNET + heads - symbols) - 1) < 0.01
    assert parameters("small") * 2 <= 6e6 and parameters("tiny") <= 1e6
    with pytest.raises(BadOption, match="there is no config 'huge'; there are paper, small, tiny"):
        TacotronConfig.named("huge")


def tiny(**sizes) -> Tacotron:
    torch.manual_seed(3)
    made = NETS["tacotron"](-9.0).config
    net = Tacotron(replace(made, **sizes))
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.normal_(std=0.3)
        net.stop_out.bias.fill_(-9.0)
    return net.eval()


def a_clause(symbols: int = 9, **changes) -> TacotronClause:
    generator = np.random.default_rng(symbols)
    ids, prosody = generator.integers(0, 57, symbols).tolist(), generator.integers(0, 8, symbols).tolist()
    return replace(TacotronClause(ids, prosody, np.full(80, 3, np.uint8), 1, 0.7, 5, 0), **changes)


@torch.inference_mode()
def test_what_runs_says_what_the_net_says():
    """Chunk by chunk through slots against the whole at once, with the same frames fed and no dropout."""
    net = tiny(prenet_dropout=0.0)
    family, clause = TacotronFamily(net, 1, CPU), a_clause()
    decode = family.modules["decode"]
    family.modules["encode"].run(family.slots, [(0,)], [clause])
    found = [decode.run(family.slots, [(0,)], [TacotronChunk(frames)])[0] for frames in (4, 1, 3)]
    levels = torch.from_numpy(np.concatenate([one.levels for one in found]))
    assert levels.shape == (8, 80)
    fed = torch.cat((torch.from_numpy(clause.last)[None], levels[:-1]))[None]
    symbols, prosody = torch.tensor([clause.symbols]), torch.tensor([clause.prosody])
    real = torch.ones_like(symbols, dtype=torch.bool)
    seen, shares = net.decode(net.encode(symbols, prosody, torch.tensor([1]), real), real, fed)
    _, stops = net.heads(seen)
    told = torch.tensor([p for one in found for p in one.p_stop])
    torch.testing.assert_close(torch.logit(told), stops[0], atol=1e-3, rtol=1e-4)
    assert [at for one in found for at in one.attended.tolist()] == shares[0].argmax(1).tolist()
    torch.testing.assert_close(family.slots.last_shares[0, :9], shares[0, -1], atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(family.slots.sum_shares[0, :9], shares[0].sum(0), atol=1e-5, rtol=1e-4)


@torch.inference_mode()
def test_an_lstms_step_is_torchs():
    torch.manual_seed(1)
    cell = nn.LSTMCell(5, 4)
    x, hidden, state = torch.randn(3, 5), torch.randn(3, 4), torch.randn(3, 4)
    gates = x @ cell.weight_ih.T + cell.bias_ih + hidden @ cell.weight_hh.T + cell.bias_hh
    torch.testing.assert_close(lstm_step(gates, state), cell(x, (hidden, state)))


@torch.inference_mode()
def test_what_fills_a_batch_up_changes_nothing():
    net = tiny(prenet_dropout=0.0)
    symbols = torch.randint(0, 57, (2, 9))
    real = torch.arange(9) < torch.tensor([[6], [9]])
    both = net.encode(symbols, symbols % 8, torch.tensor([0, 1]), real)
    alone = net.encode(symbols[:1, :6], symbols[:1, :6] % 8, torch.tensor([0]), real[:1, :6])
    torch.testing.assert_close(both[:1, :6], alone)
    fed = torch.randint(0, 16, (2, 5, 80), dtype=torch.uint8)
    (_, shares), (_, of_one) = net.decode(both, real, fed), net.decode(alone, real[:1, :6], fed[:1])
    torch.testing.assert_close(shares[:1, :, :6], of_one)
    assert (shares[0, :, 6:] == 0).all()


@torch.inference_mode()
def test_where_it_was_changes_where_it_looks():
    """Location-sensitive: without the kernel of places the scores of equal keys would be equal."""
    net = tiny()
    kernel = net.attention.location_kernel()
    keys, query = torch.zeros(1, 12, net.config.attention_width), torch.zeros(1, net.config.attention_width)
    real, was = torch.ones(1, 12, dtype=torch.bool), torch.zeros(1, 2, 12)
    even = net.attention(query, keys, was, kernel, real)
    torch.testing.assert_close(even, torch.full((1, 12), 1 / 12))
    was[0, :, 3] = 1.0
    here = net.attention(query, keys, was, kernel, real)[0]
    reach = net.config.location_kernel // 2
    assert here[3 - reach : 3 + reach + 1].std() > 0.001
    torch.testing.assert_close(here[3 + reach + 1 :], here[3 + reach + 1].expand(12 - 4 - reach))


@torch.inference_mode()
def test_rows_that_end_at_different_frames_share_a_batch():
    family = TacotronFamily(tiny(), 3, CPU)
    encode, decode = family.modules["encode"], family.modules["decode"]
    clauses = [a_clause(9), a_clause(14, speaker=0, seed=8), a_clause(5, frame=30)]
    asked = [TacotronChunk(2), TacotronChunk(7), TacotronChunk(4)]
    alone = []
    for slot in range(3):
        encode.run(family.slots, [(slot,)], [clauses[slot]])
        alone += decode.run(family.slots, [(slot,)], [asked[slot]])
    states = [store.clone() for store in family.slots.carried]
    for slot in range(3):
        encode.run(family.slots, [(slot,)], [clauses[slot]])
    together = decode.run(family.slots, [(0,), (1,), (2,)], asked)
    for one, other in zip(alone, together, strict=True):
        assert np.array_equal(one.levels, other.levels) and one.p_stop == other.p_stop
    assert [len(one.levels) for one in together] == [2, 7, 4]
    for store, was in zip(family.slots.carried, states, strict=True):
        assert torch.equal(store.nan_to_num(), was.nan_to_num())


@torch.inference_mode()
def test_a_run_that_fails_leaves_its_rows_as_they_were(monkeypatch):
    family = TacotronFamily(tiny(), 2, CPU)
    decode = family.modules["decode"]
    for slot in range(2):
        family.modules["encode"].run(family.slots, [(slot,)], [a_clause(7 + slot)])
    draw, calls = decode._runner.draw, []

    def fails(*given):
        calls.append(given)
        if len(calls) == 3:
            raise RuntimeError("out of memory")
        return draw(*given)

    monkeypatch.setattr(decode._runner, "draw", fails)
    with pytest.raises(RuntimeError):
        decode.run(family.slots, [(0,), (1,)], [TacotronChunk(5), TacotronChunk(5)])
    again = decode.run(family.slots, [(0,), (1,)], [TacotronChunk(5), TacotronChunk(5)])
    for slot in range(2):
        family.modules["encode"].run(family.slots, [(slot,)], [a_clause(7 + slot)])
    straight = decode.run(family.slots, [(0,), (1,)], [TacotronChunk(5), TacotronChunk(5)])
    assert all(np.array_equal(a.levels, b.levels) for a, b in zip(again, straight, strict=True))


def test_a_clause_that_no_slot_holds_is_refused_in_words():
    family = TacotronFamily(tiny(), 1, CPU)
    with pytest.raises(ContextFull, match="ask for fewer words of a clause"):
        family.modules["encode"].run(family.slots, [(0,)], [a_clause(CAPACITY_SYMBOLS + 1)])


# ------------------------------------------------------------------ utterances


@pytest.fixture(scope="module")
def engine(tmp_path_factory) -> Iterator[LocalEngine]:
    root = tmp_path_factory.mktemp("voices")
    write_tiny_voice(root, family="tacotron")
    engine = open_engine(root, best(), device="cpu", threads=1)
    yield engine
    engine.close()


def said(engine: LocalEngine, text: str, **options) -> list[ev.Event]:
    utterance = engine.open(SpeakRequest(seed=5, options={"clause_words": 2, **options}))
    utterance.push_text(text)
    utterance.end()
    return list(utterance.events())


def pcm(events: list[ev.Event]) -> np.ndarray:
    return np.concatenate([e.pcm for e in events if isinstance(e, ev.Audio)] or [np.zeros(0, np.int16)])


def test_a_clause_changes_no_sample_of_the_one_before(engine):
    whole, other = said(engine, "the light came in over walls"), said(engine, "the light stood on over walls")
    ends = {e.i: e.sample for e in whole if isinstance(e, ev.WordEnd)}
    assert np.array_equal(pcm(whole)[: ends[1]], pcm(other)[: ends[1]])
    assert not np.array_equal(pcm(whole), pcm(other))


def test_the_length_of_a_chunk_changes_no_frame(engine):
    """The decoder's state is carried: what chunks change is when the sound comes."""
    levels = [
        np.concatenate([e.levels for e in said(engine, "the light, came in.", **options) if isinstance(e, ev.Frames)])
        for options in ({"chunk_frames": 1}, {"chunk_frames": 7}, {"chunk_frames": 32})
    ]
    assert np.array_equal(levels[0], levels[1]) and np.array_equal(levels[0], levels[2])


def test_the_twin_makes_the_clauses_own_frames_where_the_text_is_one_clause(engine):
    """Non-incremental: the same request, heard when its last frame is made."""
    parts, twin = said(engine, "the light ", clause_words=20), said(engine, "the light ", mode="whole")
    for one in (parts, twin):
        assert isinstance(one[-1], ev.Ended)
    frames = [np.concatenate([e.levels for e in one if isinstance(e, ev.Frames)]) for one in (parts, twin)]
    assert np.array_equal(*frames)


def test_the_vocoder_runs_chunks_of_one_length_together(engine, monkeypatch):
    """Another length would fail the batch, and each row would be tried alone."""
    vocode = engine.voice("tiny").vocode
    run, lengths = vocode.run, list[set[int]]()

    def watched(slots, rows, inputs):
        lengths.append({len(frames) for frames in inputs})
        return run(slots, rows, inputs)

    monkeypatch.setattr(vocode, "run", watched)
    both = [engine.open(SpeakRequest(seed=k, options={"chunk_frames": 3 + k})) for k in range(2)]
    for utterance in both:
        utterance.push_text("a bright cold day in april. " * 2)
        utterance.end()
    assert all(isinstance(list(utterance.events())[-1], ev.Ended) for utterance in both)
    assert all(len(one) == 1 for one in lengths) and {3, 4} <= set().union(*lengths)


def test_a_long_text_is_spoken_to_its_end_and_its_words_forgotten(engine):
    events = said(engine, "a bright cold day in april, " * 15, clause_words=4)
    assert isinstance(events[-1], ev.Ended)
    assert [e.i for e in events if isinstance(e, ev.WordEnd)] == [*range(6 * 15)]
    segments = [e.words for e in events if isinstance(e, ev.Segment)]
    assert segments == [[*range(6 * i + a, 6 * i + b)] for i in range(15) for a, b in ((0, 4), (4, 6))]


@pytest.mark.parametrize("new", [["came", "in"], ["stood", "still"]])
def test_law_6_what_no_clause_has_seen_is_revised_in_place(engine, new):
    """Nothing heard changes, and the rest is as if it had been typed so."""
    words = "the light came in over walls".split()
    straight = pcm(said(engine, " ".join([*words[:2], *new, *words[4:]])))
    first = said(engine, " ".join(words))
    cut = {e.i: e.sample for e in first if isinstance(e, ev.WordEnd)}[1]
    utterance = engine.open(SpeakRequest(seed=5, options={"clause_words": 2}, credit_samples=cut + 600))
    utterance.push_text(" ".join(words) + " ")
    stream, got = utterance.events(), list[ev.Event]()
    while sum(len(e.pcm) for e in got if isinstance(e, ev.Audio)) <= cut:
        got.append(next(stream))
    utterance.revise(len("the light "), " ".join([*new, *words[4:]]) + " ")
    utterance.end()
    utterance.grant(10**9)
    got += stream
    revised = [e for e in got if isinstance(e, ev.Revised)]
    assert [(e.from_sample, e.words) for e in revised] == ([] if new == words[2:4] else [(cut, 2)])
    at = got.index(revised[0]) if revised else len(got)
    before, after = pcm(got[:at]), pcm(got[at:])
    assert np.array_equal(np.concatenate((before[:cut], after)) if revised else before, straight)


# ------------------------------------------------------------------ voices that are not whole


def damaged(tmp_path, change) -> None:
    folder = write_tiny_voice(tmp_path, family="tacotron")
    card = json.loads((folder / "card.json").read_text())
    change(folder, card)
    (folder / "card.json").write_text(json.dumps(card))
    open_engine(tmp_path, best(), device="cpu", threads=1).close()


def written(folder, card, change) -> None:
    """The voice with other weights, whose sha256 the card names."""
    path = folder / "tacotron.safetensors"
    change(path)
    card["sha256"][path.name] = sha256_of(path)


def without(path) -> None:
    weights = load_file(path)
    del weights["attention.score.weight"]
    save_file(weights, path)


def reshaped(path) -> None:
    weights = load_file(path)
    weights["attention.score.weight"] = weights["attention.score.weight"].T.contiguous()
    save_file(weights, path)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda f, c: written(f, c, without), "Missing key.*attention.score.weight"),
        (lambda f, c: written(f, c, reshaped), "size mismatch for attention.score.weight"),
        (lambda f, c: written(f, c, lambda p: torch.save({"a": torch.zeros(2)}, p)), "than its files hold"),
        (lambda f, c: written(f, c, lambda p: p.write_bytes(p.read_bytes()[:-100])), "does not fit"),
        (lambda f, c: (f / "tacotron.safetensors").unlink(), "has no file tacotron.safetensors"),
        (lambda f, c: c.update(speakers=["one"]), "has 2 speakers, and the card has 1"),
        (lambda f, c: c["config"].update(kernel=4), "sizes are of no net"),
        (lambda f, c: c["config"].update(width=49), "sizes are of no net"),
        (lambda f, c: c["config"].update(location_kernel=0), "location_kernel cannot be 0"),
        (lambda f, c: c["config"].update(prenet_dropout=1.0), "prenet_dropout cannot be 1.0"),
        (lambda f, c: c["config"].update(longest_word_frames=0), "longest_word_frames cannot be 0"),
        (lambda f, c: c["config"].update(unheard_of=7), "describes no net"),
    ],
)
def test_a_voice_that_is_not_whole_is_refused(tmp_path, change, told):
    with pytest.raises(BadVoice, match=told):
        damaged(tmp_path, change)
