"""The Live page in other languages: no English text is left, and it speaks and fits as the English page does."""

from collections.abc import Callable
from typing import Any

import pytest
from ui.live_page import LivePage
from ui.site.test_page_load import SHIFTS

from studio.core.text.reasons import REASONS
from studio.ui.bundle import WIDGETS
from studio.ui.translation import read_catalogues

CATALOGUES = read_catalogues(WIDGETS / "live" / "words")
LOCALES = {"de": "de-DE", "ja": "ja-JP"}
# Each text node and label in sight or not, except what is English in every language: the texts that are spoken.
TEXTS = """() => {
  const texts = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT | NodeFilter.SHOW_ELEMENT);
  for (let node = walker.currentNode; node; node = walker.nextNode()) {
    if (node instanceof Text) {
      if (!node.parentElement.closest("script, [lang=en]")) texts.push(node.data);
    } else for (const name of ["aria-label", "placeholder", "title", "alt", "data-tip", "data-empty"])
      if (node.hasAttribute(name)) texts.push(node.getAttribute(name));
  }
  return texts.map((text) => text.replace(/\\s+/g, " ").trim()).filter(Boolean);
}"""


def _english(page: Any, language: str) -> set[str]:
    """English texts of the catalogue that the page has, except those that are the same in its language."""
    english = {text for text, other in CATALOGUES[language].items() if text != other}
    sentences = [text for text in english if " " in text and len(text) > 12]  # also within a longer text
    shown = page.evaluate(TEXTS)
    return {text for text in shown if text in english or any(sentence in text for sentence in sentences)}


@pytest.mark.parametrize("language", LOCALES)
def test_page_speaks_and_says_all_in_the_language_of_the_browser(visit: Callable[..., LivePage], language: str) -> None:
    texts = CATALOGUES[language]
    live = visit(locale=LOCALES[language], script=SHIFTS)
    page = live.page
    assert page.locator("html").get_attribute("lang") == language
    assert page.title().startswith(texts["Live"])
    assert page.locator('[data-do="stop"]').inner_text() == texts["Stop"]
    page.wait_for_function("ready => document.querySelector('.chip').textContent === ready", arg=texts["Ready"])
    assert _english(page, language) == set()
    live.open_advanced()
    live.type("Hello \U0001f600 there. ")
    live.finish(1)
    page.wait_for_selector('[data-get="inspect"]:not([hidden])')
    page.wait_for_selector(".history li")
    left_out = page.locator(".leftout li")
    assert left_out.inner_text() == f"\U0001f600 {texts[REASONS['no_reading']]}"
    assert (
        page.locator('[data-history="play"]').get_attribute("aria-label") == f"{texts['Play']}: Hello \U0001f600 there."
    )
    assert texts["Speak"] in page.locator('[data-do="speak"]').inner_text()
    assert _english(page, language) == set()
    assert sum(page.evaluate("window.shifts")) < 0.05


def test_failure_of_the_server_is_named_in_the_language_of_the_page(
    visit: Callable[..., LivePage], start_server: Callable[..., Any]
) -> None:
    live = visit(url=start_server("--fail-at-word", "2").url, locale="de-DE")
    live.paste("these words fail soon ")
    live.finish(spoken=1)
    assert live.wait_status("the script fails at word 2").startswith(CATALOGUES["de"]["The server failed."])


def test_address_carries_the_language_and_a_copied_link_does_not(visit: Callable[..., LivePage], chromium: Any) -> None:
    live = visit(locale="de-DE")
    page = live.page
    page.goto(f"{live.url}?tap=1&lang=ja")
    page.wait_for_selector(".live .options input", state="attached")
    assert page.locator("html").get_attribute("lang") == "ja"
    live.type("Hello. ")
    page.wait_for_url("**text=Hello*")
    assert "lang=ja" in page.url
    assert "lang=" not in page.evaluate("document.querySelector('.live').live.address.link('')")
