"""The text side of an utterance by itself; and whose a pause is, by table."""

import threading

import pytest

from studio.core.text.language import in_language
from studio.engine.request.playback import WaitTracker
from studio.engine.request.text_intake import TextIntake
from studio.text.normalise import best, english


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


@pytest.mark.parametrize("is_read_between", [False, True])
@pytest.mark.parametrize("begun", ["It is 3 ", "It is 3", "It is 3 o'clock. He has 3"])
def test_text_is_read_in_the_language_in_which_it_was_sent(begun: str, is_read_between: bool) -> None:
    reading = TextIntake(english(), threading.RLock())
    words: list[str] = []
    for text, code in ((begun, "fr"), (" 2 ou 3 ", "en"), ("3 ", "en")):
        reading.push(text, 1.0)
        if is_read_between:
            words += read(reading)
        reading.set_normaliser(in_language(english(), code))
    if not is_read_between:
        reading.begin(2.0)
    reading.end(3.0)
    said = begun.lower().replace("3", "three")
    assert " ".join(words + read(reading)) == f"{said.strip()} deux ou trois three"
    assert reading.revise(0, begun + " 2 ") == len(begun + " 2 ")
    reading.rewind(0, 0, 4.0)
    assert " ".join(read(reading)) == f"{said.strip()} deux", "also when it is read again"


def waits() -> WaitTracker:
    made = WaitTracker(24_000, 25.0)
    made.resume(0.0)
    assert made.on_samples(600, 0, 0.0) == []  # the first sound ends no wait; it lasts until 25 ms
    return made


def told(found: list) -> list[tuple[str, float]]:
    return [(one.reason, one.duration_ms) for one in found]


@pytest.mark.parametrize(
    ("could_ms", "now_ms", "expected"),
    [
        (100.0, 110.0, [("text", 85.0)]),  # the frame came within its own length
        (100.0, 700.0, [("text", 100.0), ("compute", 575.0)]),  # text came, and then the computer was busy
        (10.0, 300.0, [("text", 10.0), ("compute", 265.0)]),
        (0.0, 625.0, [("compute", 600.0)]),  # text was there all the time
    ],
)
def test_text_until_it_could_go_on_and_compute_after(could_ms, now_ms, expected):
    one = waits()
    one.hold("text")
    assert one.awaits_text
    one.resume(could_ms)
    assert not one.awaits_text
    assert told(one.on_samples(600, 600, now_ms)) == expected


def test_what_was_held_by_nobody_is_the_computers():
    one = waits()
    one.resume(20.0)
    assert told(one.on_samples(600, 600, 95.0)) == [("compute", 70.0)]
    one.resume(96.0)
    assert one.on_samples(600, 1200, 110.0) == [], "in time: the sound lasts until 120 ms"


def test_credit_is_named_before_text_and_the_first_moment_counts():
    one = waits()
    one.hold("text")
    one.hold("credit")
    one.resume(200.0)
    one.resume(400.0)
    assert told(one.on_samples(600, 600, 210.0)) == [("credit", 185.0)]


def test_sound_made_ahead_is_no_wait():
    one = waits()
    for k in range(1, 40):
        one.resume(float(k))
        assert one.on_samples(600, 600 * k, float(k)) == []
    one.hold("text")
    one.resume(500.0)
    assert one.on_samples(600, 600 * 40, 510.0) == [], "a second was made ahead"


def test_a_player_without_sound_that_is_due_is_overdue() -> None:
    one = WaitTracker(24_000, 25.0)
    one.resume(0.0)
    assert one.overdue_ms(900.0) == 0.0, "nothing was heard yet"
    one.on_samples(600, 0, 0.0)
    assert one.overdue_ms(20.0) == 0.0 and one.overdue_ms(95.0) == 70.0
    one.hold("text")
    assert one.overdue_ms(900.0) == 0.0
    one.resume(100.0)
    assert one.overdue_ms(900.0) == 775.0, "a frame's length after the text"
    one.hold("credit")
    assert one.overdue_ms(900.0) == 0.0
