"""Attention as it is told: shares of words, by hand where a net is made to look at everything alike."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from tinyvoice import write_tiny_voice
from torch import nn

from studio.engine.engine import LocalEngine, open_engine
from studio.engine.families.common.teacher_forcing import TeacherForcingInput
from studio.engine.families.common.text_tokens import spell
from studio.text import phonemes
from studio.text.normalise import plain

WORDS = ["one", "seventeen", "two", "six"]


def even(net: Any) -> None:
    """No query and no key says anything: all that a frame may attend to has the same share."""
    with torch.no_grad():
        for name, module in net.named_modules():
            if name.endswith("qkv") or name == "attention.score":
                assert isinstance(module, nn.Linear)
                module.weight.zero_()


@pytest.fixture
def opened(tmp_path) -> Iterator[Any]:
    engines: list[LocalEngine] = []

    def opening(family: str) -> Any:
        write_tiny_voice(tmp_path, family=family)
        engines.append(open_engine(tmp_path, plain(), device="cpu"))
        loaded: Any = engines[0].voice("tiny").family
        even(loaded.net)
        return loaded

    yield opening
    for engine in engines:
        engine.close()


def levels(count: int) -> np.ndarray:
    return np.random.default_rng(3).integers(0, 16, (count, 80), dtype=np.uint8)


def test_tacotrons_alignment(opened) -> None:
    """Each word has the share of its phonemes among the clause's; its end counts as its last word's."""
    given = TeacherForcingInput(
        WORDS, levels(20), 0, {"mode": "incremental", "clause_words": 2, "chunk_frames": 4}, word_ends=[3, 9, 12, 20]
    )
    first, second = opened("tacotron").teacher_force(given)
    for one, words in ((first, WORDS[:2]), (second, WORDS[2:])):
        counts = np.array([len(spell(said)) for said in phonemes.pronounce(words)])
        counts[-1] += 1
        assert one.by_layer.shape == (1, len(one.p_eos), 2)
        np.testing.assert_allclose(one.by_layer[0], np.tile(counts / counts.sum(), (len(one.p_eos), 1)), rtol=1e-5)
    assert (first.first, first.word, second.first, second.word) == (0, 0, 9, 2)


def test_tacotrons_dropout_is_the_seeds(opened) -> None:
    family, options = opened("tacotron"), {"mode": "whole", "clause_words": 8, "chunk_frames": 15}
    said = [
        np.concatenate(
            [
                one.log_likelihood
                for one in family.teacher_force(TeacherForcingInput(WORDS, levels(20), 0, options, seed=seed))
            ]
        )
        for seed in (1, 1, 2)
    ]
    np.testing.assert_array_equal(said[0], said[1])
    assert np.abs(said[0] - said[2]).max() > 1e-3


@pytest.mark.parametrize("family", ["richtts", "ngram-richtts"])
def test_richtts_self_attention(opened, family) -> None:
    """Of the tokens there are when a frame is drawn, a word has its characters and the space after it."""
    loaded = opened(family)
    silence = len(loaded.prompt(0))
    given = TeacherForcingInput(WORDS, levels(12), 0, {"mode": "ngram", "n": 3}, word_ends=[2, 5, 8, 12])
    first, second = loaded.teacher_force(given)
    for one, words in ((first, WORDS[:3]), (second, WORDS[3:])):
        letters = np.array([len(word) + 1 for word in words])
        tokens = 1 + letters.sum() + 2 + silence + np.arange(len(one.p_eos))
        assert one.by_layer.shape == (2, len(one.p_eos), len(words))
        for layer in one.by_layer:
            np.testing.assert_allclose(layer, letters / tokens[:, None], rtol=1e-5)
    assert (first.first, first.word, second.first, second.word) == (0, 0, 8, 3)


def test_ist_self_attention(opened) -> None:
    """All the text, then all the speech: after the prompt, a start, the words' tokens and the text's end."""
    loaded = opened("ist")
    prompt = 1 + 3 + 1 + 9 + 1  # a start, three tokens and their end, nine frames and theirs (``tinyvoice``)
    (one,) = loaded.teacher_force(TeacherForcingInput(WORDS, levels(10), 0, {"ratio": "whole"}))
    own = np.array([len(loaded.bpe.encode(word)) for word in WORDS])
    tokens = prompt + 1 + own.sum() + 1 + np.arange(10)
    assert one.by_layer.shape == (2, 10, 4)
    for layer in one.by_layer:
        np.testing.assert_allclose(layer, own / tokens[:, None], rtol=1e-5)


def test_ist_sees_a_word_once_its_tokens_are_fed(opened) -> None:
    loaded = opened("ist")
    found = [*loaded.teacher_force(TeacherForcingInput(WORDS, levels(40), 0, {"ratio": "1:2"}))]
    own = [len(loaded.bpe.encode(word)) for word in WORDS]
    assert [one.by_layer.shape[2] for one in found] == [w + 1 for w, n in enumerate(own) for _ in range(n)] + [4]
    assert [len(one.p_eos) for one in found] == [2] * sum(own) + [40 - 2 * sum(own)]
    assert not np.concatenate([one.p_eos for one in found[:-1]])[:-1].any()  # the end is masked
    for one in found:
        assert (one.by_layer[:, :, -1] > 0).all()


def test_dsm_self_attention_to_the_steps_that_fed_a_word(opened) -> None:
    """A frame is complete eight steps after its text (the tiny net's delays): of as many steps it may attend to."""
    loaded = opened("dsm")
    starts, ends = [0, 12, 24, 36], [12, 24, 36, 46]
    options = {"guidance": 1.0, "turn": "main", "other_speaker": 0}
    found = [
        *loaded.teacher_force(TeacherForcingInput(WORDS, levels(50), 0, options, word_starts=starts, word_ends=ends))
    ]
    read = [*WORDS[:-1], WORDS[-1] + "."]  # the text's last word is closed
    own = np.array([1 + len(loaded.bpe.encode(word)) for word in read])  # WORD comes before its tokens
    own[0] += 1  # and who speaks before the first word's
    assert own.max() <= 10, "no word waits for the one before it"
    assert [(one.first, one.word, len(one.p_eos)) for one in found] == [
        (0, 0, 12),
        (12, 1, 12),
        (24, 2, 12),
        (36, 3, 14),
    ]
    for one in found:
        steps = one.first + np.arange(len(one.p_eos)) + 8  # the one that completes each frame
        fed = np.clip(steps[:, None] - np.array(starts[one.word :]) + 1, 0, own[one.word :])
        for layer in one.by_layer:
            wide = layer.shape[1]
            np.testing.assert_allclose(layer, (fed / (steps[:, None] + 1))[:, :wide], rtol=1e-5)
            assert not fed[:, wide:].any()


def test_dsms_action_stream_places_the_words_where_nobody_else_does(opened) -> None:
    """Every word begins where it is likely, none earlier; after the text's end none does."""
    loaded = opened("dsm")
    options = {"guidance": 1.0, "turn": "main", "other_speaker": 0}
    given = TeacherForcingInput(WORDS, levels(120), 0, options, lead=5)
    found = [*loaded.teacher_force(given)]
    p = np.concatenate([one.p_eos for one in found])
    assert len(p) == 120 and found[0].first == 0
    for one in found[1:]:
        assert one.first >= 5 and p[one.first - 1] >= 0.5
    assert (p[4 : found[-1].first] >= 0.5).sum() == len(found) - 1
