"""What every family is to the engine: it opens streams, and a stream makes frames of committed words.

A family registers under its name; one from another package through the entry point group ``studio.families``.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from studio.core.cards import Card, OptionSpec
from studio.core.errors import BadVoice
from studio.core.events import Event

ENTRY_POINTS = "studio.families"


@dataclass
class Turn:
    """What one turn of a stream made.

    Attributes:
        levels: uint8 [k, C], frames for the vocoder (k may be 0).
        before: events that precede the sound (segment, word_start), ``after`` those that follow it; t_ms unset.
    """

    levels: np.ndarray
    before: list[Event] = field(default_factory=list)
    after: list[Event] = field(default_factory=list)


class FamilyStream(Protocol):
    """One utterance inside a family's slot."""

    def commit(self, words: Sequence[str]) -> None:
        """Append spoken words."""
        ...

    def flush(self) -> None:
        """Speak what is committed without waiting for more."""
        ...

    def end(self) -> None:
        """No more words will come."""
        ...

    def set_options(self, options: Mapping[str, Any], temperature: float | None) -> dict[str, Any]:
        """Options from the next segment on; answers all that are then in force. Raises BadOption."""
        ...

    def check(self, options: Mapping[str, Any]) -> None:
        """Raises BadOption when options do not fit with those in force."""
        ...

    @property
    def over(self) -> bool:
        """Whether everything was spoken and nothing can follow."""
        ...

    @property
    def unspoken(self) -> int:
        """Committed words that no segment has taken yet."""
        ...

    def turn(self) -> Turn | None:
        """Make at most one frame; None when words are missing, or when everything was spoken."""
        ...

    def close(self) -> None:
        """Free the slot."""
        ...


class Family(Protocol):
    """A loaded net that hosts several streams."""

    places: int

    def open(
        self, speaker: int, options: Mapping[str, Any], temperature: float, seed: int
    ) -> tuple[FamilyStream, dict[str, Any]]:
        """A new stream in a free slot, and its options in force. Raises BadOption, Busy."""
        ...

    def prompt(self, speaker: int) -> torch.Tensor:
        """Frames that come before every utterance and are never heard, uint8 [S, C]; the vocoder hears them too."""
        ...


@dataclass(frozen=True)
class FamilyInfo:
    """A family as the registry knows it; ``load`` takes (card, folder, device, places)."""

    name: str
    paper: str
    options: tuple[OptionSpec, ...]
    load: Callable[[Card, Path, torch.device, int], Family]


def family_info(name: str) -> FamilyInfo:
    """The family of a name. Raises BadVoice when nobody registered it."""
    found = {e.name: e for e in entry_points(group=ENTRY_POINTS)}
    if name in found:
        info = found[name].load()
        assert isinstance(info, FamilyInfo)
        return info
    raise BadVoice(f"no family is called {name!r}", f"registered are {', '.join(sorted(found)) or 'none'}")
