"""Another studio: its own socket, with that studio's word times (docs/protocol.md)."""

from collections.abc import AsyncIterator

import numpy as np

from studio.client import AsyncUtterance, Refused, ServerGone
from studio.core.events import Audio, Committed, Ended, Failed, Ready, WordEnd, WordStart
from studio.systems.adapters.sockets import connected, socket_url, while_sending
from studio.systems.base import CharTimes, LiveAdapter
from studio.systems.settings import StudioSystem, secret
from studio.systems.sound import RATE_HZ, Resampler, SystemFailed


class StudioAdapter(LiveAdapter):
    """One socket for each utterance; its credit follows the samples that were passed on here."""

    def __init__(self, system: StudioSystem) -> None:
        self._system = system
        self._url = socket_url(system.url)
        if not self._url.endswith("/ws/speak"):
            self._url += "/ws/speak"

    async def converse(self, texts: AsyncIterator[str], speaker: str) -> AsyncIterator[np.ndarray | CharTimes]:
        key = secret(self._system.key_env)
        headers = {"X-Studio-Key": key} if key else {}
        async with connected(self._url, headers, self._system.timeout_s, self._system.key_env) as socket:
            utterance = AsyncUtterance(socket)
            try:
                await utterance.open("" if speaker == "default" else speaker.replace("/", ":"), {})
                async for piece in while_sending(_send(utterance, texts), _received(utterance)):
                    yield piece
            except Refused as error:
                raise SystemFailed(f"the other studio says: {error!s:.300}", "see its log") from error
            except ServerGone as error:
                raise SystemFailed(f"{self._url}: {error.what}", "its own log may say why") from error


async def _received(utterance: AsyncUtterance) -> AsyncIterator[np.ndarray | CharTimes]:
    rate_hz, resampler = RATE_HZ, None
    spans: dict[int, tuple[int, int]] = {}
    starts: dict[int, int] = {}
    async for event in utterance:
        match event:
            case Audio():
                yield event.pcm if resampler is None else resampler.feed(event.pcm)
            case Ready():
                rate_hz = event.rate_hz
                resampler = None if rate_hz == RATE_HZ else Resampler(rate_hz)
            case Committed():
                spans[event.i] = event.char_start, event.char_end
            case WordStart():
                starts[event.i] = event.sample
            case WordEnd() if event.i in spans and event.i in starts:
                times = (starts.pop(event.i) / rate_hz, event.sample / rate_hz)
                yield CharTimes(*spans.pop(event.i), *times, event.source)
            case Ended():
                if resampler is not None:
                    yield resampler.finish()
                return
            case Failed():
                raise SystemFailed(f"the other studio says: {event.message:.300}", "see its log")
            case _:
                pass


async def _send(utterance: AsyncUtterance, texts: AsyncIterator[str]) -> None:
    async for text in texts:
        await (utterance.send(text) if text else utterance.flush())
    await utterance.end()
