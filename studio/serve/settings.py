"""Server settings: from the ``[serve]`` table of a TOML file, then from STUDIO_SERVE_* in the environment.

A command's own flags override both (``dataclasses.replace``). No module reads settings at import.
"""

import ipaddress
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, get_type_hints

from studio.core.errors import BadFile, BadOption
from studio.core.files import MAX_SETTINGS_BYTES, read_bounded
from studio.core.folders import DEFAULT_TRACES

ENV_PREFIX = "STUDIO_SERVE_"
MIN_KEY_CHARS = 12
MAX_DRAIN_MS = 3_000  # of the 5 s in which a server has to stop
_MAY_BE_0 = ("port", "max_queue", "drain_ms")


@dataclass(frozen=True)
class ServeSettings:
    """How the server is reached and what one client may take of it.

    Attributes:
        host: the address to listen on; ``0.0.0.0`` or ``::`` for every one.
        key: the key that callers need, except raters with their links; empty for none. ``studio app`` generates one
            when others can reach the host.
        proxies: addresses or networks (``127.0.0.1``, ``10.0.0.0/8``) of trusted proxies, whose X-Forwarded-For and
            X-Forwarded-Proto are used.
        root_path: the prefix that a proxy strips, ``/studio`` for instance.
        allowed_hosts: host names of the server besides loopback: ``tts.example.org``, ``*.example.org``, or ``*`` for
            any (only behind a proxy that checks them).
        allowed_origins: origins of foreign pages that may connect: ``https://example.org``, or ``*``.
        traces_folder: the trace store; traces hold what users typed. Where the default folder cannot be used, for
            instance without a home folder, a new temporary folder is used.
        max_traces: maximum number of stored traces; the newest are kept.
        max_traces_bytes: maximum size of all stored traces.
        max_trace_bytes: maximum size of one trace (an hour of speech is 180 MB); a larger one is dropped.
        max_queue: utterances that may wait for a slot; the next one is rejected as ``busy``.
        queue_timeout_ms: maximum time in the queue.
        slow_run_ms: a run of a voice's module that takes longer is logged and counted.
        stuck_run_ms: a run that takes longer ends every utterance; ``/health`` answers 503 until it returns.
        idle_utterance_ms: the engine ends an utterance that is unused for so long.
        idle_wanted_ms: the same while others wait for a slot; has to be less than ``queue_timeout_ms``.
        drain_ms: time limit for committed text when the server stops; at most 3000, since it has to stop in 5 s.
        credit_ms: how far a voice may run ahead of the playback position, by default.
        credit_cap_ms: the maximum that a client may request.
        idle_flush_ms: a keyboard without input for so long flushes the committed words.
        quiet_close_ms: an utterance without messages and audio for so long is cancelled, and its slot freed.
        idle_socket_ms: a socket without speech for so long is closed; a page reconnects.
        max_text_chars: maximum text of one utterance.
        messages_per_s: messages that a socket may send per second.
        send_timeout_ms: a client that reads nothing for so long is disconnected.
        log_level: of the server; user text is never logged.
    """

    host: str = "127.0.0.1"
    port: int = 7860
    key: str = field(default="", repr=False)
    proxies: tuple[str, ...] = ()
    root_path: str = ""
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    traces_folder: Path = DEFAULT_TRACES
    max_traces: int = 200
    max_traces_bytes: int = 500_000_000
    max_trace_bytes: int = 200_000_000
    max_utterances_per_socket: int = 8
    max_sockets: int = 64
    max_queue: int = 16
    queue_timeout_ms: int = 120_000
    slow_run_ms: int = 1_000
    stuck_run_ms: int = 30_000
    idle_utterance_ms: int = 1_800_000
    idle_wanted_ms: int = 60_000
    drain_ms: int = 2_500
    credit_ms: int = 2_000
    credit_cap_ms: int = 60_000
    idle_flush_ms: int = 700
    quiet_close_ms: int = 600_000
    idle_socket_ms: int = 300_000
    max_text_chars: int = 1_000_000
    messages_per_s: int = 400
    send_timeout_ms: int = 5_000
    log_level: str = "warning"

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65_535:
            raise BadOption(f"port cannot be {self.port}", "give 0 (any free one) to 65535")
        if self.root_path and (not self.root_path.startswith("/") or self.root_path.endswith("/")):
            raise BadOption(f"root_path cannot be {self.root_path!r}", "begin it with / and end it without one")
        if self.log_level not in ("critical", "error", "warning", "info"):
            raise BadOption(f"log_level cannot be {self.log_level!r}", "choose critical, error, warning or info")
        if self.key and len(self.key) < MIN_KEY_CHARS:
            raise BadOption(f"a key of {len(self.key)} characters is guessed", f"give at least {MIN_KEY_CHARS}")
        for proxy in self.proxies:
            try:
                ipaddress.ip_network(proxy)
            except ValueError as error:
                raise BadOption(
                    f"proxies cannot hold {proxy!r:.80}", "give addresses or networks: 10.0.0.0/8"
                ) from error
        for one in fields(self):
            value = getattr(self, one.name)
            if one.name not in _MAY_BE_0 and isinstance(value, int) and value < 1:
                raise BadOption(f"{one.name} cannot be {value}", "give a whole number from 1 on")
        if self.max_queue < 0 or not 0 <= self.drain_ms <= MAX_DRAIN_MS:
            raise BadOption(
                f"max_queue = {self.max_queue} or drain_ms = {self.drain_ms} is out of range",
                f"neither is below 0, and drain_ms is at most {MAX_DRAIN_MS}",
            )
        if self.credit_ms > self.credit_cap_ms:
            raise BadOption(f"credit_ms = {self.credit_ms} is above credit_cap_ms = {self.credit_cap_ms}", "lower it")


