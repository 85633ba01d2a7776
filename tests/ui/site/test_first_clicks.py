"""How many clicks a newcomer needs, without typing an address: to sound, a saved WAV, a shared link, a vote, a test."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from ui.live_page import LivePage
from ui.owner_site import Site
from ui.rate.test_rate_live import VOICE
from ui.rate_page import RatePage

# Clicks and taps; typing, and keys that the page names, are not counted.
TO_SOUND = 1  # an example; typing needs none
TO_A_SAVED_WAV = 2
TO_A_SHARED_LINK = 2
TO_A_VOTE = 2  # besides those that play a voice; the consent is given with the first of them
TO_A_TEST_FOR_RATERS = 5

# A click by a key has no detail. The sum outlives the page.
COUNT = """addEventListener('click', (event) => {
  if (event.isTrusted && event.detail) sessionStorage.clicks = Number(sessionStorage.clicks ?? 0) + 1;
}, true)"""


def clicks(page: Any) -> int:
    return int(page.evaluate("sessionStorage.clicks ?? 0"))


@pytest.fixture
def newcomer(visit: Callable[..., LivePage]) -> LivePage:
    """The Live page; its clicks are counted."""
    return visit(script=COUNT, permissions=["clipboard-read", "clipboard-write"])


def test_sound_wav_and_link(newcomer: LivePage) -> None:
    page = newcomer.page
    page.locator(".examples button").first.click()
    newcomer.wait_lit(1)
    assert clicks(page) == TO_SOUND
    with page.expect_download() as saved:
        page.get_by_role("button", name="WAV", exact=True).click()  # during the speech: it is saved once it is whole
    assert saved.value.path().stat().st_size > 44 and clicks(page) == TO_A_SAVED_WAV


def test_shared_link(newcomer: LivePage) -> None:
    page = newcomer.page
    page.locator(".examples button").first.click()
    newcomer.wait_spoken()
    page.wait_for_selector('[data-get="trace"]:not([hidden])')
    page.get_by_role("button", name="Copy link").click()
    newcomer.wait_status("It plays this speech")
    assert "heard=" in page.evaluate("navigator.clipboard.readText()") and clicks(page) == TO_A_SHARED_LINK


def test_vote(rate: Callable[..., RatePage]) -> None:
    arena = rate("arena")
    page = arena.page
    page.add_init_script(COUNT)
    page.goto(arena.ratings.url)
    page.get_by_role("link", name="Arena", exact=True).click()
    arena.wait("consent")
    arena.press("I agree: begin with voice A")
    trial = arena.trial()
    page.wait_for_selector(f"{VOICE.format(slot=0)} textarea:not([readonly])")
    page.keyboard.type("hello good friend ", delay=40)
    page.keyboard.press("Control+Enter")
    playing = 1
    for slot in (0, 1):
        page.wait_for_selector(f'{VOICE.format(slot=slot)} .state[data-state="heard"]')
        if slot == 0:
            arena.press("Hear voice B")
            playing += 1
    arena.press("A is better")
    arena.wait("revealed")
    assert arena.ratings.outcome(trial) == "a"
    assert clicks(page) - playing == TO_A_VOTE


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server without listening tests."""
    site = Site(tmp_path_factory.mktemp("first"), "--empty")
    yield site
    site.process.kill()
    site.process.wait(10.0)


def test_listening_test_for_raters(empty: Site, opening: Callable[..., Any]) -> None:
    owner = opening()
    empty.sign_in(owner)
    page = owner.new_page()
    page.add_init_script(COUNT)
    page.goto(empty.url)
    page.get_by_role("link", name="Listening tests", exact=True).click()
    page.get_by_role("link", name="New listening test").click()
    page.get_by_role("button", name="Pair preference (AB)").click()
    page.get_by_role("button", name="Speak 8 sounds, then open").click()
    page.get_by_role("button", name="Open it").click()
    link = page.locator(".rater-link a").get_attribute("href")
    assert clicks(page) == TO_A_TEST_FOR_RATERS
    rater = opening().new_page()
    rater.goto(link)
    rater.get_by_role("button", name="Begin").wait_for()
    assert empty.states() == {"test-1": "open"}
