"""Reasons why text is not spoken: pages translate them by their codes."""

import string

import pytest

from studio.core.events import Unsupported, from_dict
from studio.core.text.reasons import REASONS, UnsupportedSpan
from studio.ui.bundle import WIDGETS
from studio.ui.translation import read_catalogues

CATALOGUES = read_catalogues(WIDGETS / "live" / "words")


@pytest.mark.parametrize("language", [one for one in CATALOGUES if one != "en"])
def test_each_reason_has_a_translation_with_its_values(language: str) -> None:
    texts = CATALOGUES[language]
    for sentence in REASONS.values():
        values = {name: f"<{name}>" for _, name, _, _ in string.Formatter().parse(sentence) if name}
        assert sentence not in (texts[sentence], ""), sentence
        assert all(value in texts[sentence].format_map(values) for value in values.values()), sentence


def test_event_has_the_sentence_and_its_parts() -> None:
    span = UnsupportedSpan(3, 5, "control", {"code": "U+0007"})
    event = span.event()
    assert event.why == span.why == "U+0007 is a control character: it makes no sound"
    assert from_dict(event.to_dict()) == event
    older = from_dict({"type": "unsupported", "char_start": 3, "char_end": 5, "why": "of an older trace"})
    assert older == Unsupported(char_start=3, char_end=5, why="of an older trace")
