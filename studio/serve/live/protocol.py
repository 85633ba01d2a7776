"""The wire protocol of ``/ws/speak``; see docs/protocol.md. ``schema.py`` makes protocol.schema.json of it."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache
from typing import Annotated, Any, Literal, NotRequired, TypeVar, cast

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from typing_extensions import TypedDict

from studio.chat.conversation import MAX_MESSAGES, MAX_REPLY_CHARS
from studio.core.cards import Card
from studio.core.checks import MAX_WHOLE, number
from studio.core.errors import BadMessage, StudioError
from studio.core.events import Event
from studio.core.folders import without_folders
from studio.core.packets import PROTOCOL
from studio.core.ports import MAX_SEED, MAX_TEMPERATURE
from studio.markup import Markup
from studio.serve.settings import allowed_by
from studio.text.ssml import MAX_RATE, MIN_RATE

MAX_MESSAGE_CHARS = 256 * 1024
MAX_MESSAGE_BYTES = 4 * MAX_MESSAGE_CHARS  # a character takes at most four bytes of UTF-8
MAX_FIELDS_CHARS = 2048  # of a message without its strings: names, numbers and brackets are far slower to parse
MAX_U32 = 2**32 - 1
_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)  # faster than json.dumps
# Possessive, and an unclosed string extends to the end, so that matching takes linear time.
_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
AnyModel = TypeVar("AnyModel", bound=BaseModel)


def _replace_surrogates(value: Any) -> Any:
    """A lone surrogate could not be written to a trace."""
    return _LONE_SURROGATE.sub("\ufffd", value) if isinstance(value, str) else value


def _keep_outer_surrogates(value: Any, validate: ValidatorFunctionWrapHandler) -> Any:
    """Validate a text; a pair of surrogates may be split between two messages."""
    if not isinstance(value, str):
        return validate(value)
    first = value[0] if "\udc00" <= value[:1] <= "\udfff" else ""
    last = value[-1] if "\ud800" <= value[-1:] <= "\udbff" else ""
    return first + validate(value[len(first) : len(value) - len(last)]) + last


Name = Annotated[str, Field(max_length=64)]
Number = Annotated[int, Field(ge=-MAX_WHOLE, le=MAX_WHOLE)] | Annotated[float, Field(allow_inf_nan=False)]
U32 = Annotated[int, Field(ge=0, le=MAX_U32)]
Sample = Annotated[int, Field(ge=0, le=MAX_WHOLE)]
Text = Annotated[str, Field(max_length=MAX_MESSAGE_CHARS), BeforeValidator(_replace_surrogates)]
PartedText = Annotated[Text, WrapValidator(_keep_outer_surrogates)]
_InRange = Field(ge=0, le=MAX_TEMPERATURE)
Temperature = Annotated[int, _InRange] | Annotated[float, _InRange] | None  # null for the voice's own; 0 is greedy
Speed = Annotated[float, Field(ge=MIN_RATE, le=MAX_RATE, description=f"a number from {MIN_RATE:g} to {MAX_RATE:g}")]
# The family's options by name; the engine validates them.
Options = Annotated[
    dict[Name, bool | Number | Name],
    Field(max_length=32, description="an object of at most 32 numbers, booleans and short strings"),
]


class Message(BaseModel):
    """A client's message about one of its utterances. A field's description says what is allowed."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)
    type: str
    utterance: U32


class Open(Message):
    """Begin an utterance. ``credit_ms`` null is the server's default; the server has an upper limit.

    ``wait`` false: ``busy`` rather than a place in the queue. ``speed`` 2: twice as fast, its pitch kept.
    """

    type: Literal["open"] = "open"
    voice: Annotated[Text, Field(max_length=200)] = ""
    seed: Annotated[int, Field(ge=0, le=MAX_SEED)] = 0
    temperature: Temperature = None
    options: Options = {}
    source: Literal["keyboard", "stream"] = "stream"
    markup: Markup = "plain"
    speed: Speed = 1.0
    credit_ms: Annotated[
        float | None,
        Field(
            ge=50,
            le=1e9,
            description="a number from 50 to this server's credit_cap_ms (60,000 unless set otherwise) or null",
        ),
    ] = None
    wait: bool = True


