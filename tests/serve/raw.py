"""A connection without a client library: bytes as they are, and WebSocket frames."""

import socket
import struct
import time

from serve.serving import PATIENCE_S, Served

PING, PONG, CONT, TEXT = 0x89, 0x8A, 0x80, 0x81  # each the last frame of its message
UPGRADE = (
    b"GET /ws/speak HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


def frame(opcode: int, payload: bytes = b"") -> bytes:
    """A client frame, masked with zeros."""
    assert len(payload) < 126
    return struct.pack("BB4s", opcode, 0x80 | len(payload), bytes(4)) + payload


class Raw:
    """A raw connection."""

    def __init__(self, server: Served, receive_bytes: int | None = None) -> None:
        self.socket = socket.socket()
        self.socket.settimeout(PATIENCE_S)
        if receive_bytes is not None:  # a window that was offered is not taken back, so before the connection
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.socket.connect(("127.0.0.1", server.port))

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def get(self, path: str, headers: str = "") -> None:
        """Send a request."""
        self.send(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{headers}\r\n".encode())

    def upgrade(self) -> None:
        self.send(UPGRADE)
        assert b"101" in self.socket.recv(4096)

    def ends(self) -> tuple[float, bytes]:
        """Wait until the server closes; seconds taken, and data received before."""
        began_s, said = time.monotonic(), b""
        try:
            while part := self.socket.recv(65536):
                said += part
        except ConnectionError:
            pass
        return time.monotonic() - began_s, said
