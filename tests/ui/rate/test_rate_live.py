"""The live rating screen: typing to one voice, replaying to the other, the vote, failures."""

from collections.abc import Callable
from typing import Any

import pytest
from ui.crowd import occupy_all
from ui.rate_page import RatePage
from ui.rate_server import SYSTEMS

Rate = Callable[..., RatePage]
TEXT = "hello good friend "
PATIENCE = 20
VOICE = '.voice[data-slot="{slot}"]'


class Live:
    """A rater at a live screen."""

    def __init__(self, page: RatePage) -> None:
        self.page = page
        self.trial = page.begin()
        self.has_begun = page.campaign == "arena"  # together with the consent, before the first battle

    def field(self, slot: int) -> Any:
        return self.page.page.locator(f"{VOICE.format(slot=slot)} textarea")

    def state(self, slot: int) -> str:
        return self.page.page.locator(f"{VOICE.format(slot=slot)} .state").get_attribute("data-state")

    def wait(self, slot: int, state: str) -> None:
        self.page.page.wait_for_selector(f'{VOICE.format(slot=slot)} .state[data-state="{state}"]', timeout=60_000)

    def type(self, text: str = TEXT) -> None:
        if not self.has_begun:
            self.page.press("Begin with voice A")
        self.has_begun = False
        self.page.page.wait_for_selector(f"{VOICE.format(slot=0)} textarea:not([readonly])")
        self.page.page.keyboard.type(text, delay=40)
        self.page.press("I have finished typing")
        self.wait(0, "heard")

    def send_too_early(self, why: str) -> None:
        """Press the button, which says why it does not send yet."""
        self.page.page.get_by_role("button", name="Send and continue").click(force=True)
        self.page.wait_text(why, ".missing")

    def hear(self) -> None:
        """On a busy machine keys are late: the page says so and the rater repeats the take."""
        for _ in range(PATIENCE):
            self.page.press("Hear voice B")
            over = '.voice[data-slot="1"] .state[data-state="heard"], .voice[data-slot="1"] button:not(:disabled)'
            self.page.page.wait_for_selector(over, timeout=60_000)
            if self.state(1) == "heard":
                return
        raise AssertionError("the second voice was never given its keys in time")


@pytest.fixture
def live(rate: Rate) -> Live:
    return Live(rate("live"))


def takes(live: Live) -> list[tuple[int, int, float, float]]:
    sql = "select slot, samples, late_ms, latency_ms from take where trial_id = ? order by slot, number"
    return live.page.ratings.ask(sql, live.trial)


def test_type_listen_and_choose(live: Live) -> None:
    page = live.page
    assert "Text of" in page.text("blockquote")
    page.key("a")
    live.send_too_early("Type to voice A first")
    live.type()
    assert live.field(0).input_value() == TEXT and not live.field(1).input_value()
    live.send_too_early("Now hear voice B")
    live.hear()
    assert live.field(0).input_value() == live.field(1).input_value() == TEXT, "the same keys again"
    assert live.field(1).get_attribute("readonly") is not None
    page.key("b", "Enter")
    page.trial(after=live.trial)
    first, second = takes(live)[0], takes(live)[-1]
    assert first[1] > 0 and second[1] > 0 and 0 <= second[2] <= 100 and second[3] is not None
    assert page.ratings.outcome(live.trial) == "b"
    plays = "select plays from play join answer on answer.id = answer_id where trial_id = ?"
    assert page.ratings.ask(plays, live.trial) == [(1,), (1,)], "one of each, whatever failed"
    heard = page.ratings.ask(
        "select slot, heard_ms from play join answer on answer.id = answer_id where trial_id = ? order by slot",
        live.trial,
    )
    assert [ms for _, ms in heard] == pytest.approx([first[1] / 24, second[1] / 24], abs=1)
    assert not page.errors and not page.foreign


