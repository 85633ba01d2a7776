"""The adapter of a system's settings."""

from typing import Any

from studio.systems.adapters.lines import LinesAdapter
from studio.systems.adapters.openai import OpenAIAdapter
from studio.systems.adapters.programs import CommandAdapter, FolderAdapter
from studio.systems.adapters.providers import CartesiaAdapter, DeepgramAdapter, ElevenLabsAdapter, KyutaiAdapter
from studio.systems.adapters.realtime import RealtimeAdapter
from studio.systems.adapters.studio import StudioAdapter
from studio.systems.base import Adapter

_ADAPTERS: dict[str, Any] = {
    "command": CommandAdapter,
    "lines": LinesAdapter,
    "python": LinesAdapter,
    "openai": OpenAIAdapter,
    "studio": StudioAdapter,
    "elevenlabs": ElevenLabsAdapter,
    "elevenlabs-multi": ElevenLabsAdapter,
    "cartesia": CartesiaAdapter,
    "deepgram": DeepgramAdapter,
    "kyutai": KyutaiAdapter,
    "realtime": RealtimeAdapter,
    "folder": FolderAdapter,
}


def open_adapter(system: Any) -> Adapter:
    """The adapter for the settings of a system; nothing is connected yet."""
    return _ADAPTERS[system.kind](system)
