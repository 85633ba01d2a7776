"""Contracts of adapters: systems that take whole texts, and systems with incremental text."""

import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from dataclasses import dataclass
from urllib.parse import urlsplit

import numpy as np

from studio.core.addresses import is_loopback
from studio.core.events import WordSource
from studio.systems.sound import SystemFailed

log = logging.getLogger("studio.systems")
_NEAR_CHARS = 60
MAX_MESSAGE_BYTES = 4_000_000  # per message or block of a system


@dataclass(frozen=True)
class CharTimes:
    """Characters [char_start, char_end) of the text as sent are spoken from ``start_s`` to ``end_s`` of the utterance.

    An empty range means that the word at ``char_start`` begins at ``start_s``.
    """

    char_start: int
    char_end: int
    start_s: float
    end_s: float
    source: WordSource


class Adapter(ABC):
    """One third-party system; used only on its engine's event loop."""

    cannot: tuple[str, ...]  # limits that the card lists

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
    """A system that accepts more text while it speaks."""

    cannot = ("no options", "no revision")

    @abstractmethod
    def converse(self, texts: AsyncIterator[str], speaker: str) -> AsyncIterator[np.ndarray | CharTimes]:
        """Samples int16 [T] at ``RATE_HZ``, and the times of the texts' characters, in the text's order.

        An empty text is a flush.

        Raises SystemFailed; frees everything when it is closed.
        """


class SentText:
    """The text that was sent to a system; locates the words of its answers in it, in order."""

    def __init__(self) -> None:
        self._text, self._at = "", 0

    @property
    def is_empty(self) -> bool:
        """Whether no text was sent."""
        return not self._text

    def add(self, text: str) -> None:
        """Append text."""
        self._text += text

    def next_word(self) -> int | None:
        """Index of the first character of the next word; None if there is none yet."""
        rest = self._text[self._at :]
        at = self._at + len(rest) - len(rest.lstrip())
        return at if at < len(self._text) else None

    def find(self, answer: str) -> tuple[int, int] | None:
        """[start, end) of the next occurrence of an answer's text; None for white space, or if it is not near."""
        answer = answer.strip()
        if not answer:
            return None
        near = self._text[self._at : self._at + len(answer) + _NEAR_CHARS].lower().find(answer.lower())
        if near < 0:
            return None
        at, self._at = self._at + near, self._at + near + len(answer)
        return at, self._at


def is_here(url: str) -> bool:
    """Whether a URL is on this machine, which needs no proxy."""
    return is_loopback(urlsplit(url).hostname or "")


def refusal(where: str, status: int, body: bytes, key_env: str) -> SystemFailed:
    """The error for an HTTP status."""
    if status in (401, 403):
        do = f"see the key in {key_env}" if key_env else "name the variable of its key with --key-env"
        return SystemFailed(f"{where} refuses the key ({status})", do)
    message = " ".join(body.decode("utf-8", "replace").split())[:200]
    do = "try again later" if status in (429, 503) else "see its address, model and voice"
    return SystemFailed(f"{where} answers {status}: {message or 'it says nothing'}", do)
