"""Clients that read slowly or not at all: their buffers are bounded, nobody else waits, nothing is lost."""

import asyncio
import threading
import time
from dataclasses import replace
from socket import SO_SNDBUF, SOL_SOCKET
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from fakeutterance import FakeUtterance
from serve.live.test_socket_paces import LONG, small_buffers
from serve.serving import PATIENCE_S, Serving, eventually, kinds, of, pcm
from tones import Script

from studio.core.ports import SpeakRequest
from studio.serve.live import backpressure, opening, stream
from studio.serve.live import protocol as wire
from studio.serve.live.stream import OUTBOX, UtteranceStream
from studio.serve.middleware import connections
from studio.serve.middleware.connections import SEND_BUFFER_BYTES

pytestmark = pytest.mark.slow

UNSAYABLE = "\u2603 "


@pytest.fixture
def streams(monkeypatch: pytest.MonkeyPatch) -> list[UtteranceStream]:
    """Every stream of the server, in order of creation."""
    found: list[UtteranceStream] = []

    class Kept(UtteranceStream):
        def __init__(self, *given: Any, **more: Any) -> None:
            super().__init__(*given, **more)
            found.append(self)

    monkeypatch.setattr(opening, "UtteranceStream", Kept)
    return found


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a client that reads nothing for as long as a test takes on a slow machine is dropped."""
    monkeypatch.setattr(connections, "SILENCE_S", 600.0)


def stall(streams: list[UtteranceStream]) -> None:
    """Wait until the first stream no longer reads from the engine, because its client reads nothing."""

    def stands() -> bool:
        before = (len(streams), streams[0].outbox.qsize()) if streams else (0, 0)
        time.sleep(0.5)
        return bool(streams) and streams[0]._has_more and (len(streams), streams[0].outbox.qsize()) == before

    eventually(stands, "a stream that stands still")


def test_flood_of_events_does_not_starve_other_tasks(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client reads everything, so no send blocks; the loop still runs others between two sends."""
    sent_in_a_row, longest = 0, 0
    really_sent = UtteranceStream.sent

    def sent(self: UtteranceStream, item: Any, blocked_ms: float) -> None:
        nonlocal sent_in_a_row, longest
        sent_in_a_row += 1
        longest = max(longest, sent_in_a_row)
        asyncio.get_running_loop().call_soon(turn)
        really_sent(self, item, blocked_ms)

    def turn() -> None:
        nonlocal sent_in_a_row
        sent_in_a_row = 0

    monkeypatch.setattr(UtteranceStream, "sent", sent)
    with serving().talk() as talk:
        talk.open()
        talk.say("text", text=UNSAYABLE * 20_000)
        talk.say("end")
        messages = 0
        while not isinstance(message := talk.hear(check=False), dict) or message["type"] != "trace":
            messages += isinstance(message, dict) and message["type"] == "unsupported"
    assert messages == 20_000
    assert longest == 1


@pytest.mark.usefixtures("unhurried")
def test_events_wait_in_the_engine_for_a_slow_reader(serving: Serving, streams: list[UtteranceStream]) -> None:
    server = serving(send_timeout_ms=60_000)
    with server.talk(sock=small_buffers(server), max_queue=1, ping_interval=None, close_timeout=0.5) as talk:
        talk.open()
        talk.say("text", text=UNSAYABLE * 30_000)
        talk.say("end")
        waiting = server.engine.opened[0]._events
        stall(streams)
        assert waiting.qsize() > 10_000
        assert streams[0].outbox.qsize() <= OUTBOX + 1
        assert httpx.get(f"{server.url}/health").status_code == 200
        messages: list[Any] = []
        while not messages or messages[-1]["type"] != "trace":
            messages.append(talk.hear(check=False))
    assert sum(one["type"] == "unsupported" for one in messages) == 30_000
    assert len(of(messages, "ended")) == 1


