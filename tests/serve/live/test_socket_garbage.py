"""Invalid messages are answered with the field's name; the server stays up."""

import json
import time
from collections.abc import Callable
from typing import Any

import httpx
import numpy as np
import pytest
from serve.serving import Serving
from websockets.exceptions import ConnectionClosed

from studio.core.errors import BadMessage
from studio.core.packets import Packet, pack_packet, unpack_packet
from studio.serve.live import protocol as wire

GARBAGE: list[tuple[Any, str]] = [
    ("not json", "not JSON"),
    ("", "not JSON"),
    ("[" * 2_000, "not JSON"),
    ("[" * 100_000, "more fields than any valid"),
    ("9" * 5_000, "more fields than any valid"),
    ({f"{k:05}": k for k in range(15_000)}, "more fields than any valid"),
    ({"\\": ['"', "\\"] * 20_000}, "more fields than any valid"),
    ({"type": "open", "utterance": 1, "a": [{}] * 5_000}, "more fields than any valid"),
    ("[]", "not a JSON object"),
    ("null", "not a JSON object"),
    ({}, "known are open, edit"),
    ({}, "lacks the field 'type'"),
    ({"type": 3}, "known are open, edit"),
    ({"type": "sing", "utterance": 1}, "known are open, edit"),
    ({"type": "open"}, "lacks the field 'utterance'"),
    ({"type": "open", "utterance": -1}, "from 0 to 4294967295"),
    ({"type": "open", "utterance": 2**32}, "from 0 to 4294967295"),
    ({"type": "open", "utterance": True}, "from 0 to 4294967295"),
    ({"type": "open", "utterance": 1, "colour": "red"}, "no field 'colour'"),
    ({"type": "open", "utterance": 1, "voice": "nobody"}, "there are tone"),
    ({"type": "open", "utterance": 1, "voice": "tone:middle"}, "it has low, high"),
    ({"type": "open", "utterance": 1, "source": "radio"}, "one of keyboard, stream"),
    ({"type": "open", "utterance": 1, "options": [1]}, "an object of at most 32"),
    ({"type": "open", "utterance": 1, "options": {"m": {"deep": 1}}}, "an object of at most 32"),
    ({"type": "open", "utterance": 1, "options": {"m": 2, "n": 3}}, "n = 3 is more than window m = 2"),
    ({"type": "open", "utterance": 1, "options": {"tempo": 2}}, "there are scheme, m, n"),
    ({"type": "open", "utterance": 1, "temperature": "hot"}, "a number from 0 to 2 or null"),
    ('{"type": "open", "utterance": 1, "temperature": NaN}', "a number from 0 to 2 or null"),
    ('{"type": "open", "utterance": 1, "temperature": 1e999}', "a number from 0 to 2 or null"),
    ({"type": "open", "utterance": 1, "credit_ms": 120_000}, "ask for 50 to 60000"),
    ({"type": "open", "utterance": 1, "credit_ms": 10}, "a number from 50 to this server's credit_cap_ms (60,000"),
    ({"type": "open", "utterance": 1, "seed": 1.5}, "a whole number from 0"),
    ({"type": "text", "utterance": 1}, "lacks the field 'text'"),
    ({"type": "text", "utterance": 5, "text": "x"}, "send 'open' first"),
    ({"type": "edit", "utterance": 5, "at": "0"}, "a whole number from 0"),
    ({"type": "text", "utterance": 5, "text": "x" * 262_144}, "too long"),
    (b"\x00\x01binary", "no binary"),
]


def test_every_kind_of_garbage_is_answered(serving: Serving) -> None:
    server = serving()
    with server.talk() as talk:
        for message, wanted in GARBAGE:
            talk.ws.send(message if isinstance(message, str | bytes) else json.dumps(message))
            answer = talk.hear()
            assert answer["type"] == "error"
            assert wanted in answer["message"], (str(message)[:80], answer)
        assert server.engine.free_slots() == 4
        assert talk.open()["type"] == "ready"
    assert httpx.get(f"{server.url}/health").json()["status"] == "ok"


@pytest.mark.parametrize("text", ['say "this" \\ ' * 15_000, "\\" * 130_000, '"' * 130_000, "{,[" * 60_000])
def test_long_text_of_any_characters_is_one_field(text: str) -> None:
    assert wire.decode(json.dumps({"type": "text", "utterance": 1, "text": text}))["text"] == text


@pytest.mark.parametrize("end", ["", "\\", '"', '"}'])
def test_unterminated_string_is_scanned_once(end: str) -> None:
    """Twice the length takes twice the time, not four times."""

    def seconds(pairs: int) -> float:
        raw = '{"type":"' + '\\"' * pairs + end
        return _seconds(lambda: wire._is_mostly_text(raw))

    assert seconds(100_000) < 30.0 * seconds(10_000)


def test_message_of_many_fields_is_refused_before_parsing() -> None:
    raw = json.dumps({f"{k:05}": k for k in range(17_000)})
    with pytest.raises(BadMessage, match="more fields"):
        wire.decode(raw)
    assert _seconds(lambda: wire._is_mostly_text(raw)) < 0.5 * _seconds(lambda: json.loads(raw))


def _seconds(work: Callable[[], object]) -> float:
    def once() -> float:
        began_s = time.perf_counter()
        work()
        return time.perf_counter() - began_s

    return min(once() for _ in range(7))


