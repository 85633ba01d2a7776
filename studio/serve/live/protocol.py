"""The wire protocol of ``/ws/speak``; see docs/protocol.md and protocol.schema.json."""

import json
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields
from typing import Any, ClassVar, Literal

import numpy as np

from studio.core.cards import Card
from studio.core.checks import MAX_WHOLE, is_number
from studio.core.errors import BadMessage, StudioError
from studio.core.events import Event
from studio.core.ports import MAX_SEED, MAX_TEMPERATURE

PROTOCOL = 1
MAX_MESSAGE_CHARS = 256 * 1024
MAX_MESSAGE_BYTES = 4 * MAX_MESSAGE_CHARS  # a character takes at most four bytes of UTF-8
MAX_FIELDS_CHARS = 2048  # of a message without its strings: names, numbers and brackets are far slower to parse
MAX_U32 = 2**32 - 1
MAX_SAMPLE = MAX_WHOLE
HEADER = struct.Struct("<BBHIIIQ")  # version, kind, flags, utterance, take, seq, first_sample
PCM_S16LE = 1
_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)  # faster than json.dumps
# Possessive, and an unclosed string extends to the end, so that matching takes linear time.
_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")

Check = Callable[[Any], str]  # what is allowed; empty for a valid value


def whole(low: int, high: int) -> Check:
    """A whole number in [low, high]."""
    return lambda value: "" if type(value) is int and low <= value <= high else f"a whole number from {low} to {high}"


def number(low: float, high: float, *, or_null: bool = False, most: str = "") -> Check:
    """A finite number in [low, high]; ``most`` describes a lower limit that a setting may impose."""

    def check(value: Any) -> str:
        if or_null and value is None:
            return ""
        fits = is_number(value) and low <= value <= high
        return "" if fits else f"a number from {_plain(low)} to {most or _plain(high)}{' or null' if or_null else ''}"

    return check


def _plain(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:g}"


def text(limit: int) -> Check:
    """A string of at most ``limit`` characters."""
    return lambda value: (
        "" if isinstance(value, str) and len(value) <= limit else f"a string of at most {limit} characters"
    )


def one_of(*names: str) -> Check:
    """One of the names."""
    return lambda value: "" if isinstance(value, str) and value in names else f"one of {', '.join(names)}"


def family_options(value: Any) -> str:
    """Options by name; the engine validates them."""
    fits = isinstance(value, dict) and len(value) <= 32 and all(_is_name(k) and _is_scalar(v) for k, v in value.items())
    return "" if fits else "an object of at most 32 numbers, booleans and short strings"


def _is_name(value: str) -> bool:
    return len(value) <= 64 and not _LONE_SURROGATE.search(value)


def _is_scalar(value: Any) -> bool:
    if isinstance(value, str):
        return _is_name(value)
    return isinstance(value, bool) or is_number(value)


def _field(check: Check, **kwargs: Any) -> Any:
    return field(metadata={"check": check}, **kwargs)


_KINDS: dict[str, type["Message"]] = {}


@dataclass(frozen=True, kw_only=True)
class Message:
    """A client's message about one of its utterances."""

    type: ClassVar[str] = ""
    utterance: int = _field(whole(0, MAX_U32))

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        _KINDS[cls.type] = cls


@dataclass(frozen=True, kw_only=True)
class Open(Message):
    """Begin an utterance. ``credit_ms`` None is the server's default; the server has an upper limit."""

    type: ClassVar[str] = "open"
    voice: str = _field(text(200), default="")
    seed: int = _field(whole(0, MAX_SEED), default=0)
    temperature: float | None = _field(number(0, MAX_TEMPERATURE, or_null=True), default=None)
    options: Mapping[str, Any] = _field(family_options, default_factory=dict)
    source: Literal["keyboard", "stream"] = _field(one_of("keyboard", "stream"), default="stream")
    credit_ms: float | None = _field(
        number(50, 1e9, or_null=True, most="this server's credit_cap_ms (60,000 unless set otherwise)"), default=None
    )


