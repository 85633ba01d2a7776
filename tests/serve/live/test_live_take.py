"""Late keys matter only by their effect: the text the second voice had at each word and its waiting time."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from studio.core import events as ev
from studio.serve.mos.live_take import late_ms

DUE_MS = (0.0, 300.0, 600.0, 900.0)  # when the words were typed to the first voice


def trace(*events: ev.Event) -> Any:
    return SimpleNamespace(events=list(events))


def word(i: int, t_ms: float) -> list[ev.Event]:
    """A word reaches the voice."""
    return [
        ev.TextReceived(t_ms=t_ms, char_start=2 * i, text=f"{i} "),
        ev.Committed(t_ms=t_ms, i=i, word=str(i), written=i, char_start=2 * i, char_end=2 * i + 1),
    ]


def took(i: int, t_ms: float, sees: int, until_ms: float) -> list[ev.Event]:
    """The voice starts word ``i`` with text up to ``sees`` and is busy for a while."""
    seen = list(range(i, sees))
    segment = ev.Segment(t_ms=t_ms, index=i, words=[i], seen=seen, sample=0, frame=0)
    return [segment, ev.Eos(t_ms=until_ms, segment=i, frame=0, p=1.0, forced=False)]


def again(came_ms: tuple[float, ...], *taken: tuple[int, float, int, float], lead_ms: float = 4000.0) -> Any:
    """The second voice's trace on its own clock."""
    events = [e for i, t in enumerate(came_ms) for e in word(i, t + lead_ms)]
    events += [e for i, t, sees, until in taken for e in took(i, t + lead_ms, sees, until + lead_ms)]
    return trace(*sorted(events, key=lambda e: e.t_ms))


FIRST = trace(*(e for i, t in enumerate(DUE_MS) for e in word(i, t)))


def test_punctual_keys_have_no_effect() -> None:
    assert late_ms(again(DUE_MS, (0, 310.0, 2, 700.0), (1, 700.0, 3, 1400.0)), FIRST) == 0.0


def test_late_key_has_no_effect_while_the_voice_is_busy() -> None:
    """Half a second late but before the voice starts its next word, so its input is the same."""
    came = (0.0, 300.0, 1100.0, 1100.0)
    assert late_ms(again(came, (0, 310.0, 2, 1200.0), (1, 1200.0, 4, 2000.0)), FIRST) == 0.0


def test_voice_that_waits_for_a_late_key_is_late() -> None:
    came = (0.0, 380.0, 600.0, 900.0)
    assert late_ms(again(came, (0, 390.0, 2, 500.0)), FIRST) == pytest.approx(80.0)
    busy_till = again((0.0, 300.0, 680.0, 900.0), (0, 310.0, 2, 650.0), (1, 690.0, 3, 1000.0))
    assert late_ms(busy_till, FIRST) == pytest.approx(30.0), "it would not have waited before"


def test_word_started_without_a_due_key_has_different_input() -> None:
    came = (0.0, 300.0, 700.0, 900.0)
    assert late_ms(again(came, (0, 310.0, 2, 650.0), (1, 650.0, 2, 1000.0)), FIRST) == np.inf
    full = again((0.0, 300.0, 700.0, 900.0), (0, 650.0, 1, 1000.0))
    assert late_ms(full, FIRST) == 0.0, "its window was full, so it would not have used that word"
    hair = again((0.0, 300.0, 620.0, 900.0), (0, 310.0, 2, 605.0), (1, 615.0, 2, 1000.0))
    assert late_ms(hair, FIRST) == pytest.approx(15.0), "the first time was a matter of timing too"


def test_different_text_or_pause_is_no_repetition() -> None:
    flushed = again(DUE_MS, (0, 310.0, 2, 700.0))
    flushed.events.append(ev.Flushed(t_ms=9000.0, words=4))
    for other in (flushed, again(DUE_MS[:3]), trace()):
        assert late_ms(other, FIRST) == np.inf
    assert late_ms(trace(), trace()) == np.inf


def test_voice_without_segments_is_judged_by_its_texts() -> None:
    assert late_ms(again((0.0, 300.0, 640.0, 900.0)), FIRST) == pytest.approx(40.0)
