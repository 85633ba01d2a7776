"""Tacotron 2 training: clauses with their frames, guided attention, losses, restarts, a packed voice that speaks."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tinyfeatures import TINY_CONFIGS, TINY_FRAMES, TINY_SILENCE, TINY_WORDS, steps_on, tiny_recipe, tiny_sentence

from studio.engine.families.common.text_tokens import END, spell
from studio.engine.families.tacotron.model import Tacotron, TacotronConfig
from studio.text.phonemes import pronounce
from studio.train.families.registry import training_for
from studio.train.families.tacotron_fit import (
    TacotronBatch,
    clause_rule,
    collate,
    cut_into_clauses,
    diagonal_targets,
    guide_loss,
    sample_own_past,
    target_shares,
)
from studio.train.features import Sentence, phone_of


def a_batch(*sentences: Sentence, words: int = 0) -> TacotronBatch:
    made = [clause for one in sentences for clause in cut_into_clauses(one, TINY_SILENCE, clause_rule(words))]
    return collate(made, ["one", "two"], 0.0, np.random.default_rng(0))


def test_sentence_is_cut_as_the_engine_cuts_text():
    first, second = cut_into_clauses(tiny_sentence(), TINY_SILENCE, clause_rule(8))
    spelled = [spell(said) for said in pronounce(TINY_WORDS[:2])]
    assert first.symbols.tolist() == [*spelled[0], *spelled[1], END]
    assert first.words.tolist() == [0] * len(spelled[0]) + [1] * len(spelled[1]) + [1]
    assert len(first.spoken) == 25 and len(second.spoken) == TINY_FRAMES - 25, "a pause belongs to the mark before it"
    assert np.array_equal(first.levels[0], TINY_SILENCE[-1]) and np.array_equal(second.levels[0], first.levels[-1])
    assert np.array_equal(first.levels[1:], tiny_sentence().levels[:25])
    assert second.spoken.tolist() == [0] * 9 + [1] * 18
    assert (
        len(cut_into_clauses(tiny_sentence(), TINY_SILENCE, clause_rule(1))) == 4
        and len(cut_into_clauses(tiny_sentence(), TINY_SILENCE, clause_rule(0))) == 1
    )
    assert "ði" in pronounce(TINY_WORDS[:2]) and "ðə" in pronounce(TINY_WORDS[:1]), "a clause has its own words only"


def test_frames_attend_to_the_symbol_of_their_phone():
    rng, symbols, heard, word_ends = np.random.default_rng(3), list[int](), list[int](), list[int]()
    for said in pronounce(TINY_WORDS):
        symbols.append(-1)  # the silent space before a word
        for symbol in said:
            phone = phone_of(symbol)
            if phone is not None:
                symbols.append(phone)
                heard += [phone] * int(rng.integers(1, 5))
        word_ends.append(len(heard))
    true = Sentence("one", TINY_WORDS, word_ends, np.zeros((len(heard), 80), np.uint8), np.array(heard, np.uint8))
    (whole,) = cut_into_clauses(true, TINY_SILENCE, clause_rule(0))
    assert (np.diff(whole.targets) >= 0).all() and np.array_equal(whole.words[whole.targets], whole.spoken)
    assert [symbols[place] for place in whole.targets] == heard


def test_batch_feeds_the_previous_frame():
    batch = a_batch(tiny_sentence(), tiny_sentence("two", 1), words=2)
    assert batch.predicted == 2 * TINY_FRAMES and batch.speaker.tolist() == [0, 0, 1, 1]
    for row in range(4):
        count = int(batch.last[row]) + 1
        assert torch.equal(batch.fed[row, 1:count], batch.frames[row, : count - 1])
        assert batch.there[row].sum() == count and batch.real[row].sum() == (batch.words[row] >= 0).sum()
        assert (
            batch.phones[row, :count].tolist()
            == cut_into_clauses(tiny_sentence(), TINY_SILENCE, clause_rule(2))[row % 2].phones.tolist()
        )
    assert torch.equal(batch.fed[1, 0], batch.frames[0, batch.last[0]])


def test_guide_penalises_off_diagonal_attention():
    targets = torch.tensor([[0.0, 1.0, 2.0, 3.0]])
    shares = torch.eye(4)[None]
    assert guide_loss(shares, targets, 1.0).abs().max() == 0
    off = guide_loss(shares.flip(2), targets, 1.0)[0]
    assert off[0] > 0.95 and off[0] == off[3] > off[1] == off[2] > 0.3, "three symbols off, one symbol off"
    assert guide_loss(shares.flip(2), targets, 100.0).max() < 0.001


def test_guide_has_a_gradient_at_any_distance():
    """However far attention strays, a step towards its place costs less."""
    targets, near = torch.tensor([[0.0]]), torch.tensor([0.01, 0.0, 0.0, 0.99])
    for one, other in ((torch.tensor([0.0, 0.01, 0.0, 0.99]), near), (torch.tensor([0.0, 0.0, 0.0, 1.0]), near)):
        assert guide_loss(one[None, None], targets, 0.5) > guide_loss(other[None, None], targets, 0.5) + 0.5


def test_forced_attention_covers_one_or_two_symbols():
    shares = target_shares(torch.tensor([[0.0, 1.25, 3.0]]), 4)
    expected = [[1.0, 0.0, 0.0, 0.0], [0.0, 0.75, 0.25, 0.0], [0.0, 0.0, 0.0, 1.0]]
    torch.testing.assert_close(shares, torch.tensor([expected]))


def step_by_step(net, encoded, real, fed, given, noise):
    """``decode`` with each frame's shares given to the next, per its equations."""
    cell, attention, looked = net.attention_lstm, net.attention, net.look_at(fed, noise)
    hidden = state = encoded.new_zeros(len(encoded), net.config.decoder_width)
    context = encoded.new_zeros(len(encoded), encoded.shape[2])
    last = total = encoded.new_zeros(encoded.shape[:2])
    hiddens, contexts, shares = [], [], []
    for frame in range(fed.shape[1]):
        hidden, state = cell(torch.cat((looked[:, frame], context), 1), (hidden, state))
        query, located = attention.query(hidden), torch.stack((last, total), 1)
        shares.append(attention(query, attention.key(encoded), located, attention.location_kernel(), real))
        last = given[:, frame]
        total = total + last
        context = torch.einsum("bt,btd->bd", last, encoded)
        hiddens.append(hidden)
        contexts.append(context)
    attended = torch.stack(contexts, 1)
    decoded, _ = net.decoder_lstm(torch.cat((torch.stack(hiddens, 1), attended), 2))
    return net.head(decoded, attended, fed), torch.stack(shares, 1)