def test_keys_before_the_voice_is_ready_are_kept_or_visibly_refused(live: Live) -> None:
    """Before Begin the field says what to press and accepts nothing; after it every key goes to the voice."""
    page = live.page
    field = live.field(0)
    assert field.get_attribute("placeholder") == "Press “Begin with voice A”, then type here."
    assert field.get_attribute("readonly") is not None
    field.click()
    page.page.keyboard.type("at best")
    page.wait_text("Type to voice A first", ".missing")
    assert field.input_value() == ""
    assert page.page.locator(".answers input:checked").count() == 0, "letters typed there are not answers"
    page.page.get_by_role("button", name="Begin with voice A").evaluate(
        """(button) => {
          button.click();
          const field = document.querySelector('.voice textarea');
          if (document.activeElement !== field || field.readOnly) throw new Error('the field is not there to type in');
          field.value = 'hello good ';
          field.dispatchEvent(new InputEvent('input', { bubbles: true }));
        }"""
    )
    page.page.get_by_role("button", name="I have finished typing").wait_for()
    page.page.keyboard.type("friend ", delay=40)
    page.press("I have finished typing")
    live.wait(0, "heard")
    live.hear()
    assert live.field(1).input_value() == live.field(0).input_value() == "hello good friend ", "the voice got all of it"


def test_nothing_is_checked_before_both_were_heard(live: Live) -> None:
    page = live.page
    answers = page.page.locator(".answers input").first
    assert answers.is_disabled()
    page.page.locator(".answers label").first.click(force=True)
    live.type()
    assert answers.is_disabled()
    page.key("a")
    live.hear()
    assert page.page.locator(".answers input:checked").count() == 0
    assert answers.is_enabled()
    page.key("a")
    assert page.page.locator(".answers input:checked").count() == 1


def test_queued_rater_starts_automatically(live: Live) -> None:
    page = live.page
    with occupy_all(page.ratings.url, queued=1) as end:
        page.press("Begin with voice A")
        page.wait_text("You are number 2 in the queue; your voice starts automatically.", ".missing")
        assert live.page.text(f"{VOICE.format(slot=0)} .state") == "number 2 in the queue"
        assert live.field(0).get_attribute("readonly") is not None
        end(4)
        page.wait_text("You are number 1 in the queue", ".missing")
        end(0)  # the last free slot is reserved
        end(1)
        page.page.wait_for_selector(f"{VOICE.format(slot=0)} textarea:not([readonly])")
        page.page.keyboard.type(TEXT, delay=40)
        page.press("I have finished typing")
        live.wait(0, "heard")
        assert "in the queue" not in page.text(".missing")


def test_browser_contains_no_voice_name(live: Live) -> None:
    live.type()
    live.hear()
    said = live.page.page.content() + live.page.page.evaluate("() => JSON.stringify(localStorage)")
    for response in live.page.responses:
        if "/mos/" in response.url:
            said += response.url + response.text()
    assert not [name for name in (*SYSTEMS, '"tone"', '"low"', '"high"') if name in said]


def test_retyping_requires_the_second_voice_again(live: Live) -> None:
    live.type()
    live.hear()
    live.page.press("Type again")
    live.page.page.wait_for_selector(f"{VOICE.format(slot=0)} textarea:not([readonly])")
    live.page.page.keyboard.type("something else ", delay=20)
    live.page.page.keyboard.press("Control+Enter")
    live.wait(0, "heard")
    assert live.state(1) == ""
    live.send_too_early("Now hear voice B")


def test_reload_resumes_with_the_second_voice(live: Live) -> None:
    live.type()
    live.page.open()
    assert live.page.trial() == live.trial
    live.wait(0, "heard")
    assert live.field(0).input_value() == TEXT
    live.hear()
    assert live.field(1).input_value() == TEXT
    live.page.key("t", "Enter")
    live.page.trial(after=live.trial)
    assert live.page.ratings.outcome(live.trial) == "tie"


