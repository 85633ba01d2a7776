"""Markdown of language models as a person would read it aloud."""

import time
from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from studio.text.markdown import MarkdownStream, spoken_markdown

CASES = [
    ("Plain text stays as it is.", "Plain text stays as it is."),
    ("**Bold**, *soft*, ***both***, __strong__ and ~~gone~~ words.", "Bold, soft, both, strong and gone words."),
    ("# A title\nText below.", "A title.\nText below."),
    ("## Why?\n\nBecause.", "Why?\nBecause."),
    ("Title\n=====\nText.", "Title.\nText."),
    ("- milk\n- eggs\n* bread", "milk.\neggs.\nbread."),
    ("1. Mix it\n2. Bake it", "1. Mix it.\n2. Bake it."),
    ("- outer\n  - inner", "outer.\ninner."),
    ("- [x] done\n- [ ] open", "done.\nopen."),
    ("> A quotation\n> goes on.", "A quotation\ngoes on."),
    ("See [the manual](https://example.org/a_b?c=1) now.", "See the manual now."),
    ("![A red kite](kite.png) flies.", "A red kite flies."),
    ("Run `make app` first.", "Run make app first."),
    ("Before.\n```python\nprint(1)\n```\nAfter.", "Before.\nAfter."),
    ("| name | age |\n|---|---|\n| Ann | 7 |\n| Bob | |", "name, age.\nAnn, 7.\nBob."),
    ("<think>They want a greeting.\n\nBe brief.</think>Hello!", "Hello!"),
    ("Yes. <think>I was cut", "Yes."),
    ("A <b>bold</b> line<br>and another &amp; more.", "A bold line and another & more."),
    ("<p>Hello</p>", "Hello"),
    ("<!-- hidden --> shown", "shown"),
    ("2 * 3 * 4 = 24, snake_case_name, a < b > c", "2 * 3 * 4 = 24, snake_case_name, a < b > c"),
    ("5*6 and 7*8", "5×6 and 7×8"),
    (r"Not \*marked\*.", "Not *marked*."),
    ("One line\nand the next.\n\nA new paragraph.", "One line\nand the next.\nA new paragraph."),
    ("    four spaces are no code", "four spaces are no code"),
    ("Above.\n\n---\n\nBelow.", "Above.\nBelow."),
    ("A link [1] and [x] stay.", "A link [1] and [x] stay."),
    ("", ""),
    (
        "**Two words**, _and three more_; ***both of them***: ~~gone again~~.",
        "Two words, and three more; both of them: gone again.",
    ),
    ("Run `make the app` or [read\nthe manual](https://example.org) now.", "Run make the app or read\nthe manual now."),
    ("Models write `<think>` first.", "Models write <think> first."),
    ("Hello <!-- not\n\nthis --> there.", "Hello there."),
    ('An <a href="https://example.org" title="x y">anchor</a> here.', "An anchor here."),
    ("if x <y and z", "if x <y and z"),
    ("> # Title\n> - item one\n\nBelow.", "Title.\nitem one.\nBelow."),
    ("The year was\n1986. It rained.", "The year was\n1986. It rained."),
    ("~~~\ncode\n~~~\nAfter.\n\n[x]: https://example.org 'y'\n\nEnd.", "After.\nEnd."),
    ("It costs `", "It costs `"),
    ("", ""),
]


@pytest.mark.parametrize(("written", "spoken"), CASES)
def test_markdown_is_read_as_a_person_would(written: str, spoken: str) -> None:
    assert spoken_markdown(written) == spoken


@given(st.sampled_from([written for written, _ in CASES]), st.data())
def test_cuts_change_nothing(written: str, data: st.DataObject) -> None:
    assert streamed(cut(written, data)) == spoken_markdown(written)


@given(st.text(alphabet="ab1. \n*_~`<>/[]()!|#-=:&;\\", max_size=80), st.data())
def test_cuts_of_any_marks_change_nothing(written: str, data: st.DataObject) -> None:
    assert streamed(cut(written, data)) == spoken_markdown(written)


def cut(text: str, data: st.DataObject) -> list[str]:
    """The text in pieces that are cut anywhere."""
    places = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=len(text))))
    return [text[begin:end] for begin, end in pairwise([0, *places, len(text)])]


def streamed(pieces: Iterable[str]) -> str:
    stream = MarkdownStream()
    return ("".join(map(stream.feed, pieces)) + stream.end()).strip()


@pytest.mark.parametrize(
    ("piece", "spoken"),
    [
        ("Plain ", "Plain "),
        ("A sentence.\n", "A sentence.\n"),
        ("**Bold ", "Bold "),
        ("# A title", "A "),  # the last word may get a full stop
        ("# A title\n", "A title.\n"),
        ("Read [the manual](https://example.org/a", "Read "),
        ("Read `the code", "Read "),
        ("Two lines\n", "Two "),  # what comes may be the line below a title
        ("Two lines\ngo on ", "Two lines\ngo on "),
        ("```\nprint(1)\n```\nAfter ", "After "),
        ("| Ann | 7 |\n", "Ann, 7.\n"),
        ("No <think>I see", "No "),
        ("1. Mix it now", "1. Mix it "),
        ("a <b and c ", "a <b and c "),
    ],
)
def test_what_is_complete_is_passed_on(piece: str, spoken: str) -> None:
    assert MarkdownStream().feed(piece) == spoken


@pytest.mark.parametrize("opening", ["[", "`", '<a title="', "![x](", "~~~ ", "| a"])
def test_what_never_ends_is_held_for_a_while(opening: str) -> None:
    """A construct that nothing closes delays the words in it, and takes no more memory than its limit."""
    stream = MarkdownStream()
    pieces = [stream.feed(piece) for piece in [opening, *["word "] * 2000]]
    assert opening == "~~~ " or sum(map(len, pieces)) > 4000
    assert len(stream._text) + len(stream._segment) < 6000


def test_reasoning_takes_no_memory() -> None:
    stream = MarkdownStream()
    assert not any(stream.feed(piece) for piece in ["<think>", *["a thought "] * 10_000])
    assert len(stream._hidden._held) < 100
    assert stream.feed("</thi") + stream.feed("nk>Hello. ") == "Hello. "


@pytest.mark.parametrize("piece", ["*", "[", "<think>", "<!--", "`", "> ", "- ", "![](", "| a |\n|", "&", "<b "])
def test_hostile_text_takes_no_time(piece: str) -> None:
    began_s = time.process_time()
    spoken_markdown((piece * 4096)[:4096])
    assert time.process_time() - began_s < 1.0


def test_a_flush_passes_the_last_word_on() -> None:
    stream = MarkdownStream()
    assert stream.feed("Hello there\n") + stream.flush() == "Hello there\n"
    assert stream.feed("old `frie") + stream.flush() == "old "
    assert stream.feed("nd`. ") + stream.end() == "friend. "
