"""Credit, slow and vanished clients, huge pastes: unused slots and memory are released."""

import json
import resource
import socket
import threading
import time
from typing import Any

import pytest
from fakeutterance import FakeUtterance
from serve.serving import Served, Serving, eventually, of, pcm
from tones import Script

from studio.core.packets import Packet
from studio.core.ports import SpeakRequest
from studio.serve.live.protocol import MAX_MESSAGE_CHARS
from studio.serve.live.socket import UNFINISHED, SpeakSession
from studio.serve.live.stream import NETWORK_WAIT_MS
from studio.serve.trace_store import TraceStore

pytestmark = pytest.mark.slow

LONG = "constantinople " * 40  # 0.825 s per word


def last_sample(messages: list[Any]) -> int:
    return max((one.first_sample + len(one.pcm) for one in messages if isinstance(one, Packet)), default=0)


def small_buffers(server: Served) -> socket.socket:
    """A connection with small buffers, so that a client that does not read soon blocks it."""
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)  # before it connects: a shrinking window stops acks
    raw.connect(("127.0.0.1", server.port))
    return raw


def test_credit_paces_the_voice(serving: Serving) -> None:
    with serving(script=Script(speed=100.0)).talk() as talk:
        talk.open(credit_ms=1000)
        talk.say("text", text=LONG)
        heard = talk.quiet(0.4)
        assert last_sample(heard) == 24_000
        for sample in (4_800, 9_600, 9_000, 9_600):
            talk.say("played", sample=sample, buffered_ms=800.0, underruns=0, output_latency_ms=12.5)
        heard += talk.quiet(0.4)
        assert last_sample(heard) == 33_600
        talk.say("played", sample=2**40)  # a position beyond what was sent is invalid
        heard += talk.quiet(0.4)
        assert last_sample(heard) == 33_600 + 24_000
        reasons = {one["reason"] for one in of(heard, "wait")}
        assert "credit" in reasons and reasons <= {"credit", "network"}  # a busy machine reads late and is reported so
        assert len(pcm(heard)) == last_sample(heard)


