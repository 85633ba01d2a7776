"""IST-LM training sequences: cut by the family's policy, with the right target everywhere."""

import json

import numpy as np
import pytest
import torch
from tinyfeatures import tiny_training
from tinyvoice import write_tiny_bpe
from typer.testing import CliRunner

from studio.cli import cli
from studio.core.errors import BadFile
from studio.engine.families.common.text_tokens import Bpe
from studio.engine.families.ist.model import Ist, IstConfig
from studio.engine.families.ist.policy import FRAME, RATIOS
from studio.engine.tokenizers import dmel
from studio.train.families.common import NO_TARGET
from studio.train.families.ist_fit import IstBatch, IstSequencer, IstTrainingModule, collate, lay_out
from studio.train.features import Sentence
from studio.train.fit.dataset import find_prompts
from studio.train.fit.loop import BatchPrefetcher
from studio.train.fit.training import WorkingCopy

WORDS = ["the", "stone", "over", "slowly."]
ENDS = [4, 9, 13, 20]


def sentence(offset: int = 0, words: list[str] = WORDS) -> Sentence:
    """Frame f has level (f + offset) % 16 in every channel; one token per word, two with a mark."""
    total = ENDS[len(words) - 1] + 2
    levels = np.repeat(((np.arange(total) + offset) % 16).astype(np.uint8)[:, None], dmel.CHANNELS, 1)
    return Sentence("slt", [*words], ENDS[: len(words)], levels, np.arange(total).astype(np.uint8) % 40)


@pytest.fixture(scope="module")
def encoded(tmp_path_factory) -> IstSequencer:
    path = tmp_path_factory.mktemp("bpe") / "bpe.json"
    write_tiny_bpe(path)
    return IstSequencer(Bpe.read(path))


def a_batch(encoded: IstSequencer, ratio: str) -> IstBatch:
    """One sentence, no noise."""
    made = lay_out([encoded.whole_sentence(sentence())], ratio, encoded.symbols)
    return collate([made], encoded.symbols, 0.0, np.random.default_rng(0))


def test_every_frame_is_predicted_once_after_its_visible_text(encoded):
    made = lay_out([encoded.whole_sentence(sentence()), encoded.whole_sentence(sentence(3))], "1:3", encoded.symbols)
    batch = collate([made], encoded.symbols, 0.0, np.random.default_rng(0))
    levels = [s.levels for s in (sentence(), sentence(3))]
    assert np.array_equal(batch.target_levels.numpy(), np.concatenate(levels))
    assert np.array_equal(batch.target_phones.numpy(), np.concatenate([sentence().phones, sentence(3).phones]))
    fed = dict(zip(batch.frame_at.tolist(), batch.frame_levels[:, 0].tolist(), strict=True))
    for at, level in zip(batch.target_at.tolist(), batch.target_levels[:, 0].tolist(), strict=True):
        assert fed[at + 1] == level, "targets are the next inputs"
    symbols = batch.symbols[0].tolist()
    first = [i for i in symbols if i != encoded.symbols.filler][:7]
    assert first == [encoded.symbols.start, *encoded.tokens(WORDS), encoded.symbols.end]
    assert batch.start_ratio.tolist() == [RATIOS.index("1:3")] * 2


