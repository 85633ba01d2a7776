"""Send an utterance through the app's socket as the Live page does (keys, corrections, pauses, flushes)."""

import json
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from studio.core.errors import StudioError
from studio.core.ports import SpeakRequest

Manner = Literal["keys", "mistakes", "pause", "flush", "paste", "pieces", "stop"]
MANNERS: tuple[Manner, ...] = ("keys", "mistakes", "pause", "flush", "paste", "pieces", "stop")

_KEY_S = 0.012
_PAUSE_S = 1.0  # longer than the 700 ms after which the server flushes
_STOP_AT_SAMPLES = 24_000
_PATIENCE_S = 120.0


@dataclass(frozen=True)
class Typed:
    """A typed text and the way of typing.

    Attributes:
        manner: ``keys`` one by one; ``mistakes`` with corrections; a ``pause`` of a second or a ``flush`` after half of
            the words; ``paste`` all at once; ``pieces`` as a program streams them; ``stop`` during the speech.
    """

    request: SpeakRequest
    text: str
    manner: Manner


def type_to(url: str, typed: Typed, place: Path) -> Path:
    """Speak a text through the app at ``url``, and save its trace to ``place``.

    Raises:
        StudioError: the app did not speak.
    """
    from websockets.sync.client import connect

    with connect(url.replace("http", "ws", 1) + "ws/speak", max_size=None) as socket:

        def send(kind: str, **fields: Any) -> None:
            socket.send(json.dumps({"type": kind, "utterance": 1, **fields}))

        request = typed.request
        send(
            "open",
            voice=request.voice,
            seed=request.seed,
            temperature=request.temperature,
            options=dict(request.options),
            source="stream" if typed.manner == "pieces" else "keyboard",
            credit_ms=60_000,
        )
        for pause_s, kind, fields in _messages(typed):
            time.sleep(pause_s)
            send(kind, **fields)
        address = _listen(socket, send, stops=typed.manner == "stop")
    with urllib.request.urlopen(url + address, timeout=_PATIENCE_S) as answer:
        place.write_bytes(answer.read())
    return place


def _messages(typed: Typed) -> Iterator[tuple[float, str, Mapping[str, Any]]]:
    """Messages with their times in seconds."""
    text = typed.text
    middle = text.find(" ", len(text) // 2) + 1
    if typed.manner == "pieces":
        for at in range(0, len(text), 7):
            yield _KEY_S, "text", {"text": text[at : at + 7]}
    elif typed.manner == "paste":
        yield 0.0, "edit", _insert(0, text)
    else:
        for at, letter in enumerate(text):
            if typed.manner == "mistakes" and letter.isalpha() and at % 9 == 4:
                yield _KEY_S, "edit", _insert(at, "q")
                yield _KEY_S, "edit", {"at": at, "remove": 1, "insert": ""}
            if typed.manner == "flush" and at == middle:
                yield _KEY_S, "flush", {}
            is_late = typed.manner == "pause" and at == middle
            yield _PAUSE_S if is_late else _KEY_S, "edit", _insert(at, letter)
    yield _KEY_S, "end", {}


def _insert(at: int, text: str) -> dict[str, Any]:
    return {"at": at, "remove": 0, "insert": text}


def _listen(socket: Any, send: Callable[..., None], *, stops: bool) -> str:
    """Play the utterance to its end with playback reports, as a page does; returns the address of its trace."""
    heard = 0
    is_over = False
    while True:
        message = socket.recv(timeout=_PATIENCE_S)
        if isinstance(message, bytes):
            heard = int.from_bytes(message[16:24], "little") + (len(message) - 24) // 2
            if stops and heard >= _STOP_AT_SAMPLES and not is_over:
                send("cancel", played_sample=heard)
                is_over = True
            elif not is_over:
                send("played", sample=heard)
            continue
        event = json.loads(message)
        if event["type"] in ("error", "failed"):
            raise StudioError(f"the app did not speak: {event['message']}")
        is_over = is_over or event["type"] == "ended"
        if event["type"] == "trace":
            return event["trace_url"]
