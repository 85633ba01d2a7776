"""Server settings: from the ``[serve]`` table of a TOML file, then from STUDIO_SERVE_* in the environment.

A command's own flags override both (``dataclasses.replace``). No module reads settings at import.
"""

import ipaddress
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

from pydantic import BeforeValidator, Field, ModelWrapValidatorHandler, TypeAdapter, ValidationError, model_validator
from pydantic.dataclasses import dataclass

from studio.chat.endpoint import SYSTEM_PROMPT, ChatEndpoint
from studio.core.addresses import is_loopback
from studio.core.errors import BadFile, BadOption
from studio.core.files import read_toml
from studio.core.folders import DEFAULT_TRACES
from studio.core.ports import MAX_QUEUE
from studio.core.text.livetext import IDLE_FLUSH_MS

ENV_PREFIX = "STUDIO_SERVE_"
MIN_KEY_CHARS = 12
MAX_DRAIN_MS = 3_000  # of the 5 s in which a server has to stop


def _not_empty(value: Any) -> Any:
    if not value:  # an empty Path is the working directory
        raise BadOption("traces_folder is empty", "give a folder, or leave it out")
    return value


Positive = Annotated[int, Field(strict=True, ge=1)]
Port = Annotated[int, Field(strict=True, ge=0, le=65_535, description="a whole number from 0 (any free one) to 65535")]
Strings = Annotated[tuple[str, ...], Field(description="a list of strings")]
Folder = Annotated[Path, BeforeValidator(_not_empty), Field(description="a path in quotes")]


@dataclass(frozen=True)
class ServeSettings:
    """How the server is reached and what one client may take of it."""

    host: str = "127.0.0.1"  # the address to listen on; ``0.0.0.0`` or ``::`` for every one
    port: Port = 7860
    # the key that callers need, except raters with their links; empty for none. ``studio app`` generates one when
    # others can reach the host
    key: str = Field(default="", repr=False)
    # addresses or networks (``127.0.0.1``, ``10.0.0.0/8``) of trusted proxies, whose X-Forwarded-For and
    # X-Forwarded-Proto are used
    proxies: Strings = ()
    root_path: str = ""  # the prefix that a proxy strips, ``/studio`` for instance
    # host names of the server besides loopback: ``tts.example.org``, ``*.example.org``, or ``*`` for any (only behind a
    # proxy that checks them)
    allowed_hosts: Strings = ()
    allowed_origins: Strings = ()  # origins of foreign pages that may connect: ``https://example.org``, or ``*``
    # the trace store; traces hold what users typed. Where the default folder cannot be used, for instance without a
    # home folder, a new temporary folder is used
    traces_folder: Folder = DEFAULT_TRACES
    design_page: bool = False  # whether there is /design, the sheet of the pages' controls, for development
    max_traces: Positive = 200  # maximum number of stored traces; the newest are kept
    max_traces_bytes: Positive = 500_000_000  # maximum size of all stored traces
    # maximum size of one trace (an hour of speech is 180 MB); a larger one is dropped
    max_trace_bytes: Positive = 200_000_000
    max_utterances_per_socket: Positive = 8
    max_sockets: Positive = 64
    # utterances that may wait for a slot; the next one is rejected as ``busy``
    max_queue: Annotated[int, Field(strict=True, ge=0, le=MAX_QUEUE)] = 16
    queue_timeout_ms: Positive = 120_000  # maximum time in the queue
    slow_run_ms: Positive = 1_000  # a run of a voice's module that takes longer is logged and counted
    # a run that takes longer ends every utterance; ``/health`` answers 503 until it returns
    stuck_run_ms: Positive = 30_000
    idle_utterance_ms: Positive = 1_800_000  # the engine ends an utterance that is unused for so long
    idle_wanted_ms: Positive = 60_000  # the same while others wait for a slot; has to be less than ``queue_timeout_ms``
    # time limit for committed text when the server stops; at most 3000, since it has to stop in 5 s
    drain_ms: Annotated[int, Field(strict=True, ge=0, le=MAX_DRAIN_MS)] = 2_500
    # how long utterances of a replica may go on after it was told to drain; it takes no new ones meanwhile
    replica_drain_ms: Positive = 120_000
    credit_ms: Positive = 2_000  # how far a voice may run ahead of the playback position, by default
    credit_cap_ms: Positive = 60_000  # the maximum that a client may request
    idle_flush_ms: Positive = IDLE_FLUSH_MS  # a keyboard without input for so long flushes the committed words
    # an utterance without messages and audio for so long is cancelled, and its slot freed
    quiet_close_ms: Positive = 600_000
    idle_socket_ms: Positive = 300_000  # a socket without speech for so long is closed; a page reconnects
    max_text_chars: Positive = 1_000_000  # maximum text of one utterance
    messages_per_s: Positive = 400  # messages that a socket may send per second
    send_timeout_ms: Positive = 5_000  # a client is disconnected after a send was blocked for so long
    # the language model of the Live page: the address of an OpenAI-compatible server before /chat/completions, such as
    # http://127.0.0.1:11434/v1; empty for none. Its key is in the environment variable that llm_key_env names
    llm_url: str = ""
    llm_model: str = ""
    llm_key_env: str = ""
    llm_system_prompt: str = SYSTEM_PROMPT
    llm_replies_per_min: Positive = 20  # questions that one address may ask in a minute
    # what clients that send a vendor's names of voices get: "alloy=wren:clara"
    voice_aliases: tuple[str, ...] = ()
    lexicon: str = ""  # file of words with their pronunciation, as ``--lexicon``; empty for none
    log_level: Literal["critical", "error", "warning", "info"] = "warning"  # of the server; user text is never logged

    @model_validator(mode="wrap")
    @classmethod
    def _explain(cls, values: Any, handler: ModelWrapValidatorHandler["ServeSettings"]) -> "ServeSettings":
        """Raises BadOption."""
        try:
            return handler(values)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
        name = str(first["loc"][0])
        allowed = allowed_by(TypeAdapter(cls).json_schema()["properties"][name])
        raise BadOption(f"{name} cannot be {first['input']!r:.80}", f"give {allowed}")

    def __post_init__(self) -> None:
        if self.root_path and (not self.root_path.startswith("/") or self.root_path.endswith("/")):
            raise BadOption(f"root_path cannot be {self.root_path!r}", "begin it with / and end it without one")
        if self.key and len(self.key) < MIN_KEY_CHARS:
            raise BadOption(f"a key of {len(self.key)} characters is guessed", f"give at least {MIN_KEY_CHARS}")
        for alias in self.voice_aliases:
            if not all(part.strip() for part in alias.partition("=")):
                raise BadOption(f"voice_aliases cannot hold {alias!r:.80}", "give names and voices: alloy=wren:clara")
        for proxy in self.proxies:
            try:
                ipaddress.ip_network(proxy)
            except ValueError as error:
                raise BadOption(
                    f"proxies cannot hold {proxy!r:.80}", "give addresses or networks: 10.0.0.0/8"
                ) from error
        if self.credit_ms > self.credit_cap_ms:
            raise BadOption(f"credit_ms = {self.credit_ms} is above credit_cap_ms = {self.credit_cap_ms}", "lower it")

    @property
    def is_local(self) -> bool:
        """Whether this machine's users alone reach the server: on loopback, without names or proxies for others."""
        return is_loopback(self.host) and not (self.allowed_hosts or self.proxies)

    def chat_endpoint(self) -> ChatEndpoint | None:
        """The language model; None without one. Raises BadOption."""
        if not self.llm_url:
            return None
        return ChatEndpoint(self.llm_url, self.llm_model, self.llm_key_env, self.llm_system_prompt)


