"""The adapter of a system's settings."""

from typing import Any

from studio.systems.adapters.command import CommandAdapter
from studio.systems.base import Adapter
from studio.systems.settings import CommandSystem


def open_adapter(system: Any) -> Adapter:
    """The adapter for a system. Raises BadOption: its key is not in the environment."""
    match system:
        case CommandSystem():
            return CommandAdapter(system)
    raise AssertionError(f"no adapter for {type(system).__name__}")