def test_forced_attention_decodes_all_frames_at_once():
    net = training_for(tiny_recipe("tacotron")).module.net
    batch = a_batch(tiny_sentence(), tiny_sentence("two", 1), words=2)
    encoded = net.encode(batch.symbols, batch.prosody, batch.speaker, batch.real)
    noise = torch.rand(*batch.fed.shape[:2], 2 * net.config.prenet_width)
    given = target_shares(batch.targets, encoded.shape[1])
    found = net.decode_along(encoded, batch.real, batch.fed, given, noise)
    for one, other in zip(found, step_by_step(net, encoded, batch.real, batch.fed, given, noise), strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)
    own = net.decode(encoded, batch.real, batch.fed, noise)[1]
    torch.testing.assert_close(found[1][:, 0], own[:, 0], atol=1e-6, rtol=1e-5)
    assert not torch.allclose(found[1][:, 5], own[:, 5], atol=1e-4)
    again = net.decode_along(encoded, batch.real, batch.fed, own, noise)
    for one, other in zip(again, net.decode(encoded, batch.real, batch.fed, noise), strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)  # forced to what it would have done


def test_attention_is_corrected_during_training(monkeypatch):
    """In the share of steps given by the recipe; otherwise it continues from its own state."""
    batch, calls = a_batch(tiny_sentence(), words=0), []
    for name in ("decode", "decode_along"):
        ours = getattr(Tacotron, name)
        monkeypatch.setattr(
            Tacotron, name, lambda *given, name=name, ours=ours: calls.append((name, given)) or ours(*given)
        )
    fitter = training_for(tiny_recipe("tacotron", given_share=1.0)).module
    fitter(batch)
    fitter.eval()(batch)
    assert [name for name, _ in calls] == ["decode_along", "decode"]
    assert torch.equal(calls[0][1][4], target_shares(batch.targets, batch.symbols.shape[1]))
    calls.clear()
    fitter = training_for(tiny_recipe("tacotron", given_share=0.5)).module
    torch.manual_seed(1)
    for _ in range(40):
        fitter(batch)
    assert 10 < sum(name == "decode_along" for name, _ in calls) < 30


def test_straight_diagonal_needs_no_words():
    batch = a_batch(tiny_sentence(), tiny_sentence("two", 1), words=2)
    straight = diagonal_targets(batch)
    for row in range(4):
        count, symbols = int(batch.last[row]) + 1, int(batch.real[row].sum())
        mine = straight[row, :count]
        torch.testing.assert_close(mine.diff(), torch.full((count - 1,), symbols / count))
        assert mine[0] >= -0.5 and mine[-1] <= symbols - 0.5


