"""Texts as people write them: right readings for every cutting, right places, and how long a token is held."""

import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from studio.bench.evaluation.words import comparable, read_in_parts, read_rows
from studio.core.folders import TEXTS
from studio.core.text.words import WordStream
from studio.text.normalise import english

CASES = read_rows(Path(__file__).parent / "cases.jsonl")
ROWS = read_rows(TEXTS / "words.jsonl")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["input"][:30])
def test_case(case: dict[str, Any]) -> None:
    said = " ".join(one.word for one in read_in_parts([case["input"]]).words)
    assert comparable(said) in [comparable(right) for right in case["right"]]


def test_nearly_every_text_is_read_as_a_person_would() -> None:
    wrong = []
    for row in ROWS:
        said = " ".join(one.word for one in read_in_parts([row["input"]]).words)
        if comparable(said) not in [comparable(right) for right in row["right"]]:
            wrong.append((row["input"], said))
    assert len(ROWS) == 600
    assert len({row["kind"] for row in ROWS}) == 40
    assert len(wrong) <= 0.03 * len(ROWS), wrong


def test_cuts_change_nothing() -> None:
    rng = random.Random(3)
    for row in [*CASES, *ROWS]:
        text = row["input"]
        whole = read_in_parts([text])
        assert read_in_parts(text) == whole
        for _ in range(3):
            edges = sorted({0, len(text), *(rng.randrange(len(text) + 1) for _ in range(3))})
            assert read_in_parts(text[a:b] for a, b in pairwise(edges)) == whole, (text, edges)


PIECES = (
    "1 5 0 12 2024 1,000 0.5 .5 1,5 ½ $ € ₹ US$ Rs. - – − ~ ± + = / : . , ' \" ° °C ² ⁻ ⁺ ^ × x * % # ( ) k K "
    "M B bn m km kg mg W s min in oz. am pm p.m. Jan Jan. May Mon Dec. st th I V X II ii c. No. pp. Dr. St. "
    "Ave. Inc. U.S. e.g. µ α · ≤ != == < > -> ish ea L Cr '23 tel: .txt .mp3 _ | @ www. .com E H 2O CO₂ ♭ ⅷ ″ "
    "′ a the of million hours ; ! ?"
).split()


@given(st.lists(st.sampled_from([*PIECES, *[" "] * 20, "\n"]), max_size=9).map("".join), st.integers(0, 40))
def test_any_pieces_are_read_for_any_cutting(text: str, edge: int) -> None:
    assert read_in_parts([text[:edge], text[edge:]]) == read_in_parts([text])


def test_beginnings_end_where_the_text_does() -> None:
    """Every beginning of every text can be read, and its words lie in it."""
    for row in [*CASES, *ROWS]:
        for end in range(len(row["input"]) + 1):
            words = read_in_parts([row["input"][:end]]).words
            assert all(0 <= one.char_start < one.char_end <= end for one in words)


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("It&#39;s late", [("it's", 0, 8), ("late", 9, 13)]),
        ("hello\u200bworld", [("hello", 0, 5), ("world", 6, 11)]),
        ("pre\u00adtend now", [("pretend", 0, 8), ("now", 9, 12)]),
        ("\U0001d407i 10⁶", [("hi", 0, 2), ("ten", 3, 6), ("to", 3, 6), ("the", 3, 6), ("sixth", 3, 6)]),
        ("trans-\nform it", [("transform", 0, 11), ("it", 12, 14)]),
        ("5\u202f000 now", [("five", 0, 1), ("thousand", 2, 5), ("now", 6, 9)]),
        ('a <break time="1s"/> b', [("a", 0, 1), ("b", 21, 22)]),
        ("1\u2009000\u2009000 it", [("one", 0, 1), ("million", 2, 5), ("it", 10, 12)]),
    ],
)
def test_places_are_those_of_the_text_as_sent(text: str, places: list[tuple[str, int, int]]) -> None:
    assert [(one.word, one.char_start, one.char_end) for one in read_in_parts([text]).words] == places


# For each kind: a text, and after how many of its tokens (at the white space behind) its first word is committed.
HOLDS = """
hello there | 1
mp3 player | 1
50% off | 1
9:30pm now | 1
2024-07-04 it | 1
$5.50, then | 1
Mr. Hill | 1
5 apples fell | 2
1 000 people | 3
$2.5 million now | 2
USD 5 now | 3
Jan 5 now | 3
Dr Hill came | 2
St. Paul said | 2
U.S. army men | 2
4111 1111 1111 1111 | 5
+44 20 7946 0958 it | 5
1 2 3 4 5 6 7 | 6
6:30 pm-8 pm now | 3
"""


@pytest.mark.parametrize("line", HOLDS.strip().splitlines())
def test_a_token_is_held_no_longer_than_it_must_be(line: str) -> None:
    text, count = line.split(" | ")
    stream = WordStream(english())
    tokens = f"{text} so".split()
    for used, token in enumerate(tokens, start=1):
        if stream.push(f"{token} ").words:
            assert used == int(count)
            return
    pytest.fail("nothing was committed")


def test_a_hyphen_at_a_line_end_is_decided_by_the_next_letter() -> None:
    stream = WordStream(english())
    assert not stream.push("trans-\n").words
    assert [one.word for one in stream.push("form ").words] == ["transform"]
    stream = WordStream(english())
    assert [one.word for one in stream.push("pre-\nWar ").words] == ["pre", "war"]


def test_an_open_tag_that_does_not_close_is_text() -> None:
    words = read_in_parts("is a <b or c").words
    assert [one.word for one in words][-2:] == ["or", "c"]
