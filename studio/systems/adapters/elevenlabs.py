"""ElevenLabs' ``stream-input`` and servers like it: text while it speaks, times of characters."""

import base64
import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote, urlencode

import numpy as np

from studio.systems.adapters.sockets import connected, socket_url, while_sending
from studio.systems.base import CharTimes, LiveAdapter, SentText
from studio.systems.settings import ElevenLabsSystem, secret
from studio.systems.sound import SystemFailed


class ElevenLabsAdapter(LiveAdapter):
    """One socket for each utterance."""

    def __init__(self, system: ElevenLabsSystem) -> None:
        self._system = system

    async def converse(self, texts: AsyncIterator[str], speaker: str) -> AsyncIterator[np.ndarray | CharTimes]:
        key = secret(self._system.key_env)
        query = {"output_format": "pcm_24000", "sync_alignment": "true"}
        query |= {"model_id": self._system.model} if self._system.model else {}
        path = f"/v1/text-to-speech/{quote(speaker, safe=':')}/stream-input?{urlencode(query)}"
        url, headers = socket_url(self._system.url) + path, {"xi-api-key": key} if key else {}
        sent = SentText()
        async with connected(url, headers, self._system.timeout_s, self._system.key_env) as socket:
            async for piece in while_sending(_send_texts(socket, texts, sent), _received(socket, sent)):
                yield piece


async def _send_texts(socket: Any, texts: AsyncIterator[str], sent: SentText) -> None:
    await socket.send(json.dumps({"text": " "}))
    async for text in texts:
        sent.add(text)
        more = {"text": text, "try_trigger_generation": True} if text else {"text": " ", "flush": True}
        await socket.send(json.dumps(more))
    await socket.send(json.dumps({"text": ""}))


async def _received(socket: Any, sent: SentText) -> AsyncIterator[np.ndarray | CharTimes]:
    rest = b""
    async for message in socket:
        answer = json.loads(message)
        if "error" in answer or ("message" in answer and "audio" not in answer):
            raise SystemFailed(f"the system says: {answer.get('message') or answer['error']!s:.300}", "see its key")
        data = rest + base64.b64decode(answer.get("audio") or "")
        whole = len(data) - len(data) % 2
        rest = data[whole:]
        if whole:
            yield np.frombuffer(data[:whole], "<i2").astype(np.int16)
        if alignment := answer.get("alignment"):
            columns = alignment["chars"], alignment["charStartTimesMs"], alignment["charDurationsMs"]
            for char, start_ms, length_ms in zip(*columns, strict=True):
                if (span := sent.find(char)) is not None:
                    yield CharTimes(*span, start_ms / 1000.0, (start_ms + length_ms) / 1000.0, "aligner")
        if answer.get("isFinal"):
            return
