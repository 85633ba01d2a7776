"""Clients that take slowly or not at all: what waits for them is bounded, nobody else waits, and nothing is lost."""

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
from serve.live.test_socket_paces import LONG, narrow
from serve.serving import PATIENCE_S, Serving, eventually, kinds, of, pcm
from tones import Script

from studio.core.ports import SpeakRequest
from studio.serve.live import limits, socket, stream
from studio.serve.live import protocol as wire
from studio.serve.live.stream import OUTBOX, UtteranceStream
from studio.serve.middleware import connections
from studio.serve.middleware.connections import SEND_BUFFER_BYTES, Connection

pytestmark = pytest.mark.slow

UNSAYABLE = "\u2603 "


@pytest.fixture
def streams(monkeypatch: pytest.MonkeyPatch) -> list[UtteranceStream]:
    """Every stream of the server, in the order in which they began."""
    found: list[UtteranceStream] = []

    class Kept(UtteranceStream):
        def __init__(self, *given: Any, **more: Any) -> None:
            super().__init__(*given, **more)
            found.append(self)

    monkeypatch.setattr(socket, "UtteranceStream", Kept)
    return found


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who reads nothing for as long as a test takes on a slow machine is dropped otherwise."""
    monkeypatch.setattr(connections, "SILENCE_S", 600.0)


def stall(streams: list[UtteranceStream]) -> None:
    """Wait until the first stream takes no more from the engine, since its client takes nothing."""

    def stands() -> bool:
        before = (len(streams), streams[0].outbox.qsize()) if streams else (0, 0)
        time.sleep(0.5)
        return bool(streams) and streams[0]._has_more and (len(streams), streams[0].outbox.qsize()) == before

    eventually(stands, "a stream that stands still")


def test_a_flood_of_events_lets_others_have_their_turn(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client takes all at once, so that no send ever waits; still the loop goes round between any two."""
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
        told = 0
        while not isinstance(message := talk.hear(check=False), dict) or message["type"] != "trace":
            told += isinstance(message, dict) and message["type"] == "unsupported"
    assert told == 20_000
    assert longest == 1


@pytest.mark.usefixtures("unhurried")
def test_what_is_taken_from_the_engine_waits_there_for_a_slow_reader(
    serving: Serving, streams: list[UtteranceStream]
) -> None:
    server = serving(send_timeout_ms=60_000)
    with server.talk(sock=narrow(server), max_queue=1, ping_interval=None, close_timeout=0.5) as talk:
        talk.open()
        talk.say("text", text=UNSAYABLE * 30_000)
        talk.say("end")
        waiting = server.engine.opened[0]._events
        stall(streams)
        assert waiting.qsize() > 10_000
        assert streams[0].outbox.qsize() <= OUTBOX + 1
        assert httpx.get(f"{server.url}/health").status_code == 200
        told: list[Any] = []
        while not told or told[-1]["type"] != "trace":
            told.append(talk.hear(check=False))
    assert sum(one["type"] == "unsupported" for one in told) == 30_000
    assert len(of(told, "ended")) == 1


@pytest.mark.usefixtures("unhurried")
def test_utterances_that_were_not_taken_count(serving: Serving, streams: list[UtteranceStream]) -> None:
    """They are over, and still in memory: who opened ever more and read nothing would fill it."""
    server = serving(send_timeout_ms=60_000, max_utterances_per_socket=2, script=Script(speed=1000.0))
    with server.talk(sock=narrow(server), max_queue=1, ping_interval=None, close_timeout=0.5) as talk:
        talk.say("open", 0, credit_ms=60_000)
        talk.say("text", 0, text=UNSAYABLE * 8_000)
        talk.say("end", 0)
        stall(streams)
        for number in range(1, 12):  # nothing is said of them, and they are over at once
            talk.say("open", number)
            talk.say("end", number)
            eventually(lambda: len(streams) == 2 and streams[1]._closed, "the end of the second")
        time.sleep(0.5)
        assert len(server.engine.opened) == 2
        traces: list[int] = []
        refused: list[int] = []
        while len(traces) + len(refused) < 12:  # later ones were asked for when the first had been taken
            one = talk.until("trace", "error")[-1]
            if one["type"] == "trace":
                traces.append(one["utterance"])
            elif one["code"] == "busy":
                refused.append(one["utterance"])
                assert "read what waits" in one["message"]
            else:  # an end, for one that was refused
                assert one["utterance"] in refused
        assert {0, 1} <= {*traces} and refused
        assert talk.open(99)["type"] == "ready"


