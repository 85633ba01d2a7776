"""Hostile messages: each is answered, the utterance continues, and no resource leaks."""

import json
import re
import threading
from pathlib import Path
from typing import Any

import pytest
from fakeutterance import FakeUtterance
from serve.mos_serving import ServedTests
from serve.serving import Served, Serving, Talk, eventually, kinds
from websockets.sync.client import connect

from studio.core import events as ev
from studio.core.errors import BadOption
from studio.serve.live import protocol as wire
from studio.serve.live.stream import UtteranceStream

HUGE = "1" + "0" * 400
HALF = "\\ud800"
HOSTILE = [
    f'{{"type": "options", "utterance": 1, "options": {{"{HALF}": 1}}}}',
    f'{{"type": "options", "utterance": 1, "options": {{"m": "{HALF}"}}}}',
    f'{{"type": "{HALF}", "utterance": 1}}',
    f'{{"type": "text", "utterance": 1, "text": "", "{HALF}": 1}}',
    f'{{"type": "open", "utterance": 2, "voice": "{HALF}"}}',
    f'{{"type": "open", "utterance": 2, "options": {{"{HALF}": 1}}}}',
    f'{{"type": "open", "utterance": 2, "temperature": {HUGE}}}',
    f'{{"type": "open", "utterance": 2, "credit_ms": {HUGE}}}',
    f'{{"type": "open", "utterance": 2, "seed": {HUGE}}}',
    f'{{"type": "options", "utterance": 1, "temperature": {HUGE}}}',
    f'{{"type": "options", "utterance": 1, "temperature": -{HUGE}}}',
    f'{{"type": "options", "utterance": 1, "options": {{"m": {HUGE}}}}}',
    f'{{"type": "played", "utterance": 1, "sample": 0, "buffered_ms": {HUGE}}}',
    f'{{"type": "played", "utterance": 1, "sample": 0, "output_latency_ms": {HUGE}}}',
    f'{{"type": "played", "utterance": 1, "sample": {HUGE}}}',
    f'{{"type": "cancel", "utterance": 1, "played_sample": {HUGE}}}',
]


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir())) if Path("/proc/self/fd").is_dir() else 0


def heard_to_its_end(talk: Talk, utterance: int = 1) -> list[str]:
    talk.say("text", utterance, text="one two three ")
    talk.say("end", utterance)
    return kinds(talk.until("trace", utterance=utterance), utterance)


@pytest.mark.parametrize("hostile", HOSTILE, ids=lambda text: text[:60].replace(HALF, "HALF"))
def test_hostile_message_harms_no_utterance(serving: Serving, hostile: str) -> None:
    server = serving()
    with server.talk() as talk:
        talk.open()
        talk.ws.send(hostile)
        assert talk.until("error")[-1]["code"] in ("bad_message", "bad_option", "bad_voice")
        assert "ended" in heard_to_its_end(talk)
    eventually(lambda: server.engine.free_slots() == 4, "every place")