def test_wrong_source_is_refused(serving: Serving) -> None:
    with serving().talk() as talk:
        talk.open(1, source="keyboard")
        talk.open(2, source="stream")
        talk.say("text", 1, text="x")
        assert "send 'edit'" in talk.until("error")[-1]["message"]
        talk.say("edit", 2, at=0, remove=0, insert="x")
        assert "send 'text'" in talk.until("error")[-1]["message"]


def test_flooding_socket_is_closed_and_others_continue(serving: Serving) -> None:
    server = serving(messages_per_s=50)
    with server.talk() as calm, server.talk(max_queue=None) as flood:
        calm.open()
        with pytest.raises(ConnectionClosed) as closed:
            for _ in range(2_000):
                flood.ws.send("{}")
                flood.hear()  # data sent past the close is answered by a reset, which overtakes the close frame
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1008
        calm.say("text", text="one two three ")
        calm.until("word_end")


def test_message_between_the_two_limits_is_refused_and_the_socket_stays_open(serving: Serving) -> None:
    """Characters are counted by the studio, bytes by uvicorn: a long message costs the socket only past the latter."""
    frame = len(_text_message(""))
    fits, longest = wire.MAX_MESSAGE_CHARS - frame, wire.MAX_MESSAGE_BYTES - frame
    with serving().talk() as talk:
        for text in ("x" * fits, "\U0001f600" * (fits - 1)):  # as many characters and as many bytes as may be
            talk.ws.send(_text_message(text))
            assert talk.hear()["message"].endswith("send 'open' first")
        for text in ("x" * (fits + 1), "\U0001f600" * (fits // 2) + "x" * fits, "x" * longest):
            talk.ws.send(_text_message(text))
            answer = talk.hear()
            assert answer["code"] == "bad_message" and "too long" in answer["message"]
        assert talk.open()["type"] == "ready"


def _text_message(text: str) -> str:
    return json.dumps({"type": "text", "utterance": 5, "text": text}, ensure_ascii=False)


def test_oversized_message_closes_the_socket(serving: Serving) -> None:
    server = serving()
    with server.talk() as talk, pytest.raises(ConnectionClosed) as closed:
        talk.ws.send("x" * (wire.MAX_MESSAGE_BYTES + 1))
        talk.hear()
    # The rest of the message can meet a closed connection: then the reset overtakes the close frame.
    assert closed.value.rcvd is None or closed.value.rcvd.code == 1009
    assert httpx.get(f"{server.url}/health").status_code == 200


@pytest.mark.parametrize("text", [b"\xff", b'{"type": "\xed\xa0\x80"}', b"\xc3"])
def test_non_utf8_bytes_close_the_socket_quietly(
    serving: Serving, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, text: bytes
) -> None:
    with serving().talk() as talk, pytest.raises(ConnectionClosed) as closed:
        talk.ws.send(text, text=True)
        talk.hear()
    assert closed.value.rcvd is not None and closed.value.rcvd.code == 1007
    assert "Traceback" not in capfd.readouterr().err + caplog.text


def test_socket_carries_eight_utterances(serving: Serving) -> None:
    server = serving()
    server.engine.places = 20
    with server.talk() as talk:
        for number in range(8):
            assert talk.open(number)["type"] == "ready"
        assert talk.open(8)["code"] == "busy"


def test_lone_surrogate_is_replaced(serving: Serving) -> None:
    with serving().talk() as talk:
        talk.open()
        talk.ws.send('{"type": "text", "utterance": 1, "text": "a\\ud83d b "}')
        assert talk.until("text")[-1]["text"] == "a\ufffd b "


def test_typed_text_is_not_logged(serving: Serving, capfd: pytest.CaptureFixture[str]) -> None:
    with serving(log_level="info").talk() as talk:
        talk.open(source="keyboard")
        talk.say("edit", at=0, remove=0, insert="mysecretword and more ")
        talk.ws.send('{"type": "text", "utterance": 1, "text": "mysecretword", "x": 1}')
        talk.say("end")
        talk.until("trace")
    out = "".join(capfd.readouterr())
    assert "secret" not in out


def test_packets_round_trip() -> None:
    packet = Packet(2**32 - 1, 3, 4, 2**40, np.array([-32768, 0, 32767], np.int16))
    data = pack_packet(packet)
    assert len(data) == 24 + 6
    assert data[:4] == b"\x01\x01\x00\x00"
    back = unpack_packet(data)
    assert (back.utterance, back.take, back.seq, back.first_sample) == (2**32 - 1, 3, 4, 2**40)
    assert back.pcm.tolist() == packet.pcm.tolist()
    for bad in (b"", data[:23], data[:-1], b"\x02" + data[1:]):
        with pytest.raises(BadMessage):
            unpack_packet(bad)


def test_a_pair_of_surrogates_cut_between_two_messages_is_one_character(serving: Serving) -> None:
    with serving().talk() as talk:
        talk.open()
        talk.ws.send('{"type": "text", "utterance": 1, "text": "\\ud835"}')
        talk.ws.send('{"type": "text", "utterance": 1, "text": "\\udc07ello "}')
        first = talk.until("text")[-1]
        assert (first["text"], first["char_start"]) == ("\U0001d407ello ", 0)