@pytest.mark.usefixtures("unhurried")
def test_mistakes_of_who_reads_nothing_are_not_heaped_up(serving: Serving, streams: list[UtteranceStream]) -> None:
    server = serving(send_timeout_ms=60_000, messages_per_s=10_000)
    with server.talk(sock=narrow(server), max_queue=1, ping_interval=None, close_timeout=0.5) as talk:
        talk.open()
        talk.say("text", text=UNSAYABLE * 30_000)
        stall(streams)
        many = OUTBOX + limits.MESSAGES // 2
        with talk.in_one():
            for _ in range(many):
                talk.say("options", options={"m": 1, "n": 5})  # not allowed, and answered by an error
        eventually(lambda: streams[0].outbox.qsize() >= OUTBOX and streams[0]._inbox, "they wait", 4 * PATIENCE_S)
        time.sleep(0.2)
        assert streams[0].outbox.qsize() <= OUTBOX + 1
        errors = 0
        while errors < many:
            message = talk.hear(check=False)
            errors += isinstance(message, dict) and message["type"] == "error"


def test_what_waits_to_be_obeyed_is_bounded_in_characters() -> None:
    waiting, text = limits.Inbox(), wire.TextIn(utterance=1, text="x" * 100_000)
    while not waiting.is_full:
        waiting.put(text)
    assert len(waiting) == 3
    while waiting:
        assert waiting.take() is text
    assert not waiting.is_full
    for _ in range(limits.MESSAGES):
        waiting.put(wire.Flush(utterance=1))
    assert waiting.is_full
    waiting.clear()
    assert not waiting and not waiting.is_full


@pytest.mark.usefixtures("unhurried")
def test_a_player_that_stands_still_behind_a_full_socket_is_not_noted(
    serving: Serving, streams: list[UtteranceStream]
) -> None:
    server = serving(send_timeout_ms=60_000)
    with server.talk(sock=narrow(server), max_queue=1, ping_interval=None, close_timeout=0.5) as talk:
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


