"""Arbitrary edits of the live text field: heard text stays, the rest equals the field."""

import pytest
from core.typing_desk import Desk, Unheard
from hypothesis import given, settings
from hypothesis import strategies as st

from studio.core.errors import Closed

_EDITS = st.lists(
    st.tuples(st.floats(0, 1), st.floats(0, 0.5), st.text("ab c\n.", max_size=6), st.booleans()), max_size=25
)


@settings(max_examples=400, deadline=None)
@given(_EDITS)
def test_any_edits_keep_the_field_and_lose_no_new_text(edits: list[tuple[float, float, str, bool]]) -> None:
    desk, model = Desk(), ""
    for place, share, insert, at_end in edits:
        at = len(model) if at_end else int(place * len(model))
        remove = int(share * (len(model) - at))
        model = model[:at] + insert + model[at + remove :]
        desk.edit(at, remove, insert)
        if insert.endswith("."):
            desk.rest()
        live = desk.live
        assert live.text == model
        assert len(live._origin) == live._covered <= len(model)
        assert not set(model[live._covered :]) & set(" \n"), "a complete word was not sent"
        assert all(0 <= origin < len(live._sent) for origin in live._origin)
        assert list(live._origin) == sorted(live._origin)
        assert all(0 <= first <= last < len(desk.out.words) for first, last, _ in desk.out.edited)
    before = len(desk.out.words)
    desk.edit(len(model), 0, " zzz yyy ")
    assert desk.out.words[before:][-2:] == ["zzz", "yyy"]


@settings(max_examples=300, deadline=None)
@given(_EDITS)
def test_unheard_text_equals_the_field(edits: list[tuple[float, float, str, bool]]) -> None:
    desk, model = Desk(out=Unheard()), ""
    for place, share, insert, at_end in edits:
        at = len(model) if at_end else int(place * len(model))
        remove = int(share * (len(model) - at))
        model = model[:at] + insert + model[at + remove :]
        desk.edit(at, remove, insert)
        if insert.endswith("."):
            desk.rest()
        assert desk.live.text == model and _letters(model).startswith(_letters(desk.out.sent))
    desk.clock.ms += 400
    desk.live.poll()
    assert not set(model[desk.live._covered :]) & set(" \n"), "a complete word was not sent"
    desk.live.end()
    assert desk.out.sent.split() == model.split() and desk.out.edited == []


def _letters(text: str) -> str:
    return "".join(text.split())


@settings(max_examples=300, deadline=None)
@given(_EDITS, st.lists(st.integers(0, 3), min_size=25, max_size=25))
def test_heard_text_is_never_revised(edits: list[tuple[float, float, str, bool]], more: list[int]) -> None:
    out = Unheard()
    desk, model, heard = Desk(out=out), "", ""
    for (place, share, insert, at_end), words in zip(edits, more, strict=False):
        out.heard = min(out.heard + words, len(out.sent.split()))
        heard = out.sent[: out.settled_chars()]
        at = len(model) if at_end else int(place * len(model))
        remove = int(share * (len(model) - at))
        model = model[:at] + insert + model[at + remove :]
        desk.edit(at, remove, insert)
        if insert.endswith("."):
            desk.rest()
        assert desk.live.text == model and out.sent.startswith(heard)
        assert len(desk.live._origin) == desk.live._covered <= len(model)
    before = len(out.words)
    desk.edit(len(model), 0, " zzz yyy ")
    assert out.words[before:][-2:] == ["zzz", "yyy"]


