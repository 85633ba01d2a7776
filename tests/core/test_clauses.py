"""Live text in clauses: at marks, after so many words or letters, and never by what comes later."""

import pytest

from studio.core.text.clauses import ClauseRule


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
def test_where_clauses_end(text, wanted):
    assert cut(text, RULE) == wanted


def test_a_clause_that_may_still_grow_waits():
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
