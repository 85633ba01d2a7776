"""Words found in frames, by a net that reads letters from levels without errors."""

import random

import numpy as np
import pytest

from studio.core.cards import read_card
from studio.core.folders import VOICES
from studio.engine.families.common.letter_net import FILE, LetterModel, load_letter_net
from studio.engine.families.common.word_alignment import (
    AHEAD_FRAMES,
    LAG_FRAMES,
    PAST_FRAMES,
    SILENCE,
    SYMBOLS,
    LetterNet,
    WordAlignment,
    letters_of,
)

CHANNELS = 80


def certain_net() -> LetterNet:
    """A frame of letter k has its highest level in channel k; the middle frame of a window decides."""
    hidden = np.zeros((SYMBOLS, (PAST_FRAMES + 1 + AHEAD_FRAMES) * CHANNELS), np.float32)
    hidden[range(SYMBOLS), PAST_FRAMES * CHANNELS + np.arange(SYMBOLS)] = 5.0
    return LetterNet(hidden, np.zeros(SYMBOLS, np.float32), np.eye(SYMBOLS, dtype=np.float32), np.zeros(SYMBOLS))


def spoken(words: list[str], rng: random.Random) -> tuple[list[np.ndarray], list[int]]:
    """Frames of words with pauses, and the first frame of each word."""
    symbols: list[int] = []
    starts = []
    for word in words:
        symbols += [SILENCE] * rng.choice([0, 0, 1, 6])
        starts.append(len(symbols))
        for letter in letters_of(word):
            symbols += [letter] * rng.randint(1, 4)
    symbols += [SILENCE] * 3
    frames = []
    for symbol in symbols:
        levels = np.zeros(CHANNELS, np.uint8)
        levels[symbol] = 15
        frames.append(levels)
    return frames, starts


def words_of(rng: random.Random) -> list[str]:
    """Words whose neighbours differ in the letters at their boundary."""
    return [rng.choice(["ab", "cde", "fghi", "jk", "lmnop", "q", "rstuv"]) for _ in range(rng.randint(1, 12))]


@pytest.mark.parametrize("seed", range(20))
def test_starts_are_exact_where_letters_are_certain(seed: int) -> None:
    rng = random.Random(seed)
    words = [word for k, word in enumerate(words_of(rng)) if k % 2 or word != "q"]
    words = [word for k, word in enumerate(words) if k == 0 or word[0] != words[k - 1][-1]]
    frames, starts = spoken(words, rng)
    alignment = WordAlignment(certain_net())
    found: list[tuple[int, int]] = []
    known = 0
    for at, levels in enumerate(frames):
        needed = sum(start <= at for start in starts)
        fed = max(known, min(len(words), needed + rng.randint(0, 3)))
        alignment.add_words(words[known:fed])
        known = fed
        new = alignment.add(levels)
        assert all(frame <= at - LAG_FRAMES for _, frame in new)
        found += new
    found += alignment.finish()
    assert found == [*enumerate(starts)]


def test_a_copy_goes_on_as_the_original_does() -> None:
    rng = random.Random(1)
    words = ["ab", "cde", "fghi", "jk", "lmnop"]
    frames, _ = spoken(words, rng)
    first = WordAlignment(certain_net())
    first.add_words(words)
    for levels in frames[:9]:
        first.add(levels)
    second = first.copy()
    results = [
        [*(found for levels in frames[9:] for found in one.add(levels)), *one.finish()] for one in (first, second)
    ]
    assert results[0] == results[1]


def test_a_passage_of_one_frame_has_a_first_word_at_most() -> None:
    alignment = WordAlignment(certain_net())
    alignment.add_words(["ab", "cde"])
    assert alignment.add(np.zeros(CHANNELS, np.uint8)) == []
    assert len(alignment.finish()) <= 1


def test_no_word_and_no_frame_is_no_error() -> None:
    assert WordAlignment(certain_net()).finish() == []


def test_the_numpy_net_is_the_torch_net() -> None:
    import torch

    torch.manual_seed(0)
    model = LetterModel()
    window = np.random.default_rng(0).integers(0, 16, (PAST_FRAMES + 1 + AHEAD_FRAMES, CHANNELS)).astype(np.uint8)
    expected = model(torch.from_numpy(window.ravel() / np.float32(7.5) - 1)[None])[0].detach().numpy()
    np.testing.assert_allclose(model.arrays().scores(window), expected, atol=1e-5)


def test_a_voice_without_the_file_has_no_net() -> None:
    card = read_card(VOICES / "wren")
    assert FILE not in card.sha256
    assert load_letter_net(VOICES / "wren", card) is None
    assert load_letter_net(VOICES / "linnet", read_card(VOICES / "linnet")) is not None
