"""Reasons why text is not spoken: pages translate them by their codes."""

import string
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from studio.core.events import Unsupported, from_dict
from studio.core.text.reasons import REASONS, UnsupportedSpan
from studio.core.traces.trace import Trace, open_trace
from studio.core.traces.trace_writer import save_trace
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


@pytest.mark.parametrize("more", [{}, {"code": "control", "values": {"code": "U+0007"}}])
def test_trace_with_a_reason_opens(tmp_path: Path, more: dict[str, Any]) -> None:
    event = Unsupported(t_ms=1.0, char_start=0, char_end=1, why="it makes no sound", **more)
    save_trace(Trace({"rate_hz": 24_000}, [event], np.zeros(10, np.int16)), tmp_path / "a.trace")
    assert open_trace(tmp_path / "a.trace").events == [event]