@pytest.mark.usefixtures("unhurried")
def test_unread_utterances_count(serving: Serving, streams: list[UtteranceStream]) -> None:
    """They have ended but are in memory: opening more without reading would fill it."""
    server = serving(send_timeout_ms=60_000, max_utterances_per_socket=2, script=Script(speed=1000.0))
    with server.talk(sock=small_buffers(server), max_queue=1, ping_interval=None, close_timeout=0.5) as talk:
        talk.say("open", 0, credit_ms=60_000)
        talk.say("text", 0, text=UNSAYABLE * 8_000)
        talk.say("end", 0)
        stall(streams)
        for number in range(1, 12):  # no events for them, and they end immediately
            talk.say("open", number)
            talk.say("end", number)
            eventually(lambda: len(streams) == 2 and streams[1]._closed, "the end of the second")
        time.sleep(0.5)
        assert len(server.engine.opened) == 2
        traces: list[int] = []
        refused: list[int] = []
        while len(traces) + len(refused) < 12:  # later ones were requested after the first had been read
            one = talk.until("trace", "error")[-1]
            if one["type"] == "trace":
                traces.append(one["utterance"])
            elif one["code"] == "busy":
                refused.append(one["utterance"])
                assert "read the pending messages" in one["message"]
            else:  # one `ended`, for a refused one
                assert one["utterance"] in refused
        assert {0, 1} <= {*traces} and refused
        assert talk.open(99)["type"] == "ready"


@pytest.mark.usefixtures("unhurried")
def test_errors_for_a_client_that_reads_nothing_are_bounded(serving: Serving, streams: list[UtteranceStream]) -> None:
    server = serving(send_timeout_ms=60_000, messages_per_s=10_000)
    with server.talk(sock=small_buffers(server), max_queue=1, ping_interval=None, close_timeout=0.5) as talk:
        talk.open()
        talk.say("text", text=UNSAYABLE * 30_000)
        stall(streams)
        many = OUTBOX + backpressure.INBOX_MESSAGES // 2
        with talk.in_one():
            for _ in range(many):
                talk.say("options", options={"m": 1, "n": 5})  # not allowed, answered by an error
        eventually(lambda: streams[0].outbox.qsize() >= OUTBOX and streams[0]._inbox, "they wait", 4 * PATIENCE_S)
        time.sleep(0.2)
        assert streams[0].outbox.qsize() <= OUTBOX + 1
        errors = 0
        while errors < many:
            message = talk.hear(check=False)
            errors += isinstance(message, dict) and message["type"] == "error"


def test_unprocessed_messages_are_bounded_in_characters() -> None:
    waiting, text = backpressure.Inbox(), wire.TextIn(utterance=1, text="x" * 100_000)
    while not waiting.is_full:
        waiting.put(text)
    assert len(waiting) == 3
    while waiting:
        assert waiting.take() is text
    assert not waiting.is_full
    for _ in range(backpressure.INBOX_MESSAGES):
        waiting.put(wire.Flush(utterance=1))
    assert waiting.is_full
    waiting.clear()
    assert not waiting and not waiting.is_full


@pytest.mark.usefixtures("unhurried")
def test_stopped_player_behind_a_full_socket_is_not_recorded(serving: Serving, streams: list[UtteranceStream]) -> None:
    server = serving(send_timeout_ms=60_000)
    with server.talk(sock=small_buffers(server), max_queue=1, ping_interval=None, close_timeout=0.5) as talk:
        talk.open()
        talk.say("text", text=UNSAYABLE * 30_000)
        stall(streams)
        reports: list[int] = []
        streams[0].utterance.played = reports.append  # type: ignore[method-assign]
        with talk.in_one():
            for _ in range(100):
                talk.say("played", sample=5)
            talk.say("cancel")
        eventually(lambda: streams[0]._cancelled, "the cancel, behind the reports")
        assert reports == []


def test_lost_connection_is_not_aborted(serving: Serving) -> None:
    """If its buffer was full on closing and was emptied since, asyncio's transport cannot abort."""
    served, aborted = serving(), list[bool]()
    there = served._server.limits.connections
    with served.talk() as talk:
        talk.open()
        [connection] = there
    eventually(lambda: not there, "the end of the connection")
    connection.transport = SimpleNamespace(abort=lambda: aborted.append(True))  # type: ignore[assignment]
    connection.abort()
    assert aborted == []


