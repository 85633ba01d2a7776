"""Hostile messages on the sockets of the adapters for other clients, several of which are of the protocol."""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgpack
from durability.harness.fuzz_targets import LAST_WORDS_S, MESSAGES, Outcome, hostile_socket, tried
from durability.harness.hostile import changed, noise, raw_json
from durability.harness.target import Target
from hypothesis import strategies as st

_TEXT = "one two three "
_ELEVENLABS: Sequence[Mapping[str, Any]] = (
    {"text": " ", "voice_settings": {"speed": 1.0}, "generation_config": {"chunk_length_schedule": [50]}},
    {"text": _TEXT, "try_trigger_generation": True},
    {"text": _TEXT, "flush": True},
    {"text": ""},
)  # fmt: skip
_CARTESIA = {
    "model_id": "", "transcript": _TEXT, "voice": {"mode": "id", "id": ""}, "language": "en", "context_id": "a",
    "continue": True, "add_timestamps": True, "flush": False,
    "output_format": {"container": "raw", "encoding": "pcm_s16le", "sample_rate": 24000},
}  # fmt: skip
SOCKETS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "/v1/text-to-speech/default/stream-input": _ELEVENLABS,
    "/v1/text-to-speech/default/stream-input?output_format=pcm_16000&sync_alignment=true": _ELEVENLABS,
    "/v1/text-to-speech/default/multi-stream-input": (
        *({"context_id": "a"} | dict(one) for one in _ELEVENLABS[:3]),
        {"context_id": "a", "flush": True},
        {"context_id": "b", "text": _TEXT},
        {"context_id": "a", "close_context": True},
        {"close_socket": True},
    ),
    "/tts/websocket?cartesia_version=2025-04-16": (
        _CARTESIA,
        _CARTESIA | {"continue": False, "context_id": "b"},
        {"context_id": "a", "cancel": True},
    ),
    "/v1/speak?encoding=linear16&sample_rate=24000": (
        {"type": "Speak", "text": _TEXT},
        {"type": "Flush"},
        {"type": "Clear"},
        {"type": "Close"},
    ),
    "/api/tts_streaming?format=PcmMessagePack": ({"type": "Text", "text": _TEXT}, {"type": "Eos"}),
}


def adapter_sockets(target: Target, count: int, number: int) -> Outcome:
    """Mutated messages of every adapter's socket; the first message of each is of its protocol."""
    out = Outcome("sockets of adapters")
    for n, (path, right) in enumerate(SOCKETS.items()):
        pack = _packed if path.startswith("/api") else raw_json
        nearly = st.one_of(*(changed(dict(one)) for one in right)).map(pack)
        message = st.one_of(nearly, nearly, st.sampled_from(right).map(pack), noise(), st.binary(max_size=40))
        lists = st.lists(message, min_size=MESSAGES, max_size=MESSAGES)
        tried(max(1, count // len(SOCKETS) // MESSAGES), number + n, lists, _talk(target, path, pack(right[0]), out))
    return out


def _packed(message: Any) -> bytes | str:
    with suppress(TypeError, ValueError, OverflowError):  # what msgpack cannot hold is sent as JSON
        packed = msgpack.packb(message)
        return packed if isinstance(packed, bytes) else b""
    return raw_json(message)


def _talk(target: Target, path: str, first: bytes | str, out: Outcome) -> Callable[[Sequence[Any]], None]:
    def talk(messages: Sequence[Any]) -> None:
        with hostile_socket(target.port, path, out) as ws:
            for one in [first, *messages]:
                ws.send(one.encode("utf-8", "replace").decode() if isinstance(one, str) else one)
                out.sent += 1
            with suppress(TimeoutError):
                while True:
                    said = ws.recv(timeout=LAST_WORDS_S)
                    fields = json.loads(said) if isinstance(said, str) else {}
                    out.answers[str(fields.get("type", "audio" if "audio" in fields else "other"))] += 1

    return talk
