"""Kyutai's ``moshi-server`` and compatible servers: words in, samples and words out, in msgpack."""

from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlencode

import numpy as np

from studio.core.errors import needs
from studio.systems.adapters.sockets import connected, socket_url, while_sending
from studio.systems.base import CharTimes, LiveAdapter, SentText
from studio.systems.settings import KyutaiSystem, secret
from studio.systems.sound import SystemFailed, float_to_pcm


class KyutaiAdapter(LiveAdapter):
    """One socket for each utterance."""

    cannot = (
        "no options",
        "no revision",
        "no flush: the last word waits for the next one",
        "a word's times arrive when the next one begins, which therefore begins where it ends",
    )

    def __init__(self, system: KyutaiSystem) -> None:
        with needs("systems of Kyutai's protocol need the package msgpack", "app"):
            import msgpack
        self._system, self._msgpack = system, msgpack

    async def converse(self, texts: AsyncIterator[str], speaker: str) -> AsyncIterator[np.ndarray | CharTimes]:
        key = secret(self._system.key_env)
        query = urlencode({"voice": "" if speaker == "default" else speaker, "format": "PcmMessagePack"})
        url = f"{socket_url(self._system.url)}/api/tts_streaming?{query}"
        headers, sent = {"kyutai-api-key": key} if key else {}, SentText()
        async with connected(url, headers, self._system.timeout_s, self._system.key_env) as socket:
            async for piece in while_sending(self._send_texts(socket, texts, sent), self._received(socket, sent)):
                yield piece

    async def _send_texts(self, socket: Any, texts: AsyncIterator[str], sent: SentText) -> None:
        async for text in texts:
            sent.add(text)
            for word in text.split():
                await socket.send(self._msgpack.packb({"type": "Text", "text": word}))
        await socket.send(self._msgpack.packb({"type": "Eos"}))

    async def _received(self, socket: Any, sent: SentText) -> AsyncIterator[np.ndarray | CharTimes]:
        async for message in socket:
            if not isinstance(message, bytes):
                raise SystemFailed("the system sent text, not msgpack", "see whether its address is right")
            answer = self._msgpack.unpackb(message)
            match answer.get("type"):
                case "Audio":
                    yield float_to_pcm(np.asarray(answer["pcm"], np.float32))
                case "Text" if (span := sent.find(answer["text"])) is not None:
                    stop_s = answer["stop_s"]
                    yield CharTimes(*span, answer["start_s"], stop_s, "action")
                    if (following := sent.next_word()) is not None:  # the server ends a word where the next begins
                        yield CharTimes(following, following, stop_s, stop_s, "action")
                case "Error":
                    raise SystemFailed(f"the system says: {answer.get('message', '')!s:.300}", "see its log")
