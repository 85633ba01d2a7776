"""Streaming-TTS Studio: text flows in a word at a time, frames flow through an engine, samples flow out."""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"
__all__ = ["open_trace", "replay", "speak", "synthesize"]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'studio' has no attribute {name!r}")
    return getattr(import_module("studio.api"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