def test_a_connection_that_has_gone_is_not_broken_off_once_more(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where its buffer was full when it was closed, and was taken then, asyncio's transport can no longer abort."""
    left: list[bool] = []
    really_abort = Connection.abort

    def abort(self: Connection) -> None:
        aborted: list[bool] = []
        self.transport = SimpleNamespace(abort=lambda: aborted.append(True))  # type: ignore[assignment]
        really_abort(self)
        left.append(not aborted)

    monkeypatch.setattr(connections, "LINGER_S", 0.1)
    monkeypatch.setattr(Connection, "abort", abort)
    with serving().talk() as talk:
        talk.open()
    eventually(lambda: left, "what comes after the last answer")
    assert left == [True]


# --- opening -------------------------------------------------------------------------------------


def test_a_voice_that_is_being_loaded_holds_up_no_other_utterance(serving: Serving) -> None:
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
        heard = talk.until("trace", utterance=1)  # while the other one is still being opened
        assert kinds(heard, 2) == [] and len(pcm(heard, 1)) > 0
        loaded.set()
        heard = talk.until("trace", utterance=2)
    assert [one["word"] for one in of(heard, "committed", 2)] == ["one", "two", "three"]
    assert kinds(heard, 2)[0] == "ready" and kinds(heard, 2)[-2:] == ["ended", "trace"]


def test_any_number_who_ask_for_a_voice_that_is_being_loaded_hold_up_no_other(serving: Serving) -> None:
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


def test_an_utterance_that_could_not_be_opened_takes_nothing_and_its_number_is_free(serving: Serving) -> None:
    server = serving()
    with server.talk() as talk:
        talk.say("open", 1, voice="nobody")
        talk.say("text", 1, text="hello ")
        assert [talk.hear()["code"] for _ in range(2)] == ["bad_voice", "bad_message"]
        assert talk.open(1)["type"] == "ready"


def test_a_cancel_while_it_is_opened_is_obeyed(serving: Serving) -> None:
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


# --- those who are gone --------------------------------------------------------------------------


@pytest.mark.usefixtures("unhurried")
def test_who_vanishes_while_the_socket_is_not_read_leaves_the_queue(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages that wait to be obeyed fill the inbox, so that nobody reads on; the connection's end is heard of."""
    monkeypatch.setattr(stream, "MAX_UNACKNOWLEDGED_CHARS", 20_000)
    server, words = serving(), "so it goes on " * 150
    with server.talk() as others:
        for number in range(4):
            assert others.open(number)["type"] == "ready"
        talk = server.talk()
        talk.say("open", source="keyboard")
        assert talk.hear()["type"] == "queued"
        talk.say("edit", at=0, insert=words)
        for _ in range(limits.MESSAGES):
            talk.say("edit", at=3, remove=2, insert="it ")
            talk.say("edit", at=3, remove=3, insert="it")
        port = talk.ws.socket.getsockname()[1]
        found = server._server.limits.connections
        [mine] = [one for one in found if one.transport.get_extra_info("peername")[1] == port]
        eventually(lambda: not mine.transport.is_reading(), "nobody reads")
        time.sleep(0.3)
        assert not mine.transport.is_reading()
        mine.loop.call_soon_threadsafe(mine.abort)  # as when a write finds that nobody is there
        eventually(lambda: server.engine.waiting == [], "its place in the queue")
        talk.ws.socket.close()


def test_who_takes_slowly_is_alive_though_its_pong_comes_late(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Our ping lies behind seconds of sound, all of which a slow reader takes, a little at a time."""
    monkeypatch.setattr("studio.serve.server.PING_S", 1.0)
    monkeypatch.setattr(connections, "SILENCE_S", 4.0)
    server = serving(script=Script(speed=2000.0), credit_cap_ms=10_000_000, send_timeout_ms=60_000)
    with server.talk(sock=narrow(server), max_queue=1, ping_interval=None, close_timeout=0.5) as talk:
        talk.open(credit_ms=3_000_000, options={"m": 1})
        talk.say("text", text=LONG)
        talk.say("end")
        eventually(lambda: server.engine.opened[0].samples > 30 * 24_000, "more sound than the buffers hold")
        heard: list[Any] = []
        for _ in range(9):  # so slowly that a ping takes far longer than it may
            heard += [talk.hear(check=False) for _ in range(80)]
            time.sleep(1.0)
        while not isinstance(heard[-1], dict) or heard[-1]["type"] != "trace":
            heard.append(talk.hear(check=False))
    assert len(pcm(heard)) == of(heard, "ended")[0]["samples"]


def test_little_waits_in_the_kernel(serving: Serving) -> None:
    server = serving(script=Script(speed=5000.0), credit_cap_ms=10_000_000, send_timeout_ms=60_000)
    with server.talk(sock=narrow(server), max_queue=1, ping_interval=None, close_timeout=0.5) as talk:
        talk.open(credit_ms=3_000_000, options={"m": 1})
        [mine] = server._server.limits.connections
        kernel = mine.transport.get_extra_info("socket")
        assert kernel.getsockopt(SOL_SOCKET, SO_SNDBUF) <= 2 * SEND_BUFFER_BYTES


def test_who_takes_nothing_and_answers_no_ping_is_gone_though_much_waits(
    serving: Serving, monkeypatch: pytest.MonkeyPatch, streams: list[UtteranceStream]
) -> None:
    """A close would wait until all that was written before had been taken, which is never."""
    monkeypatch.setattr("studio.serve.server.PING_S", 0.5)
    monkeypatch.setattr(connections, "SILENCE_S", 1.0)
    server = serving(script=Script(speed=2000.0), credit_cap_ms=10_000_000, send_timeout_ms=600_000)
    with server.talk(sock=narrow(server), max_queue=1, ping_interval=None, close_timeout=0.5) as talk:
        talk.say("open", credit_ms=3_000_000, options={"m": 1})
        talk.say("text", text=LONG)
        eventually(lambda: len(streams) == 1, "an utterance")
        eventually(lambda: server.engine.free_slots() == server.engine.places, "its place")
