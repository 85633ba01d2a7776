"""Attention on the Inspect page: drawn at once where the trace keeps it, asked for elsewhere, and refused in words."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from inspection.spoken import story
from ui.inspect.test_inspect_page import Inspect, inspect  # noqa: F401 - a fixture

from studio.core.events import WordEnd, WordStart
from studio.core.traces.teacher_forcing import TeacherForcingResult
from studio.core.traces.trace import collect_trace
from studio.core.traces.trace_writer import save_trace


def written(path: Path, *, knows: bool) -> Path:
    """The story as a trace; one that knows where its net attended, to the word and the one after it."""
    trace = collect_trace({}, story())
    if knows:
        by_layer = np.tile(np.array([0.6, 0.2], np.float16), (1, 10, 1))
        word = np.repeat([0, 1], [4, 6]).astype(np.int32)
        likely = np.linspace(-60, -20, 10, dtype=np.float32)
        trace.layers = TeacherForcingResult("", word, by_layer, trace.p_eos, likely).layers()
    save_trace(trace, path)
    return path


@pytest.mark.parametrize("width", [1280, 390])
def test_what_a_trace_keeps_is_drawn_at_once(
    inspect: Callable[..., Inspect],  # noqa: F811
    tmp_path: Path,
    width: int,
) -> None:
    tab = inspect(viewport={"width": width, "height": 1800}).open()
    tab.drop(written(tmp_path / "a.trace", knows=True))
    tab.opened()
    tab.until("viewer.scene.places.attention && viewer.scene.places.likelihood")
    assert not tab.page.locator('[data-do="attention"]').is_visible()
    assert "Attention: attention to each word" in tab.page.locator(".looked").text_content()
    tab.page.mouse.move(*tab.point(862.0, "attention"))  # within a frame, whatever the pixel
    told = tab.page.locator(".readout").text_content()
    assert "attends to two 0.60, three 0.20" in told and "log-likelihood -33.3" in told
    strip = "viewer.scene.places.eos.y - viewer.scene.places.picture.y - viewer.scene.places.picture.height"
    assert tab.ask(strip) == (18 if width < 560 else 0), "names stand above their lanes where there is no room"


def test_an_action_stream_is_called_so(
    inspect: Callable[..., Inspect],  # noqa: F811
    tmp_path: Path,
) -> None:
    events = [replace(one, source="action") if isinstance(one, WordStart | WordEnd) else one for one in story()]
    save_trace(collect_trace({}, events), tmp_path / "c.trace")
    tab = inspect().open()
    tab.drop(tmp_path / "c.trace")
    tab.opened()
    tab.page.mouse.move(*tab.point(850.0, "eos"))
    assert "action stream 0." in tab.page.locator(".readout").text_content()


def test_it_is_asked_for_and_refused_in_words(
    inspect: Callable[..., Inspect],  # noqa: F811
    tmp_path: Path,
) -> None:
    """The tests' engine cannot tell; the page says so, and may be asked again."""
    tab = inspect().open()
    tab.drop(written(tmp_path / "b.trace", knows=False))
    tab.opened()
    button = tab.page.locator('[data-do="attention"]')
    assert button.is_visible() and not tab.ask("viewer.scene.places.attention")
    button.click()
    tab.until("document.querySelector('.looked').textContent.includes('cannot tell')")
    assert button.is_enabled()
