"""The live text field: what is sent and recorded, and invalid edits."""

import pytest
from core.typing_desk import Desk, Unheard

from studio.core.errors import BadMessage, BadText, Closed
from studio.core.text.livetext import MAX_FIELD_CHARS


def test_only_complete_words_are_sent() -> None:
    desk = Desk()
    desk.type("hello wor")
    assert desk.out.sent == "hello "
    desk.back(3)
    desk.type("there you")
    assert desk.out.sent == "hello there "
    desk.live.end()
    assert desk.out.sent == "hello there you"
    assert (desk.out.words, desk.out.edited, desk.out.calls) == (["hello", "there", "you"], [], ["end"])


def test_composed_word_is_held_until_its_space() -> None:
    desk = Desk()
    for step in ("k", "ko", "kon", "con", "contact"):  # an IME replaces its whole composition at every key
        desk.edit(0, len(desk.live.text), step)
    desk.type(" us ")
    assert (desk.out.sent, desk.out.edited) == ("contact us ", [])


@pytest.mark.parametrize(
    ("start", "edit", "then", "spoken", "edited"),
    [
        ("teh ", (0, 3, "the"), "cat ", ["teh", "cat"], [(0, 0, "the")]),
        ("teh ", (0, 4, "the "), "cat ", ["teh", "cat"], [(0, 0, "the")]),
        ("see teh ", (4, 4, "the "), "cat ", ["see", "teh", "cat"], [(1, 1, "the")]),
        ("teh ", (1, 2, "he"), "cat ", ["teh", "cat"], [(0, 0, "the")]),  # the page sends the shortest difference
        ("teh ", (0, 4, "the cat "), "sat ", ["teh", "cat", "sat"], [(0, 0, "the")]),
        ("alot ", (1, 0, " "), "of ", ["alot", "of"], [(0, 0, "a lot")]),
        ("the cat sat ", (4, 3, "dog"), "down ", ["the", "cat", "sat", "down"], [(1, 1, "dog")]),
        ("the cat sat ", (0, 7, "a dog"), "x ", ["the", "cat", "sat", "x"], [(0, 1, "a dog")]),
        ("the cat ", (4, 0, "big "), "sat ", ["the", "cat", "sat"], [(1, 1, "big cat")]),
        ("the cat ", (4, 4, ""), "dog ", ["the", "cat", "dog"], [(1, 1, "")]),
        ("the tall man ", (4, 5, ""), "sat ", ["the", "tall", "man", "sat"], [(1, 1, "")]),
        ("the tall old man ", (4, 9, ""), "sat ", ["the", "tall", "old", "man", "sat"], [(1, 2, "")]),
        ("the tall man ", (6, 3, ""), "sat ", ["the", "tall", "man", "sat"], [(1, 2, "taman")]),
        ("the  cat ", (4, 0, "x"), "", ["the", "cat"], [(0, 0, "the x")]),
        (" cat ", (0, 0, "x"), "", ["cat"], [(0, 0, "x cat")]),
        ("one two ", (0, 8, "N"), "ew words ", ["one", "two", "new", "words"], [(0, 1, "")]),
        ("the cat sa", (4, 6, "dog ran "), "x ", ["the", "cat", "ran", "x"], [(1, 1, "dog")]),
    ],
)
def test_edits_of_sent_text(
    start: str, edit: tuple[int, int, str], then: str, spoken: list[str], edited: list[tuple[int, int, str]]
) -> None:
    desk = Desk()
    desk.type(start)
    desk.edit(*edit)
    desk.type(then)
    assert desk.out.words == spoken
    assert desk.out.edited == edited
    assert desk.live.text == start[: edit[0]] + edit[2] + start[edit[0] + edit[1] :] + then


@pytest.mark.parametrize("places", [[4, 4, 4], [6, 5, 4]], ids=["delete", "backspace"])
def test_typing_at_a_deleted_word_corrects_it(places: list[int]) -> None:
    desk = Desk()
    desk.type("the cat sat ")
    for at in places:
        desk.edit(at, 1, "")
    assert desk.out.edited[-1] == (1, 1, "")
    desk.out.edited.clear()
    for at, letter in enumerate("dog", start=4):
        desk.edit(at, 0, letter)
    assert desk.out.edited == [(1, 1, "d"), (1, 1, "do"), (1, 1, "dog")]
    desk.edit(0, 3, "a")
    assert desk.out.edited[-1] == (0, 0, "a")
    desk.type("down ")
    assert desk.out.words == ["the", "cat", "sat", "down"]


def test_several_deleted_words_are_corrected_at_the_first() -> None:
    desk = Desk(auto=False)
    desk.type("the cat sat on it ")
    desk.edit(4, 10, "")
    desk.edit(4, 0, "dog")
    desk.edit(7, 0, "s")
    desk.deliver()
    assert sorted(desk.out.edited) == [(1, 1, "dogs"), (2, 2, ""), (3, 3, "")]


def test_edited_sent_word_is_not_said_in_pieces() -> None:
    desk = Desk()
    desk.type("two cat ")
    desk.back(1)
    desk.type("s sat ")
    assert desk.out.words == ["two", "cat", "sat"]
    assert desk.out.edited == [(1, 1, "cats")]


def test_word_split_again_is_not_lost() -> None:
    desk = Desk()
    desk.type("cat do")
    desk.edit(3, 1, "")
    desk.edit(3, 0, " ")
    desk.type("g ")
    assert desk.out.words == ["cat", "dog"]


def test_later_coordinates_are_valid_after_edits() -> None:
    desk = Desk()
    desk.type("aa be co do ")
    desk.edit(0, 2, "a much longer start")
    desk.edit(desk.live.text.index("co"), 2, "CO")
    desk.edit(0, 1, "A")
    assert desk.out.edited == [(0, 0, "a much longer start"), (2, 2, "CO"), (0, 0, "A")]


