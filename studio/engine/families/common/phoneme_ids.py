"""Phonemes, stress and punctuation as ids, for families that read IPA."""

from collections.abc import Callable, Sequence
from itertools import accumulate

from studio.core.text.typography import MARKS

Pronounce = Callable[[Sequence[str]], list[str]]  # words seen together -> the phonemes of each
STRESSES = "ˌˈ"
PHONEMES = "AIOWYbdfhijklmnpstuvwzæðŋɑɐɔəɛɜɡɪɹɾTʃʊʌʒʔʤʧθᵊᵻ"  # IPA, with capitals for diphthongs and the flap
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
