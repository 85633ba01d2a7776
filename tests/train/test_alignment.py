"""Alignment: phones and words' ends of frames, where only the ends of words with their pauses are known."""

from dataclasses import replace

import numpy as np
import pytest

from studio.core.errors import BadFile
from studio.text.phonemes import pronounce
from studio.train.alignment import PAUSE, PhoneModel, align
from studio.train.features import PHONES, Sentence, phone_of, save_features
from studio.train.fit.dataset import frame_words

WORDS = ["then", "the", "apple,", "tea."]
SOUND = np.random.default_rng(5).integers(0, 16, (len(PHONES), 80)).astype(np.uint8)  # what each phone sounds like


def spoken(words=WORDS, seed: int = 0, pause: int = 4) -> Sentence:
    """Words of phones that take two to five frames each, with their times; a pause at first and at marks."""
    rng = np.random.default_rng(seed)
    phones, ends = [PAUSE], list[int]()
    for word, said in zip(words, pronounce(words), strict=True):
        for phone in filter(None, map(phone_of, said)):
            phones += [phone] * int(rng.integers(2, 6))
        ends.append(len(phones))
        phones += [PAUSE] * (pause if word[-1] in ",." else 0)
    levels = SOUND[phones].astype(np.int16) + rng.integers(-1, 2, (len(phones), 80))
    return Sentence("one", [*words], ends, levels.clip(0, 15).astype(np.uint8), np.array(phones, np.uint8))


def unaligned(sentence: Sentence) -> Sentence:
    """The same as a voice tells it: a pause is the end of the word before it, and phones are not known."""
    of_frame = frame_words(sentence)
    ends = [int((of_frame <= word).sum()) for word in range(len(sentence.words))]
    return replace(sentence, word_ends=ends, phones=np.ones_like(sentence.phones))


@pytest.fixture(scope="module")
def book() -> PhoneModel:
    return PhoneModel.estimate(spoken(seed=seed) for seed in range(6))


def test_phones_and_ends_are_found_again(book):
    for seed in range(10, 16):
        true = spoken(seed=seed)
        assert unaligned(true).word_ends != true.word_ends, "or there is nothing to find"
        found = align(unaligned(true), book)
        assert found is not None and found.word_ends == true.word_ends
        assert found.phones.tolist() == true.phones.tolist()
        assert found.speaker == "one" and found.words == WORDS


def test_a_pause_takes_frames_only_where_it_is_heard(book):
    found = align(unaligned(spoken(seed=20, pause=0)), book)
    assert found is not None and PAUSE not in found.phones[1:].tolist() and found.phones[0] == PAUSE


def test_what_has_too_few_frames_or_no_phonemes_is_left_out(book):
    true = unaligned(spoken(seed=21))
    assert align(replace(true, word_ends=[1, *true.word_ends[1:]]), book) is None, "four phones in a frame"
    assert align(replace(true, words=["then", "the", "apple,", "."]), book) is None


def test_a_phone_never_heard_is_as_likely_as_the_least_likely(book):
    other = align(unaligned(spoken(["then", "the", "apple,", "zoo."], seed=22)), book)
    assert np.isnan(book.mean[PHONES.index("z")]).all() and other is not None
    assert np.isfinite(book.score(other.levels)).all()


def test_a_corpus_without_pauses_or_phones_is_refused(tmp_path):
    mute = replace(spoken(), phones=np.full(len(spoken().phones), PAUSE, np.uint8))
    save_features("one", [mute], SOUND[:4], tmp_path / "one-000.safetensors")
    for folder in (tmp_path, tmp_path / "none"):
        with pytest.raises(BadFile, match="no pauses or no phones"):
            PhoneModel.load(folder)
