"""S5-TTS's rule by table: which words are seen, the two masks, the completion flag, spelling (paper 001)."""

import pytest
import torch

from studio.core.errors import BadOption
from studio.engine.families.common.text_tokens import (
    IDS,
    PHONEMES,
    SPACE,
    STRESSES,
    SYMBOLS,
    counts_through,
    spell,
    words_of,
)
from studio.engine.families.s5.model import seen_steps
from studio.engine.families.s5.policy import LookAheadPolicy, S5Options, S5Plan, is_complete


def plans(total: int, k: int) -> list[S5Plan]:
    """All steps of a text of so many words."""
    policy, found = LookAheadPolicy(), []
    while (plan := policy.next(total, S5Options(k), ended=True)) is not None:
        found.append(plan)
    return found


def step(stop: int, first: int, past: int, close: bool = False) -> S5Plan:
    return S5Plan(stop, range(first, past), close)


@pytest.mark.parametrize(
    ("total", "k", "wanted"),
    [
        # "S5-TTS with k = 2 can begin synthesis after receiving the third word"; the end is a word after the last
        (5, 2, [step(3, 0, 1), step(4, 1, 2), step(5, 2, 3), step(5, 3, 5, close=True)]),
        (3, 1, [step(2, 0, 1), step(3, 1, 2), step(3, 2, 3, close=True)]),
        (4, 3, [step(4, 0, 1), step(4, 1, 4, close=True)]),
        (2, 2, [step(2, 0, 2, close=True)]),
        (1, 1, [step(1, 0, 1, close=True)]),
        (0, 2, []),
    ],
)
def test_steps_of_a_text(total, k, wanted):
    assert plans(total, k) == wanted


@pytest.mark.parametrize("k", [1, 2, 3])
def test_a_word_waits_for_exactly_k_more(k):
    policy = LookAheadPolicy()
    for committed in range(1, k + 1):
        assert policy.next(committed, S5Options(k)) is None
    assert policy.next(k + 1, S5Options(k)) == step(k + 1, 0, 1)
    assert policy.next(k + 1, S5Options(k)) is None, "asking twice speaks no word twice"
    assert policy.next(k + 40, S5Options(k)) == step(k + 2, 1, 2), (
        "what is beyond i + k is cut off, also when it is there"
    )


def test_what_was_seen_before_the_end_is_seen_after_it():
    """Whether the end came before or after a step was taken changes no step."""
    early, late = LookAheadPolicy(), LookAheadPolicy()
    assert early.next(3, S5Options(2), ended=True) == late.next(3, S5Options(2), ended=False)


def test_a_flush_is_an_end_until_words_follow():
    policy = LookAheadPolicy()
    assert policy.next(2, S5Options(2), flushed=2) == step(2, 0, 2, close=True)
    policy = LookAheadPolicy()
    assert policy.next(3, S5Options(3), flushed=2) == step(3, 0, 1), "one word follows: it is the look-ahead"
    assert policy.next(3, S5Options(3), flushed=2) == step(3, 1, 2)
    assert policy.next(3, S5Options(3), flushed=2) is None, "the third was not flushed"
    assert policy.next(4, S5Options(1), flushed=2) == step(4, 2, 3)


def test_a_change_of_k_holds_from_the_next_word_on():
    policy = LookAheadPolicy()
    assert policy.next(4, S5Options(3)) == step(4, 0, 1)
    assert policy.next(4, S5Options(3)) is None
    assert policy.next(4, S5Options(1)) == step(3, 1, 2)


@pytest.mark.parametrize("wrong", [0, 4, -1, 1.5, "2", True])
def test_another_look_ahead_is_refused(wrong):
    with pytest.raises(BadOption, match=r"k cannot be .*; give a whole number from 1 to 3"):
        S5Options(wrong)


def mask_of(asking: list[int], words: list[int], k: int) -> list[list[int]]:
    return seen_steps(torch.tensor([asking]), torch.tensor([words]), torch.tensor([k]))[0].int().tolist()


def test_the_encoders_mask():
    """M_enc: its own word, all before it, and the next k; words of one, two and one phonemes."""
    words = words_of([[5], [6, 7], [8]])
    assert words == [0, 1, 1, 2]
    assert mask_of(words, words, 1) == [[1, 1, 1, 0], [1, 1, 1, 1], [1, 1, 1, 1], [1, 1, 1, 1]]
    assert all(all(row) for row in mask_of(words, words, 2)), "min(pi(t) + k, N)"


def test_the_decoders_mask():
    """M_dec: decoder steps of words A(s) = 0 0 1 2 over encoder steps of words 0 1 1 2 3."""
    assert mask_of([0, 0, 1, 2], [0, 1, 1, 2, 3], 1) == [
        [1, 1, 1, 0, 0],
        [1, 1, 1, 0, 0],
        [1, 1, 1, 1, 0],
        [1, 1, 1, 1, 1],
    ]


@pytest.mark.parametrize(
    ("shares", "word", "complete"),
    [
        # W = 2, 3, 1: word 1 holds the steps 0 and 1, word 2 the steps 2 to 4
        ([0.1, 0.6, 0.2, 0.1, 0.0, 0.0], 0, False),
        ([0.1, 0.2, 0.6, 0.1, 0.0, 0.0], 0, True),
        ([0.1, 0.1, 0.1, 0.1, 0.5, 0.1], 1, False),
        ([0.0, 0.0, 0.1, 0.1, 0.2, 0.6], 1, True),
    ],
)
def test_the_completion_flag(shares, word, complete):
    """c_s^i = argmax(alpha_s) > sum of W_1 .. W_i - 1."""
    through = counts_through([[1, 1], [1, 1, 1], [1]])
    assert through == [2, 5, 6]
    assert is_complete(shares, through[word]) is complete


def test_spelling():
    plain = spell("mɔɹ")
    assert plain[0] == SPACE and len(plain) == 4
    stressed = spell("mˈɔɹ,")
    assert stressed[:2] == plain[:2] and stressed[2] == plain[2] + 2 * SYMBOLS and len(stressed) == 5
    assert spell("") == spell("漢") == [SPACE], "what has no phonemes is a space"
    every = [i for symbol in PHONEMES for stress in ("", *STRESSES) for i in spell(stress + symbol)[1:]]
    assert len(set(every)) == 3 * len(PHONEMES) and max(every) < IDS
