"""A listener who takes slowly holds its own utterance up: what waits for it is bounded, and nothing is lost."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tinyvoice import write_tiny_voice

from studio.core import events as ev
from studio.core.ports import SpeakRequest
from studio.engine.engine import LocalEngine, open_engine
from studio.engine.request.outbox import FULL
from studio.text.normalise import best

PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalEngine]:
    root: Path = tmp_path_factory.mktemp("voices")
    write_tiny_voice(root)
    engine = open_engine(root, best(), device="cpu", threads=1)
    yield engine
    engine.close()


def still(utterance: Any) -> int:
    """Events that wait, once no more come."""
    until_s, last = time.monotonic() + PATIENCE_S, -1
    while (found := utterance._outbox._queue.qsize()) != last:
        assert time.monotonic() < until_s, "it goes on and on"
        last = found
        time.sleep(0.3)
    return last


def rest_of(utterance: Any) -> list[ev.Event]:
    """Take slowly, a few at a time, to the end."""
    found: list[ev.Event] = []
    until_s = time.monotonic() + PATIENCE_S
    while not (found and ev.is_last(found[-1])):
        assert time.monotonic() < until_s, "it does not go on"
        taken = utterance.poll_events(500)
        assert len(taken) <= 500
        found += taken
        time.sleep(0.0 if taken else 0.002)
    return found


def test_text_that_cannot_be_spoken_is_read_as_fast_as_its_listener_hears_so(engine: LocalEngine) -> None:
    utterance = engine.open(SpeakRequest(credit_samples=24_000))
    utterance.set_listener(lambda: None)
    utterance.push_text("\u2603 " * 5000)
    utterance.end()
    assert FULL <= still(utterance) < FULL + 70, "a turn reads 64 pieces at most"
    found = rest_of(utterance)
    assert sum(isinstance(one, ev.Unsupported) for one in found) == 5000
    assert [one for one in found if isinstance(one, ev.Ended)] == found[-1:]


def test_sound_that_nobody_takes_is_not_made(engine: LocalEngine) -> None:
    utterance = engine.open(SpeakRequest(credit_samples=60 * 24_000, options={"m": 1, "n": 1}))
    utterance.set_listener(lambda: None)
    utterance.push_text("several words are here to be spoken by it again and again " * 12)
    utterance.end()
    assert FULL <= still(utterance) < FULL + 70
    found = rest_of(utterance)
    sound = [one for one in found if isinstance(one, ev.Audio)]
    [ended] = [one for one in found if isinstance(one, ev.Ended)]
    assert sum(len(one.pcm) for one in sound) == ended.samples == sound[-1].sample + len(sound[-1].pcm)
    assert not [one for one in found if isinstance(one, ev.Wait) and one.reason == "compute" and one.duration_ms > 5000]


def test_who_waits_in_events_is_not_held_up(engine: LocalEngine) -> None:
    """It has no listener who could be late: benches speak first and look afterwards."""
    utterance = engine.open(SpeakRequest(credit_samples=24_000))
    utterance.push_text("\u2603 " * 3000)
    utterance.end()
    assert still(utterance) > 3000
    assert len([*utterance.events()]) > 3000