def test_utterance_with_all_events_sent_does_not_count(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its trace may still be being written: the next one waits for that only where the disk is far behind."""
    finish = TraceStore.finish

    def slowly(trace_store: TraceStore, writer: Any) -> None:
        time.sleep(0.5)
        finish(trace_store, writer)

    monkeypatch.setattr(TraceStore, "finish", slowly)
    with serving(max_utterances_per_socket=1).talk() as talk:
        for number in range(3 * UNFINISHED):
            assert talk.open(number)["type"] == "ready"
            talk.say("cancel", number)
            talk.until("ended", utterance=number)


def test_vanished_socket_frees_its_slots(serving: Serving) -> None:
    server = serving(script=Script(speed=4.0))
    talk = server.talk()
    for number in range(4):
        talk.open(number, credit_ms=60_000)
        talk.say("text", number, text=LONG)
    talk.until("word_start")
    assert server.engine.free_slots() == 0
    talk.ws.socket.shutdown(socket.SHUT_RDWR)
    waited_s = eventually(lambda: server.engine.free_slots() == 4, "the places of a vanished socket")
    assert waited_s < 1.0
    eventually(lambda: not [t for t in threading.enumerate() if t.name.startswith("utterance-")], "the threads' end")
    with server.talk() as again:
        assert again.open()["type"] == "ready"


def test_socket_vanished_during_opening_leaves_no_utterance(serving: Serving) -> None:
    server = serving(script=Script(speed=4.0))
    really_open = server.engine.open

    def slow_open(request: SpeakRequest) -> FakeUtterance:
        if server.engine.opened:
            time.sleep(0.5)
        return really_open(request)

    server.engine.open = slow_open
    talk = server.talk()
    talk.open(1, credit_ms=60_000)
    talk.say("text", 1, text=LONG)
    talk.say("open", 2)
    talk.until("word_start")
    talk.ws.socket.shutdown(socket.SHUT_RDWR)
    eventually(lambda: len(server.engine.opened) == 2, "the second utterance")
    eventually(lambda: server.engine.free_slots() == 4, "both places")


def test_server_bug_costs_one_utterance(serving: Serving) -> None:
    server = serving(script=Script(speed=20.0))
    really_open = server.engine.open

    def broken_open(request: SpeakRequest) -> FakeUtterance:
        if server.engine.opened:
            raise NameError("a family that cannot be imported")
        return really_open(request)

    server.engine.open = broken_open
    with server.talk() as talk:
        talk.open(1)
        talk.say("open", 2)
        error = talk.until("error")[-1]
        assert (error["utterance"], error["code"]) == (2, "internal") and "log" in error["message"]
        talk.say("text", 1, text="one two ")
        talk.say("end", 1)
        assert of(talk.until("trace"), "ended")[0]["samples"] > 0


def test_full_disk_loses_the_trace_and_not_the_speech(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("studio.core.traces.trace_writer.TraceWriter.write", full)
    with serving().talk() as talk:
        talk.open()
        talk.say("text", text="hello there")
        talk.say("end")
        heard = talk.until("error")
        assert heard[-1]["code"] == "bad_file"
        assert len(pcm(heard)) == of(heard, "ended")[0]["samples"] > 0
        assert talk.open(1)["type"] == "ready"


def test_client_that_reads_nothing_is_dropped(serving: Serving) -> None:
    server = serving(script=Script(speed=1000.0), send_timeout_ms=300, credit_cap_ms=10_000_000)
    with server.talk(sock=small_buffers(server), max_queue=1, ping_interval=None) as talk:
        talk.open(credit_ms=3_000_000)
        talk.say("text", text=LONG * 60)
        eventually(lambda: server.engine.free_slots() == 3, "a place taken")
        eventually(lambda: server.engine.free_slots() == 4, "the place of a client that takes nothing")
        talk.ws.socket.shutdown(socket.SHUT_RDWR)


def test_slow_network_is_a_wait(serving: Serving) -> None:
    server = serving(script=Script(speed=1000.0), credit_cap_ms=10_000_000, send_timeout_ms=60_000)
    with server.talk(sock=small_buffers(server), max_queue=1, ping_interval=None) as talk:
        talk.open(credit_ms=3_000_000, options={"m": 1})
        talk.say("text", text=LONG * 8)
        all_samples = 320 * 600 * FakeUtterance.frames_of("constantinople")
        eventually(lambda: server.engine.opened[0]._sample == all_samples, "more sound than the buffers hold")
        time.sleep(0.5)
        heard: list[Any] = []
        while not any(one["reason"] == "network" for one in of(heard[-1:], "wait")):
            heard.append(talk.hear())
        talk.say("end")
        heard += talk.until("trace")
    longest = max((one for one in of(heard, "wait") if one["reason"] == "network"), key=lambda one: one["duration_ms"])
    assert longest["duration_ms"] > 400.0
    assert last_sample(heard) == len(pcm(heard)) == of(heard, "ended")[0]["samples"] == all_samples


@pytest.mark.parametrize(
    "slow", [{"audio"}, {"word_start"}, {"word_start", "wait"}], ids=lambda one: " and ".join(sorted(one))
)
def test_blocked_socket_is_a_wait_whatever_blocks_it(
    serving: Serving, monkeypatch: pytest.MonkeyPatch, slow: set[str]
) -> None:
    really_send = SpeakSession._send

    async def send(self: SpeakSession, data: str | bytes) -> float:
        await really_send(self, data)
        kind = "audio" if isinstance(data, bytes) else json.loads(data)["type"]
        return NETWORK_WAIT_MS if kind in slow else 0.0

    monkeypatch.setattr(SpeakSession, "_send", send)
    with serving().talk() as talk:
        talk.open()
        talk.say("text", text="hello there")
        talk.say("flush")
        heard = talk.quiet(0.5)
    kinds = ["audio" if isinstance(one, Packet) else one["type"] for one in heard]
    notes = [one for one in of(heard, "wait") if one["reason"] == "network"]
    others = sum(kind in slow for kind in kinds) - ("wait" in slow) * len(notes)  # one note does not cause another
    assert len(notes) == others > 0


def test_silent_utterance_releases_its_slot(serving: Serving) -> None:
    server = serving(quiet_close_ms=300)
    with server.talk() as talk:
        talk.open()
        heard = talk.until("trace")
        assert of(heard, "error")[0]["code"] == "idle"
        assert server.engine.free_slots() == 4


def test_huge_paste_is_bounded(serving: Serving) -> None:
    text = ("word " * 20_000)[:100_000]
    server = serving(script=Script(speed=50.0))
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with server.talk() as talk:
        talk.open(source="keyboard", credit_ms=2000)
        talk.say("edit", at=0, remove=0, insert=text)
        played, packets = 0, 0
        while packets < 200:
            message = talk.hear(check=False)
            if isinstance(message, Packet):
                packets += 1
                heard = message.first_sample + len(message.pcm)
                assert heard <= played + 48_000
                assert server.engine.opened[0]._sample <= played + 48_000
                if heard - played > 24_000:
                    played = heard
                    talk.say("played", sample=played)
    grown_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb
    assert grown_kb < 80_000, f"{grown_kb} kB for both ends"


def test_many_emoji_fit_one_message(serving: Serving) -> None:
    with serving().talk() as talk:
        talk.open(source="stream")
        talk.say("text", text="\U0001f600" * (MAX_MESSAGE_CHARS - 100))
        talk.say("text", text=" hello there my ")
        assert talk.until("word_start")


def test_text_is_bounded(serving: Serving) -> None:
    with serving(max_text_chars=1000).talk() as talk:
        talk.open()
        talk.say("text", text="a" * 900)
        talk.say("text", text="b" * 200)
        assert talk.until("error")[-1]["code"] == "bad_text"


def test_refused_text_uses_no_budget(serving: Serving) -> None:
    with serving(max_text_chars=1000).talk() as talk:
        talk.open()
        talk.say("text", text="hello there ")
        for _ in range(3):
            talk.say("revise", at=99, text="z" * 600)
            assert "no character 99" in talk.until("error")[-1]["message"]
        talk.say("text", text="b" * 1000)
        assert "at most 1000 characters" in talk.until("error")[-1]["message"]
        talk.say("text", text="my friend ")
        talk.say("end")
        words = [one["word"] for one in of(talk.until("ended"), "committed")]
        assert words[-2:] == ["my", "friend"]
        talk.open(2, source="keyboard")
        for _ in range(3):
            talk.say("edit", 2, at=99, remove=0, insert="z" * 600)
            talk.until("error")
        talk.say("edit", 2, at=0, remove=0, insert="so it goes ")
        talk.say("end", 2)
        heard = talk.until("ended", utterance=2)
        assert [one["word"] for one in of(heard, "committed")] == ["so", "it", "goes"]