class EditText(Message):
    """Keyboard: [at, at + remove) of the field becomes ``insert``; positions are Unicode code points."""

    type: Literal["edit"] = "edit"
    at: U32
    remove: U32 = 0
    insert: PartedText = ""


class TextIn(Message):
    """Stream: append text."""

    type: Literal["text"] = "text"
    text: PartedText


class Revise(Message):
    """Stream: the text as sent, from ``at`` on, becomes ``text``; positions are Unicode code points."""

    type: Literal["revise"] = "revise"
    at: U32
    text: Text = ""


class Flush(Message):
    """Speak every committed word now; the utterance goes on."""

    type: Literal["flush"] = "flush"


class End(Message):
    """No more text will come."""

    type: Literal["end"] = "end"


class Cancel(Message):
    """Stop; everything before ``played_sample`` was played."""

    type: Literal["cancel"] = "cancel"
    played_sample: Sample = 0


class SetOptions(Message):
    """New options from the next segment on."""

    type: Literal["options"] = "options"
    options: Options = {}
    temperature: Temperature = None


class PlayedReport(Message):
    """The player's report, about every 50 ms: ``sample`` is the first one not yet played."""

    type: Literal["played"] = "played"
    sample: Sample
    buffered_ms: Annotated[float, Field(ge=0, le=1e9)] = 0.0
    underruns: U32 = 0
    output_latency_ms: Annotated[float, Field(ge=0, le=1e6)] = 0.0


class AskedMessage(TypedDict):
    """One message of a conversation; a reply that was interrupted ends with an ellipsis."""

    role: Literal["user", "assistant"]
    content: Annotated[str, Field(min_length=1, max_length=MAX_REPLY_CHARS + 2), BeforeValidator(_replace_surrogates)]


class Ask(Message):
    """Stream: the owner's language model replies; the reply becomes the text and ends it."""

    type: Literal["ask"] = "ask"
    messages: Annotated[
        list[AskedMessage],
        Field(
            min_length=1,
            max_length=MAX_MESSAGES,
            description=f"a list of at most {MAX_MESSAGES} objects with role (user or assistant) and content (a string "
            f"of at most {MAX_REPLY_CHARS:,} characters)",
        ),
    ]


CLIENT_MESSAGES: dict[str, type[Message]] = {
    kind.model_fields["type"].default: kind for kind in Message.__subclasses__()
}


class OptionSummary(TypedDict):
    """An option of a voice."""

    name: str
    kind: Literal["int", "choice", "float"]
    default: Any
    label: str
    help: str
    low: float | None
    high: float | None
    choices: list[str]


class VoiceFigures(TypedDict, total=False):
    """Figures of a card that were measured with its weights."""

    first_sound_ms: float
    predicted_mos: float
    word_error_rate: float


class VoiceSummary(TypedDict):
    """The fields of a card that clients use. ``about`` says what the voice is good at, ``notes`` what it cannot do."""

    name: str
    title: str
    family: str
    speakers: Annotated[list[str], Field(min_length=1)]
    options: list[OptionSummary]
    temperature: float
    sample_rate_hz: Annotated[int, Field(ge=1)]
    frame_samples: Annotated[int, Field(ge=1)]
    look_ahead_words: Annotated[int, Field(ge=0)]
    about: str
    notes: str
    figures: VoiceFigures


class Hello(TypedDict):
    """The server's first message."""

    type: Literal["hello"]
    protocol: Literal[1]
    voices: list[VoiceSummary]
    chat: NotRequired[Literal[True]]  # the server has a language model for ``ask``


class ErrorMessage(TypedDict):
    """A mistake or a limit; ``message`` says what to do. Without ``utterance`` it is about the socket."""

    type: Literal["error"]
    code: str
    message: str
    utterance: NotRequired[U32]
    retry_ms: NotRequired[Annotated[int, Field(ge=0)]]


class TraceMessage(TypedDict):
    """After ``ended`` or ``failed``: where the utterance can be fetched, relative to the server's root."""

    type: Literal["trace"]
    utterance: U32
    trace_url: Annotated[str, Field(pattern=r"^traces/[A-Za-z0-9_-]{22}\.trace$")]
    wav_url: Annotated[str, Field(pattern=r"^traces/[A-Za-z0-9_-]{22}\.wav$")]