def test_untrained_encoder_passes_phonemes_on():
    """Its layers are residual: with zero outputs it returns the symbols' vectors."""
    net = Tacotron(TacotronConfig(**TINY_CONFIGS["tacotron"]))
    for parameter in net.encoder.parameters():
        torch.nn.init.zeros_(parameter)
    symbols, speaker = torch.tensor([[3, 7, 3, 9]]), torch.tensor([1])
    encoded = net.encode(symbols, torch.zeros_like(symbols), speaker, torch.ones_like(symbols, dtype=torch.bool))
    plain = net.stress.weight[0] + net.prosody.weight[[0, 2, 4]].sum(0) + net.speaker.weight[1]
    torch.testing.assert_close(encoded[0], net.symbol.weight[symbols[0]] + plain)


def test_phone_labels_are_used_only_in_training():
    recipe = tiny_recipe("tacotron", peak_rate=0.01, phone_weight=0.4)
    batch = a_batch(*(tiny_sentence(seed=i) for i in range(2)), words=2)
    found, _ = steps_on(recipe, batch, 30)
    assert found[-1]["phone"] < 0.6 * found[0]["phone"] and found[-1]["phone_hits"] > found[0]["phone_hits"] + 0.2
    module = training_for(recipe).module
    assert not any("phone" in name for name in module.net.state_dict())
    losses = {name: torch.tensor(1.0) for name in ("frame", "stop", "guide", "phone")}
    unnamed = training_for(tiny_recipe("tacotron")).module.total(losses)
    assert float(module.total(losses) - unnamed) == pytest.approx(0.4)


def test_losses_fall_and_attention_aligns():
    recipe = tiny_recipe("tacotron", peak_rate=0.01)
    batch = a_batch(*(tiny_sentence(seed=i) for i in range(2)), words=2)
    found, matrices = steps_on(recipe, batch, 30)
    first, last = found[0], found[-1]
    assert last["frame"] < 0.75 * first["frame"] and last["guide"] < 0.8 * first["guide"]
    assert last["stop"] < first["stop"]
    assert last["attended"] > first["attended"] + 0.1
    assert matrices == 4 + 2 + 2 + 2 + 4, "encoder, pre-net, two LSTMs, head"


def test_guide_may_be_a_straight_line():
    batch = a_batch(tiny_sentence(), words=4)
    corpus, straight = (training_for(tiny_recipe("tacotron", alignment=one)).module for one in ("corpus", "straight"))
    straight.load_state_dict(corpus.state_dict())
    guides = []
    for fitter in (corpus, straight):
        torch.manual_seed(0)
        guides.append(float(fitter(batch)["guide"].detach()))
    assert guides[0] != guides[1]


def test_own_frames_replace_predicted_frames():
    fitter = training_for(tiny_recipe("tacotron")).module
    batch = a_batch(tiny_sentence(), tiny_sentence("two"), words=2)
    own = fitter.own_frames(batch, 1.0, 0.5)
    differs = (own.fed != batch.fed).any(2)
    assert not differs[:, 0].any() and differs.sum() > 60
    for row in range(4):
        assert not differs[row, int(batch.last[row]) + 2 :].any()
    assert torch.equal(fitter.own_frames(batch, 0.0, 0.5).fed, batch.fed)


def test_selected_clauses_are_fed_their_own_rollout():
    """Every frame of such a clause is the likeliest after its predecessors, which are its own; others stay."""
    recipe = tiny_recipe("tacotron")
    fit = replace(recipe.fit, config={**recipe.fit.config, "prenet_dropout": 0.0, "encoder_dropout": 0.0})
    net = training_for(replace(recipe, fit=fit)).module.net
    torch.nn.init.normal_(net.levels_out.weight, std=0.3)
    batch = a_batch(tiny_sentence(), tiny_sentence("two"), words=2)
    encoded = net.encode(batch.symbols, batch.prosody, batch.speaker, batch.real)
    given = target_shares(batch.targets, encoded.shape[1])
    chosen = torch.arange(len(batch.fed)) % 2 == 0
    fed = sample_own_past(net, encoded, batch.fed, given, chosen, 1e-4)
    assert torch.equal(fed[~chosen], batch.fed[~chosen]) and torch.equal(fed[:, 0], batch.fed[:, 0])
    likeliest = net.heads(net.decode_along(encoded, batch.real, fed, given)[0])[0].argmax(-1)
    assert (likeliest[:, :-1] == fed[:, 1:])[chosen].float().mean() > 0.99
    assert (likeliest[:, :-1] == fed[:, 1:])[~chosen].float().mean() < 0.5