# --- opening -------------------------------------------------------------------------------------


def test_loading_voice_delays_no_other_utterance(serving: Serving) -> None:
    server = serving(script=Script(speed=100.0))
    loading, loaded, really_open = threading.Event(), threading.Event(), server.engine.open

    def slow_open(request: SpeakRequest) -> FakeUtterance:
        if request.seed == 7:
            loading.set()
            assert loaded.wait(PATIENCE_S)
        return really_open(request)

    server.engine.open = slow_open
    with server.talk() as talk:
        talk.open(1, credit_ms=1000)
        talk.say("open", 2, seed=7, credit_ms=60_000)
        for text in ("one ", "two ", "three "):
            talk.say("text", 2, text=text)
        talk.say("end", 2)
        talk.say("open", 2)
        assert talk.until("error")[-1]["message"].startswith("utterance 2 is open already")
        assert loading.wait(PATIENCE_S)
        talk.say("text", 1, text="four five ")
        talk.say("end", 1)
        heard = talk.until("trace", utterance=1)  # while the other one is still opening
        assert kinds(heard, 2) == [] and len(pcm(heard, 1)) > 0
        loaded.set()
        heard = talk.until("trace", utterance=2)
    assert [one["word"] for one in of(heard, "committed", 2)] == ["one", "two", "three"]
    assert kinds(heard, 2)[0] == "ready" and kinds(heard, 2)[-2:] == ["ended", "trace"]


def test_many_requests_for_a_loading_voice_delay_no_other_voice(serving: Serving) -> None:
    server = serving(script=Script(speed=100.0))
    (first,) = server.engine.cards()
    server.engine.places, server.engine._cards = 8, (first, replace(first, name="other"))
    loaded, really_open, asked = threading.Event(), server.engine.open, []

    def slow_open(request: SpeakRequest) -> FakeUtterance:
        if request.voice == "other" and not loaded.is_set():
            asked.append(request.seed)
            assert loaded.wait(PATIENCE_S)
        return really_open(request)

    server.engine.open, server.engine.is_loaded = slow_open, lambda voice: voice != "other" or loaded.is_set()
    with server.talk() as talk:
        for number in range(1, 7):
            talk.say("open", number, voice="other", seed=number)
        talk.open(7)
        talk.say("text", 7, text="one two ")
        talk.say("end", 7)
        heard = talk.until("trace", utterance=7)
        assert len(pcm(heard, 7)) > 0 and asked == [1], "the others wait for that one"
        loaded.set()
        for number in range(1, 7):
            talk.say("cancel", number)
        assert kinds(talk.until("trace", utterance=6), 6)[0] == "ready"


def test_failed_opening_releases_slot_and_number(serving: Serving) -> None:
    server = serving()
    with server.talk() as talk:
        talk.say("open", 1, voice="nobody")
        talk.say("text", 1, text="hello ")
        assert [talk.hear()["code"] for _ in range(2)] == ["bad_voice", "bad_message"]
        assert talk.open(1)["type"] == "ready"


def test_cancel_during_opening_is_obeyed(serving: Serving) -> None:
    server = serving(script=Script(speed=4.0))
    go_on, really_open = threading.Event(), server.engine.open

    def slow_open(request: SpeakRequest) -> FakeUtterance:
        assert go_on.wait(PATIENCE_S)
        return really_open(request)

    server.engine.open = slow_open
    with server.talk() as talk:
        talk.say("open", 1)
        talk.say("text", 1, text="hello there my friend ")
        talk.say("cancel", 1)
        go_on.set()
        assert kinds(talk.until("trace"))[-3:] == ["cancelled", "ended", "trace"]


# --- disconnected clients ------------------------------------------------------------------------


