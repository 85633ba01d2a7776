"""Fronts and replicas on a cluster: ``serve run deploy/serve.yaml``, whose ``import_path`` is ``application`` here."""

import os
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from studio.commands.lexicon import normaliser
from studio.core.addresses import is_loopback
from studio.core.errors import BadOption
from studio.core.folders import VOICES
from studio.core.ports import MAX_QUEUE
from studio.deploy.cluster import FrontServer, replicas_of
from studio.deploy.hosting import Hosting
from studio.serve.settings import MIN_KEY_CHARS, load_settings

KEY_VARIABLE = "STUDIO_REPLICA_KEY"
_NOT_OF_HOSTING = {"settings", "networks", "is_open", "fronts", "replica_options"}


class Arguments(BaseModel):
    """``args`` of the application in a config file of Serve.

    Attributes:
        settings: TOML file with [serve], equal on all nodes; STUDIO_SERVE_* override it.
        networks: addresses of the nodes, such as ``10.0.0.0/8``: replicas trust callers' addresses from fronts there.
        is_open: other machines may connect without a key.
        database, data: PostgreSQL by URL, and a folder that all nodes share.
        replica_options: options of Serve, such as ``num_replicas`` or ``ray_actor_options``.
    """

    model_config = ConfigDict(extra="forbid")
    networks: tuple[str, ...]
    settings: Path | None = None
    is_open: bool = False
    database: str = ""
    data: Path
    voices: Path = VOICES
    lexicon: Path | None = None
    device: str = "auto"
    vocoder: str = ""
    places: int = Field(4, ge=1, le=64)
    queue: int | None = Field(None, ge=0, le=MAX_QUEUE)
    threads: int = Field(1, ge=1, le=256)
    fronts: int = Field(1, ge=1, le=64)
    replica_options: dict[str, Any] = {}


def application(args: Arguments) -> Any:
    """The application of Ray Serve. Raises BadOption, BadFile."""
    settings = load_settings(args.settings, os.environ)
    if not (settings.key or args.is_open or is_loopback(settings.host)):
        raise BadOption(f"other machines reach {settings.host}, and there is no key", "set STUDIO_SERVE_KEY")
    key = os.environ.get(KEY_VARIABLE, "")
    if len(key) < MIN_KEY_CHARS:
        raise BadOption(
            "fronts and replicas have no key between them", f"set {KEY_VARIABLE} to at least {MIN_KEY_CHARS} characters"
        )
    hosting = Hosting(settings, normaliser, settings_file=args.settings, **args.model_dump(exclude=_NOT_OF_HOSTING))
    drain_s = settings.replica_drain_ms / 1000.0
    replicas = replicas_of(hosting, key, args.networks, drain_s, args.replica_options)
    return FrontServer.options(num_replicas=args.fronts).bind(settings, key, replicas)
