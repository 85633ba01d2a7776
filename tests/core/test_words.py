"""Word commitment: what is held, committed or unspeakable; independent of chunking."""

import re
import time
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from studio.core.ports import Normaliser
from studio.core.text.holding import BESIDE, can_grow
from studio.core.text.typography import ABBREVIATIONS, MAX_TOKEN_CHARS, SYMBOLS, WHITE
from studio.core.text.words import MAX_HELD_TOKENS, ClauseRule, WordChanges, WordStream
from studio.text import tables
from studio.text.normalise import english, plain

SPOKEN = re.compile(r"[a-z']{1,40}[,.?!;:]?")


def run(text: str, normaliser: Normaliser | None = None) -> WordChanges:
    stream = WordStream(normaliser or plain())
    changes = stream.push(text)
    changes.extend(stream.end())
    return changes


def words(text: str, normaliser: Normaliser | None = None) -> str:
    return " ".join(word.word for word in run(text, normaliser).words)


class Pushed:
    """Count the words committed by each push."""

    def __init__(self) -> None:
        self.stream = WordStream(english())

    def __call__(self, text: str) -> list[str]:
        return [word.word for word in self.stream.push(text).words]


def test_white_space_commits_and_a_partial_word_never_is() -> None:
    push = Pushed()
    assert push("Hel") == []
    assert push("lo") == []
    assert push(" wor") == ["hello"]
    assert push("ld\n\n") == ["world"]
    assert push("half") == []
    assert push.stream.flush().words == []
    assert [word.word for word in push.stream.end().words] == ["half"]


@pytest.mark.parametrize(
    "token",
    ["$5", "US$5", "1999", "Dr.", "p.m.", "U.S.", "pre-", "-", "~", "#", "March", "Jan", "USD", "½", "1st", "2x"],
)
def test_tokens_that_can_grow_are_held_until_the_next_word(token: str) -> None:
    assert can_grow(token)
    push = Pushed()
    assert push(f"a {token} ") == ["a"]
    assert push("million") == []
    assert push(" ") != []


@pytest.mark.parametrize(
    "token",
    [
        "end.",
        "1999.",
        "5,",
        "I.",
        "well-known",
        "hello",
        "p.m.,",
        "March.",
        "Mr.",
        "mp3",
        "COVID-19",
        "50%",
        "2024-07-04",
        "10.0.0.1:80",
        "9:30pm",
        "5km",
    ],
)
def test_tokens_that_cannot_grow_are_committed_at_their_space(token: str) -> None:
    assert not can_grow(token)
    assert Pushed()(f"{token} ") != []


def test_flush_commits_held_tokens_but_no_partial_word() -> None:
    stream = WordStream(english())
    assert stream.push("I have 5 mil").words[-1].word == "have"
    assert [word.word for word in stream.flush().words] == ["five"]
    assert stream.flush().words == []
    changes = stream.push("lion ")
    assert [(word.word, word.written, word.char_start, word.char_end) for word in changes.words] == [
        ("million", 3, 9, 16)
    ]


def test_series_of_numbers_is_not_held_for_ever() -> None:
    push = Pushed()
    committing = [k for k in range(1, 4 * MAX_HELD_TOKENS) if push(f"{k} ")]
    assert committing == [MAX_HELD_TOKENS, 2 * MAX_HELD_TOKENS, 3 * MAX_HELD_TOKENS]


def test_spoken_words_have_their_written_index_and_span() -> None:
    text = "In 1999, Dr. Lee paid $5 million."
    got = [(w.i, w.word, w.written, text[w.char_start : w.char_end]) for w in run(text, english()).words]
    assert got == [
        (0, "in", 0, "In"),
        (1, "nineteen", 1, "1999,"),
        (2, "ninety", 1, "1999,"),
        (3, "nine,", 1, "1999,"),
        (4, "doctor", 2, "Dr."),
        (5, "lee", 3, "Lee"),
        (6, "paid", 4, "paid"),
        (7, "five", 5, "$5"),
        (8, "million", 6, "million."),
        (9, "dollars.", 6, "million."),
    ]


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("“Hello,” she said—then left…", "hello, she said, then left."),
        ("(really?!) 'yes' \"no.\"", "really? yes no."),
        ("wait...what -- oh", "wait, what oh"),
        ("hello - world ... again", "hello world again"),
        ("naïve café Ångström œuvre ﬁne Straße", "naive cafe angstrom oeuvre fine strasse"),
        ("cafe\u0301 co\u00adop zero\u200bwidth", "cafe coop zero width"),
        ("don’t rock ’n’ roll", "don't rock n roll"),
        ("a\u00a0b\u2003c\u2028d\te\r\nf", "a b c d e f"),
        ("well-known well\u2011known up–down", "well known well known up down"),
        ("**bold** _it_ `code` • item", "bold it code item"),
        ("Ｈｅｌｌｏ 𝐇𝐞𝐥𝐥𝐨", "hello hello"),
        ("«guillemets» [and] {braces}", "guillemets and braces"),
        (":-) fine", "fine"),
        ("“Hello”, she (really)? said.", "hello, she really? said."),
        ("He said “no.” (“Why?”), and left", "he said no. why? and left"),
        ("<tags>, x", "tags, x"),
        ("", ""),
        (" \n\n\t ", ""),
        ("... — - ?! “” ()", ""),
    ],
)
def test_typographic_characters(text: str, spoken: str) -> None:
    changes = run(text)
    assert " ".join(word.word for word in changes.words) == spoken
    assert changes.unsupported == []


