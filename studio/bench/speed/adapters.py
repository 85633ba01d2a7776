"""First byte over each adapter for other clients, beside the studio's own socket; nothing is computed.

The server is a separate process on this machine, whose engine answers the first text with one prepared packet.
"""

import contextlib
import json
import multiprocessing
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from studio.bench.settings import AdaptersSetting
from studio.core import events as ev
from studio.core.cards import Card, read_cards
from studio.core.errors import StudioError, needs
from studio.core.ports import SpeakRequest
from studio.measure.latency import percentiles
from studio.measure.report import bar, print_table

TARGET_MS = 3.0  # by which the p95 may exceed that of the native socket
_START_S, _PATIENCE_S = 60.0, 20.0
_TEXT = "kettle "
_POINTS = ("p50", "p95")
_REST_S = 0.1  # pause after a round, which opens two sockets: an address may open 20 a second
Call = Callable[[], float]  # speaks once; returns ms from the message that begins the speech to the first sound


def bench_adapters(setting: AdaptersSetting) -> dict[str, Any]:
    """``adapters``: first byte of each, and by how much its percentiles exceed those of the native socket.

    Raises:
        NeedsPackage: httpx, msgpack or websockets is not installed.
        StudioError: the server does not start, or an adapter does not speak.
    """
    card = next(iter(read_cards(setting.voices).values()))[0]
    times: dict[str, list[float]] = {}
    with _served(card) as url, ExitStack() as stack:
        adapters = _adapters(url, card, stack)
        rounds = range(setting.warm + setting.n)
        for number in bar(rounds, "speaking", setting.quiet):
            for name, speak in adapters.items():
                took_ms = speak()
                if number >= setting.warm:
                    times.setdefault(name, []).append(took_ms)
            time.sleep(_REST_S)
    figures = {name: percentiles(of) for name, of in times.items()}
    native = figures["native"]
    out: dict[str, Any] = {
        "n": setting.n,
        "target_ms": TARGET_MS,
        "adapters": {
            name: {"first_ms": one, "over_native_ms": {point: one[point] - native[point] for point in _POINTS}}
            for name, one in figures.items()
        },
    }
    return out


def show_adapters(out: dict[str, Any]) -> None:
    rows = [
        [name, *(f"{one[what][point]:.2f}" for what in ("first_ms", "over_native_ms") for point in _POINTS)]
        for name, one in out["adapters"].items()
    ]
    title = f"First byte over each adapter, {out['n']} utterances each, ms"
    note = f"over native: of the same percentile; target: p95 at most {out['target_ms']:g} ms"
    print_table(title, ("adapter", "p50", "p95", "over native: p50", "p95"), rows, note)


# ------------------------------------------------------------ the server


class _Instant:
    """An utterance that answers its first text with a packet; only the used part of the port."""

    def __init__(self, card: Card) -> None:
        self.id, self.card, self.provenance = 0, card, dict[str, Any]()
        self._news: Callable[[], None] = lambda: None
        self._lock = threading.Lock()
        self._samples = 0
        speaker, size = card.speakers_default_first[0], card.frame_samples
        about: dict[str, Any] = {"voice": card.name, "speaker": speaker, "family": card.family, "seed": 0}
        self._events: list[ev.Event] = [
            ev.Ready(utterance=0, rate_hz=card.sample_rate_hz, frame_samples=size, **about),
        ]

    def push_text(self, text: str) -> None:
        """See ``studio.core.ports.Utterance``."""
        if self._samples or not text.strip():
            return
        self._samples = self.card.frame_samples
        self._add(
            ev.TextReceived(char_start=0, text=text),
            ev.Committed(i=0, word=text.strip(), written=0, char_start=0, char_end=len(text.strip())),
            ev.Segment(index=0, words=[0], seen=[0], sample=0, frame=0),
            ev.WordStart(i=0, sample=0, source="eos"),
            ev.Audio(sample=0, pcm=np.ones(self._samples, np.int16)),
        )

    def end(self) -> None:
        """See ``studio.core.ports.Utterance``."""
        self._add(ev.WordEnd(i=0, sample=self._samples, source="eos"), ev.Ended(samples=self._samples))

    def cancel(self, played_sample: int = 0) -> None:
        """See ``studio.core.ports.Utterance``."""
        self._add(ev.Ended(samples=self._samples))

    def flush(self) -> None:
        """See ``studio.core.ports.Utterance``."""

    def grant(self, until_sample: int) -> None:
        """See ``studio.core.ports.Utterance``."""

    def played(self, sample: int) -> None:
        """See ``studio.core.ports.Utterance``."""

    def set_pace(self, pace: float) -> None:
        """See ``studio.core.ports.Utterance``."""

    def add_event(self, event: ev.Event) -> None:
        """See ``studio.core.ports.Utterance``."""

    def set_listener(self, callback: Callable[[], None]) -> None:
        """See ``studio.core.ports.Utterance``."""
        self._news = callback
        callback()

    def poll_events(self, limit: int | None = None) -> Sequence[ev.Event]:
        """See ``studio.core.ports.Utterance``."""
        with self._lock:
            events, self._events = self._events, []
        return events

    def _add(self, *events: ev.Event) -> None:
        with self._lock:
            self._events.extend(events)
        self._news()


