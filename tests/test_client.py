"""The client of a running studio: what is sent, what comes back, and how it ends."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
from serve.serving import Served, eventually
from tones import Script

from studio.client import AsyncClient, Client, Refused, ServerGone
from studio.core.errors import StudioError
from studio.core.events import Audio, Cancelled, Committed, Ended, Ready, Revised, WordEnd

TEXT = "Good morning my friend and welcome."
KEY = "a-key-that-nobody-guesses"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    served = Served(tmp_path)
    yield served
    served.stop()


def samples(events: list[object]) -> np.ndarray:
    """The sound of an utterance that was not revised, whose packets must follow each other."""
    packets = [event for event in events if isinstance(event, Audio)]
    ends = np.cumsum([0, *(len(packet.pcm) for packet in packets)])
    assert [packet.sample for packet in packets] == ends[:-1].tolist()
    return np.concatenate([packet.pcm for packet in packets])


def test_text_is_spoken_with_its_words_and_a_trace(server: Served) -> None:
    client = Client(server.url)
    with client.utterance() as utterance:
        utterance.send(TEXT)
        utterance.end()
        events = list(utterance)
    assert isinstance(events[0], Ready) and isinstance(events[-1], Ended)
    assert len(samples(events)) == events[-1].samples > 24_000
    assert len([event for event in events if isinstance(event, WordEnd)]) == len(TEXT.split())
    wav = httpx.get(f"{server.url}/{utterance.wav_url}", timeout=60.0).content
    sound = samples(events).astype("<i2").tobytes()
    assert wav[44:].startswith(sound), "behind it there is a comment"
    assert utterance.voices == client.voices() and "tone" in {voice["name"] for voice in client.voices()}


def test_speed_is_that_of_the_server(server: Served) -> None:
    usual, fast = (samples(list(Client(server.url).speak(TEXT, speed=speed))) for speed in (1.0, 2.0))
    assert abs(2 * len(fast) / len(usual) - 1.0) < 0.05
    with pytest.raises(Refused, match=r"0\.5 to 2"):
        list(Client(server.url).speak(TEXT, speed=3.0))


def test_pieces_are_spoken_before_the_last_one_is_there(server: Served) -> None:
    heard: list[object] = []

    def pieces() -> Iterator[str]:
        yield "One two three four five six "
        eventually(lambda: any(isinstance(event, Audio) for event in heard), "sound")
        yield "seven."

    for event in Client(server.url).speak(pieces()):
        heard.append(event)
    words = [event.word for event in heard if isinstance(event, Committed)]
    assert words[-1].strip(".") == "seven" and isinstance(heard[-1], Ended)


def test_same_events_come_to_asyncio(server: Served) -> None:
    async def pieces() -> AsyncIterator[str]:
        for word in TEXT.split():
            yield f"{word} "

    async def spoken() -> list[object]:
        return [event async for event in AsyncClient(server.url).speak(pieces(), "tone:low", seed=3)]

    found, once = asyncio.run(spoken()), list(Client(server.url).speak(TEXT, "tone:low", seed=3))
    assert isinstance(found[-1], Ended)
    assert samples(found).tobytes() == samples(once).tobytes()


def test_an_utterance_of_asyncio_takes_text_and_a_cancel(server: Served) -> None:
    async def spoken() -> list[object]:
        heard: list[object] = []
        async with AsyncClient(server.url).utterance("tone:low", plays=True) as utterance:
            await utterance.send("One two three four ")
            async for event in utterance:
                heard.append(event)
                if isinstance(event, WordEnd) and event.i == 1:
                    await utterance.cancel(event.sample)
        return heard

    assert isinstance(asyncio.run(spoken())[-1], Ended)


def test_more_than_a_minute_comes_without_reports_of_the_caller(server: Served) -> None:
    events = list(Client(server.url).speak("word " * 400))
    assert isinstance(events[-1], Ended) and events[-1].samples > 60 * 24_000


def test_cancel_says_what_was_heard(tmp_path: Path) -> None:
    served = Served(tmp_path, Script(speed=4.0))
    with Client(served.url).utterance(plays=True) as utterance:
        utterance.send("One two three four five six seven eight ")
        for event in utterance:
            if isinstance(event, WordEnd) and event.i == 1:
                break
        utterance.cancel(event.sample)
        rest = list(utterance)
    (cancelled,) = [event for event in rest if isinstance(event, Cancelled)]
    assert cancelled.heard == [0, 1] and isinstance(rest[-1], Ended)
    served.stop()


def test_refusals_are_raised_and_the_utterance_goes_on(server: Served) -> None:
    with Client(server.url).utterance(options={"nothing": 1}) as utterance, pytest.raises(Refused) as refused:
        list(utterance)
    assert refused.value.code == "bad_option" and "nothing" in str(refused.value)
    with Client(server.url).utterance() as utterance:
        utterance.send("One two three ")
        utterance.flush()
        for event in utterance:
            if isinstance(event, WordEnd) and event.i == 2:
                break
        utterance.revise(0, "Zero two three ")
        with pytest.raises(Refused) as late:
            list(utterance)
        assert late.value.code == "too_late"
        utterance.end()
        assert isinstance(list(utterance)[-1], Ended)


def test_sound_that_was_taken_back_does_not_come(server: Served) -> None:
    with Client(server.url).utterance(plays=True) as utterance:
        utterance.send("One two three four ")
        utterance.flush()
        events: list[object] = []
        is_revised = False
        for event in utterance:
            events.append(event)
            if isinstance(event, WordEnd) and not is_revised:
                is_revised = True
                utterance.revise(8, "five six ")
                utterance.end()
    revised = next(event for event in events if isinstance(event, Revised))
    sound: dict[int, int] = {}
    for event in events:
        if isinstance(event, Revised):
            sound = {sample: count for sample, count in sound.items() if sample < revised.from_sample}
        if isinstance(event, Audio):
            assert event.sample not in sound
            sound[event.sample] = len(event.pcm)
    assert sum(sound.values()) >= events[-1].samples  # type: ignore[attr-defined]


def test_what_the_text_raises_is_raised_and_the_slot_is_free(server: Served) -> None:
    def pieces() -> Iterator[str]:
        yield "One two "
        raise KeyError("of the caller")

    with pytest.raises(KeyError, match="of the caller"):
        list(Client(server.url).speak(pieces()))
    eventually(lambda: server.engine.free_slots() == server.engine.places, "the slot")


def test_wrong_key_nobody_there_and_a_server_that_stops(tmp_path: Path) -> None:
    served = Served(tmp_path, Script(speed=2.0), key=KEY)
    with pytest.raises(Refused, match="key"):
        list(Client(served.url, "not the key").speak(TEXT))
    with Client(served.url, KEY).utterance() as utterance:
        utterance.send(f"{TEXT} " * 20)
        assert isinstance(next(event for event in utterance if isinstance(event, Audio)), Audio)
        served.stop()
        with pytest.raises(StudioError):
            while True:
                next(utterance)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        free = f"http://127.0.0.1:{taken.getsockname()[1]}"
    with pytest.raises(ServerGone, match="cannot be reached"):
        Client(free).voices()