def test_both_voices_can_be_scored_beside_the_choice(rate: Rate) -> None:
    live = Live(rate("live-mos"))
    page = live.page
    live.type()
    live.hear()
    page.key("a")
    live.send_too_early("Answer every question")
    for name, value in (("A", 4), ("B", 2)):
        group = page.page.get_by_role("group", name=f"Voice {name}: How natural does it sound?")
        group.locator(f'input[value="{value}"]').check()
        if name == "A":
            page.open()  # a reload keeps the scores
            live.wait(1, "heard")
            assert page.page.locator('input[value="4"]:checked').count() == 1
    page.press("Send and continue")
    page.trial(after=live.trial)
    assert page.ratings.outcome(live.trial) == "a"
    sql = "select slot, value from score join answer on answer.id = answer_id where trial_id = ? order by slot"
    assert page.ratings.ask(sql, live.trial) == [(0, 4), (1, 2)]
    assert not page.errors


# A voice that is being loaded: it is ready when the test says so.
SLOW_VOICE = """
  window.Worker = class extends Worker {
    set onmessage(hear) {
      super.onmessage = ({ data }) => {
        if (data.type !== 'opened' || data.slot) hear({ data });
        else window.makeReady = () => hear({ data });
      };
    }
  };
"""


def test_text_finished_before_the_voice_is_ready_is_spoken(rate: Rate) -> None:
    page = rate("live", who="early")
    page.page.add_init_script(SLOW_VOICE)
    page.open()
    live = Live(page)
    page.press("Begin with voice A")
    page.page.wait_for_function("() => window.makeReady")
    page.wait_text("Type, and press the button when you have finished", ".missing")
    page.page.keyboard.type(TEXT)
    page.page.keyboard.press("Control+Enter")
    page.wait_text("Listen to the end", ".missing")
    assert live.state(0) == "live_wait" and live.field(0).get_attribute("readonly") is not None
    page.page.evaluate("window.makeReady()")
    live.wait(0, "heard")
    assert [samples > 0 for _, samples, *_ in takes(live)] == [True]


# That the second voice was heard is reported as with late keys, as on a slow machine; the third time
# skipping is allowed.
LATE_KEYS = """
  window.Worker = class extends Worker {
    set onmessage(hear) {
      let late = 0;
      super.onmessage = ({ data }) => {
        const isLate = data.type === 'finished' || (data.type === 'dropped' && data.why === 'again');
        if (!isLate || !data.slot) return hear({ data });
        window.late = ++late;
        if (late === 3) hear({ data: { type: 'skippable' } });
        hear({ data: { type: 'dropped', slot: 1, why: 'again' } });
      };
    }
  };
"""


def test_voice_that_cannot_be_replayed_blocks_nobody(rate: Rate) -> None:
    page = rate("live", who="stranded")
    page.page.add_init_script(LATE_KEYS)
    page.open()
    sent: list[dict[str, Any]] = []

    def answer(route: Any) -> None:
        sent.append(route.request.post_data_json)
        route.fulfill(json={"trial": sent[0]["trial"], "attempt": 1, "counted": True, "repeated": False})

    page.page.route("**/mos/answer", answer)
    live = Live(page)
    live.type()
    skip = page.page.get_by_role("button", name="Skip this screen")
    assert not skip.is_visible()
    page.press("Hear voice B")
    page.wait_text("did not get your typing in time", ".missing")
    assert page.page.evaluate("window.late") == 3, "and it does not restart automatically"
    assert live.state(1) == "" and page.page.locator(".voice .state[data-state='live_speaks']").count() == 0
    skip.click()
    page.wait_text("Begin with voice A")
    assert sent[0] == {"trial": live.trial, "skipped": True, "response_ms": sent[0]["response_ms"]}


@pytest.mark.parametrize("width", [1280, 390])
def test_live_screen_fits(live: Live, width: int) -> None:
    live.page.page.set_viewport_size({"width": width, "height": 900})
    live.type()
    wide = "() => document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    assert live.page.page.evaluate(wide)
