"""The app's socket from a client's view: from the word that completes the first window to the first packet (t4)."""

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from studio.bench.page.browser import own_command, running_app
from studio.core.errors import NeedsPackage, StudioError

_REST_S = 0.05  # pause before the word that completes the window
_PATIENCE_S = 60.0


def first_packets_ms(
    voices: Path,
    voice: str,
    texts: Sequence[tuple[str, int]],
    options: dict[str, Any],
    device: str = "auto",
    done: Callable[[], None] = lambda: None,
) -> list[float]:
    """Start an app and return its ``packets_ms``.

    Raises:
        NeedsPackage: websockets is missing.
        PageFailed: the app does not answer.
    """
    command = [*own_command(), "--no-demo", "--voices", str(voices), "--device", device]
    with running_app(command) as url:
        return packets_ms(url, voice, texts, options, done)


def packets_ms(
    url: str,
    voice: str,
    texts: Sequence[tuple[str, int]],
    options: dict[str, Any],
    done: Callable[[], None] = lambda: None,
) -> list[float]:
    """t4 - t0 of each text on an app's socket, by the client's clock; the first text is a warm-up as well.

    Args:
        texts: each with the number of words that the voice waits for.

    Raises:
        NeedsPackage: websockets is missing.
        StudioError: the app did not speak.
    """
    try:
        from websockets.sync.client import connect
    except ImportError as error:
        raise NeedsPackage("websockets is not installed", "pip install 'streaming-tts-studio[app]'") from error
    found: list[float] = []
    address = {"voice": voice} if voice else {}
    with connect(url.replace("http", "ws", 1) + "ws/speak", max_size=None) as socket:
        for number, (text, window) in enumerate([texts[0], *texts]):
            say = {"type": "open", "utterance": number, "source": "stream", "options": options, **address}
            socket.send(json.dumps(say))
            words = text.split()[:window]
            _text(socket, number, "".join(word + " " for word in words[:-1]))
            time.sleep(_REST_S)
            began_s = time.perf_counter()
            _text(socket, number, words[-1] + " so ")  # a token that can still grow waits for the next one
            _packet(socket, number)
            found.append(1000.0 * (time.perf_counter() - began_s))
            socket.send(json.dumps({"type": "cancel", "utterance": number, "played_sample": 0}))
            _ended(socket, number)
            done()
    return found[1:]


def _text(socket: Any, number: int, text: str) -> None:
    if text:
        socket.send(json.dumps({"type": "text", "utterance": number, "text": text}))


def _packet(socket: Any, number: int) -> None:
    while not isinstance(message := socket.recv(timeout=_PATIENCE_S), bytes):
        _refused(json.loads(message), number)


def _ended(socket: Any, number: int) -> None:
    while True:
        message = socket.recv(timeout=_PATIENCE_S)
        if isinstance(message, bytes):
            continue
        event = json.loads(message)
        if event["type"] in ("ended", "failed") and event["utterance"] == number:
            return


def _refused(message: dict[str, Any], number: int) -> None:
    if message["type"] in ("error", "failed") and message.get("utterance", number) == number:
        raise StudioError(f"the app did not speak: {message['message']}")