def load_settings(file: Path | None, environ: Mapping[str, str]) -> ServeSettings:
    """Settings of a TOML file, if given, then of the environment.

    Raises BadFile: the file is missing or not TOML; BadOption: a key is unknown, or a value is not allowed.
    """
    kinds = get_type_hints(ServeSettings)
    values: dict[str, Any] = {}
    for name, value in (_serve_table(file) if file is not None else {}).items():
        _check_name(name, kinds, f"[serve] of {file}", name)
        values[name] = value
    for variable, text in environ.items():
        if variable.startswith(ENV_PREFIX):
            name = variable.removeprefix(ENV_PREFIX).lower()
            _check_name(name, kinds, "the environment", variable)
            values[name] = _from_text(variable, text, kinds[name])
    return ServeSettings(**values)


def _serve_table(file: Path) -> Mapping[str, Any]:
    try:
        data = read_toml(file)
    except (OSError, ValueError) as error:
        raise BadFile(
            f"the settings {file} cannot be read: {error}", "give a TOML file with a [serve] table"
        ) from error
    unknown = sorted(set(data) - {"serve", "systems"})  # see studio.systems.settings
    if unknown or not isinstance(data.get("serve", {}), dict):
        raise BadOption(
            f"{file} holds {', '.join(unknown) or 'a serve that is no table'}",
            "known is the table [serve], and [systems.NAME] for each system",
        )
    return data.get("serve", {})


def _check_name(name: str, kinds: Mapping[str, Any], where: str, label: str) -> None:
    if name not in kinds:
        raise BadOption(f"{where} has no setting {label!r}", f"known are {', '.join(kinds)}")


def _from_text(variable: str, text: str, kind: Any) -> Any:
    if kind is int:
        try:
            return int(text)
        except ValueError as error:
            raise BadOption(f"{variable} cannot be {text!r}", "give a whole number") from error
    return [part.strip() for part in text.split(",") if part.strip()] if kind == tuple[str, ...] else text


def allowed_by(schema: Mapping[str, Any]) -> str:
    """What a property's JSON schema allows, in words: its description, or its type with the limits."""
    if "description" in schema:
        return schema["description"]
    if "enum" in schema:
        return f"one of {', '.join(schema['enum'])}"
    if "maxLength" in schema:
        return f"a string of at most {schema['maxLength']} characters"
    first = schema.get("anyOf", [schema])[0]
    low, high = first.get("minimum"), first.get("maximum")
    if schema.get("type") == "integer":
        return f"a whole number from {low} " + (f"to {high}" if high is not None else "on")
    if schema.get("type") == "string":
        return "a string"
    return f"a number from {low:,.0f} to {high:,.0f}{' or null' if 'anyOf' in schema else ''}"
