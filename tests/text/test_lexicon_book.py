"""The owner's lexicon: a file that is changed while voices speak."""

import copy
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from serve.serving import eventually

from studio.core.errors import BadFile, BadOption
from studio.text import lexicon_book
from studio.text.lexicon import PHONEMES, Lexicon, read_lexicon
from studio.text.lexicon_book import BookNormaliser, LexiconBook
from studio.text.normalise import plain
from studio.text.phonemes import pronounce


def test_entries_are_kept_changed_and_removed(tmp_path: Path) -> None:
    path = tmp_path / "data" / "lexicon.txt"
    book = LexiconBook(path)
    assert book.entries() == {} and book.text() == ""
    book.add("nginx", "engine x")
    book.add("GIF", "/dʒɪf/")
    book.add("nginx", "engine ex")
    assert LexiconBook(path).entries() == {"gif": "/dʒɪf/", "nginx": "engine ex"}
    assert book.merge(book.text().splitlines()) == 2
    book.remove("GIF")
    assert book.text() == "nginx engine ex\n"
    with pytest.raises(BadOption, match="no 'gif'"):
        book.remove("gif")


@pytest.mark.parametrize(
    ("word", "reading", "told"),
    [
        ("gif", "/bøf/", "the nearest is"),
        ("two words", "", "one line"),
        ("two words", "three", "one line"),
        ("x", "", "one line"),
        ("a\nb", "c", "one line"),
        ("a # b", "c", "one line"),
        ("a\0b", "c", "control characters"),
        ("ab", "c \x1b[2J", "control characters"),
        ("W3C", "/dʌb/", "no word of letters"),
    ],
)
def test_what_is_no_entry_changes_nothing(tmp_path: Path, word: str, reading: str, told: str) -> None:
    book = LexiconBook(tmp_path / "lexicon.txt")
    with pytest.raises((BadFile, BadOption), match=told):
        book.add(word, reading)
    assert book.entries() == {}


ADD_WORDS = """
import sys
from pathlib import Path
from studio.text import lexicon_book
from studio.text.lexicon import PHONEMES, Lexicon, read_lexicon
from studio.text.lexicon_book import LexiconBook

for number in range(10):
    LexiconBook(Path(sys.argv[1])).add(f"{sys.argv[2]}{number}", "one")
"""


def test_concurrent_changes_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "lexicon.txt"
    command = [sys.executable, "-c", ADD_WORDS, str(path)]
    processes = [subprocess.Popen([*command, name]) for name in ("a", "b", "c")]  # replicas share a data folder
    threads = [threading.Thread(target=LexiconBook(path).add, args=(f"word{n}", "one")) for n in range(20)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert [one.wait() for one in processes] == [0, 0, 0]
    assert len(LexiconBook(path).entries()) == 50


@pytest.mark.parametrize("word", ["İ" * 40, "\ufeff", "\ufeffword"])  # 80 small letters; what marks a file's encoding
def test_what_could_not_be_read_again_is_refused(tmp_path: Path, word: str) -> None:
    book = LexiconBook(tmp_path / "lexicon.txt")
    for change in (lambda: book.add(word, "one"), lambda: book.merge([f"{word} one"])):
        with pytest.raises((BadFile, BadOption)):
            change()
    book.add("İ" * 20, "one")
    assert len(book.entries()) == 1


def test_voices_follow_at_once_and_their_caches_stay_valid(tmp_path: Path) -> None:
    book = LexiconBook(tmp_path / "lexicon.txt")
    normalise = BookNormaliser(tmp_path / "lexicon.txt", plain())
    said = [["gif."]]
    assert [word for word, _ in normalise(["gif."])] == said[0]

    def follow() -> None:
        eventually(lambda: [word for word, _ in normalise(["gif."])] not in said, "the changed lexicon")
        said.append([word for word, _ in normalise(["gif."])])

    for reading in ("/dʒɪf/", "/ɡɪf/", "/dʒaɪf/", "/ɡaɪf/", "graphics file"):
        book.add("gif", reading)
        follow()
    names = [name for (name,) in said[1:-1]]
    assert [name.partition("'")[0] for name in names] == ["gif"] * 4
    assert [one.rstrip(".") for one in pronounce(names)] == ["ʤɪf", "ɡɪf", "ʤIf", "ɡIf"]
    assert said.pop() == ["graphics", "file."]
    book.remove("gif")
    del said[0]
    follow()
    assert said[-1] == ["gif."]


LONG = f"/{'ɚ' * 190}/"  # of twice as many symbols


@pytest.mark.parametrize(("word", "reading"), [("a", "/eɪ/"), ("I", "/aɪ/"), ("tv", "/ɚɚ/"), ("long", LONG)])
def test_each_entry_holds_and_none_keeps_the_others_from_holding(tmp_path: Path, word: str, reading: str) -> None:
    book = LexiconBook(tmp_path / "lexicon.txt")
    normalise = BookNormaliser(tmp_path / "lexicon.txt", plain())
    for letter in "tdk":  # again with other phonemes
        book.add(word, f"{reading[:-1]}{letter}/")
        book.add("nginx", f"engine {letter}")
        eventually(lambda letter=letter: normalise(["nginx"])[-1][0] == letter, "the changed lexicon")
        [(name, _)] = normalise([word])
        assert pronounce([name]) == [read_lexicon(tmp_path / "lexicon.txt", PHONEMES).phonemes[word.lower()]]


def test_no_text_waits_for_a_large_lexicon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, may_read = tmp_path / "lexicon.txt", threading.Event()
    LexiconBook(path).add("nginx", "engine x")
    normalise = BookNormaliser(path, plain())
    assert [word for word, _ in normalise(["nginx"])] == ["engine", "x"], "it is read before the first text"

    def read_slowly(*given: Any) -> Lexicon:
        assert may_read.wait(60)
        return read_lexicon(*given)

    monkeypatch.setattr(lexicon_book, "read_lexicon", read_slowly)
    status = path.stat()
    LexiconBook(tmp_path / "other.txt").add("nginx", "engine y")
    (tmp_path / "other.txt").replace(path)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))  # a clock that does not move
    assert [[word for word, _ in normalise(["nginx"])] for _ in range(50)] == [["engine", "x"]] * 50
    may_read.set()
    eventually(lambda: normalise(["nginx"])[1][0] == "y", "the new lexicon")


def test_a_damaged_file_leaves_the_entries_as_they_were(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "lexicon.txt"
    LexiconBook(path).add("nginx", "engine x")
    normalise = BookNormaliser(path, plain())
    assert [word for word, _ in normalise(["nginx"])] == ["engine", "x"]
    path.write_text("nonsense\n", encoding="utf-8")
    eventually(lambda: normalise(["nginx"]) and "is not used" in caplog.text, "a warning")
    assert [word for word, _ in normalise(["nginx"])] == ["engine", "x"]


def test_a_worker_process_reads_the_lexicon_too(tmp_path: Path) -> None:
    """Attention is computed anew in another process, with the engine's normaliser."""
    LexiconBook(tmp_path / "lexicon.txt").add("gif", "jiff")
    sent = copy.deepcopy(BookNormaliser(tmp_path / "lexicon.txt", plain()))  # as pickle does
    assert [word for word, _ in sent(["gif"])] == ["jiff"]
