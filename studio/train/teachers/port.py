"""The interface of teachers (synthesisers of a corpus), and the text forms that they share."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from studio.core.text.typography import MARKS
from studio.core.text.words import SpokenWord, whole_text
from studio.text.normalise import english


@dataclass(frozen=True)
class AlignedSpeech:
    """A sentence as a teacher or a person spoke it, with the times of its words and phones."""

    text: str
    speaker: str
    rate_hz: int
    pcm: np.ndarray  # int16 [T] at rate_hz
    words: list[str]  # spoken words with their marks ("printing,")
    word_ends_s: list[float]  # the end of each word in the recording
    phones: list[tuple[str, float]]  # (name, end in s) of every phone, pauses included
    kind: str = ""  # of the text, if known


class Teacher(Protocol):
    """A synthesiser with one or more speakers that reports word times."""

    def about(self, speaker: str) -> str:
        """Description of a speaker for a voice's card; empty if the teacher has no such speaker."""
        ...

    def speak(self, speaker: str, texts: Sequence[str]) -> Iterator[AlignedSpeech | None]:
        """Synthesise texts; None for a text whose words the teacher splits otherwise (rare: odd tokens).

        Raises:
            BadFile: the teacher's files are missing or damaged.
            BadOption: unknown speaker.
            NeedsPackage: a program or a package is not installed.
        """
        ...


def spoken_words(text: str) -> list[str]:
    """Lower-case words of plain text (letters and marks), each with the strongest mark that follows it."""
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


def normalised_words(text: str) -> list[SpokenWord]:
    """Spoken words of a text, normalised as in synthesis; empty if a part of it has no reading."""
    changes = whole_text(english(), text)
    return [] if changes.unsupported else changes.words


def restore_case(text: str, words: list[SpokenWord]) -> str:
    """Join normalised words in the case the phoneme dictionary expects: as written; spelled letters as capitals.

    Case matters: "Polish" is not "polish", and the letter A is not the article.
    """
    words_of_token: dict[int, list[str]] = {}
    for word in words:
        words_of_token.setdefault(word.written, []).append(word.word.rstrip(MARKS))
    out = []
    for word in words:
        bare = word.word.rstrip(MARKS)
        written = text[word.char_start : word.char_end]
        at = written.lower().find(bare)
        as_written = written[at : at + len(bare)] if at >= 0 else bare
        if len(bare) == 1 and (len(words_of_token[word.written]) > 1 or as_written.isupper()):
            as_written = bare.upper()
        elif as_written.isupper() and len(bare) > 1:
            as_written = bare
        out.append(as_written + word.word[len(bare) :])
    return " ".join(out)