class _Instants:
    """An engine of such utterances; only the used part of the port."""

    def __init__(self, card: Card) -> None:
        self._card = card

    def cards(self) -> Sequence[Card]:
        """See ``studio.core.ports.Engine``."""
        return (self._card,)

    def open(self, request: SpeakRequest) -> _Instant:
        """See ``studio.core.ports.Engine``."""
        return _Instant(self._card)

    def is_loaded(self, voice: str) -> bool:
        """See ``studio.core.ports.Engine``."""
        return True

    def free_slots(self) -> int:
        """See ``studio.core.ports.Engine``."""
        return 64

    def drain(self) -> None:
        """See ``studio.core.ports.Engine``."""


def _serve(card: Card, bound: socket.socket, folder: str) -> None:
    from studio.serve.app import create_app
    from studio.serve.server import run
    from studio.serve.settings import ServeSettings

    engine: Any = _Instants(card)
    settings = ServeSettings(port=bound.getsockname()[1], traces_folder=Path(folder), drain_ms=0)
    run(create_app(engine, settings), settings, bound)


@contextmanager
def _served(card: Card) -> Generator[str]:
    """Run the server in a separate process; yields its address."""
    from studio.serve.server import bind_port
    from studio.serve.settings import ServeSettings

    spawn = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder, bind_port(ServeSettings(port=0)) as bound:
        process = spawn.Process(target=_serve, args=(card, bound, folder), daemon=True)
        process.start()
        try:
            address = bound.getsockname()
            until_s = time.monotonic() + _START_S
            while not _answers(address):
                if time.monotonic() > until_s or not process.is_alive():
                    raise StudioError("the server of the adapters does not start", "run studio app and read its output")
                time.sleep(0.05)
            yield f"http://127.0.0.1:{address[1]}"
        finally:
            process.terminate()
            process.join(10.0)


def _answers(address: tuple[str, int]) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(address, timeout=1.0):
        return True
    return False


# ------------------------------------------------------------ its clients


