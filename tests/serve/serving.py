"""A served fake engine, and a client that validates every message against the schema."""

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
from fakes import FakeEngine
from tones import Script
from websockets.sync.client import ClientConnection, connect

import studio.serve.live
from studio.core.packets import Packet, unpack_packet
from studio.serve.app import create_app
from studio.serve.server import bind_port
from studio.serve.server import build_server as make_server
from studio.serve.settings import ServeSettings

SCHEMA = json.loads((Path(studio.serve.live.__file__).parent / "protocol.schema.json").read_text(encoding="utf-8"))
PATIENCE_S = 20.0


def validator(name: str) -> jsonschema.Draft202012Validator:
    """A validator of one definition of the schema."""
    return jsonschema.Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": SCHEMA["$defs"]})


FROM_CLIENT, FROM_SERVER = validator("client_message"), validator("server_message")
SERVER_KINDS = {name: validator(name) for name in SCHEMA["$defs"] if name.startswith("server_")}


def eventually(true: Callable[[], object], what: str, patience_s: float = PATIENCE_S) -> float:
    """Wait until a condition holds; on a timeout report for how long it did not."""
    began = time.monotonic()
    while not true():
        assert time.monotonic() - began < patience_s, f"never came: {what}"
        time.sleep(0.002)
    return time.monotonic() - began


class Served:
    """Uvicorn in a thread, as ``studio app`` runs it."""

    def __init__(self, folder: Path, script: Script | None = None, **settings: Any) -> None:
        taken = bind_port(ServeSettings(port=0))
        self.port = taken.getsockname()[1]
        self.engine = FakeEngine(script or Script(speed=20.0))
        chosen = ServeSettings(port=self.port, traces_folder=folder / "traces", drain_ms=0)
        self.settings = replace(chosen, **settings)
        self.app = self.make_app()
        self._server = make_server(self.app, self.settings)
        self._thread = threading.Thread(target=self._server.run, args=([taken],), daemon=True)
        self._thread.start()
        eventually(lambda: self._server.started, "the server")

    def make_app(self) -> Any:
        """What is served."""
        return create_app(self.engine, self.settings)

    @property
    def connections(self) -> list[asyncio.Transport]:
        """Open connections."""
        return [one.transport for one in self._server.server_state.connections if one.transport is not None]

    @property
    def url(self) -> str:
        """The base URL."""
        return f"http://127.0.0.1:{self.port}"

    def talk(self, **kwargs: Any) -> "Talk":
        """A new socket."""
        return Talk(f"ws://127.0.0.1:{self.port}/ws/speak", **{"max_size": None, "proxy": None, **kwargs})

    def stop(self) -> None:
        """Stop the server; every utterance must have released its slot."""
        self._server.should_exit = True
        self._thread.join(10.0)
        assert not self._thread.is_alive()
        eventually(lambda: self.engine.free_slots() == self.engine.places, "every place")


Serving = Callable[..., Served]


class Talk:
    """A client's socket whose messages in both directions must match the schema."""

    def __init__(self, url: str, **kwargs: Any) -> None:
        self._closing = ExitStack()
        self.ws: ClientConnection = self._closing.enter_context(connect(url, **kwargs))
        self.hello = self.hear()
        assert self.hello["type"] == "hello"

    def __enter__(self) -> "Talk":
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    def say(self, kind: str, utterance: int = 1, **more: Any) -> None:
        """Send a message."""
        message = {"type": kind, "utterance": utterance, **more}
        FROM_CLIENT.validate(message)
        self.ws.send(json.dumps(message, ensure_ascii=False))

    @contextmanager
    def in_one(self) -> Iterator[None]:
        """Coalesce what is sent meanwhile into few segments.

        Linux sometimes acknowledges beyond the shrunken window of a client that reads nothing, ignores that
        itself, and then sends only what it considers lost.
        """
        self.ws.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
        yield
        self.ws.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)

    def open(self, utterance: int = 1, **more: Any) -> dict[str, Any]:
        """Open an utterance and read the reply."""
        self.say("open", utterance, **more)
        return self.until("ready", "error")[-1]

    def hear(self, timeout_s: float = PATIENCE_S, *, check: bool = True) -> Any:
        """The next message, a dict or a Packet; validating thousands of messages takes seconds."""
        data = self.ws.recv(timeout=timeout_s)
        if isinstance(data, bytes):
            return unpack_packet(data)
        message = json.loads(data)
        if check:
            SERVER_KINDS[f"server_{message['type']}"].validate(message)  # oneOf would try all of them
        return message

    def until(self, *kinds: str, utterance: int | None = None) -> list[Any]:
        """Everything up to the first message of one of the kinds."""
        out: list[Any] = []
        while True:
            out.append(self.hear())
            last = out[-1]
            if isinstance(last, dict) and last["type"] in kinds and utterance in (None, last.get("utterance")):
                return out

    def quiet(self, for_s: float) -> list[Any]:
        """What arrives until nothing has for so long."""
        out: list[Any] = []
        while True:
            try:
                out.append(self.hear(for_s))
            except TimeoutError:
                return out


def kinds(messages: Iterable[Any], utterance: int | None = None) -> list[str]:
    """Types of the text messages, in order."""
    texts = (one for one in messages if isinstance(one, dict))
    return [one["type"] for one in texts if utterance in (None, one.get("utterance"))]


def of(messages: Iterable[Any], kind: str, utterance: int | None = None) -> list[dict[str, Any]]:
    """Text messages of a type."""
    texts = (one for one in messages if isinstance(one, dict) and one["type"] == kind)
    return [one for one in texts if utterance in (None, one.get("utterance"))]


def pcm(messages: Iterable[Any], utterance: int = 1) -> np.ndarray:
    """The utterance's samples; packets must be contiguous."""
    packets = [one for one in messages if isinstance(one, Packet) and one.utterance == utterance]
    assert [one.seq for one in packets] == list(range(len(packets)))
    at = 0
    for one in packets:
        assert (one.take, one.first_sample) == (0, at)
        at += len(one.pcm)
    return np.concatenate([one.pcm for one in packets]) if packets else np.zeros(0, np.int16)
