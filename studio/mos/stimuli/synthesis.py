"""Synthesis of scripts by systems into a folder of clips and traces with a manifest."""

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from studio.core.cards import voice_address
from studio.core.ports import Engine, SpeakRequest
from studio.core.speaking import at_once, save_audio
from studio.core.speaking import speak as speak_arrivals
from studio.core.time import MonotonicClock
from studio.mos.campaign.voices import SystemVoice


@dataclass(frozen=True)
class SpeechTask:
    """A system and the texts it has to speak, by item."""

    system: str
    voice: SystemVoice
    texts: Mapping[str, str]
    role: str = "test"


Speaker = Callable[[SystemVoice, Mapping[Path, str], Callable[[], None]], None]
"""Synthesises texts, keyed by output path without suffix, and calls back after each clip."""


def speak_all(
    sayings: Sequence[SpeechTask], out: Path, speak: Speaker, spoken: Callable[[], None] = lambda: None
) -> Path:
    """Synthesise all tasks into ``out``; returns the path of its ``manifest.json``.

    Clips of an earlier, interrupted run are reused if their text is unchanged. ``spoken`` is called after each clip.
    """
    out.mkdir(parents=True, exist_ok=True)
    files: list[dict[str, str]] = []
    for one in sayings:
        folder = out / _folder(one.system)
        folder.mkdir(exist_ok=True)
        places = {item: folder / f"{item}-{_digest(text)}" for item, text in one.texts.items()}
        todo = {place: one.texts[item] for item, place in places.items() if not _wav(place).is_file()}
        speak(one.voice, todo, spoken)
        for item, place in places.items():
            result = {"system": one.system, "item": item, "file": f"{folder.name}/{_wav(place).name}"}
            trace = place.with_name(f"{place.name}.trace")
            files.append(result | ({"trace": f"{folder.name}/{trace.name}"} if trace.is_file() else {}))
    texts = {item: text for one in sayings for item, text in one.texts.items()}
    described = {
        "systems": [{"name": one.system, "role": one.role, "voice": one.voice.to_dict()} for one in sayings],
        "items": [{"name": item, "text": text} for item, text in texts.items()],
        "files": files,
    }
    manifest = out / "manifest.json"
    manifest.write_text(json.dumps(described, indent=1), encoding="utf-8")
    return manifest


def engine_speaker(engine: Engine, *, is_guest: bool = False) -> Speaker:
    """Synthesises with an engine's voice, one text after the other.

    Args:
        is_guest: leave a concurrency slot to others.
    """

    def speak(of: SystemVoice, texts: Mapping[Path, str], spoken: Callable[[], None]) -> None:
        address = voice_address(of.voice, of.speaker, engine.cards())
        request = SpeakRequest(address, of.seed, of.temperature, of.options, is_guest=is_guest)
        for place, text in texts.items():
            result = speak_arrivals(engine, request, at_once(text), MonotonicClock(), place).unwrap()
            save_audio(_wav(place), result.pcm, result.rate_hz)
            spoken()

    return speak


def _wav(place: Path) -> Path:
    return place.with_name(f"{place.name}.wav")  # a name may contain a full stop


def _folder(name: str) -> str:
    """A readable and unique folder name for a system."""
    return f"{re.sub(r'[^A-Za-z0-9]+', '-', name).strip('-')}-{_digest(name)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:6]
