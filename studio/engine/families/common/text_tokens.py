"""Text as ids: phonemes, and byte-pair encoding of spoken words (Sennrich et al. 2016).

The encoding is read from the JSON of `tokenizers`, without that library. A word begins with ``▁``; punctuation marks
are tokens of their own. Words are spelt in letters or in phonemes, depending on the vocabulary (docs/adr/0019).
"""

import json
import math
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import lru_cache
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, Literal, cast

from studio.core.cards import Card, sha256_of
from studio.core.errors import BadFile, BadVoice
from studio.core.files import MAX_SETTINGS_BYTES, read_bounded
from studio.core.text.typography import MARKS
from studio.engine.families.common.rows import CONTEXT_WORDS
from studio.text import phonemes
from studio.text.inline_phonemes import without_pronunciation
from studio.text.lexicon import PHONEMES

Pronounce = Callable[[Sequence[str]], list[str]]  # words seen together -> the phonemes of each
STRESSES = "ˌˈ"
SPACE, END = 0, 1  # a word begins with a space; the text's end counts as a word
_ID = {symbol: i for i, symbol in enumerate(PHONEMES + MARKS, start=2)}
SYMBOLS = 2 + len(_ID)
STRESSED = 1 + len(STRESSES)  # id = symbol + SYMBOLS * stress (0 none, 1 secondary, 2 primary)
IDS = SYMBOLS * STRESSED


def spell(phonemes: str) -> list[int]:
    """Ids of a space, a word's phonemes and its punctuation; a stress mark applies to the next symbol."""
    out, stress = [SPACE], 0
    for symbol in phonemes:
        if symbol in STRESSES:
            stress = 1 + STRESSES.index(symbol)
        elif symbol in _ID:
            out.append(_ID[symbol] + SYMBOLS * stress)
            stress = 0
    return out


def counts_through(spelled: Sequence[Sequence[int]]) -> list[int]:
    """Cumulative sums of W_j: number of encoder steps up to the end of each word."""
    return list(accumulate(map(len, spelled)))


def words_of(spelled: Sequence[Sequence[int]]) -> list[int]:
    """pi(t): the word of every encoder step, from 0."""
    return [i for i, word in enumerate(spelled) for _ in word]


Spelling = Literal["letters", "phonemes"]

FILE = "bpe.json"
WORD_START = "▁"
_CACHED_WORDS = 20_000
_HINT = "make it with `studio train bpe`"


