"""IST-LM's net and encoding: sizes, what runs against what was trained, masks, and voices that are not whole."""

import copy
import json
import random

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tinyvoice import write_tiny_bpe, write_tiny_voice

from studio.core import events as ev
from studio.core.cards import read_card, sha256_of, write_card
from studio.core.errors import BadOption, BadVoice
from studio.core.ports import SpeakRequest
from studio.engine.engine import open_engine
from studio.engine.families.common.text_tokens import Bpe
from studio.engine.families.ist.model import Ist, IstConfig
from studio.engine.families.ist.policy import FRAME, IstLayout, Ratio
from studio.engine.families.ist.row import IstPrefill
from studio.engine.families.ist.runner import IstRunner
from studio.engine.nets.kv_cache import KVCache
from studio.text.normalise import best


def parameters(name: str) -> int:
    with torch.device("meta"):
        return sum(p.numel() for p in Ist(IstConfig.named(name)).parameters())


def test_sizes():
    paper = IstConfig.named("paper")
    assert (paper.layers, paper.heads, paper.width, paper.hidden, paper.text_tokens) == (12, 16, 1024, 4096, 2000)
    assert abs(parameters("paper") / 161.8e6 - 1) < 0.03
    assert parameters("small") <= 3e6 and parameters("tiny") <= 1e6
    with pytest.raises(BadOption, match="paper, small, tiny"):
        IstConfig.named("huge")


