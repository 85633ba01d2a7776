"""Cartesia's ``/tts/websocket`` and compatible servers: incremental text, word times."""

import base64
import json
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import numpy as np

from studio.systems.adapters.sockets import SampleBytes, broke_off, connected, json_object, socket_url, while_sending
from studio.systems.base import CharTimes, LiveAdapter, SentText
from studio.systems.settings import CartesiaSystem, secret
from studio.systems.sound import RATE_HZ, SystemFailed

_VERSION = "2025-04-16"  # of Cartesia's API


class CartesiaAdapter(LiveAdapter):
    """One socket and one context for each utterance."""

    def __init__(self, system: CartesiaSystem) -> None:
        self._system = system

    async def converse(self, texts: AsyncIterator[str], speaker: str) -> AsyncIterator[np.ndarray | CharTimes]:
        key, sent = secret(self._system.key_env), SentText()
        headers = {"Cartesia-Version": _VERSION} | ({"X-API-Key": key} if key else {})
        url = f"{socket_url(self._system.url)}/tts/websocket?cartesia_version={_VERSION}"
        common = {
            "context_id": uuid4().hex,
            "model_id": self._system.model,
            "voice": {"mode": "id", "id": speaker},
            "output_format": {"container": "raw", "encoding": "pcm_s16le", "sample_rate": RATE_HZ},
            "add_timestamps": True,
        }
        async with connected(url, headers, self._system.timeout_s, self._system.key_env) as socket:
            async for piece in while_sending(_send_texts(socket, texts, sent, common), _received(socket, sent)):
                yield piece


async def _send_texts(socket: Any, texts: AsyncIterator[str], sent: SentText, common: dict[str, Any]) -> None:
    async for text in texts:
        sent.add(text)
        flush = {} if text else {"flush": True}
        await socket.send(json.dumps({**common, "transcript": text, "continue": True, **flush}))
    if sent.is_empty:
        await socket.close()  # the server never ends a context without text
    else:
        await socket.send(json.dumps({**common, "transcript": "", "continue": False}))


async def _received(socket: Any, sent: SentText) -> AsyncIterator[np.ndarray | CharTimes]:
    samples = SampleBytes()
    async for message in socket:
        answer = json_object(message)
        match answer.get("type"):
            case "chunk" if len(pcm := samples.feed(base64.b64decode(answer.get("data") or ""))):
                yield pcm
            case "timestamps":
                times = answer["word_timestamps"]
                for word, start_s, end_s in zip(times["words"], times["start"], times["end"], strict=True):
                    if (span := sent.find(word)) is not None:
                        yield CharTimes(*span, start_s, end_s, "aligner")
            case "error":
                what = answer.get("message") or answer.get("error") or answer.get("title") or ""
                raise SystemFailed(f"the system says: {what!s:.300}", "see its model, voice and key")
            case "done":
                return
            case _:
                pass
    if not sent.is_empty:
        raise broke_off()
