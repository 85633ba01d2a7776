"""Declarations of third-party systems: tables ``[systems.NAME]`` of a TOML file. Secrets stay in the environment."""

import os
import re
import shlex
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from studio.core import durable
from studio.core.checks import is_printable
from studio.core.errors import BadFile, BadOption
from studio.core.files import MAX_SETTINGS_BYTES, read_toml
from studio.core.locks import changing
from studio.systems.sound import HIGHEST_RATE_HZ, LOWEST_RATE_HZ
from studio.systems.text import CUTS

MAX_SYSTEMS = 64
_ENTRY = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_NAME = re.compile(r"[a-z][a-z0-9-]{0,39}")


def _check_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https", "ws", "wss") or not parts.hostname:
        raise ValueError("an address begins with http://, https://, ws:// or wss://")
    if parts.password or parts.username:
        raise ValueError("a key does not belong into an address: name its environment variable with key_env")
    if not is_printable(url) or " " in url or "#" in url:
        raise ValueError("an address has no spaces, line breaks and #")
    try:
        is_usable = parts.port != 0 and bool(parts.hostname.encode("idna"))
    except ValueError:  # also UnicodeError: an empty name between dots, or a long one
        is_usable = False
    if not is_usable:
        raise ValueError("the address has no usual host and port")
    return url.rstrip("/")


def _check_base(url: str) -> str:
    if "?" in url:
        raise ValueError("give the address up to the ?; a key belongs into a variable that key_env names")
    return url


def _check_printable(text: str) -> str:
    if not is_printable(text):  # it is shown on pages, in terminals and in logs
        raise ValueError("control characters are not allowed")
    return text


def _check_speaker(name: str) -> str:
    if set(name) & set(":?\\"):
        raise ValueError("a speaker's name has no :, ? and \\; another studio's name:speaker is name/speaker here")
    return _check_printable(name)


def _check_command(command: str) -> str:
    if not shlex.split(command):  # raises ValueError for an open quote
        raise ValueError("the command is empty")
    return command


def _check_entry(entry: str) -> str:
    parts = shlex.split(entry)
    if len(parts) != 2 or _ENTRY.fullmatch(parts[1]) is None:
        raise ValueError("give a Python and its function: /path/to/venv/bin/python module:function")
    return entry


WholeUrl = Annotated[str, Field(max_length=2000), AfterValidator(_check_url)]
Url = Annotated[WholeUrl, AfterValidator(_check_base)]  # the adapter appends a path
Printable = AfterValidator(_check_printable)
Short = Annotated[str, Field(max_length=200), Printable]
Speaker = Annotated[str, Field(max_length=80), AfterValidator(_check_speaker)]
Variable = Annotated[str, Field(pattern=r"^([A-Za-z_][A-Za-z0-9_]{0,99})?$")]
Rate = Annotated[int, Field(strict=True, ge=LOWEST_RATE_HZ, le=HIGHEST_RATE_HZ)]


class SystemSettings(BaseModel):
    """Settings of every system.

    Attributes:
        speakers: names of the system's voices that users may choose; ``voice`` is the first.
        timeout_s: a system that sends nothing for this long although sound is due has failed.
        max_concurrent: utterances at once; others wait in the queue.
        max_audio_s: longest utterance.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: Short = ""
    about: Short = ""
    licence: Short = ""
    voice: Speaker = ""
    speakers: Annotated[tuple[Annotated[Speaker, Field(min_length=1)], ...], Field(max_length=64)] = ()
    timeout_s: Annotated[float, Field(gt=0, le=600)] = 20.0
    max_concurrent: Annotated[int, Field(strict=True, ge=1, le=4096)] = 4
    max_audio_s: Annotated[float, Field(gt=0, le=36_000)] = 3600.0

    @property
    def names(self) -> tuple[str, ...]:
        """Speakers, the default first."""
        return tuple(dict.fromkeys(filter(None, (self.voice, *self.speakers)))) or ("default",)


class CutSystem(SystemSettings):
    """A system that takes whole texts: the studio cuts the stream for it."""

    sample_rate_hz: Rate | None = None  # of raw PCM; a WAV states its own
    cut: Literal[CUTS] = "clause"  # pyright: ignore[reportInvalidTypeForm]
    words: Annotated[int, Field(strict=True, ge=1, le=40)] = 4  # words per cut if ``cut`` is "words"


class CommandSystem(CutSystem):
    """A program: text on its standard input or in place of ``{text}``; WAV or PCM on its standard output."""

    kind: Literal["command"] = "command"
    command: Annotated[str, Field(max_length=4000), AfterValidator(_check_command)]


class OpenAISystem(CutSystem):
    """A server with ``POST /v1/audio/speech``."""

    kind: Literal["openai"] = "openai"
    url: Url
    model: Short = "tts-1"
    key_env: Variable = ""
    format: Literal["wav", "pcm"] = "pcm"
    stream_format: Literal["audio", "sse"] = "audio"


class LinesSystem(SystemSettings):
    """A program of the line protocol: incremental text, one utterance after the other."""

    kind: Literal["lines"] = "lines"
    command: Annotated[str, Field(max_length=4000), AfterValidator(_check_command)]


class PythonSystem(SystemSettings):
    """A function of another Python, in a separate process: ``/path/to/python module:function``."""

    kind: Literal["python"] = "python"
    python: Annotated[str, Field(max_length=4000), AfterValidator(_check_entry)]


class SocketSystem(SystemSettings):
    """A system that accepts more text while it speaks."""

    url: Url
    key_env: Variable = ""


class StudioSystem(SocketSystem):
    """Another studio; a voice is one of its ``name`` or ``name/speaker``."""

    kind: Literal["studio"] = "studio"


class ElevenLabsSystem(SocketSystem):
    """A server with ElevenLabs' ``stream-input``."""

    kind: Literal["elevenlabs"] = "elevenlabs"
    model: Short = ""


