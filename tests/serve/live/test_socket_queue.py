"""The queue for slots: order, buffered messages, leaving."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from serve.live.test_socket_speaks import FIVE, samples_of, type_text
from serve.serving import Served, Serving, Talk, eventually, kinds, of, pcm
from serve.test_metrics import scraped
from tones import Script

from studio.serve.live import stream


@contextmanager
def taken(server: Served) -> Iterator[Talk]:
    """A client that holds every slot."""
    with server.talk() as talk:
        for number in range(4):
            assert talk.open(number)["type"] == "ready"
        yield talk


def waits(talk: Talk, ahead: int, utterance: int = 1, **more: object) -> None:
    """Request an utterance and receive its queue position."""
    talk.say("open", utterance, **more)
    assert talk.hear() | {"t_ms": 0} == {"type": "queued", "t_ms": 0, "ahead": ahead, "utterance": utterance}


def test_text_typed_in_the_queue_is_spoken_when_a_slot_is_free(serving: Serving) -> None:
    server = serving()
    with taken(server) as others, server.talk() as talk:
        waits(talk, 0, source="keyboard", credit_ms=60_000)
        type_text(talk, FIVE + "x")
        talk.say("edit", at=len(FIVE), remove=1)
        talk.say("options", options={"m": 1})
        talk.say("end")
        assert talk.quiet(0.1) == []
        others.say("cancel", 2)
        heard = talk.until("trace")
    assert kinds(heard)[0] == "ready" and heard[0]["queued_ms"] > 0
    assert [one["word"] for one in of(heard, "committed")] == FIVE.lower().split()
    assert len(pcm(heard)) == samples_of(FIVE) == of(heard, "ended")[0]["samples"]
    assert of(heard, "options")[0]["options"]["m"] == 1
    times = [one["t_ms"] for one in heard if isinstance(one, dict) and "t_ms" in one]
    assert times == sorted(times)


def test_edits_in_the_queue_wait_until_their_client_reads(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each edit is answered with all text after it: many unread answers would fill the memory."""
    fields: list[stream.LiveText] = []

    class Kept(stream.LiveText):
        def __init__(self, *given: Any, **more: Any) -> None:
            super().__init__(*given, **more)
            fields.append(self)

    monkeypatch.setattr(stream, "LiveText", Kept)
    monkeypatch.setattr(stream, "MAX_UNACKNOWLEDGED_CHARS", 20_000)  # costly, then throttled
    server, words = serving(), "so it goes on " * 150
    with taken(server) as others, server.talk() as talk:
        waits(talk, 0, source="keyboard", credit_ms=60_000)
        talk.say("edit", at=0, insert=words)
        for _ in range(15):
            talk.say("edit", at=3, remove=2, insert="it ")
            talk.say("edit", at=3, remove=3, insert="it")
        most = stream.MAX_UNACKNOWLEDGED_CHARS + len(words) + 3
        eventually(lambda: fields[-1].sent_chars > stream.MAX_UNACKNOWLEDGED_CHARS, "so many edits were obeyed")
        assert talk.quiet(0.5) == [] and fields[-1].sent_chars <= most
        talk.say("cancel")
        assert talk.until("trace")
        others.say("cancel", 0)


def test_queue_positions_move_up_and_a_full_queue_is_busy(serving: Serving) -> None:
    server = serving()
    with taken(server) as others, server.talk() as first, server.talk() as second, server.talk() as third:
        waits(first, 0)
        waits(second, 1)
        busy = third.open()
        assert (busy["code"], busy["utterance"]) == ("busy", 1) and busy["retry_ms"] > 0
        others.say("cancel", 0)
        assert first.hear()["type"] == "ready"
        assert second.hear()["ahead"] == 0
        waits(third, 1)
        second.ws.close()  # a closed connection makes room
        assert third.hear()["ahead"] == 0
        others.say("cancel", 1)
        assert third.until("ready")


def test_cancel_in_the_queue_is_answered_at_once_and_frees_the_number(serving: Serving) -> None:
    server = serving()
    with taken(server), server.talk() as talk:
        waits(talk, 0)
        talk.say("text", text=FIVE)
        talk.say("cancel")
        heard = talk.until("trace")
        assert kinds(heard) == ["cancelled", "ended", "trace"] and heard[0]["char_end"] == 0
        for url in (heard[-1]["trace_url"], heard[-1]["wav_url"], heard[-1]["wav_url"] + "?as_heard=1"):
            assert httpx.get(f"{server.url}/{url}").status_code == 200  # empty, but it exists
        waits(talk, 0)


def test_waiting_is_not_idle(serving: Serving) -> None:
    server = serving(quiet_close_ms=400, script=Script(speed=20.0))
    with taken(server) as others, server.talk() as talk:
        waits(talk, 0)
        assert [one["code"] for one in of(others.until("error"), "error")] == ["idle"]  # of those that have a slot
        assert talk.until("ready", "error", "failed")[-1]["type"] == "ready"
        talk.say("text", text=FIVE)
        talk.say("end")
        assert kinds(talk.until("trace"))[-2:] == ["ended", "trace"]


def test_queue_is_counted(serving: Serving) -> None:
    server = serving()
    with taken(server), server.talk() as talk:
        waits(talk, 0)
        found = scraped(httpx.get(f"{server.url}/metrics").text)
        assert [found[f"studio_engine_{name}", frozenset()] for name in ("waiting", "queue_places", "speaking")] == [
            1,
            2,
            4,
        ]
