"""Frames between a client and a replica, at every boundary of bytes; what is not passed on goes to the parser."""

import socket
import struct
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from deploy.fronting import Fronted, Fronting
from serve.live.test_socket_paces import small_buffers
from serve.serving import eventually
from websockets.frames import Frame, Opcode

from studio.deploy.client_socket import ClientSocket, Decision
from studio.deploy.frames import client_frame, server_frame, split_frames
from studio.serve.live.protocol import MAX_MESSAGE_BYTES
from studio.serve.middleware import connections

OPEN, TEXT, LATE = '{"type": "open", "utterance": 1}', '{"type": "text", "text": "häuser"}', "dropped"
PING = Frame(Opcode.PING, b"hello").serialize(mask=True)
FRAGMENT = Frame(Opcode.TEXT, b"ab", fin=False).serialize(mask=True)


class Ends:
    """Both ends of a ``ClientSocket``: what the replica and the parser got."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.passed = self.parsed = b""
        self.is_paused = False
        transport = SimpleNamespace(
            is_closing=lambda: False,
            pause_reading=lambda: setattr(self, "is_paused", True),
            resume_reading=lambda: setattr(self, "is_paused", False),
        )
        self.connection = SimpleNamespace(tap=None, transport=transport, feed=self.feed)
        monkeypatch.setattr("studio.deploy.client_socket.connection_of", lambda scope: self.connection)
        self.client = ClientSocket({}, self.decide)
        replica: Any = SimpleNamespace(send_frames=self.send, listen=lambda *_: None, pause=lambda _: None)
        self.client.attach(replica, lambda code, reason: None)

    def send(self, frames: bytes) -> None:
        self.passed += frames

    def feed(self, data: bytes) -> None:
        tap: Any = self.connection.tap
        self.parsed += data if tap is None else tap.take(data)

    @staticmethod
    def decide(text: bytes) -> Decision:
        return Decision.READ if b'"open"' in text else Decision.DROP if text == LATE.encode() else Decision.PASS


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> Ends:
    return Ends(monkeypatch)


def cut(data: bytes, size: int) -> Iterator[bytes]:
    for at in range(0, len(data), size):
        yield data[at : at + size]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 100_000])
def test_frames_pass_in_order_however_they_come(ends: Ends, size: int) -> None:
    long = client_frame("x" * 300), client_frame(b"y" * 70_000)
    text, late = client_frame(TEXT), client_frame(LATE)
    for part in cut(text + PING + late + long[0] + long[1] + text, size):
        ends.feed(part)
    assert ends.passed == text + long[0] + long[1] + text
    assert ends.parsed == PING


@pytest.mark.parametrize("size", [1, 5, 100_000])
def test_a_message_that_is_read_holds_those_after_it(ends: Ends, size: int) -> None:
    first, later = client_frame(OPEN), client_frame(TEXT)
    for part in cut(later + first + later + PING + first + later, size):
        ends.feed(part)
    assert (ends.passed, ends.parsed) == (later, first)
    ends.client.release()
    assert (ends.passed, ends.parsed) == (later * 2, first + PING + first)
    ends.client.release()
    assert ends.passed == later * 3


def test_a_client_waits_while_much_is_held(ends: Ends) -> None:
    ends.feed(client_frame(OPEN))
    more = client_frame(TEXT) * 2000
    ends.feed(more)
    assert ends.is_paused
    ends.client.release()
    assert not ends.is_paused and ends.passed == more


@pytest.mark.parametrize(
    "strange",
    [
        FRAGMENT,
        server_frame("without a mask"),
        b"\xc1\x81" + bytes(4) + b"x",  # a reserved bit
        b"\x83\x81" + bytes(4) + b"x",  # an opcode that does not exist
        b"\x82\xff" + struct.pack("!Q", MAX_MESSAGE_BYTES + 1),  # the beginning of one that is too long
    ],
    ids=["fragment", "unmasked", "reserved bit", "unknown opcode", "too long"],
)
def test_what_is_no_whole_message_leaves_the_socket_to_the_parser(ends: Ends, strange: bytes) -> None:
    text = client_frame(TEXT)
    ends.feed(text + strange + text)
    ends.feed(text)
    assert (ends.passed, ends.parsed) == (text, strange + text + text)


def test_leaving_gives_the_parser_what_is_held(ends: Ends) -> None:
    ends.feed(client_frame(OPEN) + PING)
    ends.client.leave()
    assert ends.parsed.endswith(PING) and not ends.passed


def test_split_frames_reads_every_length() -> None:
    frames = [server_frame(b"z" * size) for size in (0, 1, 125, 126, 65_535, 65_536)]
    found = [*split_frames(b"".join(frames))]
    assert [end - payload for _, payload, end in found] == [0, 1, 125, 126, 65_535, 65_536]
    assert found[-1][2] == sum(map(len, frames))
    ((_, _, end),) = split_frames(frames[-1][:20])
    assert end == len(frames[-1])


def test_fragments_and_pings_reach_a_replica(front: Fronting) -> None:
    fronted = front(count=1)
    with fronted.talk() as talk:
        assert talk.open()["type"] == "ready"
        assert talk.ws.ping(b"now").wait(20.0)
        whole = '{"type": "text", "utterance": 1, "text": "one two three four"}'
        talk.ws.send(iter([whole[:20], whole[20:30], whole[30:]]))
        talk.say("text", text=" five six")  # not before the fragments
        talk.say("end")
        events = talk.until("trace")
    assert [
        one["word"] for one in events if isinstance(one, dict) and one["type"] == "committed"
    ] == "one two three four five six".split()


def raw_socket(fronted: Fronted) -> socket.socket:
    """A client's socket after the handshake and the hello."""
    client = socket.create_connection(("127.0.0.1", fronted.port), timeout=20.0)
    client.sendall(
        f"GET /ws/speak HTTP/1.1\r\nHost: 127.0.0.1:{fronted.port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
    )
    data = b""
    while b'"hello"' not in data:
        data += client.recv(65_536)
    return client


