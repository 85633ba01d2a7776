"""Contracts of adapters: systems that take whole texts, and systems that take text while they speak."""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from studio.core.events import WordSource
from studio.systems.sound import SystemFailed

log = logging.getLogger("studio.systems")
MAX_MESSAGE_BYTES = 4_000_000  # of one message or block of a system


@dataclass(frozen=True)
class CharTimes:
    """Characters [char_start, char_end) of the text as sent sound from ``start_s`` to ``end_s`` of the utterance."""

    char_start: int
    char_end: int
    start_s: float
    end_s: float
    source: WordSource


class Adapter(ABC):
    """One foreign system; used on its engine's event loop only."""

    cannot: tuple[str, ...]  # what the card says

    async def close(self) -> None:  # noqa: B027 - most have nothing to free
        """Free connections."""


class CutAdapter(Adapter):
    """A system that speaks one whole text at a time."""

    cannot = ("no text while it speaks: the studio cuts the text", "no word times: they are estimates", "no revision")
    rate_hz: int | None  # of plain samples; None for WAV only

    @abstractmethod
    def fetch(self, text: str, speaker: str) -> AsyncIterator[bytes]:
        """The sound of a text, in blocks. Raises SystemFailed; frees everything when it is closed."""


class LiveAdapter(Adapter):
    """A system that takes text while it speaks."""

    cannot = ("no options", "no revision")

    @abstractmethod
    def converse(self, texts: AsyncIterator[str], speaker: str) -> AsyncIterator[np.ndarray | CharTimes]:
        """Samples int16 [T] at the studio's rate, and the times of the texts' characters, in any order.

        Raises SystemFailed; frees everything when it is closed.
        """


@contextmanager
def speaks_to(what: str) -> Iterator[None]:
    """Turn errors of connections into SystemFailed with a sentence."""
    try:
        yield
    except (SystemFailed, asyncio.CancelledError):
        raise
    except OSError as error:
        why = error.strerror or str(error) or type(error).__name__
        raise SystemFailed(f"{what} cannot be reached: {why:.200}", "see whether it runs at this address") from error
