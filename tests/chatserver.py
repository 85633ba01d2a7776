"""A small server with OpenAI's ``POST /chat/completions``, whose replies a test scripts."""

import asyncio
import contextlib
import gzip
import json
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from serve.serving import eventually
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from studio.serve.server import bind_port
from studio.serve.settings import ServeSettings

KEY, MODEL = "sk-a-secret-key-of-a-test", "parrot"


@dataclass
class Script:
    """What the next replies are.

    Attributes:
        pieces: the reply's pieces.
        every_s: time between them.
        kind: ``reply``, or a way to fail.
        raw: blocks of a body that are sent as they are, of the type ``media``.
        is_left_open: the connection stays open behind them; None that it is reset.
    """

    pieces: list[str] = field(default_factory=lambda: ["The kettle ", "is on ", "the stove."])
    every_s: float = 0.0
    kind: str = "reply"
    raw: list[bytes] = field(default_factory=list)
    media: str = "text/event-stream"
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    is_left_open: bool | None = False


class ChatServer:
    """A served endpoint.

    Attributes:
        requests: bodies that were posted.
        open: replies that are being sent.
    """

    def __init__(self) -> None:
        self.script = Script()
        self.requests: list[dict[str, Any]] = []
        self.open = 0
        bound = bind_port(ServeSettings(port=0))
        self.url = f"http://127.0.0.1:{bound.getsockname()[1]}/v1"
        app = Starlette(routes=[Route("/v1/chat/completions", self._complete, methods=["POST"])])
        config = uvicorn.Config(app, log_level="critical", lifespan="off", timeout_graceful_shutdown=1)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([bound],), daemon=True)
        self._thread.start()
        eventually(lambda: self._server.started, "the chat server")

    def stop(self) -> None:
        """Stop serving."""
        self._server.should_exit = self._server.force_exit = True
        self._thread.join(10.0)

    def said(self, at: int = -1) -> list[tuple[str, str]]:
        """Roles and texts of a request's messages, without the system prompt."""
        messages = self.requests[at]["messages"]
        return [(one["role"], one["content"]) for one in messages if one["role"] != "system"]

    async def _complete(self, request: Request) -> Response:
        script, body = self.script, await request.json()
        self.requests.append(body)
        if script.kind == "key" and request.headers.get("authorization") != f"Bearer {KEY}":
            return JSONResponse({"error": {"message": "Incorrect API key provided"}}, 401)
        if body["model"] != MODEL:
            return JSONResponse({"error": {"message": f"The model {body['model']} does not exist"}}, 404)
        if script.kind == "html":
            return HTMLResponse("<html>Welcome</html>")
        if script.kind == "busy":
            return JSONResponse({"error": {"message": f"slow down, {KEY}"}}, 429)
        if script.kind == "packed":
            packed = gzip.compress(_chunk({"content": "Hello."}).encode())
            return Response(packed, headers={"Content-Encoding": "gzip", "Content-Type": "text/event-stream"})
        if script.kind == "redirect":
            return Response(status_code=307, headers={"Location": "http://127.0.0.1:1/v1/chat/completions"})
        if script.raw:
            return StreamingResponse(
                self._send_raw(script), script.status, {"Content-Type": script.media, **script.headers}
            )
        return StreamingResponse(self._stream(script), media_type="text/event-stream")

    async def _send_raw(self, script: Script) -> AsyncIterator[bytes]:
        for block in script.raw:
            yield block
            await asyncio.sleep(script.every_s)
        if script.is_left_open is None:
            raise ConnectionResetError
        if script.is_left_open:
            await asyncio.sleep(600)

    async def _stream(self, script: Script) -> AsyncIterator[str]:
        self.open += 1
        try:
            yield ": a comment\n\n" + _chunk({"role": "assistant", "content": ""})
            if script.kind == "silent":
                await asyncio.sleep(600)
            for piece in _forever(script.pieces) if script.kind == "endless" else script.pieces:
                yield _chunk({"content": piece})
                await asyncio.sleep(script.every_s)
            match script.kind:
                case "error":
                    yield 'data: {"error": {"message": "the GPU is on fire"}}\n\n'
                case "garbage":
                    yield "data: {no json\n\n"
                case "deep":
                    yield f"data: {'[' * 100_000}\n\n"
                case "shape":
                    yield 'data: {"choices": 5}\n\ndata: [1]\n\ndata: {"choices": ["x"]}\n\n'
                    return
                case "long":
                    yield "data: "
                    for _ in range(3000):
                        yield "a" * 65_536
                case "cut":
                    return
                case "abort":
                    raise ConnectionResetError
                case "refusal":
                    yield _chunk({"refusal": "I cannot say that."})
                    yield _chunk({}, "stop")
                case "filter":
                    yield _chunk({}, "content_filter")
                case _:
                    yield _chunk({}, "stop")
            yield "data: [DONE]\n\n"
        finally:
            self.open -= 1


def _chunk(delta: dict[str, Any], finish: str | None = None) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    chunk = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": MODEL, "choices": [choice]}
    return f"data: {json.dumps(chunk)}\n\n"


def _forever(pieces: list[str]) -> Iterator[str]:
    while True:
        yield from pieces


@contextlib.contextmanager
def chat_server() -> Iterator[ChatServer]:
    """A server for the time of a test."""
    server = ChatServer()
    try:
        yield server
    finally:
        server.stop()