def load_settings(file: Path | None, environ: Mapping[str, str]) -> ServeSettings:
    """Settings of a TOML file, if given, then of the environment.

    Raises:
        BadFile: the file is missing or not TOML.
        BadOption: a key is unknown, or a value is not allowed.
    """
    kinds = get_type_hints(ServeSettings)
    values: dict[str, Any] = {}
    if file is not None:
        for name, value in _serve_table(file).items():
            _check_name(name, kinds, f"[serve] of {file}", name)
            values[name] = _checked_value(name, value, kinds[name])
    for variable, text in environ.items():
        if variable.startswith(ENV_PREFIX):
            name = variable.removeprefix(ENV_PREFIX).lower()
            _check_name(name, kinds, "the environment", variable)
            values[name] = _FROM_TEXT[kinds[name]](variable, text)
    return ServeSettings(**values)


def _serve_table(file: Path) -> Mapping[str, Any]:
    try:
        data = tomllib.loads(read_bounded(file, MAX_SETTINGS_BYTES).decode("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadFile(
            f"the settings {file} cannot be read: {error}", "give a TOML file with a [serve] table"
        ) from error
    unknown = sorted(set(data) - {"serve"})
    if unknown or not isinstance(data.get("serve", {}), dict):
        raise BadOption(
            f"{file} holds {', '.join(unknown) or 'a serve that is no table'}", "known is the table [serve]"
        )
    return data.get("serve", {})


def _check_name(name: str, kinds: Mapping[str, Any], where: str, shown: str) -> None:
    if name not in kinds:
        raise BadOption(f"{where} has no setting {shown!r}", f"known are {', '.join(kinds)}")


def _checked_value(name: str, value: Any, kind: Any) -> Any:
    """A TOML value of the setting's type; nothing is converted (true is not a number)."""
    if kind is int and type(value) is int:
        return value
    if kind is str and isinstance(value, str):
        return value
    if kind is Path and isinstance(value, str):
        return _path(name, value)
    if kind == tuple[str, ...] and isinstance(value, list) and all(isinstance(one, str) for one in value):
        return tuple(value)
    expected = {int: "a whole number", str: "a string", Path: "a path in quotes"}.get(kind, "a list of strings")
    raise BadOption(f"{name} cannot be {value!r}", f"give {expected}")


def _integer(variable: str, text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise BadOption(f"{variable} cannot be {text!r}", "give a whole number") from error


def _path(name: str, text: str) -> Path:
    if not text:  # an empty Path is the working directory
        raise BadOption(f"{name} is empty", "give a folder, or leave it out")
    return Path(text)


_FROM_TEXT: dict[Any, Callable[[str, str], Any]] = {
    int: _integer,
    str: lambda _, text: text,
    Path: _path,
    tuple[str, ...]: lambda _, text: tuple(part.strip() for part in text.split(",") if part.strip()),
}
