"""Systems that speak: what a system's description says of the voice, and whether somebody can type to it."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from studio.core.errors import BadFile, BadOption
from studio.mos.store.tables.stimuli import System

TEACHER = "teacher"
_OWN = ("voice", "speaker", "seed", "temperature")


@dataclass(frozen=True)
class SystemVoice:
    """A system's voice: its name (empty where the speaker alone tells), speaker, seed, temperature and options."""

    voice: str
    speaker: str
    seed: int
    temperature: float | None
    options: Mapping[str, Any]


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
