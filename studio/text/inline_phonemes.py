"""Pronunciations within a text: a word with one is written with an apostrophe where no word has one (``to'mato``).

Such a word passes the normaliser unchanged. Voices that read phonemes find its own in the dictionary of the G2P, and
others read the word without the apostrophe.
"""

import re
import threading

from studio.core.errors import BadText
from studio.core.text.typography import MARKS
from studio.text.lexicon import PHONEMES, checked_ipa

MAX_PRONUNCIATIONS, MAX_OF_TEXTS = 40_000, 20_000  # of a process; the rest is for the owner's lexicon
MAX_IPA_CHARS, MAX_WORD_CHARS = 200, 30
_lock = threading.Lock()
_keys: dict[tuple[str, str], str] = {}  # by word and symbols; none is ever changed, since voices cache tokens of words
_words: dict[str, str] = {}  # by key


def pronounced(text: str, ipa: str, most: int = MAX_OF_TEXTS) -> str:
    """What stands in a text for words that sound as the IPA says.

    Args:
        most: pronunciations of the process up to which a new one is taken.

    Raises:
        BadText: the IPA has a symbol that no voice has, or the text has no letters.
        NeedsPackage: there is no G2P.
    """
    where = f"the phonemes of {text[:40]!r}"
    if len(ipa) > MAX_IPA_CHARS:
        raise BadText(f"{where} are {len(ipa)} symbols", f"give at most {MAX_IPA_CHARS}")
    symbols = checked_ipa(ipa, PHONEMES, where, BadText)
    word = re.sub("[^a-z]", "", text.lower())[:MAX_WORD_CHARS]
    if len(word) < 2:
        raise BadText(f"{where}: it is no word of letters", "write the word between the tags: at least two letters")
    key = _key(word, symbols, most)
    mark = text[-1] if text[-1] in MARKS else ""
    return f"{key}{mark}"


def without_pronunciation(word: str) -> str:
    """A spoken word as it is spelt: ``tomato.`` for ``to'mato.`` where that was made here."""
    if "'" not in word:
        return word
    bare = word.rstrip(MARKS)
    return _words.get(bare, bare) + word[len(bare) :]


def _key(word: str, symbols: str, most: int) -> str:
    from studio.text.phonemes import add_pronunciations

    with _lock:
        if (key := _keys.get((word, symbols))) is not None:
            return key
        free = (key for key in _candidates(word) if key not in _words)
        key = next(free, "")
        if not key or len(_keys) >= most:
            what = f"{word} was pronounced in too many ways" if not key else "too many words were pronounced"
            raise BadText(f"{what} since the studio was started", "put what is needed often into the lexicon")
        add_pronunciations({key: symbols})
        _words[key] = word
        _keys[word, symbols] = key
        return key


def _candidates(word: str) -> list[str]:
    """The word with an apostrophe, then with two, at every place but those of contractions."""
    ones = [f"{word[:at]}'{word[at:]}" for at in range(1, len(word))]
    twos = [f"{one[:at]}'{one[at:]}" for one in ones for at in range(one.index("'") + 2, len(one))]
    endings = ("'s", "'t", "'d", "'m", "'ll", "'re", "'ve")
    return [one for one in (*ones, *twos) if not one.endswith(endings)]
