"""Teacher forcing a recording through a tiny voice on the Inspect page: progress, stop, refusal, result, saving."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from inspection.spoken import story
from ui.conftest import Server
from ui.inspect.test_inspect_page import Inspect, inspect  # noqa: F401 - a fixture
from ui.site.test_axe import violations

from studio.core.clips import write_wav
from studio.core.traces.trace import collect_trace
from studio.core.traces.trace_writer import save_trace

RATE_HZ = 16_000
GRID = """File type = "ooTextFile"
Object class = "TextGrid"

0
2
<exists>
1
"IntervalTier"
"words"
0
2
3
0
0.5
""
0.5
1
"Good"
1
1.5
"morning"
"""


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = Server(tmp_path_factory.mktemp("tiny"), script="ui/tiny_server.py")
    yield running
    running.stop()


@pytest.fixture
def wav(tmp_path: Path) -> Path:
    pcm = (3000 * np.random.default_rng(2).standard_normal(2 * RATE_HZ)).astype(np.int16)
    write_wav(tmp_path / "good.wav", pcm, RATE_HZ)
    return tmp_path / "good.wav"


@pytest.fixture
def tab(inspect: Callable[..., Inspect], tiny: Server) -> Inspect:  # noqa: F811
    return inspect(tiny.url).open()


def said(tab: Inspect) -> str:
    return tab.page.locator(".through .message").text_content() or ""


def heard(tab: Inspect, wav: Path, text: str = "Good morning.") -> Any:
    """The form, once the recording is open."""
    tab.page.fill(".wav-text input", text)
    tab.drop(wav)
    tab.opened()
    form = tab.page.locator(".through")
    assert form.is_visible()
    return form


def test_recording_runs_through_the_chosen_voice(tab: Inspect, wav: Path) -> None:
    form = heard(tab, wav)
    assert form.locator(".voice option").all_text_contents() == ["tiny: one", "tiny: two"]
    form.locator(".voice").select_option("tiny:two")
    form.locator(".send").click()
    tab.until("viewer.view.facts.about.source === 'forced' && viewer.scene.boxes.likelihood")
    about = tab.page.locator(".about").text_content()
    assert "a recording through tiny:two" in about and "2.00 s of sound" in about and "2 words" in about
    assert said(tab) == "good.wav went through tiny:two."
    assert "Attention: attention to each word" in tab.page.locator(".looked").text_content()
    assert tab.ask("viewer.scene.pEos.length") == 80 and not form.locator(".stop").is_visible()
    address = tab.page.url
    assert "?trace=" in address
    keep = tab.page.locator("a.keep")
    assert keep.is_visible() and f"keep={address.rpartition('=')[2]}" in keep.get_attribute("href")
    form.locator(".voice").select_option("tiny:one")
    form.locator(".send").click()
    tab.until("viewer.view.facts.about.speaker === 'one'")
    tab.page.reload()
    tab.opened()
    assert "a recording through tiny:one" in tab.page.locator(".about").text_content()
    assert not form.is_visible(), "the recording is no longer shown"


def test_voice_options_can_be_set(tab: Inspect, wav: Path) -> None:
    form = heard(tab, wav)
    its = form.locator(".its")
    its.locator("summary").click()
    its.locator("#through-option-m").fill("5")
    its.locator('input[value="S2"]').check(force=True)
    form.locator(".voice").select_option("tiny:two")
    assert its.locator("#through-option-m").input_value() == "5", "another speaker of the same voice"
    form.locator(".send").click()
    tab.until("viewer.view.facts.about.source === 'forced'")
    about = tab.page.locator(".about").text_content()
    assert "m 5" in about and "S2" in about, about


def test_textgrid_places_the_words(tab: Inspect, wav: Path, tmp_path: Path) -> None:
    (tmp_path / "good.TextGrid").write_text(GRID, encoding="utf-8")
    form = heard(tab, wav, text="")
    form.locator(".send").click()
    tab.until("document.querySelector('.through .message').textContent.includes('Write what')")
    assert not form.locator(".grid").is_visible()
    form.locator(".placing").select_option("textgrid")
    form.locator(".send").click()
    tab.until("document.querySelector('.through .message').textContent.includes('Choose the TextGrid')")
    form.locator(".grid input").set_input_files(tmp_path / "good.TextGrid")
    form.locator(".send").click()
    tab.until("viewer.view.facts.about.source === 'forced' && viewer.scene.boxes.pitch")
    tab.page.locator("details.words summary").click()
    words = tab.page.locator("details.words tr:not(:first-child)")
    assert [words.nth(k).locator("th").text_content() for k in range(2)] == ["good", "morning"]
    assert (
        "aligner" in words.nth(0).text_content()
        and "word times from the TextGrid" in tab.page.locator(".about").text_content()
    )


def test_refusal_is_shown_and_can_be_retried(tab: Inspect, wav: Path) -> None:
    form = heard(tab, wav, text="...")
    form.locator(".send").click()
    tab.until("document.querySelector('.through .message').dataset.level === 'error'")
    assert "no word of the text can be spoken" in said(tab)
    tab.page.fill(".wav-text input", "Good morning.")
    form.locator(".send").click()
    tab.until("viewer.view.facts.about.source === 'forced'")


def test_progress_is_shown_and_can_be_stopped(tab: Inspect, wav: Path) -> None:
    form = heard(tab, wav)
    tab.page.route("**/inspect/force", lambda route: None)  # it never ends
    form.locator(".send").click()
    tab.until(
        "document.querySelector('.through .message').textContent.includes('good.wav goes through tiny:one … 1 s')"
    )
    assert form.locator(".send").is_disabled() and form.locator(".stop").is_visible()
    form.locator(".stop").click()
    tab.until("document.querySelector('.through .message').textContent === 'Stopped.'")
    assert form.locator(".send").is_enabled() and not form.locator(".stop").is_visible()
    tab.page.unroute("**/inspect/force")


def test_without_an_inspectable_model_there_is_no_button(tab: Inspect, tmp_path: Path) -> None:
    trace = collect_trace({"family": "toy"}, story())
    trace.meta["family"] = "toy"
    save_trace(trace, tmp_path / "toy.trace")
    tab.drop(tmp_path / "toy.trace")
    tab.opened()
    assert not tab.page.locator('[data-do="attention"]').is_visible()
    assert "no voice here of the family toy" in tab.page.locator(".looked").text_content()
    assert not tab.page.locator(".through").is_visible()


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 1280])
def test_axe_passes(
    inspect: Callable[..., Inspect],  # noqa: F811
    tiny: Server,
    wav: Path,
    width: int,
    dark: bool,
) -> None:
    tab = inspect(tiny.url, viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light").open()
    form = heard(tab, wav)
    form.locator(".placing").select_option("textgrid")
    form.locator(".send").click()
    assert violations(tab.page) == []
    assert tab.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
