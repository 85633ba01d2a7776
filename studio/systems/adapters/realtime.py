"""Event sockets like OpenAI's Realtime API that take text: NVIDIA's, SGLang-Omni's, vLLM-Omni's and Nari's.

They differ only in the names of their messages; a ``Dialect`` holds those of one server.
"""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from studio.systems.adapters.sockets import SocketAdapter, broke_off, json_object
from studio.systems.settings import RealtimeSystem
from studio.systems.sound import RATE_HZ, SampleBytes, SystemFailed

Message = dict[str, Any]
_TURN = {"turn_id": "1"}


@dataclass(frozen=True)
class Dialect:
    """Names of messages. Audio is a binary message, or base64 in the field ``audio`` of one.

    Attributes:
        greeting: the server's first message; empty if it waits for the client.
        opening: makes the messages before the first text, each with the type of its awaited answer, "" for none.
        text: makes the messages for a text and its number.
        end: makes the messages that end the text, from the number after the last text.
        last: type of the server's message after the last sound.
        acknowledgement: type of the answer to each text, awaited before the next one.
        subprotocol: WebSocket subprotocol that the server requires.
    """

    opening: Callable[[RealtimeSystem, str], list[tuple[Message, str]]]
    text: Callable[[str, int], list[Message]]
    end: Callable[[int], list[Message]]
    last: str
    greeting: str = ""
    flush: tuple[Message, ...] = ()
    has_audio_field: bool = False
    acknowledgement: str = ""
    subprotocol: str = ""


def _riva(system: RealtimeSystem, speaker: str) -> list[tuple[Message, str]]:
    voice = {} if speaker == "default" else {"voice_name": speaker}
    sound = {"sample_rate_hz": RATE_HZ, "num_channels": 1, "audio_format": "LINEAR_PCM"}
    language = {"language_code": system.language or "en-US"}
    session = {"input_text_synthesis": {**language, **voice}, "output_audio_params": sound}
    return [({"type": "synthesize_session.update", "session": session}, "synthesize_session.updated")]


def _sglang(system: RealtimeSystem, speaker: str) -> list[tuple[Message, str]]:
    session = {"model": system.model, "voice": speaker, "response_format": "pcm", "sample_rate": RATE_HZ}
    return [
        ({"type": "session.config", "session": session}, "session.configured"),
        ({"type": "turn.start", **_TURN}, "turn.started"),
    ]


def _vllm(system: RealtimeSystem, speaker: str) -> list[tuple[Message, str]]:
    voice = {} if speaker == "default" else {"voice": speaker}
    model = {"model": system.model} if system.model else {}
    return [({"type": "session.config", "response_format": "pcm", "stream_audio": True, **model, **voice}, "")]


def _nari(system: RealtimeSystem, speaker: str) -> list[tuple[Message, str]]:
    fields = {"model": system.model, "voice": "" if speaker == "default" else speaker, "language": system.language}
    non_empty = {name: value for name, value in fields.items() if value}  # the server has defaults, rejects ""
    return [({"type": "request.start", **non_empty}, "request.configured")]


_COMMIT: Message = {"type": "input_text.commit"}
DIALECTS = {
    "riva": Dialect(
        greeting="conversation.created",
        opening=_riva,
        text=lambda text, _: [{"type": "input_text.append", "text": text}],
        flush=(_COMMIT,),
        end=lambda _: [_COMMIT, {"type": "input_text.done"}],
        has_audio_field=True,
        last="conversation.item.speech.completed",
    ),
    "sglang": Dialect(
        opening=_sglang,
        text=lambda text, number: [{"type": "input.text", **_TURN, "seq_no": number, "text": text}],
        acknowledgement="input.ack",
        end=lambda number: [{"type": "input.done", **_TURN, "seq_no": number}],
        last="turn.done",
    ),
    "vllm": Dialect(
        opening=_vllm,
        text=lambda text, _: [{"type": "input.text", "text": text}],
        end=lambda _: [{"type": "input.done"}],
        last="session.done",
    ),
    "nari": Dialect(
        subprotocol="nari.speech.v1",
        greeting="session.created",
        opening=_nari,
        text=lambda text, number: [{"type": "input_text.append", "sequence": number, "text": text}],
        end=lambda number: [{"type": "input_text.end", "sequence": number}],
        last="response.done",
    ),
}