@dataclass(frozen=True, kw_only=True)
class EditText(Message):
    """Keyboard: [at, at + remove) of the field becomes ``insert``; positions are Unicode code points."""

    type: ClassVar[str] = "edit"
    at: int = _field(whole(0, MAX_U32))
    remove: int = _field(whole(0, MAX_U32), default=0)
    insert: str = _field(text(MAX_MESSAGE_CHARS), default="")


@dataclass(frozen=True, kw_only=True)
class TextIn(Message):
    """Stream: append text."""

    type: ClassVar[str] = "text"
    text: str = _field(text(MAX_MESSAGE_CHARS))


@dataclass(frozen=True, kw_only=True)
class Revise(Message):
    """Stream: the text as sent, from ``at`` on, becomes ``text``; positions are Unicode code points."""

    type: ClassVar[str] = "revise"
    at: int = _field(whole(0, MAX_U32))
    text: str = _field(text(MAX_MESSAGE_CHARS), default="")


@dataclass(frozen=True, kw_only=True)
class Flush(Message):
    """Speak every committed word now; the utterance goes on."""

    type: ClassVar[str] = "flush"


@dataclass(frozen=True, kw_only=True)
class End(Message):
    """No more text will come."""

    type: ClassVar[str] = "end"


@dataclass(frozen=True, kw_only=True)
class Cancel(Message):
    """Stop; everything before ``played_sample`` was played."""

    type: ClassVar[str] = "cancel"
    played_sample: int = _field(whole(0, MAX_SAMPLE), default=0)


@dataclass(frozen=True, kw_only=True)
class SetOptions(Message):
    """New options from the next segment on."""

    type: ClassVar[str] = "options"
    options: Mapping[str, Any] = _field(family_options, default_factory=dict)
    temperature: float | None = _field(number(0, MAX_TEMPERATURE, or_null=True), default=None)


@dataclass(frozen=True, kw_only=True)
class PlayedReport(Message):
    """The player's report: ``sample`` is the first one not yet played."""

    type: ClassVar[str] = "played"
    sample: int = _field(whole(0, MAX_SAMPLE))
    buffered_ms: float = _field(number(0, 1e9), default=0.0)
    underruns: int = _field(whole(0, MAX_U32), default=0)
    output_latency_ms: float = _field(number(0, 1e6), default=0.0)


def decode(raw: str) -> dict[str, Any]:
    """The JSON object of a text message. Raises BadMessage where it is too long or not a JSON object."""
    if len(raw) > MAX_MESSAGE_CHARS:
        raise BadMessage(f"a message of {len(raw)} characters is too long", f"send at most {MAX_MESSAGE_CHARS} at once")
    if len(raw) > MAX_FIELDS_CHARS and not _is_mostly_text(raw):
        raise BadMessage("the message has more fields than any message has", "send texts as strings, one a message")
    try:
        data = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise BadMessage("the message is not JSON", "send one JSON object per text message") from error
    if not isinstance(data, dict):
        raise BadMessage("the message is not a JSON object", 'send {"type": ..., "utterance": ..., ...}')
    return data


def _is_mostly_text(raw: str) -> bool:
    """Whether a message has few strings and little outside of them; a fast check."""
    if raw.count('"') - raw.count('\\"') > MAX_FIELDS_CHARS // 4:
        return False
    return len(_STRING.sub("", raw)) <= MAX_FIELDS_CHARS


def utterance_in(data: Mapping[str, Any]) -> int | None:
    """The utterance number of a message, None where it is missing or invalid."""
    value = data.get("utterance")
    return value if type(value) is int and 0 <= value <= MAX_U32 else None


