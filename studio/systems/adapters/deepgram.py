"""Deepgram's ``/v1/speak`` and compatible servers: incremental text, flushed after each sentence."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlencode

import numpy as np

from studio.systems.adapters.sockets import SampleBytes, broke_off, connected, json_object, socket_url, while_sending
from studio.systems.base import CharTimes, LiveAdapter
from studio.systems.settings import DeepgramSystem, secret
from studio.systems.sound import RATE_HZ, SystemFailed
from studio.systems.text import ends_sentence


class DeepgramAdapter(LiveAdapter):
    """One socket for each utterance.

    The server speaks only flushed text and accepts few flushes a minute: each sentence is flushed.
    """

    cannot = ("no options", "no revision", "no word times: they are estimates", "it may wait for the end of a sentence")

    def __init__(self, system: DeepgramSystem) -> None:
        self._system = system

    async def converse(self, texts: AsyncIterator[str], speaker: str) -> AsyncIterator[np.ndarray | CharTimes]:
        key, flushes = secret(self._system.key_env), _Flushes()
        query = {"encoding": "linear16", "sample_rate": RATE_HZ} | ({} if speaker == "default" else {"model": speaker})
        url = f"{socket_url(self._system.url)}/v1/speak?{urlencode(query)}"
        headers = {"Authorization": f"Token {key}"} if key else {}
        async with connected(url, headers, self._system.timeout_s, self._system.key_env) as socket:
            async for piece in while_sending(_send_texts(socket, texts, flushes), _received(socket, flushes)):
                yield piece


class _Flushes:
    """Counts the flushes that have not been spoken yet."""

    def __init__(self) -> None:
        self.count = 0
        self.has_ended = False
        self.all_spoken = asyncio.Event()

    def on_spoken(self) -> None:
        """The oldest flush is spoken."""
        self.count -= 1
        self.check()

    def check(self) -> None:
        """Set ``all_spoken`` if the text has ended and every flush is spoken."""
        if self.has_ended and self.count <= 0:
            self.all_spoken.set()


async def _send_texts(socket: Any, texts: AsyncIterator[str], flushes: _Flushes) -> None:
    has_text = False

    async def flush() -> None:
        flushes.count += 1
        await socket.send(json.dumps({"type": "Flush"}))

    async for text in texts:
        if text:
            await socket.send(json.dumps({"type": "Speak", "text": text}))
        has_text = bool(text) or has_text
        if has_text and (not text or ends_sentence(text)):
            await flush()
            has_text = False
    if has_text:
        await flush()
    flushes.has_ended = True
    flushes.check()
    await flushes.all_spoken.wait()
    await socket.send(json.dumps({"type": "Close"}))


async def _received(socket: Any, flushes: _Flushes) -> AsyncIterator[np.ndarray]:
    samples = SampleBytes()
    async for message in socket:
        if isinstance(message, bytes):
            if len(pcm := samples.feed(message)):
                yield pcm
            continue
        answer = json_object(message)
        match answer.get("type"):
            case "Flushed":
                flushes.on_spoken()
            case "Warning" | "Error":
                what = answer.get("description") or answer.get("message") or answer.get("err_msg") or ""
                raise SystemFailed(f"the system says: {what!s:.300}", "see its voice and its limits")
            case _:
                pass
    if not flushes.all_spoken.is_set():
        raise broke_off()