@pytest.mark.usefixtures("unhurried")
def test_client_that_vanishes_while_the_socket_is_not_read_leaves_the_queue(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unprocessed messages fill the inbox, so reading stops; the end of the connection is still noticed."""
    monkeypatch.setattr(stream, "MAX_UNACKNOWLEDGED_CHARS", 20_000)
    server, words = serving(), "so it goes on " * 150
    with server.talk() as others:
        for number in range(4):
            assert others.open(number)["type"] == "ready"
        talk = server.talk()
        talk.say("open", source="keyboard")
        assert talk.hear()["type"] == "queued"
        talk.say("edit", at=0, insert=words)
        for _ in range(backpressure.INBOX_MESSAGES):
            talk.say("edit", at=3, remove=2, insert="it ")
            talk.say("edit", at=3, remove=3, insert="it")
        port = talk.ws.socket.getsockname()[1]
        found = server._server.limits.connections
        [mine] = [one for one in found if one.transport.get_extra_info("peername")[1] == port]
        eventually(lambda: not mine.transport.is_reading(), "nobody reads")
        time.sleep(0.3)
        assert not mine.transport.is_reading()
        mine.loop.call_soon_threadsafe(mine.abort)  # as when a write fails
        eventually(lambda: server.engine.waiting == [], "its place in the queue")
        talk.ws.socket.close()


def test_slow_reader_with_a_late_pong_stays_connected(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    """Our ping is behind seconds of audio that a slow reader takes little by little."""
    monkeypatch.setattr("studio.serve.server.PING_S", 1.0)
    monkeypatch.setattr(connections, "SILENCE_S", 4.0)
    server = serving(script=Script(speed=2000.0), credit_cap_ms=10_000_000, send_timeout_ms=60_000)
    with server.talk(sock=small_buffers(server), max_queue=1, ping_interval=None, close_timeout=0.5) as talk:
        talk.open(credit_ms=3_000_000, options={"m": 1})
        talk.say("text", text=LONG)
        talk.say("end")
        eventually(lambda: server.engine.opened[0].samples > 30 * 24_000, "more sound than the buffers hold")
        heard: list[Any] = []
        for _ in range(9):  # so slowly that a ping takes longer than its limit
            heard += [talk.hear(check=False) for _ in range(80)]
            time.sleep(1.0)
        while not isinstance(heard[-1], dict) or heard[-1]["type"] != "trace":
            heard.append(talk.hear(check=False))
    assert len(pcm(heard)) == of(heard, "ended")[0]["samples"]


def test_kernel_buffers_are_small(serving: Serving) -> None:
    server = serving(script=Script(speed=5000.0), credit_cap_ms=10_000_000, send_timeout_ms=60_000)
    with server.talk(sock=small_buffers(server), max_queue=1, ping_interval=None, close_timeout=0.5) as talk:
        talk.open(credit_ms=3_000_000, options={"m": 1})
        [mine] = server._server.limits.connections
        kernel = mine.transport.get_extra_info("socket")
        assert kernel.getsockopt(SOL_SOCKET, SO_SNDBUF) <= 2 * SEND_BUFFER_BYTES


def test_client_without_reads_and_pongs_is_dropped_despite_a_full_buffer(
    serving: Serving, monkeypatch: pytest.MonkeyPatch, streams: list[UtteranceStream]
) -> None:
    """A graceful close would wait for the buffer to empty, which never happens."""
    monkeypatch.setattr("studio.serve.server.PING_S", 0.5)
    monkeypatch.setattr(connections, "SILENCE_S", 1.0)
    server = serving(script=Script(speed=2000.0), credit_cap_ms=10_000_000, send_timeout_ms=600_000)
    with server.talk(sock=small_buffers(server), max_queue=1, ping_interval=None, close_timeout=0.5) as talk:
        talk.say("open", credit_ms=3_000_000, options={"m": 1})
        talk.say("text", text=LONG)
        eventually(lambda: len(streams) == 1, "an utterance")
        eventually(lambda: server.engine.free_slots() == server.engine.places, "its place")
