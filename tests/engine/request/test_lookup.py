"""Words that take long to look up: they are held back, nobody else waits for it, and nothing sounds otherwise."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing

import numpy as np
import pytest
from listening import Listener, is_consistent, tiny_engine
from serve.serving import eventually

from studio.core import events as ev
from studio.engine.engine import LocalEngine

STRANGE = ("blorvick", "zemtrious", "quandelby")
TEXT = f"the {STRANGE[0]} came in, {STRANGE[1]} over the {STRANGE[2]}. "


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalEngine]:
    with closing(tiny_engine(tmp_path_factory.mktemp("voices"), family="s5")) as engine:
        yield engine


class Dictionary:
    """Stands where phonemes are looked up: words are known when the test says so."""

    def __init__(self) -> None:
        self.asked: dict[str, Future[None]] = {}

    def start_lookup(self, words: Sequence[str]) -> Future[None] | None:
        for word in words:
            if (bare := word.rstrip(".,")) in STRANGE:
                asked = self.asked.setdefault(bare, Future())
                return None if asked.done() else asked
        return None

    def is_asked(self, word: str) -> None:
        eventually(lambda: word in self.asked, f"{word} is looked up")


@pytest.fixture
def dictionary(engine: LocalEngine, monkeypatch: pytest.MonkeyPatch) -> Dictionary:
    found = Dictionary()
    monkeypatch.setattr(engine.voice(engine.cards()[0].name), "start_lookup", found.start_lookup)
    return found


def sent(engine: LocalEngine, text: str = TEXT) -> Listener:
    listener = Listener(engine)
    listener.utterance.push_text(text)
    return listener


def known(dictionary: Dictionary, *words: str) -> None:
    for word in words:
        dictionary.is_asked(word)
        dictionary.asked[word].set_result(None)


def test_words_wait_in_their_order_others_do_not_and_no_sample_changes(engine, dictionary):
    listener = sent(engine)
    dictionary.is_asked(STRANGE[0])
    other = sent(engine, "the wall came in, slowly. ")
    other.utterance.end()
    assert len(other.rest().pcm), "who has nothing to look up is heard to the end"
    listener.utterance.end()
    assert [*dictionary.asked] == [STRANGE[0]], "one at a time, so that nobody's words fill the queue"
    known(dictionary, *STRANGE)
    trace = listener.rest()
    straight = sent(engine)  # now all are known
    straight.utterance.end()
    again = straight.rest()
    assert [word.text for word in trace.words()] == [word.text for word in again.words()]
    assert np.array_equal(trace.pcm, again.pcm)


def test_what_is_looked_up_is_nobodys_text_that_was_late(engine, dictionary):
    listener = sent(engine, f"the wall came in, over the {STRANGE[0]} and the wall. ")
    listener.utterance.end()
    listener.until(ev.Audio)
    known(dictionary, STRANGE[0])
    listener.rest()
    assert {one.reason for one in listener.of(ev.Wait)} <= {"compute"}


def test_a_revision_waits_for_what_is_looked_up_and_is_spoken(engine, dictionary):
    listener = sent(engine)
    dictionary.is_asked(STRANGE[0])
    at = TEXT.index(STRANGE[1])
    listener.utterance.revise(at, "under the wall.")
    listener.utterance.end()
    known(dictionary, STRANGE[0])
    trace = listener.rest()
    assert [word.text for word in trace.words()] == ["the", STRANGE[0], "came", "in,", "under", "the", "wall."]


def test_a_revision_of_what_comes_before_is_heard_at_once_and_loses_no_text(engine, dictionary):
    listener = sent(engine, f"the wall came in. over there we sat. the {STRANGE[0]} and the wall, {STRANGE[1]}. ")
    dictionary.is_asked(STRANGE[0])
    listener.until(ev.Audio)
    kept = listener.utterance.settled_chars()
    new = "yesterday there came the sun, and all of them went out. "
    listener.utterance.revise(kept, new)
    (asked,) = dictionary.asked.values()
    listener.until(ev.Revised)
    assert asked.cancelled(), "nobody waits for what is not in the text any more"
    listener.utterance.push_text("and so on. ")
    listener.utterance.end()
    trace = listener.rest()
    text = "the wall came in. over there we sat. "[:kept] + new + "and so on."
    assert [word.text for word in trace.words()] == text.split()
    is_consistent(trace)


def test_a_revision_keeps_a_flush_that_is_being_looked_up(engine, dictionary):
    listener = sent(engine, f"the 2/{STRANGE[0]} ")  # more could belong to it: only the flush commits it
    listener.utterance.flush()
    dictionary.is_asked(STRANGE[0])
    listener.utterance.revise(len("the "), f"{STRANGE[1]} ")
    known(dictionary, STRANGE[1])
    listener.until(ev.WordEnd, 2)
    assert [one.word for one in listener.of(ev.Committed)] == ["the", STRANGE[1]]
    listener.utterance.cancel()
    listener.until(ev.Ended)


def test_who_leaves_does_not_wait_for_what_is_looked_up(engine, dictionary):
    listener = sent(engine)
    dictionary.is_asked(STRANGE[0])
    listener.utterance.cancel()
    listener.until(ev.Ended)
    assert dictionary.asked[STRANGE[0]].cancelled()


def test_what_cannot_be_looked_up_is_spoken_as_well_as_it_can_be(engine, dictionary):
    listener = sent(engine, f"the {STRANGE[0]} came in. ")
    listener.utterance.end()
    dictionary.is_asked(STRANGE[0])
    dictionary.asked[STRANGE[0]].set_exception(ValueError("no net"))
    assert len(listener.rest().words()) == 4