@pytest.mark.parametrize("ratio", ["1:3", "12:24", "whole"])
def test_every_frame_knows_its_token(encoded, ratio):
    """If it was fed earlier; two rows with their own positions."""
    pair = [encoded.whole_sentence(sentence()), encoded.whole_sentence(sentence(3))]
    made = [lay_out(pair, ratio, encoded.symbols), lay_out(pair[:1], ratio, encoded.symbols)]
    batch = collate(made, encoded.symbols, 0.0, np.random.default_rng(0))
    length, of_word = batch.symbols.shape[1], [encoded.bpe.encode(word) for word in WORDS]
    checked = 0
    for place, (at, token) in enumerate(zip(batch.target_at.tolist(), batch.target_token.tolist(), strict=True)):
        frame = place % (ENDS[-1] + 2)
        word = next((i for i, end in enumerate(ENDS) if frame < end), len(WORDS))
        if token == NO_TARGET:
            assert word == len(WORDS) or ratio == "1:3", "end of text, or text that comes later"
            continue
        checked += 1
        assert token <= at % length, "it was fed earlier"
        assert int(batch.symbols[at // length, token]) in of_word[min(word, len(WORDS) - 1)]
    assert checked >= 3 * (ENDS[-1] if ratio != "1:3" else 1)


def test_bpe_dropout_varies_tokens_and_keeps_the_alignment(encoded):
    varied, rng = IstSequencer(encoded.bpe, 0.5), np.random.default_rng(2)
    found = [varied.whole_sentence(sentence(), rng) for _ in range(20)]
    found += [one for _ in range(20) for one in varied.flushed(sentence(), rng)]
    assert len({tuple(one.tokens) for one in found}) > 20
    for one in found:
        known = one.token_of_frame[one.token_of_frame != NO_TARGET]
        assert (np.diff(known) >= 0).all() and known.max(initial=0) < len(one.tokens) - 1
    assert varied.whole_sentence(sentence()).tokens == encoded.whole_sentence(sentence()).tokens, "only in training"


def test_end_is_predicted_only_after_all_text(encoded):
    made = lay_out([encoded.whole_sentence(sentence())], "1:3", encoded.symbols)
    batch = collate([made], encoded.symbols, 0.0, np.random.default_rng(0))
    closing = made.layout.symbols.index(encoded.symbols.end)
    assert batch.stop_at.tolist() == [*range(closing, len(made) - 1)], "from the end of text to the last frame"
    assert batch.stop.tolist() == [0.0] * (len(batch.stop) - 1) + [1.0]
    consumed = sum(1 for s in made.layout.symbols[:closing] if s == FRAME)
    assert consumed == 5 * 3, "five tokens before it, three frames after each"


def test_padding_and_noise(encoded):
    short, long = (
        lay_out([encoded.whole_sentence(s)] * k, "3:9", encoded.symbols) for s, k in [(sentence(), 1), (sentence(), 2)]
    )
    batch = collate([short, long], encoded.symbols, 1.0, np.random.default_rng(0))
    assert batch.symbols.shape == (2, len(long)) and (batch.symbols[0, len(short) :] == encoded.symbols.filler).all()
    clean = collate([short, long], encoded.symbols, 0.0, np.random.default_rng(0))
    moved = batch.frame_levels.int() - clean.frame_levels.int()
    is_end = clean.frame_levels[:, 0] == dmel.EOS
    assert int(moved.abs().max()) == 1 and int(moved[is_end].abs().max()) == 0 and int(is_end.sum()) == 3
    assert torch.equal(batch.target_levels, clean.target_levels)


def test_flush_cuts_at_the_end_of_a_word(encoded):
    for seed in range(20):
        first, second = encoded.flushed(sentence(), np.random.default_rng(seed))
        assert first.tokens[-1] == encoded.symbols.flush and second.tokens[-1] == encoded.symbols.end
        assert len(first.levels) in ENDS[:-1] and len(first.levels) + len(second.levels) == ENDS[-1] + 2
        assert first.tokens[:-1] + second.tokens[:-1] == encoded.tokens(WORDS)
        words = ENDS.index(len(first.levels)) + 1
        assert first.tokens[:-1] == encoded.tokens(WORDS[:words])
    (whole,) = encoded.flushed(sentence(words=["the"]), np.random.default_rng(0))
    assert whole.tokens[-1] == encoded.symbols.end


def test_batches_of_worker_processes_are_the_same(features, tmp_path):
    training, data = tiny_training("ist", features, tmp_path)
    ahead = BatchPrefetcher(training, features, workers=2)
    try:
        for number in range(3):
            for made, here in zip(ahead.batches(number), training.batches(data, number), strict=True):
                assert all(torch.equal(values, getattr(here, name)) for name, values in vars(made).items())
    finally:
        ahead.close()


def test_batches_cover_every_sentence(features, tmp_path):
    training, data = tiny_training("ist", features, tmp_path, join_share=0.0, flush_share=0.0)
    assert sum(len(b.start_at) for b in training.batches(data, 0)) == 6 + 6, "a prompt before each"
    held_out = training.validation_batches(data, dict(training.validation(data))["whole"])
    assert sum(len(b.start_at) for b in held_out) == 2 * 6
    with pytest.raises(BadFile, match="no sentence of one has 500 to 600 frames"):
        find_prompts(data, 500, 600)


def test_training_step_reduces_the_loss(encoded):
    torch.manual_seed(0)
    fitter = IstTrainingModule(Ist(IstConfig(2, 32, 2, 64, encoded.bpe.size, 1)), phone_weight=0.4)
    batch = a_batch(encoded, "1:3")
    copied = WorkingCopy(fitter)
    optim = torch.optim.AdamW(fitter.parameters(), lr=1e-2)
    totals = []
    for step in range(30):
        total = copied.copy.total(copied.losses(batch, 0.5 * (step % 2), 0.5))
        total.backward()
        copied.copy_gradients()
        optim.step()
        totals.append(float(total.detach()))
    assert totals[-1] < 0.7 * totals[0]


def test_own_frames_replace_only_a_share_of_the_input(encoded):
    torch.manual_seed(0)
    fitter = IstTrainingModule(Ist(IstConfig(1, 32, 2, 64, encoded.bpe.size, 1)))
    with torch.no_grad():  # a net that always predicts level 7
        fitter.net.levels_out.weight.zero_()
        fitter.net.levels_out.bias.view(80, 16)[:, 7] = 100.0
    batch = a_batch(encoded, "3:9")
    changed = fitter.own_frames(batch, 1.0, 0.5)
    is_end = batch.frame_levels[:, 0] == dmel.EOS
    assert (changed.frame_levels[~is_end] == 7).all() and (changed.frame_levels[is_end] == dmel.EOS).all()
    assert torch.equal(fitter.own_frames(batch, 0.0, 0.5).frame_levels, batch.frame_levels)


def test_bpe_is_fitted_on_spoken_text(tmp_path):
    texts = [{"kind": "prose", "text": f"It cost ${n}, they said."} for n in range(2, 40)]
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps(text) + "\n" for text in texts))
    out = tmp_path / "deep" / "bpe.json"
    done = CliRunner().invoke(
        cli, ["train", "bpe", "--texts", str(tmp_path / "texts.jsonl"), "--out", str(out), "--size", "60"]
    )
    assert done.exit_code == 0 and done.output.startswith("60 tokens"), done.output
    assert len(Bpe.read(out).encode("dollars,")) <= 4, "spoken in every text"
