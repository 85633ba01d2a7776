"""A user's lexicon: written words with their pronunciation in IPA, or with words to speak in their place."""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from studio.core.errors import BadFile, StudioError
from studio.core.files import read_bounded
from studio.core.ports import Normaliser
from studio.core.text.language import ENGLISH, Language, in_language

# IPA that voices are trained on, with capitals for diphthongs and the flap.
PHONEMES = "AIOWYbdfhijklmnpstuvwzæðŋɑɐɔəɛɜɡɪɹɾTʃʊʌʒʔʤʧθᵊᵻ"
MAX_BYTES, MAX_ENTRIES, MAX_READING_CHARS, MAX_WORD_CHARS = 1_000_000, 10_000, 200, 40
_SHAPE = "each line must be a word, white space, and /IPA/ or words: GIF /dʒɪf/ or nginx engine x"
_LINE = re.compile(rf"(\S{{1,{MAX_WORD_CHARS}}})\s+(\S.*)")
_LETTERS = re.compile(r"[A-Za-z]+(?:'[A-Za-z]+)*")
_VOWELS = "AIOWYiuæɑɐɔəɛɜɪʊʌᵊᵻ"
_STRESSES = "ˈˌ"
# Symbols of dictionaries, and the voices' symbols for them; the longest first.
_AS_WRITTEN = {
    "aɪ": "I",
    "eɪ": "A",
    "oʊ": "O",
    "əʊ": "O",
    "aʊ": "W",
    "ɔɪ": "Y",
    "dʒ": "ʤ",
    "tʃ": "ʧ",
    "ɚ": "əɹ",
    "ɝ": "ɜɹ",
    "r": "ɹ",
    "g": "ɡ",
    "ɫ": "l",
    "ɒ": "ɑ",
    "'": "ˈ",
    ",": "ˌ",
    "ː": "",
    ".": "",
}
_WRITTEN = re.compile("|".join(map(re.escape, _AS_WRITTEN)))
# Symbols of other languages, and the nearest English ones.
_NEAREST = dict(zip("aeoyøœxçβʁʀcqɲʎɯɨʏɣχħʂʐɭɖʈɱɥʋɘɵɤɶɸʍɕʑɻ", "æɛɔuɜɜkhvɹɹkknluᵻʊɡkhʃʒldtmwvəʊʌæfwʃʒɹ", strict=True))


@dataclass(frozen=True)
class Lexicon:
    """Pronunciations and respellings by written words in lower case."""

    phonemes: Mapping[str, str]
    respellings: Mapping[str, tuple[str, ...]]
    entries: Mapping[str, str] = field(default_factory=dict[str, str])  # readings as they are written


def read_lexicon(path: Path, inventory: str) -> Lexicon:
    """Read a file of lines ``word /IPA/`` or ``word other words``; ``#`` begins a comment.

    Args:
        inventory: the phonemes of the voices.

    Raises:
        BadFile: a line has another form, or a symbol that the voices lack; the message has its number.
    """
    try:
        lines = read_bounded(path, MAX_BYTES).decode("utf-8-sig").splitlines()
    except OSError as error:
        raise BadFile(f"the lexicon {path} cannot be read: {error.strerror}", "give a file with --lexicon") from error
    except UnicodeDecodeError as error:
        raise BadFile(f"the lexicon {path} is no text in UTF-8", _SHAPE) from error
    return parse_lexicon(lines, inventory, str(path))


