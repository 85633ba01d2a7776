"""A first start: the demo test for visitors, and for the owner adding an utterance as a stimulus."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ui.conftest import Server
from ui.live_page import LivePage

TRIAL = "after => { const t = document.querySelector('.rate')?.dataset.trial; return t && t !== after && t; }"


class Fresh:
    """A studio started for the first time."""

    def __init__(self, folder: Path) -> None:
        self.server = Server(folder, str(folder), script="ui/demo_server.py")
        self.url = self.server.url
        self.token = (folder / "token.txt").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fresh]:
    found = Fresh(tmp_path_factory.mktemp("fresh"))
    yield found
    found.server.stop()


@pytest.fixture
def page(chromium: Any) -> Iterator[Any]:
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    yield context.new_page()
    context.close()


def test_visitor_rates_the_demo_at_once(fresh: Fresh, page: Any) -> None:
    """From the Listening tests page, without a token, to a played sound and a stored answer."""
    page.goto(fresh.url + "campaigns")
    link = page.wait_for_selector("#owner-demo a.button", timeout=60_000)
    assert page.locator(".campaign").count() == 0, "the owner's list is private"
    page.goto(fresh.url + link.get_attribute("href").removeprefix("./"))
    for stage, button in (("welcome", "Begin"), ("consent", "I agree"), ("instructions", "Continue")):
        page.wait_for_selector(f'.rate[data-stage="{stage}"]')
        page.get_by_role("button", name=button, exact=True).click()
    trial = page.wait_for_function(TRIAL, arg="").json_value()
    page.keyboard.press(" ")
    page.wait_for_selector('.tick[data-on="1"]', timeout=60_000)
    for key in ("4", "Enter"):
        page.keyboard.press(key)
    assert page.wait_for_function(TRIAL, arg=trial).json_value() != trial


def test_utterance_becomes_a_stimulus(fresh: Fresh, page: Any, tmp_path: Path) -> None:
    """Offered to the owner after the utterance has ended; repeating it is refused with a reason."""
    live = LivePage(page, fresh.url)
    live.open()
    form = page.locator(".live .collect")

    def speak(text: str, count: int) -> None:
        live.press("clear")
        live.paste(text)
        live.finish(spoken=count)
        page.wait_for_selector('[data-get="trace"]:not([hidden])')

    speak("Tea is ready now.", 1)
    assert form.is_hidden(), "not offered to a visitor"
    assert page.context.request.post(f"{fresh.url}mos/owner/session", data={"token": fresh.token}).ok
    live.open()
    speak("Tea is ready now.", 1)
    form.wait_for(state="visible")
    assert form.locator('select[name="campaign"] option').last.text_content() == "A new test"
    assert "studio-demo" not in form.inner_text(), "only drafts accept more"
    name = tmp_path.name  # a new one if a busy machine reruns the test
    form.locator('select[name="campaign"]').select_option(label="A new test")
    form.locator('input[name="new"]').fill(name)
    form.locator('select[name="template"]').select_option("incremental-mos")
    form.get_by_role("button", name="Add").click()
    page.wait_for_function("() => document.querySelector('.collect output').textContent.startsWith('Added to')")
    assert f"Added to {name}: text001 by tone:low?m=3,n=1,scheme=S1" in form.locator("output").text_content()
    assert form.locator('select[name="campaign"]').input_value() == name
    form.get_by_role("button", name="Add").click()
    page.wait_for_function("() => document.querySelector('.collect output').dataset.level === 'error'")
    assert f"says this text in '{name}' already" in form.locator("output").text_content()
    form.get_by_role("button", name="Undo").click()
    page.wait_for_function("() => document.querySelector('.collect output').textContent.includes('was deleted')")
    assert (
        name not in form.locator("select").first.inner_text()
        and not form.get_by_role("button", name="Undo").is_visible()
    )
    live.press("clear")
    live.paste("And then ")
    form.wait_for(state="hidden")
    assert live.errors == [] and live.foreign == []