@pytest.mark.parametrize(
    ("text", "span", "why"),
    [
        ("x | y", (2, 3), "signs around no word"),
        ("a *** b", (2, 5), "signs around no word"),
        ("a ~ b", (2, 3), "pip install"),
        ("x * y", (2, 3), "pip install"),
        ("a <b>bold", (2, 5), "HTML tags are skipped"),
        ("bold</em> x", (4, 9), "HTML tags are skipped"),
        ("one<br/>two", (3, 8), "HTML tags are skipped"),
        ("hi 😀 there", (3, 4), "no reading for 😀"),
        ("hi👨\u200d👩\u200d👧you", (2, 7), "no reading for 👨"),
        ("say привет, now", (4, 10), "English letters only"),
        ("say 日本語 now", (4, 7), "English letters only"),
        ("a\x07b", (1, 2), "control character"),
        ("a\0b", (1, 2), "control character"),
        ("a \x1c b", (2, 3), "control character"),
        ("a \ud83d b", (2, 3), "lone surrogate"),
        ("a \ue000 b", (2, 3), "not an assigned character"),
        ("a " + "x" * 41 + " b", (2, 43), "at most 40 letters"),
        ("a " + "b" * 39 + "'s b", (2, 43), "at most 40 letters"),
        ("a " + "b" * 40 + "'s, b", (2, 45), "at most 40 letters"),
        ("a " + "x-" * 200 + " b", (2, 402), "200 characters without white space"),
        ("a 7 b", (2, 3), "pip install"),
    ],
)
def test_unspeakable_text_is_reported(text: str, span: tuple[int, int], why: str) -> None:
    changes = run(text)
    assert [(u.char_start, u.char_end) for u in changes.unsupported] == [span]
    assert why in changes.unsupported[0].why
    assert len(changes.words) == 2


def test_unspeakable_parts_leave_the_rest_of_the_token() -> None:
    changes = run("5😀7 x", english())
    assert [(w.word, w.written, w.char_start) for w in changes.words] == [("five", 0, 0), ("seven", 0, 2), ("x", 1, 4)]


def _seconds(lines: int) -> float:
    """CPU seconds of this thread to read so many lines of five words."""
    began_s = time.thread_time()
    changes = WordStream(plain()).feed("The quick brown fox, it's \n" * lines)
    assert sum(len(step.words) for step in changes) == 5 * lines
    return time.thread_time() - began_s


def test_huge_paste_is_linear_lazy_and_bounded() -> None:
    assert _seconds(40_000) < 24 * _seconds(5_000), "eight times as much; quadratic time would be 64 times"
    lazy = WordStream(plain()).feed("one two " * 12_500)
    assert [word.word for word in next(lazy).words] == ["one"]


def test_endless_token_takes_no_memory() -> None:
    stream = WordStream(plain())
    for _ in range(2000):
        stream.push("x" * 500)
    assert sum(map(len, stream._token)) == MAX_TOKEN_CHARS + 1
    changes = stream.end()
    assert [(u.char_start, u.char_end) for u in changes.unsupported] == [(0, 1_000_000)]


def test_million_single_characters_are_linear() -> None:
    stream = WordStream(plain())
    begin = time.process_time()
    for char in "word 😀 " * 20_000:
        stream.push(char)
    assert time.process_time() - begin < 8.0


class Silent:
    """A normaliser that returns nothing."""

    def __call__(self, tokens: Sequence[str], before: Sequence[str] = ()) -> list[tuple[str, int]]:
        return []


def test_normaliser_without_output_is_reported() -> None:
    assert [(u.char_start, u.char_end) for u in run("a b - c", Silent()).unsupported] == [(0, 1), (2, 3), (6, 7)]


def test_two_abbreviation_tables_agree() -> None:
    assert {key.removesuffix(".") for key in tables.ABBREVIATIONS if key.endswith(".")} == ABBREVIATIONS
    codes = {word for word in BESIDE if word.isupper() and word.isalpha()}
    assert codes == {code for code in tables.CODES if code.isupper()}
    assert not SYMBOLS - set(tables.SYMBOLS) - set(tables.VULGAR) - set(tables.CURRENCIES)


