"""Pronunciations within a text: a word and its phonemes get a name, the word with a suffix (``tomato'zb``).

The normaliser does not change such a name. Voices that read phonemes find them in the dictionary of the G2P; others
read the word without the suffix. A process never reuses a name, since voices cache tokens of words; the least recently
used names are dropped, so that one client cannot exhaust a table that all share.
"""

import itertools
import re
import threading
from collections import OrderedDict
from collections.abc import Mapping

from studio.core.errors import BadText
from studio.core.text.typography import MARKS
from studio.text.lexicon import PHONEMES, checked_ipa

MAX_PRONUNCIATIONS, MAX_IPA_CHARS, MAX_WORD_CHARS = 20_000, 200, 30
_DIGITS = "bcfghjknpqvwxz"  # no contraction ends in one of these alone, and no English word has them in a row
_lock, _lexicon_lock = threading.Lock(), threading.Lock()
_numbers = itertools.count()
_names: OrderedDict[tuple[str, str], str] = OrderedDict()  # by word and symbols, the least recently used first
_lexicon: dict[tuple[str, str], str] = {}  # names of the owner's lexicon, which are never dropped
_words: dict[str, str] = {}  # by name


def pronounced(text: str, ipa: str) -> str:
    """The name to write in a text in place of ``text``, pronounced as ``ipa``; a final mark is kept.

    Raises:
        BadText: the IPA has a symbol that no voice has, or the text has no letters.
        NeedsPackage: there is no G2P.
    """
    where = f"the phonemes of {text[:40]!r}"
    if len(ipa) > MAX_IPA_CHARS:
        raise BadText(f"{where} are {len(ipa)} symbols", f"give at most {MAX_IPA_CHARS}")
    symbols = checked_ipa(ipa, PHONEMES, where, BadText)
    word = _letters(text)
    if not word:
        raise BadText(f"{where}: it is no word of letters", "write the word between the tags: letters from a to z")
    mark = text[-1] if text[-1] in MARKS else ""
    with _lock:
        return f"{_name(word, symbols)}{mark}"


def name_lexicon(phonemes: Mapping[str, str]) -> dict[str, str]:
    """Names of a lexicon's words; it replaces the previous lexicon. Raises NeedsPackage: there is no G2P."""
    spoken: dict[str, str] = {}
    with _lexicon_lock:
        before = dict(_lexicon)
        for written, symbols in phonemes.items():
            word = _letters(written)
            with _lock:  # per word, so that no text waits for all of them
                spoken[written] = _lexicon[word, symbols] = _name(word, symbols)
                _names.pop((word, symbols), None)
            before.pop((word, symbols), None)
        with _lock:
            _names.update(before)
            for key in before:
                del _lexicon[key]
    return spoken


def without_pronunciation(word: str) -> str:
    """A spoken word without the suffix of a name: ``tomato.`` for ``tomato'zb.``; other words are unchanged."""
    if "'" not in word:
        return word
    bare = word.rstrip(MARKS)
    return _words.get(bare, bare) + word[len(bare) :]


def _letters(text: str) -> str:
    return re.sub("[^a-z]", "", text.lower())[:MAX_WORD_CHARS]


def _name(word: str, symbols: str) -> str:
    """The name of a word with these phonemes; the caller holds the lock."""
    from studio.text.phonemes import add_pronunciations, remove_pronunciation

    key = word, symbols
    if (name := _lexicon.get(key)) is not None:
        return name
    if key not in _names:
        name = f"{word}'z{_digits(next(_numbers))}"
        add_pronunciations({name: symbols})
        _words[name], _names[key] = word, name
    _names.move_to_end(key)
    while len(_names) > MAX_PRONUNCIATIONS:
        _, old = _names.popitem(last=False)
        _words.pop(old, None)
        remove_pronunciation(old)
    return _names[key]


def _digits(number: int) -> str:
    rest, last = divmod(number, len(_DIGITS))
    return (_digits(rest) if rest else "") + _DIGITS[last]
