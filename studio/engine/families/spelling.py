"""Phonemes as ids, with their stress and the marks between them: what families that read IPA feed their encoders."""

from collections.abc import Callable, Sequence
from itertools import accumulate

from studio.core.text.typography import MARKS

Pronounce = Callable[[Sequence[str]], list[str]]  # phonemes of words that are seen together
STRESSES = "ˌˈ"
PHONEMES = "AIOWYbdfhijklmnpstuvwzæðŋɑɐɔəɛɜɡɪɹɾTʃʊʌʒʔʤʧθᵊᵻ"  # IPA, with capitals for diphthongs and the flap
SPACE, END = 0, 1  # a word begins with a space; the text's end is a word of its own
_ID = {symbol: i for i, symbol in enumerate(PHONEMES + MARKS, start=2)}
SYMBOLS = 2 + len(_ID)
STRESSED = 1 + len(STRESSES)  # a symbol's id plus SYMBOLS times its stress: none, secondary, primary
IDS = SYMBOLS * STRESSED


def spell(phonemes: str) -> list[int]:
    """Ids of a word's phonemes and its mark, after a space; a stress mark belongs to the symbol after it."""
    out, stress = [SPACE], 0
    for symbol in phonemes:
        if symbol in STRESSES:
            stress = 1 + STRESSES.index(symbol)
        elif symbol in _ID:
            out.append(_ID[symbol] + SYMBOLS * stress)
            stress = 0
    return out


def counts_through(spelled: Sequence[Sequence[int]]) -> list[int]:
    """The sums of W_j: how many encoder steps the words up to each one take."""
    return list(accumulate(map(len, spelled)))


def words_of(spelled: Sequence[Sequence[int]]) -> list[int]:
    """pi(t): the word of every encoder step, from 0."""
    return [i for i, word in enumerate(spelled) for _ in word]
