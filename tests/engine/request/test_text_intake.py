"""The text side of an utterance by itself: what waits is bounded, and going back copies no text."""

import threading

from studio.engine.request.text_intake import TextIntake
from studio.text.normalise import best


def read(reading: TextIntake) -> list[str]:
    """Read all that waits; the words that were committed."""
    words: list[str] = []
    while (step := reading.step()) is not None:
        words += [word.word for word in step.changes.words]
    return words


def test_flushes_with_nothing_between_them_are_one() -> None:
    reading = TextIntake(best(), threading.RLock())
    reading.push("one two ", 1.0)
    for k in range(1000):
        reading.flush(2.0 + k)
    assert len(reading._inbox) == 2
    assert read(reading) == ["one", "two"]
    reading.push("three ", 3.0)
    reading.flush(4.0)
    assert read(reading) == ["three"]


def test_reading_again_copies_nothing_but_the_piece_it_begins_in() -> None:
    reading = TextIntake(best(), threading.RLock())
    pieces = [f"word{chr(97 + k)} " * 800 for k in range(20)]
    for piece in pieces:
        reading.push(piece, 1.0)
    at = reading.chars - 4
    assert reading.revise(at, "xy ") == at
    assert reading.rewind(at, 0, 2.0) == 0
    waiting = [one.text for one in reading._inbox]  # type: ignore[union-attr]
    assert "".join(waiting) == "".join(pieces)[:at] + "xy " and reading.unread_chars == at + 3
    assert all(one is piece for one, piece in zip(waiting[:19], pieces[:19], strict=True))


def test_taking_back_all_that_was_unread_leaves_a_step_to_read() -> None:
    reading = TextIntake(best(), threading.RLock())
    reading.push("one two three", 1.0)
    assert read(reading) == ["one", "two"]
    assert reading.revise(0, "") == 0
    reading.rewind(0, 0, 2.0)
    assert reading.has_unread and reading.unread_chars == 0
    assert read(reading) == []