def parse(data: Mapping[str, Any]) -> Message:
    """The message of a JSON object.

    Raises:
        BadMessage: the type is unknown, or a field is missing, unknown or not allowed.
    """
    name = data.get("type")
    kind = _KINDS.get(name) if isinstance(name, str) else None
    if name is None:
        raise BadMessage("a message lacks the field 'type'", f"known are {', '.join(_KINDS)}")
    if kind is None:
        raise BadMessage(f"no message is of type {str(name)[:40]!r}", f"known are {', '.join(_KINDS)}")
    known = {f.name: f for f in fields(kind)}
    unknown = sorted(set(data) - set(known) - {"type"})
    if unknown:
        raise BadMessage(f"{name!r} has no field {unknown[0][:40]!r}", f"its fields are {', '.join(known)}")
    values: dict[str, Any] = {}
    for key, one in known.items():
        if key not in data:
            if one.default is MISSING and one.default_factory is MISSING:
                raise BadMessage(f"{name!r} lacks the field {key!r}", f"its fields are {', '.join(known)}")
            continue
        allowed = one.metadata["check"](data[key])
        if allowed:
            raise BadMessage(f"{key!r} of {name!r} is not allowed", f"give {allowed}")
        # A lone surrogate could not be written to a trace.
        values[key] = _LONE_SURROGATE.sub("\ufffd", data[key]) if isinstance(data[key], str) else data[key]
    return kind(**values)


def _encode(data: Mapping[str, Any]) -> str:
    text = _JSON.encode(data)
    return _LONE_SURROGATE.sub("\ufffd", text)  # an error may quote them


def card_summary(card: Card) -> dict[str, Any]:
    """The fields of a card that clients use."""
    return {
        "name": card.name,
        "title": card.title,
        "family": card.family,
        "speakers": list(card.speakers_default_first),
        "options": [asdict(option) | {"choices": list(option.choices)} for option in card.options],
        "temperature": card.temperature,
        "sample_rate_hz": card.sample_rate_hz,
        "frame_samples": card.frame_samples,
        "look_ahead_words": card.look_ahead_words,
        "notes": card.notes,
    }


def hello(cards: Sequence[Card]) -> str:
    """The server's first message."""
    return _encode({"type": "hello", "protocol": PROTOCOL, "voices": [card_summary(card) for card in cards]})


def event_message(event: Event, utterance: int) -> str:
    """An event as JSON, with the client's number of the utterance."""
    return _encode(event.to_dict() | {"utterance": utterance})


def error_message(error: StudioError, utterance: int | None = None, retry_ms: int | None = None) -> str:
    """An error and what to do about it."""
    data: dict[str, Any] = {"type": "error", "code": error.code, "message": str(error)}
    if utterance is not None:
        data["utterance"] = utterance
    if retry_ms is not None:
        data["retry_ms"] = retry_ms
    return _encode(data)


def trace_message(utterance: int, token: str) -> str:
    """Where the trace of an ended utterance is, relative to the server's root."""
    urls = {"trace_url": f"traces/{token}.trace", "wav_url": f"traces/{token}.wav"}
    return _encode({"type": "trace", "utterance": utterance, **urls})


@dataclass(frozen=True)
class Packet:
    """A binary packet: PCM int16 [T] of ``utterance`` beginning at ``first_sample``."""

    utterance: int
    take: int
    seq: int
    first_sample: int
    pcm: np.ndarray


def pack_packet(packet: Packet) -> bytes:
    """A header of 24 bytes, then s16le samples."""
    header = HEADER.pack(
        PROTOCOL, PCM_S16LE, 0, packet.utterance, packet.take, packet.seq & MAX_U32, packet.first_sample
    )
    return header + packet.pcm.astype("<i2", copy=False).tobytes()


def unpack_packet(data: bytes) -> Packet:
    """Parse a packet. Raises BadMessage."""
    if len(data) < HEADER.size or (len(data) - HEADER.size) % 2:
        raise BadMessage(f"{len(data)} bytes are no packet", f"it is {HEADER.size} bytes and whole 16 bit samples")
    version, kind, flags, utterance, take, seq, first_sample = HEADER.unpack_from(data)
    if (version, kind, flags) != (PROTOCOL, PCM_S16LE, 0):
        raise BadMessage(f"a packet of version {version}, kind {kind}, flags {flags} is unknown", "known is 1, 1, 0")
    return Packet(utterance, take, seq, first_sample, np.frombuffer(data, "<i2", offset=HEADER.size).astype(np.int16))
