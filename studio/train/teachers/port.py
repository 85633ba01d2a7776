"""What every teacher answers: a sentence as it was spoken, with the times of its words and phones."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from studio.core.text.typography import MARKS


@dataclass(frozen=True)
class Taught:
    """A sentence as a teacher spoke it.

    Attributes:
        pcm: int16 [T] at rate_hz.
        words: spoken words as the voices' alphabet writes them ("printing,").
        word_ends_s: the end of each word in the recording.
        phones: (name, end in seconds) of every phone, pauses included.
        kind: what kind of text it is, where that is known.
    """

    text: str
    speaker: str
    rate_hz: int
    pcm: np.ndarray
    words: list[str]
    word_ends_s: list[float]
    phones: list[tuple[str, float]]
    kind: str = ""


class Teacher(Protocol):
    """A synthetic speaker, or several, that knows where its words end."""

    def about(self, speaker: str) -> str:
        """Who a speaker is, for a voice's card; empty where the teacher has no such speaker."""
        ...

    def speak(self, speaker: str, texts: Sequence[str]) -> Iterator[Taught | None]:
        """Each text as the speaker says it; None where the teacher's words and ours differ (it is rare: odd tokens).

        Raises:
            BadFile: the teacher's files are missing or damaged.
            BadOption: there is no such speaker.
            NeedsPackage: a program or a package is not installed.
        """
        ...


def spoken_words(text: str) -> list[str]:
    """Words of plain text (letters and marks), lower case, with the strongest mark that follows each."""
    words: list[str] = []
    text = text.lower().replace("’", "'").replace("--", " , ")
    for token in re.findall(r"[^\s\-()\"]+", text):
        letters = re.sub(r"[^a-z']", "", token).strip("'")
        marks = [m for m in MARKS if m in token]
        if letters:
            words.append(letters + (marks[0] if marks else ""))
        elif marks and words:
            words[-1] = words[-1].rstrip(MARKS) + marks[0]
    return words
