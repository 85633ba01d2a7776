"""Shared parts of both clients: the messages of one utterance, and a connection's settings and errors."""

import json
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, Generic, Literal, TypedDict, TypeVar
from urllib.parse import urlsplit, urlunsplit

from studio.core.addresses import is_loopback
from studio.core.errors import StudioError
from studio.core.events import Audio, Event, Revised, from_dict, is_last
from studio.core.packets import unpack_packet
from studio.markup import Markup

_NUMBER = 1  # of the utterance: each has its own socket
_REPORT_SAMPLES = 1200  # 50 ms at 24 kHz
_MAX_BYTES = 4_000_000  # of one message
_HEADER_OF_KEY = "X-Studio-Key"
_Sent = TypeVar("_Sent")


class Refused(StudioError):
    """The server refused a message; ``code`` is its code, such as ``bad_option``, ``busy`` or ``too_late``."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class ServerGone(StudioError, code="server_gone"):
    """The server cannot be reached, or closed the connection before the utterance ended."""


class How(TypedDict, total=False):
    """How an utterance is spoken.

    Attributes:
        seed: repeats an utterance; 0 to 2**53 - 1.
        temperature: None for the voice's own; 0 is greedy.
        options: of the voice's family, such as ``{"m": 3, "n": 1}``.
        source: ``keyboard`` for edits of a text field.
        markup: with ``markdown``, the marks of Markdown, common in texts of language models, are not spoken. ``ssml``
            and ``breaks`` read pauses.
        speed: 0.5 to 2; 2 is twice as fast. The pitch stays.
        plays: whether the caller reports what was played; sound is then sent at most 2 s ahead of it.
    """

    seed: int
    temperature: float | None
    options: dict[str, Any]
    source: Literal["stream", "keyboard"]
    markup: Markup
    speed: float
    plays: bool


class Server:
    """A studio's address and key."""

    def __init__(self, url: str = "http://127.0.0.1:7860", key: str = "", *, timeout_s: float = 60.0) -> None:
        parts = urlsplit(url if "//" in url else f"http://{url}")
        scheme = {"http": "ws", "https": "wss"}.get(parts.scheme, parts.scheme)
        self._timeout_s = timeout_s
        self._connection: dict[str, Any] = {  # arguments of both kinds of ``connect``
            "uri": urlunsplit((scheme, parts.netloc, f"{parts.path.rstrip('/')}/ws/speak", "", "")),
            "additional_headers": {_HEADER_OF_KEY: key} if key else {},
            "open_timeout": timeout_s,
            "max_size": _MAX_BYTES,
            "proxy": None if is_loopback(parts.hostname or "") else True,
        }


class Messages(ABC, Generic[_Sent]):
    """The messages of one utterance; ``_Sent`` is the return type of sending."""

    def __init__(self, socket: Any, *, plays: bool = False) -> None:
        self._socket = socket
        self.voices: list[dict[str, Any]] = []
        self.trace_url = self.wav_url = ""  # relative to the server's root; set after the last event
        self._plays = plays
        self._events: deque[Event] = deque()
        self._reported = self._take = 0
        self._last: Event | None = None
        self.is_over = False

    @abstractmethod
    def put(self, kind: str, **fields: Any) -> _Sent:
        """Send a message."""

    def open(self, voice: str, how: How) -> _Sent:
        """Begin the utterance; must be the first message."""
        return self.put("open", voice=voice, **{name: value for name, value in how.items() if name != "plays"})

    def encode(self, kind: str, fields: Mapping[str, Any]) -> str:
        return json.dumps({"type": kind, "utterance": _NUMBER, **fields})

    def send(self, text: str) -> _Sent:
        """Append text."""
        return self.put("text", text=text)

    def revise(self, at: int, text: str = "") -> _Sent:
        """Replace the text as sent from code point ``at`` on; ``Refused`` (too_late) if it was played."""
        return self.put("revise", at=at, text=text)

    def edit(self, at: int, remove: int = 0, insert: str = "") -> _Sent:
        """Change a text field, if the utterance's source is ``keyboard``; positions in code points."""
        return self.put("edit", at=at, remove=remove, insert=insert)

    def flush(self) -> _Sent:
        """Speak every committed word without waiting for more text."""
        return self.put("flush")

    def end(self) -> _Sent:
        """End the text: no more follows."""
        return self.put("end")

    def set_options(self, options: Mapping[str, Any], temperature: float | None = None) -> _Sent:
        """Change options from the next segment on."""
        return self.put("options", options=dict(options), temperature=temperature)

    def played(self, sample: int, *, buffered_ms: float = 0.0, output_latency_ms: float = 0.0) -> _Sent:
        """Report the first sample not yet played; call it about every 50 ms if the utterance has ``plays``."""
        more = {"buffered_ms": buffered_ms, "output_latency_ms": output_latency_ms}
        return self.put("played", sample=sample, **more)

    def cancel(self, played_sample: int = 0) -> _Sent:
        """Stop; ``Cancelled`` reports which words were heard."""
        return self.put("cancel", played_sample=played_sample)

    def receive(self, message: str | bytes) -> str | None:
        """Process a message; returns a playback report if one is due. Raises Refused."""
        if isinstance(message, bytes):
            return self._on_packet(message)
        data = json.loads(message)
        match data["type"]:
            case "hello":
                self.voices = data["voices"]
            case "error" if self._last is None:
                raise Refused(data["code"], data["message"])
            case "trace" | "error":
                self.trace_url, self.wav_url = data.get("trace_url", ""), data.get("wav_url", "")
                self.is_over = True
            case "audio":
                pass  # sent as a packet
            case _:
                event = from_dict(data)
                if isinstance(event, Revised):
                    self._take = event.take
                if is_last(event):
                    self._last = event
                self._events.append(event)
        return None

    def needs_more(self) -> bool:
        """Whether another message is needed: for the next event, or after the last one for the trace's address."""
        return not self.is_over and not self._events

    def on_gone(self) -> None:
        """Handle a closed connection, in an ``except`` block: before the last event, it is an error."""
        self.is_over = True
        if self._last is None:
            raise  # noqa: PLE0704 - the caller's

    def _on_packet(self, data: bytes) -> str | None:
        packet = unpack_packet(data)
        if packet.take < self._take:
            return None  # the sound was revised
        self._events.append(Audio(sample=packet.first_sample, pcm=packet.pcm))
        received = packet.first_sample + len(packet.pcm)
        if self._plays or received - self._reported < _REPORT_SAMPLES:
            return None
        self._reported = received
        return self.encode("played", {"sample": received})


@contextmanager
def connection_errors() -> Generator[None]:
    """Convert the connection's errors to Refused and ServerGone."""
    from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

    try:
        yield
    except InvalidStatus as error:
        if error.response.status_code in (401, 403):
            raise Refused(
                "unauthorized", "the server refuses the key; give the one that it was started with"
            ) from error
        raise ServerGone(
            f"the server answered {error.response.status_code}", "see whether a studio runs there"
        ) from error
    except ConnectionClosed as error:
        why = f" ({error.rcvd.code} {error.rcvd.reason})".rstrip() if error.rcvd else ""
        raise ServerGone(f"the server closed the connection{why}", "try again") from error
    except (OSError, TimeoutError, InvalidHandshake, ValueError) as error:
        raise ServerGone(f"the server cannot be reached: {error}", "see whether a studio runs there") from error