def _adapters(url: str, card: Card, stack: ExitStack) -> dict[str, Call]:
    with needs("the adapters' clients need websockets, httpx and msgpack", "app"):
        import httpx
        import msgpack
        from websockets.sync.client import connect
    ws_url, speaker = url.replace("http", "ws", 1), card.speakers_default_first[0]
    voice = f"{card.name}:{speaker}"
    counter = iter(range(10**9))

    def opened(path: str) -> Any:
        return connect(ws_url + path, proxy=None, compression=None)

    def until(ws: Any, is_sound: Callable[[Any], bool], began_s: float) -> float:
        while True:
            message = ws.recv(timeout=_PATIENCE_S)
            if is_sound(message):
                return 1000.0 * (time.perf_counter() - began_s)
            if isinstance(message, str) and ('"error"' in message or '"Error"' in message):
                raise StudioError(f"an adapter does not speak: {message[:200]}")

    def finish(ws: Any, mark: str) -> None:
        while isinstance(message := ws.recv(timeout=_PATIENCE_S), bytes) or mark not in message:
            pass

    native_ws, multi_ws, cartesia_ws, deepgram_ws = (
        stack.enter_context(opened(path))
        for path in (
            "/ws/speak",
            f"/v1/text-to-speech/{voice}/multi-stream-input?output_format=pcm_24000",
            "/tts/websocket",
            f"/v1/speak?model={voice}&encoding=linear16&sample_rate=24000",
        )
    )
    http = stack.enter_context(httpx.Client(base_url=url, trust_env=False, timeout=_PATIENCE_S))
    sound = {"container": "raw", "encoding": "pcm_s16le", "sample_rate": 24_000}

    def native() -> float:
        number = next(counter)
        began_s = time.perf_counter()
        native_ws.send(json.dumps({"type": "open", "utterance": number, "source": "stream", "voice": voice}))
        native_ws.send(json.dumps({"type": "text", "utterance": number, "text": _TEXT}))
        took_ms = until(native_ws, lambda message: isinstance(message, bytes), began_s)
        native_ws.send(json.dumps({"type": "end", "utterance": number}))
        finish(native_ws, '"trace"')
        return took_ms

    def elevenlabs() -> float:
        with opened(f"/v1/text-to-speech/{voice}/stream-input?output_format=pcm_24000") as ws:
            began_s = time.perf_counter()
            ws.send(json.dumps({"text": _TEXT}))
            took_ms = until(ws, lambda message: bool(json.loads(message).get("audio")), began_s)
            ws.send(json.dumps({"text": ""}))
            finish(ws, '"isFinal": true')
        return took_ms

    def multi() -> float:
        name = f"context-{next(counter)}"
        began_s = time.perf_counter()
        multi_ws.send(json.dumps({"text": _TEXT, "context_id": name}))
        took_ms = until(multi_ws, lambda message: bool(json.loads(message).get("audio")), began_s)
        multi_ws.send(json.dumps({"context_id": name, "close_context": True}))
        finish(multi_ws, '"isFinal": true')
        return took_ms

    def cartesia() -> float:
        begin = {"voice": {"mode": "id", "id": voice}, "output_format": sound, "context_id": f"c{next(counter)}"}
        began_s = time.perf_counter()
        cartesia_ws.send(json.dumps({**begin, "transcript": _TEXT, "continue": True}))
        took_ms = until(cartesia_ws, lambda message: json.loads(message)["type"] == "chunk", began_s)
        cartesia_ws.send(json.dumps({**begin, "transcript": "", "continue": False}))
        finish(cartesia_ws, '"done": true')
        return took_ms

    def deepgram() -> float:
        began_s = time.perf_counter()
        deepgram_ws.send(json.dumps({"type": "Speak", "text": _TEXT}))
        took_ms = until(deepgram_ws, lambda message: isinstance(message, bytes), began_s)
        deepgram_ws.send(json.dumps({"type": "Flush"}))
        finish(deepgram_ws, '"Flushed"')
        return took_ms

    def kyutai() -> float:
        with opened(f"/api/tts_streaming?voice={voice}&format=PcmMessagePack") as ws:
            until(ws, lambda message: msgpack.unpackb(message)["type"] == "Ready", 0.0)
            began_s = time.perf_counter()
            ws.send(msgpack.packb({"type": "Text", "text": _TEXT}))
            took_ms = until(ws, lambda message: msgpack.unpackb(message)["type"] == "Audio", began_s)
            ws.send(msgpack.packb({"type": "Eos"}))
            for _ in ws:
                pass  # until the server closes the socket
        return took_ms

    def openai() -> float:
        body = {"model": "tts-1", "voice": voice, "input": _TEXT, "response_format": "pcm"}
        began_s = time.perf_counter()
        with http.stream("POST", "/v1/audio/speech", json=body) as answer:
            blocks = filter(None, answer.iter_raw())
            first = next(blocks, b"")
            took_ms = 1000.0 * (time.perf_counter() - began_s)
            if answer.status_code != 200 or not first:
                raise StudioError(f"the adapter of OpenAI answers {answer.status_code}: {first[:200]!r}")
            for _ in blocks:
                pass  # read it completely, so that the connection can be reused
        return took_ms

    return {
        "native": native,
        "elevenlabs": elevenlabs,
        "elevenlabs-multi": multi,
        "cartesia": cartesia,
        "deepgram": deepgram,
        "kyutai": kyutai,
        "openai": openai,
    }
