"""A cancel of a foreign system that sends times of words: what is reported as heard is what was played, to the word."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from cancels import CANCELS, heard_words, random_cancels
from serve.serving import Served
from systems.speaking import opened
from systems.test_doors import SOURCES, door
from tones import Script

from studio.core.events import Audio, Cancelled
from studio.core.ports import SpeakRequest

pytestmark = pytest.mark.timeout(300 + CANCELS)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    served = Served(tmp_path, Script(speed=60.0), max_sockets=64)
    yield served
    served.stop()


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
