"""The owner's lexicon: a file that may change while voices speak, and a normaliser that reloads it."""

import logging
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from studio.core import durable
from studio.core.checks import is_printable
from studio.core.errors import BadFile, BadOption, StudioError
from studio.core.locks import changing
from studio.core.ports import Normaliser
from studio.text.inline_phonemes import name_lexicon
from studio.text.lexicon import (
    MAX_BYTES,
    MAX_ENTRIES,
    PHONEMES,
    Lexicon,
    LexiconNormaliser,
    parse_lexicon,
    read_lexicon,
)

log = logging.getLogger("studio.text")
FILE = "lexicon.txt"  # in the data folder
_WAIT_S = 0.02  # for which a text waits for a changed lexicon; enough for a small one


class LexiconBook:
    """Entries in a file in the format of ``read_lexicon``; every change is on disk when a call returns."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def entries(self) -> Mapping[str, str]:
        """Readings by their words, in order of the words. Raises BadFile."""
        if not self._path.exists():
            return {}
        return dict(sorted(read_lexicon(self._path, PHONEMES).entries.items()))

    def text(self) -> str:
        """The file. Raises BadFile."""
        return "".join(f"{word} {reading}\n" for word, reading in self.entries().items())

    def add(self, word: str, reading: str) -> None:
        """Add an entry, or change that of its word. Raises BadOption, BadFile: the entry or a symbol is not valid."""
        line = f"{word.strip()} {reading.strip()}"
        if len(word.split()) != 1 or not reading.strip() or len(line.splitlines()) != 1 or "#" in line:
            what = "an entry is one line: a word without spaces or #, and its reading"
            raise BadOption(what, "give a word, and /IPA/ or the words spoken for it")
        self.merge([line], "the entry")

    def merge(self, lines: Sequence[str], name: str = "the file") -> int:
        """Add the entries of a file; returns how many it has. Raises BadFile."""
        added = parse_lexicon(lines, PHONEMES, name).entries
        if not added:
            raise BadFile(f"{name} has no entry", "give lines of a word and /IPA/ or the words spoken for it")
        for word, reading in added.items():
            if not is_printable(word + reading):  # it is shown on pages and written to terminals
                raise BadFile(f"the entry {word!r:.60} of {name} has control characters", "write it without them")
        with changing(self._path):
            self._write({**self.entries(), **added})
        return len(added)

    def remove(self, word: str) -> None:
        """Remove a word. Raises BadOption: there is none."""
        with changing(self._path):
            entries = dict(self.entries())
            if entries.pop(word.lower(), None) is None:
                raise BadOption(f"the lexicon has no {word[:40]!r}", "see the list of its entries")
            self._write(entries)

    def _write(self, entries: Mapping[str, str]) -> None:
        data = "".join(f"{word} {reading}\n" for word, reading in entries.items()).encode()
        if len(entries) > MAX_ENTRIES or len(data) > MAX_BYTES:
            raise BadOption(f"the lexicon would have {len(entries):,} entries", f"keep at most {MAX_ENTRIES:,}")
        if parse_lexicon(data.decode("utf-8-sig").splitlines(), PHONEMES, "the lexicon").entries != entries:
            raise BadOption("an entry could not be read again", "give words of letters, without invisible characters")
        durable.replace(self._path, data)


class BookNormaliser(LexiconNormaliser):
    """Reads words by the current entries of a lexicon file; see ``LexiconNormaliser``.

    A word with phonemes gets a name of its own (``studio.text.inline_phonemes``), since voices cache the tokens of
    words. A changed file is read in a separate thread: thousands of words take longer than speech can wait.
    """

    def __init__(self, path: Path, other: Normaliser) -> None:
        super().__init__(Lexicon({}, {}), other)
        self._path, self._reading = path, threading.Lock()
        self._stamp: object = None
        if self._current() is not None:
            self._read()

    def __reduce__(self) -> "tuple[type[BookNormaliser], tuple[Path, Normaliser]]":
        """Worker processes, to which a lock cannot be sent, read the file themselves."""
        return BookNormaliser, (self._path, self._other)

    def _over(self, other: Normaliser) -> Normaliser:
        return BookNormaliser(self._path, other)

    def __call__(self, tokens: Sequence[str], before: Sequence[str] = ()) -> list[tuple[str, int]]:
        if self._current() != self._stamp and self._reading.acquire(blocking=False):
            reader = threading.Thread(target=self._read_and_release, name="lexicon", daemon=True)
            reader.start()
            reader.join(_WAIT_S)
        return super().__call__(tokens, before)

    def _current(self) -> object:
        """A value that changes with the file, even if its time does not; None without a file."""
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_ino, status.st_size

    def _read_and_release(self) -> None:
        try:
            self._read()
        finally:
            self._reading.release()

    def _read(self) -> None:
        self._stamp = self._current()  # before the file is read
        try:
            lexicon = Lexicon({}, {}) if self._stamp is None else read_lexicon(self._path, PHONEMES)
            self._spoken = name_lexicon(lexicon.phonemes)
            self._lexicon = lexicon
        except StudioError as error:  # speech continues with the previous entries
            log.warning("the lexicon is not used: %s", error)
