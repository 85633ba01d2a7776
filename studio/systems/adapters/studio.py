"""Another studio: its own socket, with words as they are spoken there (docs/protocol.md)."""

import json
from collections.abc import AsyncIterator
from typing import Any

import numpy as np

from studio.systems.adapters.sockets import connected, socket_url, while_sending
from studio.systems.base import CharTimes, LiveAdapter
from studio.systems.settings import StudioSystem, secret
from studio.systems.sound import RATE_HZ, Resampler, SystemFailed

_HEADER_BYTES = 24
_NUMBER = 1  # of the utterance on its socket
_REPORT_S = 0.05


class StudioAdapter(LiveAdapter):
    """One socket for each utterance; the credit there follows what was passed on here."""

    def __init__(self, system: StudioSystem) -> None:
        self._system = system
        self._url = socket_url(system.url)
        if not self._url.endswith("/ws/speak"):
            self._url += "/ws/speak"

    async def converse(self, texts: AsyncIterator[str], speaker: str) -> AsyncIterator[np.ndarray | CharTimes]:
        key = secret(self._system.key_env)
        headers = {"X-Studio-Key": key} if key else {}
        async with connected(self._url, headers, self._system.timeout_s, self._system.key_env) as socket:
            voice = "" if speaker == "default" else speaker.replace("/", ":")
            await _send(socket, "open", voice=voice, source="stream")
            async for piece in while_sending(_send_texts(socket, texts), self._received(socket)):
                yield piece

    async def _received(self, socket: Any) -> AsyncIterator[np.ndarray | CharTimes]:
        rate_hz, resampler, samples, reported = RATE_HZ, None, 0, 0
        spans: dict[int, tuple[int, int]] = {}
        starts: dict[int, int] = {}
        async for message in socket:
            if isinstance(message, bytes):
                pcm = np.frombuffer(message, "<i2", offset=_HEADER_BYTES).astype(np.int16)
                samples += len(pcm)
                yield pcm if resampler is None else resampler.feed(pcm)
                if samples - reported >= _REPORT_S * rate_hz:
                    reported = samples
                    await _send(socket, "played", sample=samples)
                continue
            event = json.loads(message)
            match event["type"]:
                case "ready":
                    rate_hz = event["rate_hz"]
                    resampler = None if rate_hz == RATE_HZ else Resampler(rate_hz)
                case "committed":
                    spans[event["i"]] = event["char_start"], event["char_end"]
                case "word_start":
                    starts[event["i"]] = event["sample"]
                case "word_end" if event["i"] in spans and event["i"] in starts:
                    i = event["i"]
                    times = (starts.pop(i) / rate_hz, event["sample"] / rate_hz)
                    yield CharTimes(*spans.pop(i), *times, event["source"])
                case "ended":
                    if resampler is not None:
                        yield resampler.finish()
                    return
                case "failed" | "error":
                    raise SystemFailed(f"the other studio says: {event['message']:.300}", "see its log")


async def _send(socket: Any, kind: str, **fields: Any) -> None:
    await socket.send(json.dumps({"type": kind, "utterance": _NUMBER, **fields}))


async def _send_texts(socket: Any, texts: AsyncIterator[str]) -> None:
    async for text in texts:
        await (_send(socket, "text", text=text) if text else _send(socket, "flush"))
    await _send(socket, "end")