def test_words_committed_after_the_edit_are_recorded_then() -> None:
    desk = Desk(auto=False)
    desk.type("one teh ")
    desk.edit(4, 3, "the")
    assert desk.out.edited == []
    desk.deliver()
    assert desk.out.edited == [(1, 1, "the")]


def test_idle_flushes_once_and_never_a_partial_word() -> None:
    desk = Desk()
    assert desk.live.next_deadline_ms() is None
    desk.type("hello the")
    assert desk.live.next_deadline_ms() == desk.clock.ms + 700
    desk.clock.ms += 699
    assert not desk.live.poll()
    desk.type("r")  # any input resets the idle time
    desk.clock.ms += 699
    assert not desk.live.poll()
    desk.clock.ms += 1
    assert desk.live.poll()
    assert (desk.out.calls, desk.out.sent, desk.live.next_deadline_ms()) == (["flush"], "hello ", None)
    desk.clock.ms += 5000
    assert not desk.live.poll()
    desk.type("e is ")
    desk.clock.ms += 700
    assert desk.live.poll()
    assert desk.out.calls == ["flush", "flush"]


@pytest.mark.parametrize("text", ["on the stove.", "on the stove?!", "she said “stove.”", "stove…", "at 5 p.m."])
def test_complete_sentence_is_flushed_on_idle(text: str) -> None:
    desk = Desk()
    desk.type(text)
    assert desk.out.sent == text[: text.rfind(" ") + 1]
    assert desk.rest()
    assert (desk.out.sent, desk.out.calls[-1]) == (f"{text} ", "flush")
    assert not desk.rest()
    desk.type(" The cat sat")
    assert desk.out.sent == f"{text}  The cat "
    assert desk.out.edited == []
    desk.live.end()
    assert desk.out.words[-3:] == ["the", "cat", "sat"]


@pytest.mark.parametrize("text", ["it costs 3.", "hello Mr.", "stov", "stove,", "...", "."])
def test_incomplete_sentence_waits(text: str) -> None:
    desk = Desk()
    desk.type(text)
    desk.rest()
    assert desk.out.sent == text[: text.rfind(" ") + 1]


@pytest.mark.parametrize(("heard", "sent", "edited"), [(1, "see stove.com now ", []), (2, None, [(1, 1, "stove.com")])])
def test_continued_sentence_revises_what_was_not_heard(
    heard: int, sent: str | None, edited: list[tuple[int, int, str]]
) -> None:
    out = Unheard()
    desk = Desk(out=out)
    desk.type("see stove.")
    desk.rest()
    out.heard = heard
    desk.type("com now ")
    assert out.sent == (sent or "see stove.  now ")
    assert out.edited[-1:] == edited
    assert desk.live.text == "see stove.com now "


def test_spaces_alone_do_not_flush() -> None:
    desk = Desk()
    desk.type("   ")
    desk.clock.ms += 1000
    assert not desk.live.poll()


@pytest.mark.parametrize("bad", [(-1, 0, "x"), (0, 3, ""), (3, 0, "x"), (0, -1, ""), (1, 2, "")])
def test_edit_outside_the_field_is_refused_and_changes_nothing(bad: tuple[int, int, str]) -> None:
    desk = Desk()
    desk.type("ab")
    with pytest.raises(BadMessage, match="outside the field"):
        desk.edit(*bad)
    desk.type(" c")
    assert (desk.live.text, desk.out.sent) == ("ab c", "ab ")


def test_field_length_is_bounded_with_the_limit_named() -> None:
    desk = Desk()
    desk.edit(0, 0, "attention " * (MAX_FIELD_CHARS // 10))
    with pytest.raises(BadText, match="200,000"):
        desk.edit(0, 0, "x")
    desk.edit(0, 1, "b")


def test_no_text_after_the_end() -> None:
    desk = Desk()
    desk.live.end()
    desk.live.end()
    assert desk.out.calls == ["end"]
    with pytest.raises(Closed):
        desk.edit(0, 0, "x")


def test_lone_surrogate_is_not_sent() -> None:
    desk = Desk()
    desk.edit(0, 0, "a\ud83d b ")
    desk.out.sent.encode("utf-8")
    assert len(desk.live.text) == 5


def test_each_key_keeps_its_time() -> None:
    """A word is sent with the space after it; its letters were typed earlier."""
    desk = Desk()
    for char in "one two":
        desk.clock.ms += 100.0
        desk.type(char)
    assert [(one.char_start, one.before_ms) for one in desk.out.typed] == [(0, [300.0, 200.0, 100.0, 0.0])]
    desk.clock.ms += 50.0
    desk.edit(4, 1, "w")  # the first letter has changed
    desk.clock.ms += 50.0
    desk.type(" ")
    assert (desk.out.typed[1].char_start, desk.out.typed[1].before_ms) == (4, [50.0, 200.0, 100.0, 0.0])


def test_pasted_text_has_no_key_times() -> None:
    desk = Desk()
    desk.edit(0, 0, "a pasted text ")
    assert desk.out.sent == "a pasted text " and desk.out.typed == []
    desk.edit(14, 0, "x" * 5000)
    desk.clock.ms += 10.0
    desk.type(" ")
    assert len(desk.out.typed[0].before_ms) == 1000, "bounded"


def test_a_pair_of_surrogates_cut_between_two_edits_is_one_character() -> None:
    desk = Desk()
    desk.edit(0, 0, "\ud835")
    desk.edit(1, 0, "\udc07ello ")
    assert desk.live.text == "\U0001d407ello "
    assert desk.out.sent == "\U0001d407ello "
