"""Plain names on the Live page, and the Glossary page behind them."""

import json

from ui.live_page import LivePage

from studio.ui.bundle import WIDGETS

TERMS = {term["id"]: term for term in json.loads((WIDGETS / "glossary" / "terms.json").read_text(encoding="utf-8"))}


def test_plain_options_are_in_sight_and_the_others_under_advanced(live: LivePage) -> None:
    labels = live.page.locator(".settings .control :is(label, legend)")
    shown = [text for text in labels.all_inner_texts() if text]
    plain = ["Look-ahead", "Words per step", "Speed", "Expressiveness", "Calm", "Normal", "Lively"]
    assert [text for text in shown if text not in ("S1", "S2")] == plain
    assert not live.page.locator("#live-seed").is_visible()
    live.open_advanced()
    shown = [text for text in labels.all_inner_texts() if text]
    assert shown == [*plain, "Scheme", "S1", "S2", "Temperature", "Seed"]
    for row in live.page.locator(".settings .control").all():
        assert row.locator(".help").inner_text(), "one sentence for each"
        assert row.locator(".term").count() == 1, "and a tip"


def test_tip_explains_its_term_by_keyboard_and_leads_to_the_glossary(live: LivePage) -> None:
    tip = live.page.locator('.settings .options .term[href="./glossary#look-ahead"]')
    shown = """(node) => {
      const { visibility, content } = getComputedStyle(node, "::after");
      return visibility === "visible" && content;
    }"""
    assert tip.evaluate(shown) is False
    tip.focus()
    live.page.keyboard.press("Shift+Tab")
    live.page.keyboard.press("Tab")
    assert TERMS["look-ahead"]["text"] in tip.evaluate(shown)
    assert tip.get_attribute("aria-label") == f"Look-ahead: {TERMS['look-ahead']['text']}"
    live.page.keyboard.press("Enter")
    live.page.wait_for_selector("#look-ahead:target")
    assert live.page.locator("#look-ahead dd").inner_text() == TERMS["look-ahead"]["text"]
    assert live.page.locator(".glossary dl > div").count() == len(TERMS)


def test_every_link_to_a_term_has_a_term(live: LivePage) -> None:
    links = live.page.locator('a[href*="glossary#"]').evaluate_all("(links) => links.map((link) => link.hash.slice(1))")
    marked = live.page.locator("[data-term]").evaluate_all("(nodes) => nodes.map((node) => node.dataset.term)")
    assert len(links) >= 8
    assert {*links, *marked} <= TERMS.keys()
    assert all(term["text"].endswith(".") and term["name"] for term in TERMS.values())