def decode(raw: str) -> dict[str, Any]:
    """The JSON object of a text message. Raises BadMessage: it is too long, or not a JSON object."""
    if len(raw) > MAX_MESSAGE_CHARS:
        raise BadMessage(f"a message of {len(raw)} characters is too long", f"send at most {MAX_MESSAGE_CHARS} at once")
    if len(raw) > MAX_FIELDS_CHARS and not _is_mostly_text(raw):
        raise BadMessage("the message has more fields than any valid one", "send each text as one string in a message")
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
    """The utterance number of a message; None if it is missing or invalid."""
    value = data.get("utterance")
    return value if type(value) is int and 0 <= value <= MAX_U32 else None


def parse(data: Mapping[str, Any]) -> Message:
    """The message of a JSON object.

    Raises BadMessage: the type is unknown, or a field is missing, unknown or not allowed.
    """
    name = data.get("type")
    kind = CLIENT_MESSAGES.get(name) if isinstance(name, str) else None
    if name is None:
        raise BadMessage("a message lacks the field 'type'", f"known are {', '.join(CLIENT_MESSAGES)}")
    if kind is None:
        raise BadMessage(f"unknown message type {str(name)[:40]!r}", f"known are {', '.join(CLIENT_MESSAGES)}")
    return validate(kind, data)


def validate(kind: type[AnyModel], data: Mapping[str, Any]) -> AnyModel:
    """A JSON object as a message of one kind. Raises BadMessage: a field is missing, unknown or not allowed."""
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
    name, known = kind.model_fields["type"].default, [one for one in kind.model_fields if one != "type"]
    if kind.model_config.get("extra") == "forbid" and (unknown := sorted(set(data) - kind.model_fields.keys())):
        raise BadMessage(f"{name!r} has no field {unknown[0][:40]!r}", f"its fields are {', '.join(known)}")
    field = str(first["loc"][0])
    if first["type"] == "missing":
        raise BadMessage(f"{name!r} lacks the field {field!r}", f"its fields are {', '.join(known)}")
    raise BadMessage(f"{field!r} of {name!r} is not allowed", f"give {allowed_by(_properties(kind)[field])}")


@cache
def _properties(kind: type[BaseModel]) -> dict[str, Any]:
    return kind.model_json_schema()["properties"]


def _encode(data: Mapping[str, Any]) -> str:
    text = _JSON.encode(data)
    return _LONE_SURROGATE.sub("\ufffd", text)  # an error may quote a lone surrogate


def card_summary(card: Card) -> VoiceSummary:
    """The fields of a card that clients use."""
    return VoiceSummary(
        name=card.name,
        title=card.title,
        family=card.family,
        speakers=list(card.speakers_default_first),
        options=[cast(OptionSummary, asdict(option) | {"choices": list(option.choices)}) for option in card.options],
        temperature=card.temperature,
        sample_rate_hz=card.sample_rate_hz,
        frame_samples=card.frame_samples,
        look_ahead_words=card.look_ahead_words,
        about=card.about,
        notes=card.notes,
        figures=cast(VoiceFigures, {key: value for key, value in card.figures.items() if _is_figure(key, value)}),
    )


def _is_figure(name: str, value: object) -> bool:
    return name in VoiceFigures.__annotations__ and number().fits(value)


def hello(cards: Sequence[Card], *, has_chat: bool = False) -> str:
    """The server's first message."""
    message = Hello(type="hello", protocol=PROTOCOL, voices=[card_summary(card) for card in cards])
    return _encode(message | {"chat": True} if has_chat else message)


def event_message(event: Event, utterance: int) -> str:
    """An event as JSON, with the client's number of the utterance."""
    return _encode(event.to_dict() | {"utterance": utterance})


def error_message(error: StudioError, utterance: int | None = None, retry_ms: int | None = None) -> str:
    """An error and what to do about it."""
    data = ErrorMessage(type="error", code=error.code, message=without_folders(str(error)))
    if utterance is not None:
        data["utterance"] = utterance
    if retry_ms is not None:
        data["retry_ms"] = retry_ms
    return _encode(data)


def trace_message(utterance: int, token: str) -> str:
    """Where the trace of an ended utterance is, relative to the server's root."""
    urls = f"traces/{token}.trace", f"traces/{token}.wav"
    return _encode(TraceMessage(type="trace", utterance=utterance, trace_url=urls[0], wav_url=urls[1]))
