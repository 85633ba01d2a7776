"""ElevenLabs' two sockets and compatible servers: incremental text, character times."""

import base64
import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote, urlencode
from uuid import uuid4

import numpy as np

from studio.systems.adapters.sockets import SampleBytes, broke_off, connected, json_object, socket_url, while_sending
from studio.systems.base import CharTimes, LiveAdapter, SentText
from studio.systems.settings import ElevenLabsMultiSystem, ElevenLabsSystem, secret
from studio.systems.sound import SystemFailed


class ElevenLabsAdapter(LiveAdapter):
    """One socket for each utterance."""

    def __init__(self, system: ElevenLabsSystem | ElevenLabsMultiSystem) -> None:
        self._system = system
        self._has_contexts = isinstance(system, ElevenLabsMultiSystem)

    async def converse(self, texts: AsyncIterator[str], speaker: str) -> AsyncIterator[np.ndarray | CharTimes]:
        key = secret(self._system.key_env)
        query = {"output_format": "pcm_24000", "sync_alignment": "true"}
        query |= {"model_id": self._system.model} if self._system.model else {}
        name = "multi-stream-input" if self._has_contexts else "stream-input"
        path = f"/v1/text-to-speech/{quote(speaker, safe=':')}/{name}?{urlencode(query)}"
        url, headers = socket_url(self._system.url) + path, {"xi-api-key": key} if key else {}
        sent = SentText()
        sending = _send_context if self._has_contexts else _send_texts
        async with connected(url, headers, self._system.timeout_s, self._system.key_env) as socket:
            async for piece in while_sending(sending(socket, texts, sent), _received(socket, sent)):
                yield piece


async def _send_texts(socket: Any, texts: AsyncIterator[str], sent: SentText) -> None:
    await socket.send(json.dumps({"text": " "}))
    async for text in texts:
        sent.add(text)
        more = {"text": text, "try_trigger_generation": True} if text else {"text": " ", "flush": True}
        await socket.send(json.dumps(more))
    await socket.send(json.dumps({"text": ""}))


async def _send_context(socket: Any, texts: AsyncIterator[str], sent: SentText) -> None:
    """As ``_send_texts``, in the socket's only context; there an empty text would keep the context open."""
    name = {"context_id": uuid4().hex}
    await socket.send(json.dumps({"text": " ", **name}))
    async for text in texts:
        sent.add(text)
        await socket.send(json.dumps({"text": text, **name} if text else {"flush": True, **name}))
    await socket.send(json.dumps({"flush": True, **name}))  # closing drops text that is not flushed
    await socket.send(json.dumps({"close_context": True, **name}))


async def _received(socket: Any, sent: SentText) -> AsyncIterator[np.ndarray | CharTimes]:
    samples = SampleBytes()
    async for message in socket:
        answer = json_object(message)
        if "error" in answer or ("message" in answer and "audio" not in answer):
            raise SystemFailed(f"the system says: {answer.get('message') or answer['error']!s:.300}", "see its key")
        if len(pcm := samples.feed(base64.b64decode(answer.get("audio") or ""))):
            yield pcm
        if alignment := answer.get("alignment"):
            name = "charDurationsMs" if "charDurationsMs" in alignment else "charsDurationsMs"  # both are documented
            columns = alignment["chars"], alignment["charStartTimesMs"], alignment[name]
            for char, start_ms, length_ms in zip(*columns, strict=True):
                if (span := sent.find(char)) is not None:
                    yield CharTimes(*span, start_ms / 1000.0, (start_ms + length_ms) / 1000.0, "aligner")
        if answer.get("isFinal") or answer.get("is_final"):
            return
    raise broke_off()