def test_error_that_quotes_a_lone_surrogate_can_be_sent(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine's message may quote an option's name unchanged, whatever the checks let through."""

    def quoting(self: FakeUtterance, options: dict[str, Any], temperature: float | None = None) -> None:
        raise BadOption(f"there is no option {next(iter(options))}")

    monkeypatch.setattr(FakeUtterance, "set_options", quoting)
    unchecked = wire.SetOptions.model_construct(utterance=1, options={"\ud800": 1}, temperature=None)
    monkeypatch.setattr(wire, "validate", lambda kind, data: unchecked if kind is wire.SetOptions else kind(**data))
    with serving().talk() as talk:
        talk.open()
        talk.ws.send(f'{{"type": "options", "utterance": 1, "options": {{"{HALF}": 1}}}}')
        assert talk.until("error")[-1]["message"].startswith("there is no option \ufffd")
        assert "ended" in heard_to_its_end(talk)


def own_threads() -> int:
    """Threads other than those of pools ("calls_3"): a pool keeps what it started, up to its own limit."""
    return sum(re.search(r"_\d+$", one.name) is None for one in threading.enumerate())


def break_once(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
    """The next call of a function raises, as only a server bug can."""
    real, broken = getattr(owner, name), []

    def fails(*args: Any, **kwargs: Any) -> Any:
        if not broken:
            broken.append(True)
            raise ZeroDivisionError("planted")
        return real(*args, **kwargs)

    monkeypatch.setattr(owner, name, fails)


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (wire, "event_message"),
        (wire, "error_message"),
        (UtteranceStream, "packet"),
        (UtteranceStream, "_on_event"),
        (FakeUtterance, "push_text"),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_server_bug_ends_one_utterance_and_leaks_nothing(
    serving: Serving, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str
) -> None:
    server = serving()
    with server.talk() as talk:
        assert "ended" in _spoken(server, talk, 1)
        threads, open_files = own_threads(), descriptors()
        break_once(monkeypatch, owner, name)
        talk.ws.send('{"type": "open", "utterance": 2}')
        talk.ws.send('{"type": "text", "utterance": 2, "text": "one two three "}')
        talk.ws.send('{"type": "edit", "utterance": 2, "at": 0}')  # an error is received
        talk.ws.send('{"type": "end", "utterance": 2}')
        talk.until("trace", utterance=2)
        assert "ended" in _spoken(server, talk, 3)
        eventually(lambda: own_threads() <= threads, "the threads")
        eventually(lambda: descriptors() <= open_files, "the descriptors")


def _spoken(server: Served, talk: Talk, utterance: int) -> list[str]:
    talk.open(utterance)
    said = heard_to_its_end(talk, utterance)
    eventually(lambda: server.engine.free_slots() == 4, "every place")
    return said


def test_hostile_messages_leak_no_thread_or_descriptor(serving: Serving) -> None:
    server = serving()
    with server.talk() as talk:
        _spoken(server, talk, 1)
    eventually(lambda: server.engine.free_slots() == 4, "every place")
    threads, open_files = own_threads(), descriptors()
    for _ in range(5):
        with server.talk() as talk:
            talk.open()
            for hostile in HOSTILE:
                talk.ws.send(hostile)
                talk.until("error")
    eventually(lambda: server.engine.free_slots() == 4, "every place")
    eventually(lambda: own_threads() <= threads, "the threads")
    eventually(lambda: descriptors() <= open_files, "the descriptors")


@pytest.mark.parametrize(
    "message",
    [
        '{"type": "enter", "token": %s}',
        '{"type": "take", "trial": "0123456789", "slot": %s, "utterance": 1}',
        '{"type": "take", "trial": "0123456789", "slot": 0, "utterance": %s}',
        '{"type": "take", "trial": %s, "slot": 0, "utterance": 1}',
        '{"type": "played", "utterance": 1, "sample": 0, "buffered_ms": %s}',
        '{"type": "edit", "utterance": 1, "at": %s}',
        '{"type": %s}',
    ],
)
@pytest.mark.parametrize("value", [HUGE, f'"{HALF}"', "[" * 50 + "]" * 50])
def test_rater_socket_answers_hostile_messages(tests_served: ServedTests, message: str, value: str) -> None:
    token = tests_served.join().agree().headers["Authorization"].removeprefix("Bearer ")
    with connect(tests_served.url.replace("http", "ws") + "/mos/live", proxy=None) as ws:
        ws.send(json.dumps({"type": "enter", "token": token}))
        assert json.loads(ws.recv(20))["type"] == "entered"
        ws.send(message % value)
        assert json.loads(ws.recv(20))["type"] == "error"
        ws.send(json.dumps({"type": "enter", "token": token}))
        assert json.loads(ws.recv(20))["type"] == "entered"


def test_failing_event_stream_ends_the_utterance(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise its client would wait for ever."""
    server, poll_events = serving(), FakeUtterance.poll_events

    def broken(self: FakeUtterance, limit: int | None = None) -> list[ev.Event]:
        events = poll_events(self, limit)
        if any(isinstance(one, ev.Audio) for one in events):
            raise OSError("the line is dead")
        return events

    monkeypatch.setattr(FakeUtterance, "poll_events", broken)
    with server.talk() as talk:
        talk.open()
        talk.say("text", text="one two three ")
        found = talk.until("trace", utterance=1)
        assert kinds(found, 1)[-2:] == ["failed", "trace"]
        monkeypatch.undo()
        talk.open(2)
        assert "ended" in heard_to_its_end(talk, 2)
    eventually(lambda: server.engine.free_slots() == 4, "every place")
