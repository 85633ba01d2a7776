"""Texts spoken by systems into a folder of clips and traces, which a manifest beside them describes.

The engine is known here by its port alone: what is rated later is a file.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from studio import say
from studio.core.cards import voice_address
from studio.core.ports import Engine, SpeakRequest
from studio.core.time import MonotonicClock
from studio.mos.campaign.speaking_systems import SystemVoice


@dataclass(frozen=True)
class Saying:
    """A system and what it is to say, texts by item."""

    system: str
    voice: SystemVoice
    texts: Mapping[str, str]
    role: str = "test"


Speaker = Callable[[SystemVoice, Mapping[Path, str], Callable[[], None]], None]
"""Speaks texts by where each clip goes, without its ending, and tells of each when it is there."""


def speak_all(sayings: Sequence[Saying], out: Path, speak: Speaker, spoken: Callable[[], None] = lambda: None) -> Path:
    """Speak every text by every system into ``out`` and describe it in ``manifest.json``, which is answered.

    What is there from an earlier, stopped run is not spoken again, unless its text is another now. ``spoken`` is called
    after each clip.
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
            made = {"system": one.system, "item": item, "file": f"{folder.name}/{_wav(place).name}"}
            trace = place.with_name(f"{place.name}.trace")
            files.append(made | ({"trace": f"{folder.name}/{trace.name}"} if trace.is_file() else {}))
    texts = {item: text for one in sayings for item, text in one.texts.items()}
    described = {
        "systems": [{"name": one.system, "role": one.role, "voice": one.voice.described()} for one in sayings],
        "items": [{"name": item, "text": text} for item, text in texts.items()],
        "files": files,
    }
    manifest = out / "manifest.json"
    manifest.write_text(json.dumps(described, indent=1), encoding="utf-8")
    return manifest


def by_engine(engine: Engine, *, is_guest: bool = False) -> Speaker:
    """Speaks by one of the engine's voices, one text after the other.

    Args:
        is_guest: it leaves a place to others, where there are more.
    """

    def speak(of: SystemVoice, texts: Mapping[Path, str], spoken: Callable[[], None]) -> None:
        address = voice_address(of.voice, of.speaker, engine.cards())
        request = SpeakRequest(address, of.seed, of.temperature, of.options, is_guest=is_guest)
        for place, text in texts.items():
            made = say.speak(engine, request, say.at_once(text), MonotonicClock(), place)
            say.save(made.whole(), _wav(place), as_heard=False)
            spoken()

    return speak


def _wav(place: Path) -> Path:
    return place.with_name(f"{place.name}.wav")  # a name may hold a full stop


def _folder(name: str) -> str:
    """A folder's name for a system: readable, and unlike that of any other."""
    return f"{re.sub(r'[^A-Za-z0-9]+', '-', name).strip('-')}-{_digest(name)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:6]
