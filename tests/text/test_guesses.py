"""Words that no dictionary holds: a process is asked, those who ask take turns, and what goes wrong there is told."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from studio.text import guesses as kept
from studio.text import guessing, phonemes
from studio.text.guesses import Guesses
from studio.text.guessing import Guesser, Said


def unasked(word: str) -> Said:
    raise AssertionError(f"{word} was guessed in this process")


@pytest.fixture
def guesses() -> Iterator[Guesses]:
    made = Guesses(unasked)
    yield made
    made._process.close()


def test_another_process_guesses_as_this_one_would(guesses: Guesses) -> None:
    words = ["snorvelate", "thrimbles", "x's", "o'blorvick"]
    guesses.ask(words).result(timeout=60)
    phonemes.load()
    assert [guesses(word) for word in words] == [phonemes._guesses()._net(word) for word in words]


def test_where_that_process_ends_or_hangs_this_one_guesses_and_another_begins(
    guesses: Guesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guesses, "_net", lambda word: (f"here {word}", 2))
    monkeypatch.setattr(guessing, "PATIENCE_S", 0.5)
    for sign, word in ((signal.SIGKILL, "plombinated"), (signal.SIGSTOP, "vandrosite")):
        monkeypatch.setattr(guessing, "PATIENCE_S", 60.0)
        guesses.ask([word[::-1]]).result(timeout=60)  # it is there
        first = guesses._process._process
        assert first is not None
        monkeypatch.setattr(guessing, "PATIENCE_S", 0.5)
        os.kill(first.pid, sign)
        guesses.ask([word]).result(timeout=60)
        assert guesses(word) == (f"here {word}", 2) and first.poll() is not None, "it is gone, and nobody waits for it"


def test_where_no_process_can_begin_this_one_guesses_and_the_log_says_so_once(
    guesses: Guesses, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    monkeypatch.setattr(guesses, "_net", lambda word: ("here", 2))
    caplog.set_level("WARNING")
    guesses.begin()
    guesses.ask(["quabbled", "quobbled"]).result(timeout=60)
    assert guesses("quabbled") == ("here", 2) and len(caplog.records) == 1


@pytest.mark.parametrize(
    "answer", ['["kˈæt", 2]', '["other", "kˈæt", 2]', '["blor", 1, 2]', '["blor", [], {}]', "{", '"blor"']
)
def test_what_is_no_answer_to_the_word_is_not_kept(answer: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", f"input(); print({answer!r}, flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
    )
    guesser = Guesser()
    guesser._process = process
    assert guesser("blor") is None
    assert process.poll() is not None and guesser._process is None


def test_nothing_is_imported_from_where_the_studio_was_started(
    guesses: Guesses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("json", "sanotts", "numpy", "studio"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / name)!r}, 'w')", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    guesses.ask(["blorvick"]).result(timeout=60)
    assert guesses("blorvick") and {path.suffix for path in tmp_path.iterdir()} == {".py"}


class Slow:
    """A process that answers when it is let."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.go = threading.Semaphore(0)

    def __call__(self, word: str) -> Said:
        assert self.go.acquire(timeout=60)
        self.asked.append(word)
        return word, 2

    def close(self) -> None:
        pass


def test_those_who_ask_take_turns_and_who_left_is_not_asked_for(
    guesses: Guesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Slow()
    monkeypatch.setattr(guesses, "_process", slow)
    many = guesses.ask([f"a{k}" for k in range(400)])
    gone = guesses.ask(["b0", "b1", "b2"])
    one = guesses.ask(["c0"])
    assert gone.cancel()
    slow.go.release(3)
    one.result(timeout=60)
    assert slow.asked[:2] == ["a0", "c0"] and not many.done()
    many.cancel()
    slow.go.release(10)
    guesses.ask(["d0"]).result(timeout=60)
    assert len(slow.asked) <= 5 and not {word for word in slow.asked if word.startswith("b")}


def test_what_nobody_can_guess_is_told_and_the_next_is_guessed(
    guesses: Guesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guesses, "_process", lambda word: None if word == "bad" else (word, 2))
    monkeypatch.setattr(guesses, "_net", lambda word: 1 / 0)
    assert isinstance(guesses.ask(["good", "bad", "fine"]).exception(timeout=60), ZeroDivisionError)
    assert guesses.ask(["fine"]).result(timeout=60) is None and guesses("fine") == ("fine", 2)
    monkeypatch.setattr(guesses, "_process", Slow())


def test_what_was_used_last_is_forgotten_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "_KEPT_WORDS", 2)
    guesses = Guesses(lambda word: (word, 2))
    for word in ("vlim", "vlom", "vlim", "vlam"):
        guesses(word)
    assert [guesses.kept(word) for word in ("vlim", "vlom", "vlam")] == [("vlim", 2), None, ("vlam", 2)]
