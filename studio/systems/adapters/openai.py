"""Servers with OpenAI's ``POST /v1/audio/speech``: OpenAI, Kokoro-FastAPI, vLLM-Omni, LocalAI, another studio."""

import base64
from collections.abc import AsyncIterator
from email.message import Message

from studio.core.errors import needs
from studio.core.via import via_headers
from studio.systems.adapters.sockets import json_object
from studio.systems.base import CutAdapter, is_here, refusal
from studio.systems.settings import OpenAISystem, secret
from studio.systems.sound import RATE_HZ, SystemFailed

_BLOCK_BYTES = 16_384
_ERROR_BYTES = 2_000
_PATH = "/audio/speech"


class OpenAIAdapter(CutAdapter):
    """One request for each cut, over a persistent connection."""

    def __init__(self, system: OpenAISystem) -> None:
        with needs("systems with an address need the package httpx", "app"):
            import httpx
        self._httpx, self._system = httpx, system
        self.rate_hz = system.sample_rate_hz or RATE_HZ  # OpenAI's PCM is at 24 kHz
        self._url = system.url if system.url.endswith(_PATH) else system.url + _PATH
        self._client = httpx.AsyncClient(
            timeout=httpx.Timeout(None, connect=system.timeout_s, pool=system.timeout_s),
            follow_redirects=False,
            trust_env=not is_here(system.url),  # no proxy of the environment
        )

    async def fetch(self, text: str, speaker: str) -> AsyncIterator[bytes]:
        """Blocks of the answer's body. Raises SystemFailed, BadOption."""
        key = secret(self._system.key_env)
        headers = {**via_headers(), **({"Authorization": f"Bearer {key}"} if key else {})}
        body = {
            "model": self._system.model,
            "input": text.strip(),
            "voice": speaker,
            "response_format": self._system.format,
        }
        is_sse = self._system.stream_format == "sse"
        body |= {"stream_format": "sse"} if is_sse else {}
        try:
            async with self._client.stream("POST", self._url, json=body, headers=headers) as answer:
                if answer.status_code != 200:
                    raise refusal(self._url, answer.status_code, await _beginning(answer), self._system.key_env)
                kind, rate_hz = _type_of(answer.headers.get("content-type", ""))
                if kind in ("audio/mpeg", "audio/mp3", "audio/ogg", "audio/aac", "audio/flac", "text/html"):
                    raise SystemFailed(f"{self._url} sent {kind}", "it has to send wav or pcm: see its format")
                if kind in ("audio/pcm", "audio/l16") and rate_hz.isdecimal() and rate_hz != str(self.rate_hz):
                    do = f"give --sample-rate-hz {rate_hz}"
                    raise SystemFailed(f"{self._url} sent samples at {rate_hz:.20} Hz, not {self.rate_hz}", do)
                if is_sse and kind != "text/event-stream":
                    raise SystemFailed(
                        f"{self._url} sent {kind or 'no type'}", "it sends no SSE: see its stream_format"
                    )
                async for block in _sound(answer.aiter_lines()) if is_sse else answer.aiter_bytes(_BLOCK_BYTES):
                    yield block
        except self._httpx.HTTPError as error:
            why = str(error) or type(error).__name__
            raise SystemFailed(f"{self._url} cannot be used: {why:.200}", "see whether it runs there") from error

    async def close(self) -> None:
        await self._client.aclose()


def _type_of(header: str) -> tuple[str, str]:
    """The media type of an answer, and the ``rate`` that it states."""
    message = Message()
    message["content-type"] = header
    return message.get_content_type() if header else "", str(message.get_param("rate", ""))


async def _sound(lines: AsyncIterator[str]) -> AsyncIterator[bytes]:
    """The sound of ``speech.audio.delta`` events up to ``speech.audio.done``. Raises SystemFailed."""
    async for line in lines:
        if not line.startswith("data:") or (data := line.removeprefix("data:").strip()) == "[DONE]":
            continue
        event = json_object(data)
        match event.get("type"):
            case "speech.audio.delta":
                yield base64.b64decode(event.get("audio") or "")
            case "speech.audio.done":
                return
            case _ if "error" in event:
                error = event["error"]
                what = error.get("message", "") if isinstance(error, dict) else error
                raise SystemFailed(f"the system says: {what!s:.300}", "see its log")
            case _:
                pass
    raise SystemFailed("the system's answer breaks off", "its own log may say why")


async def _beginning(answer: object) -> bytes:
    data = b""
    async for block in answer.aiter_bytes(_ERROR_BYTES):  # pyright: ignore[reportAttributeAccessIssue]
        data += block
        if len(data) >= _ERROR_BYTES:
            break
    return data
