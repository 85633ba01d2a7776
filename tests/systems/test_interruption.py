"""A cancel of a foreign system that sends times of words: what is reported as heard is what was played, to the word."""

import base64
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from cancels import CANCELS, heard_words, random_cancels
from serve.serving import Served
from systems.speaking import opened, spoken
from systems.test_doors import SOURCES, door
from tones import Script
from websockets.sync.server import ServerConnection, serve

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


def test_a_clause_is_not_passed_off_as_a_word() -> None:
    """Of a system that sends times of clauses: each word has its share, marked as an estimate."""
    times = timer(word(0, 0, "One"), word(1, 4, "two,"), word(2, 9, "three"), word(3, 15, "four"))
    events = times.on_times(CharTimes(0, 8, 0.0, 0.9, "aligner"), 1000)
    events += times.on_times(CharTimes(9, 19, 0.9, 2.0, "aligner"), 1500)
    events += times.finish(2000)
    assert ended(events) == [(0, 400), (1, 900), (2, 1500), (3, 2000)]
    assert {one.source for one in events if isinstance(one, WordEnd)} == {"estimate"}


def test_clauses_of_a_foreign_system_become_words() -> None:
    """Its times are of clauses, as some of these servers send them."""
    clauses = (("One two,", 0.0, 0.8), ("three four.", 0.8, 2.0))

    def talk(ws: ServerConnection) -> None:
        for raw in ws:
            if json.loads(raw)["continue"]:
                continue
            sound = base64.b64encode(np.full(48_000, 1000, "<i2").tobytes()).decode()
            ws.send(json.dumps({"type": "chunk", "data": sound}))
            for word, start, end in clauses:
                times = {"words": [word], "start": [start], "end": [end]}
                ws.send(json.dumps({"type": "timestamps", "word_timestamps": times}))
            ws.send(json.dumps({"type": "done"}))

    with serve(talk, "127.0.0.1", 0) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        url = f"ws://127.0.0.1:{running.socket.getsockname()[1]}"
        trace = spoken({"kind": "cartesia", "url": url, "speakers": ["ann"]}, "One two, three four.")
        running.shutdown()
    words = trace.words()
    assert [(one.text, one.source) for one in words] == [(t, "estimate") for t in ("One", "two,", "three", "four.")]
    assert all(one.start is not None and one.end is not None and one.end - one.start > 6_000 for one in words)
    assert (words[1].end, words[3].end) == (round(0.8 * 24_000), 48_000)


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