@pytest.mark.parametrize(
    ("heard", "edit", "sent", "edited"),
    [
        (0, (4, 3, "dog"), "the dog sat on ", []),
        (1, (4, 3, "dog"), "the dog sat on ", []),
        (2, (4, 3, "dog"), "the cat sat on ", [(1, 1, "dog")]),
        (2, (4, 7, "dog ran"), "the cat ran on ", [(1, 1, "dog")]),
        (2, (4, 11, ""), "the cat ", [(1, 1, "")]),
        (1, (4, 8, ""), "the on ", []),
        (1, (8, 0, "big "), "the cat big sat on ", []),
    ],
)
def test_unheard_edit_is_spoken(
    heard: int, edit: tuple[int, int, str], sent: str, edited: list[tuple[int, int, str]]
) -> None:
    out = Unheard()
    desk = Desk(out=out)
    desk.type("the cat sat on ")
    out.heard = heard
    desk.edit(*edit)
    desk.clock.ms += 400
    desk.live.poll()
    assert (out.sent, out.edited) == (sent, edited)


def test_edited_word_is_spoken_once_complete() -> None:
    out = Unheard()
    desk = Desk(out=out)
    desk.type("a cat sat ")
    for _ in range(3):
        desk.edit(4 - _, 1, "")
        assert out.sent == "a "
    for at, letter in enumerate("dog", start=2):
        desk.edit(at, 0, letter)
        desk.clock.ms += 399
        assert not desk.live.poll() and out.sent == "a "
    desk.clock.ms += 1
    assert desk.live.poll() and out.sent == "a dog sat "
    desk.edit(2, 3, "d")
    assert out.sent == "a "
    desk.type("down")  # typing at the end completes the edit
    assert out.sent == "a d sat "


@settings(deadline=None)
@given(st.lists(st.text("ab c,", max_size=5), max_size=20))
def test_typing_at_the_end_sends_exactly_the_field(parts: list[str]) -> None:
    desk = Desk()
    for part in parts:
        desk.edit(len(desk.live.text), 0, part)
    desk.live.end()
    assert desk.out.sent == desk.live.text
    assert desk.out.edited == []


@pytest.mark.parametrize(
    ("heard", "edit", "sent", "edited"),
    [
        (0, (4, 3, "dog"), "the dog sat on", []),
        (2, (4, 3, "dog"), "the cat sat on", [(1, 1, "dog")]),
        (2, (4, 7, "dog ran"), "the cat ran on", [(1, 1, "dog")]),
        (1, (4, 8, ""), "the on", []),
        (1, (8, 0, "big "), "the cat big sat on", []),
        (3, (12, 2, "down"), "the cat sat down", []),
        (3, (13, 1, ""), "the cat sat o", []),
        (3, (11, 3, ""), "the cat sat ", []),
    ],
)
def test_finished_text_accepts_edits_of_unheard_words(
    heard: int, edit: tuple[int, int, str], sent: str, edited: list[tuple[int, int, str]]
) -> None:
    out = Unheard()
    desk = Desk(out=out)
    desk.type("the cat sat on")
    desk.live.end()
    out.heard = heard
    desk.edit(*edit)
    assert (out.sent.rstrip(), out.edited) == (sent.rstrip(), edited)
    assert desk.live.next_deadline_ms() is None
    with pytest.raises(Closed):
        desk.edit(len(desk.live.text), 0, "x")


@settings(max_examples=200, deadline=None)
@given(_EDITS, st.lists(st.integers(0, 2), min_size=25, max_size=25))
def test_no_edit_after_the_end_revises_heard_text(edits: list[tuple[float, float, str, bool]], more: list[int]) -> None:
    out = Unheard()
    desk, model = Desk(out=out), "one two three four five six seven"
    desk.edit(0, 0, model)
    desk.live.end()
    for (place, share, insert, _), words in zip(edits, more, strict=False):
        out.heard = min(out.heard + words, len(out.sent.split()))
        heard = out.sent[: out.settled_chars()]
        at = int(place * len(model))
        remove = int(share * (len(model) - at))
        if at >= len(model):
            continue
        model = model[:at] + insert + model[at + remove :]
        desk.edit(at, remove, insert)
        assert desk.live.text == model and out.sent.startswith(heard)
        if not out.heard:
            assert out.sent == model
