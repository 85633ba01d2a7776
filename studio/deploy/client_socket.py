"""A client's socket at a front: whole messages are forwarded unchanged, and the server's parser gets the rest."""

from collections.abc import Callable
from enum import Enum

from starlette.types import Scope
from websockets.utils import apply_mask

from studio.deploy.frames import BINARY, TEXT, ReplicaSocket, split_frames
from studio.serve.live.protocol import MAX_MESSAGE_BYTES
from studio.serve.middleware.connections import Connection, connection_of

_MAX_HELD_BYTES = 65_536
_MAX_CONTROL_BYTES = 125
_MASKED = 0x80  # bit of a frame's second byte


class Decision(Enum):
    """What to do with a client's message: forward it unchanged, drop it, or give it to ``WebSocket.receive``."""

    PASS, DROP, READ = range(3)


class ClientSocket:
    """A client's accepted socket, whose messages are intercepted before the server's parser.

    After a message for ``WebSocket.receive``, later data is held until ``release``. A client that sends fragments or
    invalid frames is left to the parser.

    Args:
        decide: decides about a text message.
    """

    def __init__(self, scope: Scope, decide: Callable[[bytes], Decision] = lambda text: Decision.PASS) -> None:
        connection = connection_of(scope)
        assert connection is not None, "the server's own"
        self._connection: Connection = connection
        self._decide = decide
        self._to: ReplicaSocket | None = None
        self._rest = b""
        self._is_held = self._is_full = self._is_paused = False
        self._is_writable = True
        connection.tap = self

    def attach(
        self,
        socket: ReplicaSocket,
        on_end: Callable[[int, str], None],
        on_text: Callable[[bytes], bool] = lambda text: True,
    ) -> None:
        """Forward messages to and from a replica's socket; see ``ReplicaSocket.listen``."""
        self.detach()
        self._to = socket
        socket.on_paused = self._on_full
        socket.listen(self.write, on_end, on_text)
        socket.pause(not self._is_writable)

    def detach(self) -> None:
        """Drop messages until the next ``attach``."""
        self._to = None
        self._on_full(False)

    def write(self, frames: bytes) -> None:
        """Send whole frames."""
        if not self._connection.transport.is_closing():
            self._connection.transport.write(frames)

    def release(self) -> None:
        """Continue with the data held since the last message for ``WebSocket.receive``."""
        if self._is_held:
            self._is_held = False
            data, self._rest = self._rest, b""
            self._connection.feed(data)
            self._pause_if_needed()

    def leave(self) -> None:
        """Leave the connection to the server's parser."""
        if self._connection.tap is self:
            self.detach()
            self._connection.tap = None
            self.release()

    # --- called by the connection --------------------------------------------------------------------

    def on_writable(self, is_writable: bool) -> None:
        """The client's write buffer is full, or has room again."""
        self._is_writable = is_writable
        if self._to is not None:
            self._to.pause(not is_writable)

    def take(self, data: bytes) -> bytes:
        """Process bytes from the client; returns those for the parser."""
        data = self._rest + data if self._rest else data
        if self._is_held:
            self._rest = data
            self._pause_if_needed()
            return b""
        size, begin, done, others = len(data), 0, 0, b""  # [begin, done): to be forwarded
        for at, payload, end in split_frames(data):
            first, length = data[at], end - payload
            is_control = 0x88 <= first <= 0x8A and length <= _MAX_CONTROL_BYTES
            is_message = first in (TEXT, BINARY) and length <= MAX_MESSAGE_BYTES
            if not data[at + 1] & _MASKED or not (is_control or is_message):
                self._pass_on(data[begin:done])
                self._rest, self._connection.tap = b"", None
                return others + data[at:]
            if end > size:
                break
            decision = Decision.PASS
            if first == TEXT:
                decision = self._decide(apply_mask(data[payload:end], data[payload - 4 : payload]))
            if is_control or decision is not Decision.PASS:
                self._pass_on(data[begin:done])
                begin = end
            done = end
            if is_control:
                others += data[at:end]
            elif decision is Decision.READ:
                self._rest, self._is_held = data[end:], True
                return others + data[at:end]
        self._pass_on(data if done - begin == size else data[begin:done])
        self._rest = data[done:]
        return others

    # --- inside --------------------------------------------------------------------------------------

    def _pass_on(self, frames: bytes) -> None:
        if frames and self._to is not None:
            self._to.send_frames(frames)

    def _on_full(self, is_full: bool) -> None:
        """The replica's write buffer is full, or has room again."""
        self._is_full = is_full
        self._pause_if_needed()

    def _pause_if_needed(self) -> None:
        is_paused = self._is_full or (self._is_held and len(self._rest) > _MAX_HELD_BYTES)
        if is_paused != self._is_paused and not self._connection.transport.is_closing():
            self._is_paused = is_paused
            (self._connection.transport.pause_reading if is_paused else self._connection.transport.resume_reading)()
