"""The text field: composition, autocorrect, emoji, a huge paste."""

from typing import Any

import pytest
from ui.live_page import LivePage


def _cdp(live: LivePage) -> Any:
    return live.page.context.new_cdp_session(live.page)


def test_composition_is_sent_when_complete(live: LivePage) -> None:
    live.type("we say ")
    cdp = _cdp(live)
    for part in ("n", "ni", "nih"):
        cdp.send("Input.imeSetComposition", {"text": part, "selectionStart": len(part), "selectionEnd": len(part)})
        live.page.wait_for_timeout(60)
    cdp.send("Input.insertText", {"text": "nihao"})
    live.type(" today ")
    live.finish(spoken=1)
    assert [event["word"] for event in live.events("committed")] == ["we", "say", "nihao", "today"]
    assert live.events("edited") == []


def test_autocorrected_word_is_struck_through(live: LivePage) -> None:
    live.type("a teh cat sat on ")
    live.wait_lit(2)
    live.page.evaluate(
        """() => {
          const field = document.querySelector('#live-text');
          field.setRangeText('the', 2, 5, 'end');
          field.dispatchEvent(new InputEvent('input', { inputType: 'insertReplacementText', bubbles: true }));
        }"""
    )
    live.page.wait_for_selector(".words .edited")
    live.shows("edited", ["teh"])
    assert live.page.locator(".words .edited").evaluate("n => getComputedStyle(n).textDecorationLine") == "line-through"
    live.wait_status("Already spoken")


def test_word_deleted_letter_by_letter_is_struck_beside_the_new_one(live: LivePage) -> None:
    live.type("a cat sat on ")
    live.wait_lit(2)
    live.page.locator("#live-text").evaluate("field => field.setSelectionRange(2, 2)")
    for key in ("Delete", "Delete", "Delete"):
        live.page.keyboard.press(key)
    live.page.wait_for_selector(".words .edited")
    live.page.wait_for_function("() => document.querySelectorAll('.words ins').length === 0")
    live.page.keyboard.type("dog", delay=60)
    live.page.wait_for_function("() => document.querySelector('.words ins')?.textContent === 'dog'")
    live.shows("edited", ["cat"])
    assert live.page.locator(".words ins").count() == 1


def test_changed_word_is_marked_as_new_in_the_field_and_struck_in_the_caption(live: LivePage) -> None:
    live.type("a cat sat on ")
    live.wait_lit(3)
    _replace(live, "cat", "dog")
    live.page.wait_for_selector(".words .edited")
    live.shows("edited", ["cat"])
    marked = """name => [...CSS.highlights.get(name)].map((range) => range.toString())"""
    live.page.wait_for_function("() => [...CSS.highlights.get('live-changed')].join() === 'dog'")
    assert "dog" not in "".join(live.page.evaluate(marked, "live-heard")), "the voice said another word"
    style = "getComputedStyle(document.querySelector('.behind'), '::highlight(live-changed)').textDecorationLine"
    assert live.page.evaluate(style) == "underline"


def _replace(live: LivePage, word: str, by: str) -> None:
    """Select a word of the field and type over it."""
    script = (
        "(field, word) => field.setSelectionRange(field.value.indexOf(word), field.value.indexOf(word) + word.length)"
    )
    field = live.page.locator("#live-text")
    field.evaluate(script, word)
    field.focus()
    live.page.keyboard.insert_text(by) if by else live.page.keyboard.press("Delete")


def test_unheard_word_is_replaced_and_heard_one_turns_grey(live: LivePage) -> None:
    live.paste("constantinople and alexandria were wonderful cities in their time ")
    live.wait_lit(1)
    _replace(live, "wonderful", "terrible")
    live.page.wait_for_function("() => document.querySelector('.words').textContent.includes('terrible')")
    _replace(live, "their ", "")
    live.page.wait_for_function(
        "() => document.querySelector('.live').tap.events.filter((e) => e.type === 'revised').length >= 2"
    )
    _replace(live, "constantinople", "byzantium")
    live.page.wait_for_selector(".words .edited")
    live.shows("edited", ["constantinople"])
    live.page.wait_for_timeout(500)
    live.finish(spoken=1)
    words = "constantinople and alexandria were terrible cities in time"
    live.shows("w", words.split())
    assert [entry["i"] for entry in live.lit] == [*range(8)]
    sent, heard = live.sent(), live.rendered()
    assert len(heard) == len(sent) and live.page.locator('.status[data-level="error"]').count() == 0


def test_unheard_text_can_be_edited_after_finish_and_new_text_comes_next(live: LivePage) -> None:
    live.paste("constantinople and alexandria were wonderful cities in their time")
    live.wait_lit(1)
    live.finish()
    _replace(live, "wonderful", "terrible")
    live.page.wait_for_function("() => document.querySelector('.words').textContent.includes('terrible')")
    _replace(live, "constantinople", "byzantium")
    live.page.wait_for_selector(".words .edited")
    live.page.evaluate(
        "(f) => f.setSelectionRange(f.value.length, f.value.length)", live.page.query_selector("#live-text")
    )
    live.page.keyboard.type(" gone by")
    live.wait_spoken()
    live.finish(spoken=2)
    order = live.page.evaluate("document.querySelector('.live').tap.events.map((e) => e.word ?? e.type)")
    words = {*"terrible cities in their time gone by wonderful".split()}
    after = [one for one in order[len(order) - order[::-1].index("revised") :] if one in words]
    assert after == "terrible cities in their time gone by".split()
    assert live.page.locator('.status[data-level="error"]').count() == 0


def test_emoji_are_shown_as_left_out_with_the_reason(live: LivePage) -> None:
    live.type("so \U0001f600 happy today ")
    live.finish(spoken=1)
    live.shows("unsupported", ["\U0001f600"])
    assert "can't be spoken" in live.page.locator(".leftout").text_content()
    assert [event["word"] for event in live.events("committed")] == ["so", "happy", "today"]


def test_typed_markup_stays_text(live: LivePage) -> None:
    live.type("<img src=x onerror=boom()> ok then ")
    live.finish(spoken=1)
    assert live.page.locator(".live img").count() == 0
    assert "<img" in live.page.locator(".words").text_content()


@pytest.mark.alone
@pytest.mark.parametrize("characters", [100_000])
def test_huge_paste_stays_smooth_and_starts_at_its_start(live: LivePage, characters: int) -> None:
    live.page.evaluate(
        """() => {
          window.gaps = [];
          let last = performance.now();
          const step = (t) => { window.gaps.push(t - last); last = t; requestAnimationFrame(step); };
          requestAnimationFrame(step);
        }"""
    )
    text = ("all work and no play makes a dull day " * (characters // 38 + 1))[:characters]
    live.paste(text)
    live.wait_lit(4)
    live.page.wait_for_timeout(1200)
    assert live.page.evaluate("document.querySelector('.words').childNodes.length") < 1500
    assert live.figures["buffered_ms"] <= 2100.0
    later = sorted(live.page.evaluate("window.gaps.slice(-40)"))
    assert later[20] < 50.0  # the median frame, robust on a busy machine
    live.press("stop")
    live.wait_spoken()
    live.wait_status("Stopped. You heard")