_WRITTEN = (
    "hello it's Dr. St. p.m. 7:45 $5 million $3.50 March 3rd, 3 2026 10 - 20 1/2 2½ km 5 # No. NASA TTS e.g. J. é 😀 — "
    "… “ ” привет \x07 ﬁ x² -5 100% end. 24/7 a@b.com \ud83d ' * ** + = & ~5 0 '90s 1,000 e\u0301 \u200b I. etc. "
    "555-1234 +44 20 7946 0958 well-known 👩\u200d👧"
)
_ATOMS = st.sampled_from(_WRITTEN.split(" "))
_TEXT = st.one_of(
    st.lists(st.tuples(_ATOMS, st.sampled_from(["", " ", "  ", "\n", "\u00a0"])), max_size=14).map(
        lambda parts: "".join(atom + gap for atom, gap in parts)
    ),
    st.text(max_size=60),
    st.text(alphabet=[chr(c) for c in range(32, 127)] + sorted(SYMBOLS), max_size=40),
)


@settings(max_examples=500, deadline=None)
@given(text=_TEXT, cuts=st.lists(st.integers(0, 200), max_size=8), number=st.booleans())
def test_chunking_changes_nothing(text: str, cuts: list[int], number: bool) -> None:
    normaliser = english() if number else plain()
    whole = run(text, normaliser)
    one_by_one, cut = WordStream(normaliser), WordStream(normaliser)
    singly, chunked = WordChanges(), WordChanges()
    for char in text:
        singly.extend(one_by_one.push(char))
    singly.extend(one_by_one.end())
    edges = sorted({0, len(text), *(min(c, len(text)) for c in cuts)})
    for a, b in pairwise(edges):
        chunked.extend(cut.push(text[a:b]))
    chunked.extend(cut.end())
    assert singly == whole
    assert chunked == whole


@settings(max_examples=500, deadline=None)
@given(text=_TEXT, number=st.booleans())
def test_spans_are_in_order_and_no_letter_is_lost(text: str, number: bool) -> None:
    changes = run(text, english() if number else plain())
    assert [word.i for word in changes.words] == list(range(len(changes.words)))
    said = sorted({(w.char_start, w.char_end) for w in changes.words})
    assert said == list(dict.fromkeys((w.char_start, w.char_end) for w in changes.words)), "out of order"
    spans = [(u.char_start, u.char_end) for u in changes.unsupported]
    assert spans == sorted(spans)
    every = sorted(said + spans)
    assert all(0 <= a < b <= len(text) for a, b in every)
    assert all(first[1] <= second[0] for first, second in pairwise(every)), "spans overlap"
    covered = {at for a, b in every for at in range(a, b)}
    lost = [c for at, c in enumerate(text) if c.isalnum() and c not in WHITE and at not in covered]
    assert not lost
    assert all(SPOKEN.fullmatch(word.word) for word in changes.words)
    assert all(u.why for u in changes.unsupported)


@settings(max_examples=200, deadline=None)
@given(text=_TEXT, at=st.integers(0, 60))
def test_flush_loses_and_repeats_nothing(text: str, at: int) -> None:
    stream = WordStream(english())
    changes = stream.push(text[:at])
    changes.extend(stream.flush())
    changes.extend(stream.push(text[at:]))
    changes.extend(stream.end())
    # A lone mark such as "*" is read by its context ("times"), so a flush beside it may leave it out.
    real = {i for i, token in enumerate(text.split()) if any(c.isalnum() for c in token)}
    said = {w.written for w in changes.words}
    assert said & real == {w.written for w in run(text, english()).words} & real
    assert [w.i for w in changes.words] == list(range(len(changes.words)))


def cut(text: str, rule: ClauseRule, *, is_all: bool = True) -> list[str]:
    words, found = text.split(), []
    while (count := rule.length(words, is_all=is_all)) is not None:
        found.append(" ".join(words[:count]))
        words = words[count:]
    return found


RULE = ClauseRule(most_words=4, most_letters=100)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("well, the rain has stopped.", ["well,", "the rain has stopped."]),
        ("one two three four five six", ["one two three four", "five six"]),
        ("one two three four. five", ["one two three four.", "five"]),
        ("a; b: c! d? e", ["a;", "b:", "c!", "d?", "e"]),
        ("", []),
    ],
)
def test_ends_of_clauses(text, wanted):
    assert cut(text, RULE) == wanted


def test_clause_that_may_grow_waits():
    assert RULE.length(["one", "two"], is_all=False) is None and RULE.length([], is_all=True) is None
    assert RULE.length(["one", "two,"], is_all=False) == 2, "its mark is known with the word"
    assert RULE.length(["one", "two", "three", "four"], is_all=False) == 4


def test_later_words_change_no_clause():
    words = "one two, three four five six seven. eight".split()
    for known in range(1, len(words) + 1):
        found = RULE.length(words[:known], is_all=False)
        assert found == (None if known < 2 else 2)


def test_letters_and_marks_bound_it():
    assert cut("abcdef gh ijklmn o", ClauseRule(9, most_letters=8)) == ["abcdef gh", "ijklmn o"]
    assert cut("one, two, three", ClauseRule(2, 100, marks="")) == ["one, two,", "three"]