def test_bytes_may_come_one_by_one(front: Fronting) -> None:
    fronted = front(count=1)
    with raw_socket(fronted) as client:
        end = client_frame('{"type": "end", "utterance": 1}')
        for part in cut(client_frame(OPEN) + client_frame('{"type": "text", "utterance": 1, "text": "hi"}') + end, 1):
            client.sendall(part)
        data = b""
        while b'"ended"' not in data:
            data += client.recv(65_536)


def test_a_message_that_is_too_long_closes_the_socket(front: Fronting) -> None:
    fronted = front(count=1)
    with raw_socket(fronted) as client:
        client.sendall(b"\x81\xff" + struct.pack("!Q", MAX_MESSAGE_BYTES + 1) + bytes(4))
        data = b""
        while part := client.recv(65_536):
            data += part
    assert struct.pack("!H", 1009) in data


def test_a_client_that_does_not_read_stops_its_replica(front: Fronting, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a front would hold all that is sent. Nothing is lost."""
    monkeypatch.setattr(connections, "SILENCE_S", 600.0)
    fronted = front(count=1)
    (replica,) = fronted.replicas.values()

    def unsent_bytes(transports: list[Any]) -> int:
        return max((one.get_write_buffer_size() for one in transports), default=0)

    with fronted.talk(
        sock=small_buffers(cast(Any, fronted)), max_queue=1, ping_interval=None, close_timeout=0.5, max_size=None
    ) as talk:
        talk.open()
        talk.say("text", text="\u2603 " * 30_000)  # which nobody can say: an event each
        talk.say("end")
        eventually(lambda: unsent_bytes(replica.connections) > 0, "a replica that waits")
        assert replica.engine.opened[0]._events.qsize() > 10_000
        assert 0 < unsent_bytes(fronted.connections) < 500_000
        count, message = 0, {"type": ""}
        while message["type"] != "trace":
            message = talk.hear(check=False)
            count += message["type"] == "unsupported"
    assert count == 30_000