class Bpe:
    """Spoken words to token ids.

    Attributes:
        size: vocabulary size.
        spelling: what words are spelt in before they are encoded.
    """

    def __init__(
        self, vocabulary: dict[str, int], merges: list[tuple[str, str]], spelling: Spelling = "letters"
    ) -> None:
        self.size, self.spelling = len(vocabulary), spelling
        self._ids = vocabulary
        self._ranks = {pair: rank for rank, pair in enumerate(merges)}
        self._cached = lru_cache(_CACHED_WORDS)(self._encode)

    def __reduce__(self) -> tuple[type["Bpe"], tuple[Any, ...]]:
        return Bpe, (self._ids, [*self._ranks], self.spelling)  # without the cache

    @staticmethod
    def read(path: Path) -> "Bpe":
        """Read the JSON of a trained encoding. Raises BadVoice."""
        try:
            model = json.loads(read_bounded(path, MAX_SETTINGS_BYTES))["model"]
            if model["type"] != "BPE" or any(model.get(k) for k in ("continuing_subword_prefix", "end_of_word_suffix")):
                raise BadVoice(f"{path} is not an encoding of the supported kind", _HINT)
            merges = [_pair(one) for one in model["merges"]]
            vocabulary = dict(cast("dict[str, int]", model["vocab"]))
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise BadVoice(f"{path} is not a byte-pair encoding: {error!s:.200}", _HINT) from error
        spelling: Spelling = "phonemes" if vocabulary.keys() >= {*PHONEMES} else "letters"
        needed = (*alphabet_of(spelling), *("".join(pair) for pair in merges))
        lacking = [one for one in needed if one not in vocabulary]
        ids = list(cast("dict[str, Any]", vocabulary).values())
        if lacking or not all(type(one) is int for one in ids) or sorted(ids) != [*range(len(ids))]:
            raise BadVoice(f"{path} has no token for {lacking[:1] or 'every id'}", _HINT)
        return Bpe(vocabulary, merges, spelling)

    @staticmethod
    def of_voice(card: Card, folder: Path, tokens: int) -> "Bpe":
        """Load a voice's encoding and check its size and sha256. Raises BadVoice, NeedsPackage."""
        path = folder / FILE
        is_read = path.is_file() and path.stat().st_size <= MAX_SETTINGS_BYTES
        if not is_read or card.sha256.get(FILE) != sha256_of(path):
            raise BadVoice(f"{path} differs from the file in the card", "fetch the voice again")
        bpe = Bpe.read(path)
        if bpe.size != tokens:
            raise BadVoice(f"the encoding has {bpe.size} tokens and the card {tokens}", "fetch the voice again")
        if bpe.spelling == "phonemes":
            phonemes.load()
        return bpe

    @staticmethod
    def for_fit(state: Path, size: int) -> "Bpe":
        """Load the encoding of ``size`` tokens from a training's state folder. Raises BadFile, BadVoice."""
        path = state / FILE
        if not path.is_file():
            raise BadFile(f"there is no {path}", f"make it with `studio train bpe --out {path}`")
        bpe = Bpe.read(path)
        if bpe.size != size:
            raise BadFile(
                f"{path} has {bpe.size} tokens and [fit.config] {size}",
                "write text_tokens into the recipe, or make the encoding with --size",
            )
        return bpe

    @property
    def tokens(self) -> list[str]:
        """The text of each token, by id."""
        return sorted(self._ids, key=self._ids.__getitem__)

    def encode(self, word: str, before: Sequence[str] = ()) -> tuple[int, ...]:
        """Token ids of one spoken word with its punctuation.

        Args:
            before: the words before it, which decide the phonemes of a homograph.
        """
        return self._cached(word, self._context(word, before))

    def start_lookup(self, words: Sequence[str]) -> Future[None] | None:
        """See ``studio.engine.families.base.SupportsLookup``."""
        return None if self.spelling == "letters" else phonemes.request_phonemes(words)

    def encode_at_random(
        self, word: str, dropout: float, draw: Callable[[], float], before: Sequence[str] = ()
    ) -> tuple[int, ...]:
        """As ``encode``, with each merge skipped with probability ``dropout`` (BPE-dropout, Provilkov et al. 2020).

        Args:
            draw: uniform random numbers from [0, 1).
        """
        return self._encode(word, self._context(word, before), lambda: draw() < dropout)

    def _context(self, word: str, before: Sequence[str]) -> tuple[str, ...]:
        """Those of the words before it on which its phonemes depend."""
        is_alone = self.spelling == "letters" or not before or not phonemes.depends_on_words_before(word)
        return () if is_alone else tuple(before[-CONTEXT_WORDS:])

    def _encode(
        self, word: str, context: tuple[str, ...], is_skipped: Callable[[], bool] = lambda: False
    ) -> tuple[int, ...]:
        bare = word.rstrip(MARKS)
        is_letters = self.spelling == "letters"
        spelt = without_pronunciation(bare) if is_letters else spell_phonemes(word if context else bare, context)
        pieces = [*self._merged(WORD_START + spelt, is_skipped), *word[len(bare) :]]
        return tuple(self._ids[piece] for piece in pieces)

    def _merged(self, text: str, is_skipped: Callable[[], bool]) -> list[str]:
        pieces = [*text]
        while len(pieces) > 1:
            known = [(self._ranks[pair], i) for i, pair in enumerate(pairwise(pieces)) if pair in self._ranks]
            pairs = [one for one in known if not is_skipped()]
            rank, i = min(pairs, default=(math.inf, 0))
            if rank == math.inf:
                break
            pieces[i : i + 2] = [pieces[i] + pieces[i + 1]]
        return pieces


def alphabet_of(spelling: Spelling) -> list[str]:
    """The tokens that every vocabulary contains: letters or phonemes, the word start, punctuation."""
    letters = [*"abcdefghijklmnopqrstuvwxyz'"] if spelling == "letters" else [*PHONEMES, *STRESSES]
    return [*letters, WORD_START, *MARKS]


@lru_cache(_CACHED_WORDS)
def spell_phonemes(word: str, before: tuple[str, ...] = ()) -> str:
    """Phonemes of a word, with stress, given the words before it and none after it; may be empty."""
    return "".join(
        symbol for symbol in phonemes.pronounce([*before, word])[-1] if symbol in PHONEMES or symbol in STRESSES
    )


def _pair(merge: Any) -> tuple[str, str]:
    """A merge in either format of the `tokenizers` library."""
    first, second = merge.split(" ") if isinstance(merge, str) else merge
    if not isinstance(first, str) or not isinstance(second, str):
        raise TypeError(f"a merge is {merge!r:.80}")
    return first, second
