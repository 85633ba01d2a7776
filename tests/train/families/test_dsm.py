"""DSM-TTS training: targets of every step, losses, restarts, a packed voice that speaks."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from tinyfeatures import TINY_CONFIGS, steps_on, tiny_recipe, tiny_sentence, tiny_training
from tinyfeatures import TINY_ENDS as ENDS
from tinyvoice import write_tiny_bpe

from studio.core.errors import BadFile
from studio.engine.families.common.text_tokens import Bpe
from studio.engine.families.dsm.model import DsmConfig
from studio.engine.tokenizers import dmel
from studio.train.families.common import NO_TARGET
from studio.train.families.dsm_batches import DsmBatch, DsmSequencer, collate, truncate_at_word, word_starts
from studio.train.families.dsm_fit import DsmTrainingModule
from studio.train.families.registry import training_for
from studio.train.features import Sentence
from studio.train.fit.loop import run
from studio.train.fit.training import WorkingCopy, build_optimisers, train_step

WORDS = ["the", "stone,", "over", "slowly."]
FRAMES = 48
DELAY = 10  # frames per quarter of a second
CONFIG = DsmConfig(**TINY_CONFIGS["dsm"])
SYMBOLS = CONFIG.symbols


def sentence(speaker: str = "one", seed: int = 0) -> Sentence:
    return tiny_sentence(speaker, seed, WORDS, FRAMES)


@pytest.fixture(scope="module")
def streams(tmp_path_factory) -> DsmSequencer:
    path = tmp_path_factory.mktemp("bpe") / "bpe.json"
    write_tiny_bpe(path)
    return DsmSequencer(Bpe.read(path), CONFIG)


def a_batch(streams: DsmSequencer, *parts: list[Sentence], noise: float = 0.0) -> DsmBatch:
    made = [streams.sequence(streams.spoken(one), [one[0].levels[:30]]) for one in parts]
    return collate(made, streams, noise, np.random.default_rng(0))


def test_words_start_after_the_pause_before_them():
    assert word_starts(sentence()) == [0, 8, 25, 34]


def test_text_is_aligned_with_frames_and_audio_delayed(streams):
    batch = a_batch(streams, [sentence()])
    text, encode = batch.text[0].tolist(), streams.bpe.encode
    assert len(text) == FRAMES + DELAY + 2
    assert [i for i, symbol in enumerate(text) if symbol == SYMBOLS.word] == [0, 8, 25, 34]
    assert text.index(SYMBOLS.end) == ENDS[-1] and text[1] == SYMBOLS.main
    assert text[2 : 2 + len(encode("the"))] == [*encode("the")] and text[9 : 9 + 2] == [*encode("stone,")][:2]
    assert batch.ahead[0, : len(encode("over"))].tolist() == [*encode("over")]
    levels = torch.from_numpy(sentence().levels)
    assert torch.equal(batch.targets[0, DELAY : DELAY + FRAMES, :10], levels[:, :10])
    assert torch.equal(batch.targets[0, DELAY + 2 :, 10:], levels[:, 10:])
    assert (batch.targets[0, :DELAY] == dmel.PAD).all() and (batch.targets[0, DELAY + FRAMES :, :10] == dmel.PAD).all()
    assert (batch.targets[0, : DELAY + 2, 10:] == dmel.PAD).all() and batch.predicted == FRAMES
    assert torch.equal(batch.fed[0, 1:], batch.targets[0, :-1]) and (batch.fed[0, 0] == dmel.PAD).all()
    assert batch.phones[0, DELAY : DELAY + FRAMES].tolist() == sentence().phones.tolist()


def test_every_frame_knows_the_step_of_its_token(streams):
    said = [sentence(), sentence(seed=1)]
    batch = a_batch(streams, said)
    text, token_at = batch.text[0].tolist(), batch.token_at[0].tolist()
    assert set(token_at[:DELAY]) == {NO_TARGET} and set(token_at[DELAY + said[0].word_ends[-1] + FRAMES :]) == {
        NO_TARGET
    }
    spoken = streams.spoken(said)
    for frame in range(spoken.end):
        word = max(i for i, start in enumerate(spoken.starts) if start <= frame)
        step = token_at[DELAY + frame]
        assert step != NO_TARGET and text[step] in spoken.words[word], "one of the tokens of its word"
        assert text[step] != SYMBOLS.word and step <= DELAY + frame, "already read by then"
    made = streams.sequence(spoken, [])
    short = collate([replace(made, skip=30)], streams, 0.0, np.random.default_rng(0))
    left = np.array(token_at[30:]) - 30
    assert short.token_at[0].tolist() == np.where(left < 0, NO_TARGET, left).tolist()
    unread = collate([streams.without_text(made)], streams, 0.0, np.random.default_rng(0))
    assert (unread.token_at == NO_TARGET).all()


def test_guided_head_changes_only_the_losses(streams):
    torch.manual_seed(3)
    plain, guided = DsmTrainingModule(CONFIG), DsmTrainingModule(CONFIG, guide_weight=0.5)
    guided.load_state_dict(plain.state_dict())
    batch = a_batch(streams, [sentence()], [sentence("two", 1)])
    unguided, found = plain(batch), guided(batch)
    for name in unguided:
        torch.testing.assert_close(unguided[name], found[name])
    assert found["guide"] > 0
    torch.testing.assert_close(guided.total(found), plain.total(unguided) + 0.5 * found["guide"])


def test_action_is_predicted_where_a_word_could_start(streams):
    batch = a_batch(streams, [sentence()])
    action = batch.action[0].tolist()
    assert [i for i, one in enumerate(action) if one == 1] == [7, 24, 33, 43]
    fed = 2 + len(streams.bpe.encode("the"))  # WORD, MAIN and the word
    assert action[: fed - 1] == [-1] * (fed - 1) and action[fed - 1 : 8] == [0] * (8 - fed) + [1]
    assert set(action[ENDS[-1] :]) == {-1}, "no action after the end"


def test_turns_are_marked_where_the_speaker_changes(streams):
    said = streams.spoken([sentence("two"), sentence("one", 1), sentence("one", 2), sentence("two", 3)])
    turns = {i: word[0] for i, word in enumerate(said.words) if word[0] in (SYMBOLS.main, SYMBOLS.other)}
    assert turns == {0: SYMBOLS.main, 4: SYMBOLS.other, 12: SYMBOLS.main} and said.speakers == ["two", "one"]
    assert said.starts[4:6] == [FRAMES, FRAMES + 8] and said.end == 3 * FRAMES + ENDS[-1]


def test_without_text_there_is_no_target(streams):
    made = streams.without_text(streams.sequence(streams.spoken([sentence()]), []))
    batch = collate([made], streams, 0.0, np.random.default_rng(0))
    assert (batch.text == SYMBOLS.nothing).all() and (batch.ahead == SYMBOLS.nothing).all()
    assert (batch.action == -1).all() and (batch.speakers == -1).all() and batch.predicted == FRAMES
    with torch.no_grad():
        losses = DsmTrainingModule(CONFIG)(batch)
    assert all(torch.isfinite(one) for one in losses.values()) and float(losses["action"]) == 0.0


def test_padding_and_noise(streams):
    short = streams.spoken([sentence()])
    noisy, clean = (a_batch(streams, [sentence()], [sentence(), sentence()], noise=share) for share in (1.0, 0.0))
    moved = noisy.fed.int() - clean.fed.int()
    assert int(moved.abs().max()) == 1 and torch.equal(noisy.targets, clean.targets)
    assert int(moved[clean.fed == dmel.PAD].abs().max()) == 0
    beyond = len(short.levels) + DELAY + 2
    assert (clean.text[0, beyond:] == SYMBOLS.pad).all() and (clean.action[0, beyond:] == -1).all()
    assert (clean.phones[0, beyond:] == -1).all() and (clean.targets[0, beyond:] == dmel.PAD).all()
    assert clean.speakers.tolist() == [[0, -1, -1, -1, -1], [1, -1, -1, -1, -1]] and clean.extracts.shape == (2, 30, 80)


def test_sequence_may_start_within_a_text(streams):
    made = streams.sequence(streams.spoken([sentence()]), [])
    batch, whole = (collate([one], streams, 0.0, np.random.default_rng(0)) for one in (replace(made, skip=17), made))
    for name in ("text", "ahead", "fed", "targets", "action", "phones"):
        assert torch.equal(getattr(batch, name)[0], getattr(whole, name)[0, 17:]), name
    assert (batch.fed[0, 0, :10] != dmel.PAD).all(), "the previous step's audio is present"


def test_flush_ends_at_the_end_of_a_word():
    found = {len(truncate_at_word(sentence(), np.random.default_rng(seed)).levels) for seed in range(40)}
    assert found == {*ENDS[:-1], FRAMES}


def test_dropouts_are_independent(features, tmp_path):
    training, data = tiny_training("dsm", features, tmp_path, join_share=0.0)
    counts, rows = np.zeros((2, 2)), 0
    for number in range(60):
        for batch in training.batches(data, number):
            no_text = (batch.text[:, 0] == SYMBOLS.nothing).numpy()
            nobody = (batch.speakers[:, 0] == -1).numpy()
            for a, b in zip(no_text, nobody, strict=True):
                counts[int(a), int(b)] += 1
            rows += len(no_text)
    shares = counts / rows
    assert rows == 60 * 6 and abs(shares[1].sum() - 0.2) < 0.07 and abs(shares[:, 1].sum() - 0.2) < 0.07
    assert 0.01 < shares[1, 1] < 0.09, "0.04 where neither is known"


def test_dialogues_have_both_recordings(features, tmp_path):
    changes = {"turn_share": 1.0, "speaker_dropout": 0.0, "text_dropout": 0.0, "max_frames": 400}
    training, data = tiny_training("dsm", features, tmp_path, **changes)
    batches = [*training.batches(data, 0)]
    assert all((one.speakers[:, :2] >= 0).all() and (one.speakers[:, 2:] == -1).all() for one in batches)
    assert all((one.text == SYMBOLS.other).any(1).all() for one in batches)
    alone = [*training.validation_batches(data, dict(training.validation(data))["text"])]
    assert sum(len(one.text) for one in alone) == 6 and all((one.speakers[:, 1:] == -1).all() for one in alone)


def test_losses_fall(streams):
    recipe = tiny_recipe("dsm")
    batch = a_batch(streams, *([sentence(seed=i)] for i in range(3)))
    found, matrices = steps_on(recipe, batch, 25)
    first, last = found[0], found[-1]
    assert abs(first["frame"] - np.log(16)) < 0.05
    assert last["frame"] < 0.8 * first["frame"] and last["action"] < 0.9 * first["action"]
    assert last["phone"] < 0.7 * first["phone"]
    assert matrices == 1 * 4 + 1 * 3 + 1 * 4


def test_batch_with_a_non_finite_gradient_is_skipped(streams):
    recipe = tiny_recipe("dsm")
    fitting = training_for(recipe)
    batch = a_batch(streams, [sentence()])
    copied, optims = WorkingCopy(fitting.module), build_optimisers(fitting.module, recipe.fit)
    train_step(copied, optims, batch, fitting, 1.0, 0.0)
    before = copy.deepcopy(fitting.module.state_dict())
    usual = copied.copy.total
    copied.copy.total = lambda losses: usual(losses) * torch.nan
    assert train_step(copied, optims, batch, fitting, 1.0, 0.0)["skipped"] == 1.0
    assert all(torch.equal(value, before[name]) for name, value in fitting.module.state_dict().items())
    copied.copy.total = usual
    assert "skipped" not in train_step(copied, optims, batch, fitting, 1.0, 0.0)
    assert all(p.isfinite().all() for p in fitting.module.parameters())


def test_diverging_training_keeps_the_saved_state(features, tmp_path, monkeypatch):
    write_tiny_bpe(tmp_path / "bpe.json")
    run(training_for(tiny_recipe("dsm")), features, tmp_path, torch.device("cpu"), threads=1)
    saved = (tmp_path / "checkpoint.pt").read_bytes()
    usual = DsmTrainingModule.total
    with monkeypatch.context() as patch:
        patch.setattr(DsmTrainingModule, "total", lambda self, losses: usual(self, losses) * torch.nan)
        with pytest.raises(BadFile, match=r"has diverged: the gradients of 20 batches in a row.*lower the peak_rate"):
            run(training_for(tiny_recipe("dsm", steps=60)), features, tmp_path, torch.device("cpu"), threads=1)
    broken = training_for(tiny_recipe("dsm", steps=6))

    def spoilt(*_):
        broken.module.net.action_out.weight.data.fill_(torch.nan)
        return {}

    monkeypatch.setattr(broken, "validate", spoilt)
    with pytest.raises(BadFile, match=r"a weight is not finite after 6 steps"):
        run(broken, features, tmp_path, torch.device("cpu"), threads=1)
    assert (tmp_path / "checkpoint.pt").read_bytes() == saved
    for line in (tmp_path / "metrics.jsonl").read_text().splitlines():
        assert "NaN" not in line


def test_own_frames_replace_sampled_positions(streams):
    fitter = DsmTrainingModule(CONFIG)
    with torch.no_grad():  # a net that always predicts level 7
        for head in fitter.net.depth.heads():
            head.weight.zero_()
            head.bias.view(10, 16)[:, 7] = 100.0
    batch = a_batch(streams, [sentence()], [sentence("two"), sentence("two", 1)])
    own = fitter.own_frames(batch, 1.0, 0.5)
    there = batch.fed != dmel.PAD
    assert (own.fed[there] == 7).all() and torch.equal(own.fed[~there], batch.fed[~there])
    assert torch.equal(fitter.own_frames(batch, 0.0, 0.5).fed, batch.fed) and torch.equal(own.targets, batch.targets)
