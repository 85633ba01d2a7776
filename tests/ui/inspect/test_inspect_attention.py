"""Attention on the Inspect page: drawn if the trace has it, computed on request, or refused with a reason."""

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
    """The story as a trace, in which the model attends to the current and the next word."""
    trace = collect_trace({}, story())
    if knows:
        by_layer = np.tile(np.array([0.6, 0.2], np.float16), (1, 10, 1))
        word = np.repeat([0, 1], [4, 6]).astype(np.int32)
        likely = np.linspace(-60, -20, 10, dtype=np.float32)
        trace.layers = TeacherForcingResult("", word, by_layer, trace.p_eos, likely).layers()
    save_trace(trace, path)
    return path


@pytest.mark.parametrize("width", [1280, 390])
def test_stored_attention_is_drawn(
    inspect: Callable[..., Inspect],  # noqa: F811
    tmp_path: Path,
    width: int,
) -> None:
    tab = inspect(viewport={"width": width, "height": 1800}).open()
    tab.drop(written(tmp_path / "a.trace", knows=True))
    tab.opened()
    tab.until("viewer.scene.boxes.attention && viewer.scene.boxes.likelihood")
    assert not tab.page.locator('[data-do="attention"]').is_visible()
    assert "Attention: attention to each word" in tab.page.locator(".looked").text_content()
    tab.page.mouse.move(*tab.point(862.0, "attention"))  # within a frame, at any pixel size
    readout = tab.page.locator(".readout").text_content()
    assert "attends to two 0.60, three 0.20" in readout and "log-likelihood -33.3" in readout
    strip = "viewer.scene.boxes.eos.y - viewer.scene.boxes.picture.y - viewer.scene.boxes.picture.height"
    assert tab.ask(strip) == (18 if width < 560 else 0), "names are above their lanes if there is no room"


def test_action_stream_is_labelled(
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


def test_attention_request_is_refused_with_a_reason(
    inspect: Callable[..., Inspect],  # noqa: F811
    tmp_path: Path,
) -> None:
    """The fake engine has no attention; the page says so and the request can be repeated."""
    tab = inspect().open()
    tab.drop(written(tmp_path / "b.trace", knows=False))
    tab.opened()
    button = tab.page.locator('[data-do="attention"]')
    assert button.is_visible() and not tab.ask("viewer.scene.boxes.attention")
    button.click()
    tab.until("document.querySelector('.looked').textContent.includes('cannot compute')")
    assert button.is_enabled()