class ElevenLabsMultiSystem(SocketSystem):
    """A server with ElevenLabs' ``multi-stream-input``."""

    kind: Literal["elevenlabs-multi"] = "elevenlabs-multi"
    model: Short = ""


class CartesiaSystem(SocketSystem):
    """A server with Cartesia's ``/tts/websocket``."""

    kind: Literal["cartesia"] = "cartesia"
    model: Short = "sonic-3"


class DeepgramSystem(SocketSystem):
    """A server with Deepgram's ``/v1/speak``; a voice is one of its models."""

    kind: Literal["deepgram"] = "deepgram"


class KyutaiSystem(SocketSystem):
    """A server with Kyutai's ``/api/tts_streaming``."""

    kind: Literal["kyutai"] = "kyutai"


class RealtimeSystem(SocketSystem):
    """A socket of events like OpenAI's Realtime API; ``url`` is its whole address."""

    kind: Literal["realtime"] = "realtime"
    url: WholeUrl
    dialect: Literal["riva", "sglang", "vllm", "nari"]
    model: Short = ""
    language: Short = ""


class FolderSystem(CutSystem):
    """Sounds with their texts beside them."""

    kind: Literal["folder"] = "folder"
    folder: Annotated[str, Field(min_length=1, max_length=4000)]
    cut: Literal[CUTS] = "text"  # pyright: ignore[reportInvalidTypeForm]


System = Annotated[
    CommandSystem
    | LinesSystem
    | PythonSystem
    | OpenAISystem
    | StudioSystem
    | ElevenLabsSystem
    | ElevenLabsMultiSystem
    | CartesiaSystem
    | DeepgramSystem
    | KyutaiSystem
    | RealtimeSystem
    | FolderSystem,
    Field(discriminator="kind"),
]
KINDS: tuple[str, ...] = tuple(one.model_fields["kind"].default for one in get_args(get_args(System)[0]))
_ADAPTER: TypeAdapter[Any] = TypeAdapter(System)


def read_systems(file: Path) -> dict[str, Any]:
    """Systems of a file by name; none if it does not exist. Raises BadFile, BadOption."""
    try:
        data = read_toml(file)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise BadFile(
            f"the systems {file} cannot be read: {error}", "give a TOML file of tables [systems.NAME]"
        ) from error
    return _parse_systems(data, file)


def _parse_systems(data: Mapping[str, Any], file: Path) -> dict[str, Any]:
    tables = data.get("systems", {})
    if not isinstance(tables, dict) or len(tables) > MAX_SYSTEMS:
        raise BadOption(f"systems of {file} is no table of at most {MAX_SYSTEMS}", "write [systems.NAME] for each")
    return {name: check_system(name, table) for name, table in tables.items()}


def check_system(name: str, values: Any) -> Any:
    """The settings of a system. Raises BadOption: its name or a value is not allowed."""
    if _NAME.fullmatch(name) is None:
        raise BadOption(f"a system cannot be named {name!r:.80}", "give a-z, 0-9 and -, beginning with a letter")
    try:
        return _ADAPTER.validate_python(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"][1:] or first["loc"])
        what = f"system {name!r}: {where}" if where else f"system {name!r}"
        raise BadOption(f"{what}: {first['msg']}", "see docs/systems.md, or studio systems add --help") from error


def change_systems(file: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Read the systems of a file, change and write them, under a lock; other tables and comments of the file stay.

    Raises OSError, BadOption (too many systems), and the errors of ``read_systems`` and ``change``.
    """
    with changing(file):
        systems = read_systems(file)
        change(systems)
        _write_systems(file, systems)


def _write_systems(file: Path, systems: Mapping[str, Any]) -> None:
    import tomlkit

    document = tomlkit.parse(file.read_text(encoding="utf-8") if file.is_file() else "")
    old: Any = document.get("systems", {})
    table = tomlkit.table(is_super_table=True)
    for name, system in systems.items():
        table[name] = old[name] if name in old else system.model_dump(exclude_defaults=True) | {"kind": system.kind}
    document["systems"] = table
    text = tomlkit.dumps(document)
    if _parse_systems(tomllib.loads(text), file) != systems or len(text.encode()) > MAX_SETTINGS_BYTES:
        raise BadOption(f"{file} could not be read again with this change", f"change {file} by hand")
    durable.replace(file, text.encode())


def secret(variable: str) -> str:
    """A key from the environment; empty if no variable is named. Raises BadOption: the variable is not set."""
    if not variable:
        return ""
    if not (value := os.environ.get(variable, "").strip()):
        raise BadOption(f"the environment variable {variable} is not set", "set it to the system's key")
    return value


def without_secret(system: Any, text: str) -> str:
    """A message of a system with the key masked: systems may repeat the key that they were sent."""
    variable = getattr(system, "key_env", "")
    key = os.environ.get(variable, "").strip() if variable else ""
    return text.replace(key, "***") if key else text
