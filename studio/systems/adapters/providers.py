"""Sockets of Cartesia, ElevenLabs, Deepgram and Kyutai, and of compatible servers, which take incremental text."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote, urlencode
from uuid import uuid4

import numpy as np

from studio.core.errors import needs
from studio.systems.adapters.sockets import SocketAdapter, broke_off, json_object
from studio.systems.base import CharTimes, SentText
from studio.systems.settings import ElevenLabsMultiSystem, ElevenLabsSystem, KyutaiSystem
from studio.systems.sound import RATE_HZ, SampleBytes, SystemFailed, float_to_pcm
from studio.systems.text import ends_sentence

Pieces = AsyncIterator[np.ndarray | CharTimes]
_CARTESIA_VERSION = "2025-04-16"  # of its API


class CartesiaAdapter(SocketAdapter):
    """Cartesia's ``/tts/websocket``: one context for each utterance, word times."""

    def address(self, key: str, speaker: str) -> tuple[str, dict[str, str]]:
        headers = {"Cartesia-Version": _CARTESIA_VERSION} | ({"X-API-Key": key} if key else {})
        return f"/tts/websocket?cartesia_version={_CARTESIA_VERSION}", headers

    def talk(self, socket: Any, texts: AsyncIterator[str], speaker: str) -> tuple[Any, Pieces]:
        common = {
            "context_id": uuid4().hex,
            "model_id": self._system.model,
            "voice": {"mode": "id", "id": speaker},
            "output_format": {"container": "raw", "encoding": "pcm_s16le", "sample_rate": RATE_HZ},
            "add_timestamps": True,
        }
        sent = SentText()
        return self._send(socket, texts, sent, common), self._received(socket, sent)

    async def _send(self, socket: Any, texts: AsyncIterator[str], sent: SentText, common: dict[str, Any]) -> None:
        async for text in texts:
            sent.add(text)
            flush = {} if text else {"flush": True}
            await socket.send(json.dumps({**common, "transcript": text, "continue": True, **flush}))
        if sent.is_empty:
            await socket.close()  # the server never ends a context without text
        else:
            await socket.send(json.dumps({**common, "transcript": "", "continue": False}))

    async def _received(self, socket: Any, sent: SentText) -> AsyncIterator[np.ndarray | CharTimes]:
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


class ElevenLabsAdapter(SocketAdapter):
    """ElevenLabs' two sockets: character times."""

    def __init__(self, system: ElevenLabsSystem | ElevenLabsMultiSystem) -> None:
        super().__init__(system)
        self._has_contexts = isinstance(system, ElevenLabsMultiSystem)

    def address(self, key: str, speaker: str) -> tuple[str, dict[str, str]]:
        query = {"output_format": "pcm_24000", "sync_alignment": "true"}
        query |= {"model_id": self._system.model} if self._system.model else {}
        name = "multi-stream-input" if self._has_contexts else "stream-input"
        path = f"/v1/text-to-speech/{quote(speaker, safe=':')}/{name}?{urlencode(query)}"
        return path, {"xi-api-key": key} if key else {}

    def talk(self, socket: Any, texts: AsyncIterator[str], speaker: str) -> tuple[Any, Pieces]:
        sent, send = SentText(), self._send_context if self._has_contexts else self._send
        return send(socket, texts, sent), self._received(socket, sent)

    async def _send(self, socket: Any, texts: AsyncIterator[str], sent: SentText) -> None:
        await socket.send(json.dumps({"text": " "}))
        async for text in texts:
            sent.add(text)
            more = {"text": text, "try_trigger_generation": True} if text else {"text": " ", "flush": True}
            await socket.send(json.dumps(more))
        await socket.send(json.dumps({"text": ""}))

    async def _send_context(self, socket: Any, texts: AsyncIterator[str], sent: SentText) -> None:
        """As ``_send``, in the socket's only context; there an empty text would keep the context open."""
        name = {"context_id": uuid4().hex}
        await socket.send(json.dumps({"text": " ", **name}))
        async for text in texts:
            sent.add(text)
            await socket.send(json.dumps({"text": text, **name} if text else {"flush": True, **name}))
        await socket.send(json.dumps({"flush": True, **name}))  # closing drops text that is not flushed
        await socket.send(json.dumps({"close_context": True, **name}))

    async def _received(self, socket: Any, sent: SentText) -> AsyncIterator[np.ndarray | CharTimes]:
        samples = SampleBytes()
        async for message in socket:
            answer = json_object(message)
            if "error" in answer or ("message" in answer and "audio" not in answer):
                raise SystemFailed(f"the system says: {answer.get('message') or answer['error']!s:.300}", "see its key")
            if len(pcm := samples.feed(base64.b64decode(answer.get("audio") or ""))):
                yield pcm
            if alignment := answer.get("alignment"):
                name = "charDurationsMs" if "charDurationsMs" in alignment else "charsDurationsMs"  # both exist
                columns = alignment["chars"], alignment["charStartTimesMs"], alignment[name]
                for char, start_ms, length_ms in zip(*columns, strict=True):
                    if (span := sent.find(char)) is not None:
                        yield CharTimes(*span, start_ms / 1000.0, (start_ms + length_ms) / 1000.0, "aligner")
            if answer.get("isFinal") or answer.get("is_final"):
                return
        raise broke_off()


class DeepgramAdapter(SocketAdapter):
    """Deepgram's ``/v1/speak``.

    The server speaks only flushed text and accepts few flushes a minute: each sentence is flushed.
    """

    cannot = ("no options", "no revision", "no word times: they are estimates", "it may wait for the end of a sentence")

    def address(self, key: str, speaker: str) -> tuple[str, dict[str, str]]:
        query = {"encoding": "linear16", "sample_rate": RATE_HZ} | ({} if speaker == "default" else {"model": speaker})
        return f"/v1/speak?{urlencode(query)}", {"Authorization": f"Token {key}"} if key else {}

    def talk(self, socket: Any, texts: AsyncIterator[str], speaker: str) -> tuple[Any, Pieces]:
        flushes = _Flushes()
        return self._send(socket, texts, flushes), self._received(socket, flushes)

    async def _send(self, socket: Any, texts: AsyncIterator[str], flushes: "_Flushes") -> None:
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

    async def _received(self, socket: Any, flushes: "_Flushes") -> AsyncIterator[np.ndarray]:
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


class KyutaiAdapter(SocketAdapter):
    """Kyutai's ``moshi-server``: words in, samples and words out, in msgpack."""

    cannot = (
        "no options",
        "no revision",
        "no flush: the last word waits for the next one",
        "a word's times arrive when the next one begins, which therefore begins where it ends",
    )

    def __init__(self, system: KyutaiSystem) -> None:
        with needs("systems of Kyutai's protocol need the package msgpack", "app"):
            import msgpack
        super().__init__(system)
        self._msgpack = msgpack

    def address(self, key: str, speaker: str) -> tuple[str, dict[str, str]]:
        query = urlencode({"voice": "" if speaker == "default" else speaker, "format": "PcmMessagePack"})
        return f"/api/tts_streaming?{query}", {"kyutai-api-key": key} if key else {}

    def talk(self, socket: Any, texts: AsyncIterator[str], speaker: str) -> tuple[Any, Pieces]:
        sent = SentText()
        return self._send(socket, texts, sent), self._received(socket, sent)

    async def _send(self, socket: Any, texts: AsyncIterator[str], sent: SentText) -> None:
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
