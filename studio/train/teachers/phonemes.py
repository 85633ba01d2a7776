"""Texts as people write them to the spoken words, and to what the phoneme dictionary reads."""

from studio.core.text.typography import MARKS
from studio.core.text.words import SpokenWord, WordStream
from studio.text.normalise import english

GROUP = "pip install 'streaming-tts-studio[train]'"


def spoken(text: str) -> list[SpokenWord]:
    """The words that the studio speaks for a text; empty where any part of it cannot be said."""
    stream = WordStream(english())
    changes = stream.push(text)
    changes.extend(stream.end())
    return [] if changes.unsupported else changes.words


def cased(text: str, words: list[SpokenWord]) -> str:
    """The spoken words as the phoneme dictionary reads them: as written, where they are; letters spelled in capitals.

    The studio's words are in lower case, but "Polish" is not "polish", and the letter A is not the article.
    """
    single: dict[int, list[str]] = {}
    for word in words:
        single.setdefault(word.written, []).append(word.word.rstrip(MARKS))
    out = []
    for word in words:
        bare = word.word.rstrip(MARKS)
        written = text[word.char_start : word.char_end]
        at = written.lower().find(bare)
        as_written = written[at : at + len(bare)] if at >= 0 else bare
        if len(bare) == 1 and (len(single[word.written]) > 1 or as_written.isupper()):
            as_written = bare.upper()
        elif as_written.isupper() and len(bare) > 1:
            as_written = bare
        out.append(as_written + word.word[len(bare) :])
    return " ".join(out)