def parse_lexicon(lines: Sequence[str], inventory: str, name: str) -> Lexicon:
    """``read_lexicon`` of lines; ``name``: of the file, for messages. The last line of a word applies."""
    phonemes, respellings = dict[str, str](), dict[str, tuple[str, ...]]()
    entries: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        bare = re.sub(r"(?:^|\s)#.*", "", line).strip()
        if not bare:
            continue
        where = f"line {number} of {name}"
        match = _LINE.fullmatch(bare)
        word = match[1].lower() if match else ""
        if (
            match is None
            or len(word) > MAX_WORD_CHARS  # lower case may be longer
            or len(match[2]) > MAX_READING_CHARS
            or len(phonemes) + len(respellings) >= MAX_ENTRIES
        ):
            raise BadFile(f"{where} is no entry", f"{_SHAPE}; at most {MAX_ENTRIES:,} lines")
        reading = match[2].strip()
        if reading.startswith("/") != reading.endswith("/") or not reading.strip("/"):
            raise BadFile(f"{where}: {reading!r} has no IPA between two slashes", _SHAPE)
        entries[word] = reading
        phonemes.pop(word, None)
        respellings.pop(word, None)
        if not reading.startswith("/"):
            respellings[word] = tuple(reading.split())
        elif not _LETTERS.fullmatch(word):
            raise BadFile(
                f"{where}: {match[1]!r} has IPA and is no word of letters", "respell it: W3C double u three c"
            )
        else:
            phonemes[word] = checked_ipa(reading[1:-1], inventory, where)
    return Lexicon(phonemes, respellings, entries)


def checked_ipa(ipa: str, inventory: str, where: str, error: type[StudioError] = BadFile) -> str:
    """Convert IPA to the voices' symbols, each stress before its vowel. Raises ``error``: a bad symbol, or no vowel."""
    symbols = _WRITTEN.sub(
        lambda match: _AS_WRITTEN[match[0]], unicodedata.normalize("NFC", re.sub("[ \u0361]", "", ipa))
    )
    for symbol in symbols:
        if symbol not in inventory and symbol not in _STRESSES:
            nearest = f"the nearest is {_NEAREST[symbol]!r}; " if symbol in _NEAREST else ""
            name = unicodedata.name(symbol, "a character without a name").lower()
            raise error(f"{where}: no voice has {symbol!r} ({name})", f"{nearest}use {' '.join(inventory)}")
    if not any(symbol in _VOWELS for symbol in symbols):
        raise error(f"{where}: /{ipa}/ has no vowel", f"use at least one of {' '.join(_VOWELS)}")
    return re.sub(rf"([{_STRESSES}])([^{_VOWELS}{_STRESSES}]+)(?=[{_VOWELS}])", r"\2\1", symbols)


class LexiconNormaliser:
    """Reads words of a lexicon by its entries, and all others by another normaliser."""

    def __init__(self, lexicon: Lexicon, other: Normaliser) -> None:
        self._lexicon, self._other = lexicon, other
        self._spoken: Mapping[str, str] = {}  # names of words with phonemes, if they differ from the words
        self.unread: str = getattr(other, "unread", "no_reading")
        self.language: Language = getattr(other, "language", ENGLISH)
        self._others: dict[str, Normaliser] = {}

    def in_language(self, code: str) -> Normaliser:
        """See ``studio.core.text.language``."""
        if code not in self._others:
            other = in_language(self._other, code)
            self._others[code] = self if other is self._other else self._over(other)
        return self._others[code]

    def _over(self, other: Normaliser) -> Normaliser:
        """This lexicon over another normaliser."""
        return LexiconNormaliser(self._lexicon, other)

    def __call__(self, tokens: Sequence[str], before: Sequence[str] = ()) -> list[tuple[str, int]]:
        out: list[tuple[str, int]] = []
        run: list[tuple[str, int]] = []  # tokens for the other normaliser, with their indices

        def read_run() -> None:
            at = run[0][1] if run else 0
            previous = [*before, *tokens[max(0, at - 2) : at]][-2:] if run else ()
            out.extend((word, run[k][1]) for word, k in self._other([token for token, _ in run], previous))
            run.clear()

        for at, token in enumerate(tokens):
            base, mark = self.language.split_mark(token)
            word = base.lower()
            if word in self._lexicon.phonemes:
                read_run()
                out.append((self._spoken.get(word, word) + mark, at))
            elif respelt := self._lexicon.respellings.get(word):
                run += [(one, at) for one in (*respelt[:-1], respelt[-1] + mark)]
            else:
                run.append((token, at))
        read_run()
        return out
