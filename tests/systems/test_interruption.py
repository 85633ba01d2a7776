"""A cancel of a foreign system that sends times of words: what is reported as heard is what was played, to the word."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from cancels import CANCELS, heard_words, random_cancels
from serve.serving import Served
from systems.speaking import opened
from systems.test_doors import SOURCES, door
from tones import Script

from studio.core.events import Audio, Cancelled, Event, WordEnd
from studio.core.ports import SpeakRequest
from studio.core.text.words import SpokenWord
from studio.systems.base import CharTimes
from studio.systems.word_times import WordTimer

pytestmark = pytest.mark.timeout(300 + CANCELS)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    served = Served(tmp_path, Script(speed=60.0), max_sockets=64)
    yield served
    served.stop()


def word(i: int, start: int, text: str) -> SpokenWord:
    return SpokenWord(i, text, i, start, start + len(text))


def timer(*words: SpokenWord) -> WordTimer:
    made = WordTimer(1000)
    made.add(words)
    return made


def ended(events: list[Event]) -> list[tuple[int, int]]:
    return [(one.i, one.sample) for one in events if isinstance(one, WordEnd)]


def test_a_word_whose_end_is_not_known_was_not_heard_to_its_end() -> None:
    times = timer(word(0, 0, "Hello"), word(1, 6, "there"), word(2, 12, "friend"))
    assert ended(times.on_times(CharTimes(0, 6, 0.0, 0.4, "aligner"), 500)) == [(0, 400)]
    times.on_times(CharTimes(6, 9, 0.4, 0.5, "aligner"), 600)  # half of the second word
    assert times.break_off(0, 900) == []
    times = timer(word(0, 0, "Hello"), word(1, 6, "there"))
    times.on_times(CharTimes(0, 5, 0.0, 0.4, "aligner"), 100)  # before its sound
    assert ended(times.break_off(0, 300)) == []
    times = timer(word(0, 0, "Hello"), word(1, 6, "there"))
    times.on_times(CharTimes(0, 5, 0.0, 0.4, "aligner"), 100)
    assert ended(times.break_off(0, 400)) == [(0, 400)]


def test_a_word_of_one_letter_lasts_as_long_as_it_is_sent() -> None:
    times = timer(word(0, 0, "I"), word(1, 2, "am"))
    events = times.on_times(CharTimes(0, 0, 0.1, 0.1, "action"), 300)
    events += times.on_times(CharTimes(0, 1, 0.1, 0.3, "action"), 300)
    assert [(one.type, one.sample) for one in events] == [("word_start", 100), ("word_end", 300)]


def test_words_without_times_are_estimates() -> None:
    times = timer(word(0, 0, "Hello"), word(1, 6, "there"))
    assert {one.source for one in times.break_off(0, 300)} == {"estimate"}


@pytest.mark.parametrize("kind", SOURCES)
def test_words_heard_are_those_played(server: Served, kind: str) -> None:
    with opened(door(kind, server.url)) as engine:
        for text, played, ends in random_cancels(engine, "", 7):
            assert ends == sorted({*ends}), "each word has a time of its own"
            utterance = engine.open(SpeakRequest(credit_samples=played + 24_000))
            utterance.push_text(text + " ")
            events, received = utterance.events(), 0
            while received <= played:  # the player is behind what was received
                event = next(events)
                received = event.sample if isinstance(event, Audio) else received
            utterance.cancel(played)
            [cancelled] = [one for one in events if isinstance(one, Cancelled)]
            assert cancelled.heard == [*range(heard_words(ends, played))], (text, played, ends)
