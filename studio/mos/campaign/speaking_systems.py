"""Systems that speak: what a system's description says of the voice, and whether somebody can type to it."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from studio.core.errors import BadFile, BadOption
from studio.mos.store.tables.stimuli import System

TEACHER = "teacher"
_OWN = ("voice", "speaker", "seed", "temperature")
_SPEC = re.compile(r"(?:(?P<voice>[^:?]*):)?(?P<speaker>[^:?]*)(?:\?(?P<options>.*))?")


@dataclass(frozen=True)
class SystemVoice:
    """A system's voice: its name (empty where the speaker alone tells), speaker, seed, temperature and options."""

    voice: str
    speaker: str
    seed: int
    temperature: float | None
    options: Mapping[str, Any]

    def described(self) -> dict[str, Any]:
        """How a system's row and a manifest keep it; ``read_voice`` reads it again."""
        warmth = {} if self.temperature is None else {"temperature": self.temperature}
        return {"voice": self.voice, "speaker": self.speaker, "seed": self.seed, **warmth, **self.options}


def read_spec(text: str) -> SystemVoice:
    """A system's voice from its name, ``[voice:]speaker[?option=value,...]``; ``teacher`` is whom voices learned from.

    Raises:
        BadOption: it is no such name.
    """
    match = _SPEC.fullmatch(text)
    if match is None or not (match["voice"] or match["speaker"]):
        raise BadOption(f"{text!r:.100} is not a system", "write [voice:]speaker[?m=3,n=1], clara?m=3,n=1 for instance")
    options: dict[str, Any] = {}
    for part in filter(None, (match["options"] or "").split(",")):
        key, mark, value = part.partition("=")
        if not mark or key in options:
            raise BadOption(f"{part!r:.60} in {text!r:.100} is not an option of its own", "write name=value, each once")
        options[key] = _value(value)
    seed, temperature = options.pop("seed", 0), options.pop("temperature", None)
    return SystemVoice(match["voice"] or "", match["speaker"] or "", seed, temperature, options)


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def read_voice(system: System) -> SystemVoice:
    """What a system is spoken by. Raises BadOption where it is a folder of sounds, or a teacher."""
    told: dict[str, Any] = json.loads(system.voice)
    voice, speaker = told.get("voice") or "", told.get("speaker") or ""
    if not (voice or speaker) or voice == TEACHER:
        raise BadOption(
            f"nobody can type to {system.name!r}: it is not one of the studio's voices",
            "make a live test from --texts and --systems such as 'clara?m=3,n=1'",
        )
    options = {name: value for name, value in told.items() if name not in _OWN}
    return SystemVoice(voice, speaker, int(told.get("seed") or 0), told.get("temperature"), options)


def check_voices(systems: Iterable[System], rates_hz: Iterable[int]) -> None:
    """Whether every system can speak what somebody types, and none would be known by its rate.

    Raises:
        BadOption: a system is a folder of sounds, or a teacher.
        BadFile: the voices have different sample rates.
    """
    for system in systems:
        read_voice(system)
    if len(found := sorted(set(rates_hz))) > 1:
        raise BadFile(
            f"the voices speak at {', '.join(map(str, found))} Hz, which a rater's browser would see",
            "compare voices of one sample rate",
        )