@torch.inference_mode()
def test_what_is_made_ready_to_run_says_what_the_net_says():
    """A prompt, a chunk and frames fed back, in pieces: logits within 1e-4 of the net's over the whole."""
    torch.manual_seed(2)
    net = Ist(IstConfig(2, 64, 2, 128, 30, 2)).eval()
    for parameter in net.parameters():
        parameter.normal_(std=0.2)
    frames = np.random.default_rng(1).integers(0, 16, (12, 80)).astype(np.uint8)
    whole, symbols = IstLayout(), net.config.symbols
    whole.passage(symbols, [3, 4, symbols.end], frames[:5], Ratio(1, 2))
    whole.start(symbols)
    whole.text([7, 8, 9], 0)
    for j in range(5, 9):
        whole.frame(frames[j], j - 5)
    ids, positions = torch.tensor(whole.symbols), torch.tensor(whole.positions)
    x = torch.zeros(len(whole), 64)
    x[ids != FRAME] = net.embed_symbols(ids[ids != FRAME], positions[ids != FRAME])
    x[ids == symbols.start] += net.ratio.weight[4]
    x[ids == FRAME] = net.embed_frames(torch.from_numpy(whole.stacked()), positions[ids == FRAME])
    levels, eos = net.heads(net.decoder(x[None])[0, -1])

    step, c = IstRunner(net), net.decoder.config
    given = IstPrefill(0, 0, whole, ratio=4, position=4, frame=0, temperature=1.0, seed=1)
    torch.testing.assert_close(step.embed(given)[0], x, rtol=1e-4, atol=1e-5)
    memory = KVCache(c.layers, 1, c.heads, 256, c.head_width, poison=True)
    step.decoder.extend(x[None, :9], memory, [0])
    out = step.head(step.decoder.extend(x[None, 9:], memory, [0]))[0]
    torch.testing.assert_close(out[:-1].view(80, 16), levels, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(out[-1], eos, rtol=1e-4, atol=1e-4)


def test_the_speaker_comes_from_the_prompt_and_the_ratio_from_the_start(tmp_path):
    write_tiny_voice(tmp_path, family="ist")
    engine = open_engine(tmp_path, best(), device="cpu", threads=1)

    def first_frame(speaker: str, ratio: str) -> list[int]:
        utterance = engine.open(
            SpeakRequest(voice=f"tiny:{speaker}", seed=3, temperature=0.0, options={"ratio": ratio})
        )
        utterance.push_text("the old wall ")
        utterance.end()
        made = next(e for e in utterance.events() if isinstance(e, ev.Frames))
        utterance.cancel()
        return made.levels[0].tolist()

    try:
        assert first_frame("one", "1:3") == first_frame("one", "1:3")
        assert first_frame("one", "1:3") != first_frame("two", "1:3")
        assert first_frame("one", "1:3") != first_frame("one", "1:4")
        family = engine.voice("tiny").family
        assert [len(family.prompt(i)) for i in (0, 1)] == [9, 7]
    finally:
        engine.close()


def test_no_stretch_ends_before_its_text_is_consumed(tmp_path):
    """A net that always wants to end: it speaks the m frames of every chunk still."""
    write_tiny_voice(tmp_path, family="ist", eos_bias=50.0)
    engine = open_engine(tmp_path, best(), device="cpu", threads=1)
    utterance = engine.open(SpeakRequest(options={"ratio": "1:3"}))
    utterance.push_text("in the")  # two tokens each: ▁ in, ▁the is one
    utterance.end()
    events = list(utterance.events())
    engine.close()
    tokens = sum(len(Bpe.read(tmp_path / "tiny" / "bpe.json").encode(word)) for word in ("in", "the"))
    assert events[-1].samples == tokens * 3 * 600
    (end,) = [e for e in events if isinstance(e, ev.Eos)]
    assert not end.forced


def test_a_long_paste_is_spoken_to_its_end_even_by_whole(tmp_path):
    write_tiny_voice(tmp_path, family="ist", eos_bias=50.0)
    engine = open_engine(tmp_path, best(), device="cpu", threads=1)
    utterance = engine.open(SpeakRequest(options={"ratio": "whole"}))
    utterance.push_text("the stone over the light " * 60)
    utterance.end()
    events = list(utterance.events())
    engine.close()
    assert isinstance(events[-1], ev.Ended)
    assert [e.i for e in events if isinstance(e, ev.WordEnd)] == [*range(300)]


# ------------------------------------------------------------------ the encoding


def test_merges_in_their_order(tmp_path):
    write_tiny_bpe(tmp_path / "bpe.json")
    bpe = Bpe.read(tmp_path / "bpe.json")
    pieces = {i: piece for piece, i in json.loads((tmp_path / "bpe.json").read_text())["model"]["vocab"].items()}

    def cut(word: str) -> list[str]:
        return [pieces[i] for i in bpe.encode(word)]

    assert cut("the") == ["▁the"] and cut("thing.") == ["▁th", "ing", "."] and cut("a") == ["▁", "a"]
    assert cut("o'clock,") == ["▁o", "'", "c", "l", "o", "c", "k", ","] and cut("sold") == ["▁s", "o", "l", "d"]


def test_it_encodes_as_the_library_does(tmp_path):
    """Every word of a made-up language, by a real training of the library's."""
    from tokenizers import Tokenizer

    from studio.train.corpus.texts import train_bpe

    rng = random.Random(5)
    stems = ["ing", "th", "e", "str", "o'", "an", "q", "ll", "ai", "x", "ed"]
    words = [
        "".join(rng.choices(stems, k=rng.randint(1, 5))) + rng.choice(["", "", ".", ",", "?"]) for _ in range(3000)
    ]
    path = tmp_path / "bpe.json"
    train_bpe([words[i : i + 10] for i in range(0, 3000, 10)], 120, path)
    ours, theirs = Bpe.read(path), Tokenizer.from_file(str(path))
    assert ours.size == theirs.get_vocab_size() == 120
    for word in {*words, "zzz!", "a:", "w;", "'"}:
        assert [*ours.encode(word)] == theirs.encode(word).ids, word


def test_merges_may_be_passed_over_at_random(tmp_path):
    write_tiny_bpe(tmp_path / "bpe.json")
    bpe, rng = Bpe.read(tmp_path / "bpe.json"), random.Random(3)
    pieces = {i: piece for piece, i in json.loads((tmp_path / "bpe.json").read_text())["model"]["vocab"].items()}

    def cut(dropout: float) -> list[str]:
        return [pieces[i] for i in bpe.encode_at_random("morning,", dropout, rng.random)]

    assert cut(0.0) == [pieces[i] for i in bpe.encode("morning,")] and cut(1.0) == [*"▁morning,"]
    found = {tuple(cut(0.3)) for _ in range(60)}
    assert len(found) > 5 and {"".join(one) for one in found} == {"▁morning,"}


def test_an_encoding_of_phonemes(tmp_path):
    """The same word has the same tokens however it is spelt, and the library encodes its phonemes alike."""
    from tokenizers import Tokenizer

    from studio.text.phonemes import pronounce
    from studio.train.corpus.texts import train_bpe

    words = "the night knight's light, sight and site are right; write it, quite tight. their there".split()
    path = tmp_path / "bpe.json"
    train_bpe([words] * 50, 100, path, "phonemes")
    bpe, theirs = Bpe.read(path), Tokenizer.from_file(str(path))
    assert bpe.spelling == "phonemes" and bpe.size == theirs.get_vocab_size()
    assert bpe.encode("night") == bpe.encode("knight") and bpe.encode("right,")[:-1] == bpe.encode("write")
    assert bpe.encode("sight") == bpe.encode("site") != bpe.encode("sat")
    for word in words:
        assert [*bpe.encode(word)] == theirs.encode(pronounce([word])[0]).ids, word
    assert len(bpe.encode("—")) == 1, "what cannot be said is a word's beginning and nothing more"
    assert copy.copy(bpe).encode("knight") == bpe.encode("night"), "processes make batches with copies of it"


# ------------------------------------------------------------------ voices that are not whole


def damaged(tmp_path, change) -> None:
    folder = write_tiny_voice(tmp_path, family="ist")
    card = json.loads((folder / "card.json").read_text())
    change(folder, card)
    (folder / "card.json").write_text(json.dumps(card))
    open_engine(tmp_path, best(), device="cpu", threads=1).close()


def emptied(folder, card, name: str, value: int) -> None:
    """The voice with a buffer that holds one value throughout."""
    weights = load_file(folder / "ist.safetensors")
    weights[name] = torch.full_like(weights[name], value)
    save_file(weights, folder / "ist.safetensors")
    card["sha256"]["ist.safetensors"] = sha256_of(folder / "ist.safetensors")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda f, c: emptied(f, c, "prompt_text", -1), "prompt of one has 0 text tokens and 9 frames"),
        (lambda f, c: emptied(f, c, "prompt", 16), "prompt of one has 3 text tokens and 0 frames"),
        (lambda f, c: emptied(f, c, "prompt", 17), "prompt of one has 3 text tokens and 12 frames"),
        (lambda f, c: emptied(f, c, "prompt_text", 999), "prompt of one has 8 text tokens"),
        (lambda f, c: c.update(speakers=["one"]), "has 2 speakers, and the card has 1"),
        (lambda f, c: c["config"].update(speakers=3), "has 3 speakers, and the card has 2"),
        (lambda f, c: c["config"].update(most_words=500), "do not fit into a slot"),
        (lambda f, c: (f / "bpe.json").unlink(), "differs from the file in the card"),
        (lambda f, c: (f / "bpe.json").write_text("{}"), "differs from the file in the card"),
        (lambda f, c: c["config"].update(text_tokens=7), "encoding has 65 tokens and the card 7"),
        (lambda f, c: c["config"].update(unheard_of=7), "describes no net"),
    ],
)
def test_a_voice_that_is_not_whole_is_refused(tmp_path, change, told):
    with pytest.raises(BadVoice, match=told):
        damaged(tmp_path, change)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"model": 3}',
        '{"model": {"type": "WordPiece", "vocab": {}, "merges": []}}',
        '{"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}}',
        '{"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [["a"]]}}',
    ],
)
def test_an_encoding_that_is_none(tmp_path, text):
    folder = write_tiny_voice(tmp_path, family="ist")
    (folder / "bpe.json").write_text(text)
    card = read_card(folder)
    card.sha256["bpe.json"] = sha256_of(folder / "bpe.json")
    write_card(folder, card)
    with pytest.raises(BadVoice, match=r"bpe\.json"):
        open_engine(tmp_path, best(), device="cpu", threads=1)
