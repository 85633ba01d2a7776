"""Engines over foreign systems of the tests, and what an utterance of them became."""

import shlex
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from studio.core.clips import wav_bytes
from studio.core.events import Event, Failed
from studio.core.ports import SpeakRequest
from studio.core.speaking import speak_once
from studio.core.traces.trace import Trace
from studio.systems.engine import RemoteEngine
from studio.systems.settings import check_system

TEXT = "Good morning, my friend. How are you?"


def tone(seconds: float, rate_hz: int = 24_000) -> np.ndarray:
    """A tone of 200 Hz, int16."""
    return (8000 * np.sin(2 * np.pi * 200 * np.arange(round(seconds * rate_hz)) / rate_hz)).astype(np.int16)


def sound_file(path: Path, seconds: float = 0.5, rate_hz: int = 24_000) -> str:
    """A WAV of a tone; returns its name quoted for a shell."""
    path.write_bytes(wav_bytes(tone(seconds, rate_hz), rate_hz))
    return shlex.quote(str(path))


def shell(script: str) -> dict[str, Any]:
    """A system that is a shell script."""
    return {"kind": "command", "command": f"sh -c {shlex.quote(script)}"}


@contextmanager
def opened(values: Mapping[str, Any]) -> Generator[RemoteEngine]:
    """An engine over one system named other; its time-out is short unless it is given."""
    engine = RemoteEngine("other", check_system("other", {"timeout_s": 5.0, **values}))
    try:
        yield engine
    finally:
        engine.close()


def spoken(values: Mapping[str, Any], text: str = TEXT, **request: Any) -> Trace:
    """The trace of a text, sent whole."""
    with opened(values) as engine:
        return speak_once(engine, SpeakRequest(**request), text)


def failure(values: Mapping[str, Any], text: str = TEXT) -> str:
    """The message with which a text fails."""
    last: Event = spoken(values, text).events[-1]
    assert isinstance(last, Failed), last
    return last.message