class RealtimeAdapter(SocketAdapter):
    """A system with one of the dialects."""

    def __init__(self, system: RealtimeSystem) -> None:
        super().__init__(system)
        self._dialect = DIALECTS[system.dialect]
        self.subprotocol = self._dialect.subprotocol
        cannot = ["no options", "no revision", "no word times: they are estimates"]
        self.cannot = tuple(cannot if self._dialect.flush else [*cannot, "no flush"])

    def address(self, key: str, speaker: str) -> tuple[str, dict[str, str]]:
        return "", {"Authorization": f"Bearer {key}"} if key else {}

    def talk(self, socket: Any, texts: AsyncIterator[str], speaker: str) -> tuple[Any, AsyncIterator[np.ndarray]]:
        session = _Session(socket, self._dialect, self._dialect.greeting)
        return session.send(self._dialect.opening(self._system, speaker), texts), session.received()


@dataclass
class _Session:
    """One utterance: sends its text, receives its sound."""

    socket: Any
    dialect: Dialect
    awaited: str
    answered: asyncio.Event = field(default_factory=asyncio.Event)
    has_ended: bool = False
    is_empty: bool = True
    samples: SampleBytes = field(default_factory=SampleBytes)

    async def send(self, opening: list[tuple[Message, str]], texts: AsyncIterator[str]) -> None:
        await self._wait(self.dialect.greeting)
        for message, answer in opening:
            await self._send(message, answer)
        number = 0
        async for text in texts:
            for message in self.dialect.text(text, number) if text else self.dialect.flush:
                await self._send(message, self.dialect.acknowledgement)
            number += bool(text)
        self.has_ended, self.is_empty = True, not number
        if self.is_empty:
            await self.socket.close()  # the server never ends a session without text
            return
        for message in self.dialect.end(number):
            await self._send(message)

    async def _send(self, message: Message, answer: str = "") -> None:
        self.awaited = answer
        self.answered.clear()
        await self.socket.send(json.dumps(message))
        await self._wait(answer)

    async def _wait(self, answer: str) -> None:
        """Wait for a message of this type; do not wait if it is empty."""
        self.awaited = answer
        if answer:
            await self.answered.wait()
            self.answered.clear()

    async def received(self) -> AsyncIterator[np.ndarray]:
        async for message in self.socket:
            if isinstance(message, bytes):
                data = message
            else:
                answer = json_object(message)
                data = self._on_answer(answer)
                if answer.get("type") == self.dialect.last and self.has_ended and answer.get("is_last_result", True):
                    yield self.samples.finish()
                    return
            if len(pcm := self.samples.feed(data)):
                yield pcm
        if not (self.has_ended and self.is_empty):
            raise broke_off()

    def _on_answer(self, answer: Message) -> bytes:
        """The sound of a message, possibly empty. Raises SystemFailed."""
        kind = str(answer.get("type", ""))
        if kind == "error" or kind.endswith(".error"):
            error = answer.get("error")
            what = error.get("message", "") if isinstance(error, dict) else answer.get("message") or error or ""
            raise SystemFailed(f"the system says: {what!s:.300}", "see its model, voice and dialect")
        sound = answer.get("audio")
        rate_hz = (sound if isinstance(sound, dict) else answer).get("sample_rate")
        if isinstance(rate_hz, int) and rate_hz:
            self.samples.set_rate(rate_hz)
        if kind and kind == self.awaited:
            self.answered.set()
        return base64.b64decode(sound) if self.dialect.has_audio_field and isinstance(sound, str) else b""
