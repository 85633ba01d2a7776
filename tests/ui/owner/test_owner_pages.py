"""The owner's pages in a real browser, and every endpoint of the mounted app without the owner's token."""

import json
import re
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ui.owner_server import TITLE
from ui.owner_site import Site

PAGES = ("", "library", "campaigns", "edit", "results", "rate")
SECRETS = ("heron", "osprey", "merlin", "untouched", "Which one?", "/rate?test", "HYPERLINK", "PID-")


def call(site: Site, fn: int, data: list[Any], event: Any) -> str:
    """What Gradio answers to a call, by its queue: there is no other way in."""
    session = uuid.uuid4().hex[:10]
    body = {"fn_index": fn, "data": data, "session_hash": session, "event_data": event, "trigger_id": None}
    said = site.post("gradio_api/queue/join", body)
    if "event_id" in said:
        with urllib.request.urlopen(f"{site.url}gradio_api/queue/data?session_hash={session}", timeout=30) as stream:
            for line in stream:
                said += line.decode("utf-8")
                if b'"process_completed"' in line or b'"close_stream"' in line:
                    break
    return said


def config(site: Site, path: str) -> dict[str, Any]:
    """What a page tells the browser of its components and of what can be called."""
    text = site.get(path)
    found, _ = json.JSONDecoder().raw_decode(
        text, text.index("window.gradio_config = ") + len("window.gradio_config = ")
    )
    return found


def every_call(site: Site, token: Any) -> str:
    """Call whatever the mounted app has, with a token."""
    calls: dict[int, list[Any]] = {}
    for path in PAGES:
        page = config(site, path)
        kinds = {c["id"]: c["type"] for c in page["components"]}
        fill = {"textbox": token, "dropdown": "merlin", "checkbox": True, "state": None}
        calls |= {d["id"]: [fill.get(kinds[i]) for i in d["inputs"]] for d in page["dependencies"]}
    assert len(calls) >= 15
    return "".join(call(site, fn, data, {"campaign": "kestrel", "state": "closed"}) for fn, data in calls.items())


@pytest.mark.parametrize("token", ["", "wrong", "é\u2028", 7, None, ["x"]])
def test_nothing_is_told_or_done_without_the_token(site: Site, token: Any) -> None:
    said = every_call(site, token)
    # What was sent in comes back in places; the name of the campaign asked for is no secret then.
    found = [s for s in SECRETS if s != "merlin" and s in said]
    assert found == []
    assert set(site.states().values()) == {"open"}


def test_the_same_calls_tell_the_owner(site: Site) -> None:
    said = every_call(site, site.token)
    assert [s for s in SECRETS if s not in said] == ["PID-"]  # a rater's own id is told to nobody
    assert site.states()["kestrel"] == "closed"
    request = urllib.request.Request(
        f"{site.url}mos/owner/campaigns/kestrel/state",
        b'{"state": "open"}',
        {"Authorization": f"Bearer {site.token}", "Content-Type": "application/json"},
    )
    urllib.request.urlopen(request, timeout=30).close()
    assert site.states()["kestrel"] == "open"


@pytest.mark.parametrize("path", PAGES)
def test_no_page_brings_data_along(site: Site, path: str) -> None:
    text = site.get(path)
    assert [s for s in SECRETS if s in text and s != "/rate?test"] == []
    assert site.token not in text


def test_the_list_shows_opens_and_closes(site: Site, enter: Callable[..., Any]) -> None:
    page = enter("campaigns")
    card = page.locator('.campaign[data-name="kestrel"]')
    card.wait_for()
    assert card.locator("p.muted").first.text_content().startswith(TITLE)  # text, whatever is in it
    facts = card.locator("dl").inner_text().split("\n")
    assert facts[:4] == ["6", "raters", "6", "finished"]
    card.locator("button[data-state]").click()
    page.wait_for_selector('.campaign[data-name="kestrel"] .state[data-state="closed"]')
    assert site.states()["kestrel"] == "closed"
    card.locator("button[data-state]").click()
    page.wait_for_selector('.campaign[data-name="kestrel"] .state[data-state="open"]')
    assert site.states() == {"kestrel": "open", "merlin": "open", "untouched": "open"}


def test_links_lead_to_the_test_and_are_copied(site: Site, enter: Callable[..., Any]) -> None:
    page = enter("campaigns", permissions=["clipboard-read", "clipboard-write"])
    links = json.loads((site.folder / "facts.json").read_text(encoding="utf-8"))["links"]
    card = page.locator('.campaign[data-name="kestrel"]')
    card.locator("[data-copy]").first.click()
    page.wait_for_selector('.campaign[data-name="kestrel"] [data-copy]:text("Copied")')
    assert page.evaluate("navigator.clipboard.readText()") == site.url.rstrip("/") + links["rater"]
    hrefs = [a.get_attribute("href") for a in card.locator(".link a").all()]
    assert hrefs == ["." + links["rater"], "." + links["preview"]]
    card.locator("a.button").click()
    page.wait_for_selector("#owner-head h2")  # the token went along, in this tab
    assert page.locator("#owner-head h2").text_content() == TITLE


def test_the_token_stays_in_the_tab(site: Site, enter: Callable[..., Any]) -> None:
    page = enter("campaigns")
    page.wait_for_selector(".campaign")
    assert page.evaluate("Object.values(sessionStorage)").count(site.token) == 1
    assert page.evaluate("JSON.stringify(localStorage)").count(site.token) == 0
    assert page.context.cookies() == []
    assert site.token not in page.url
    other = page.context.new_page()
    other.goto(site.url + "campaigns")
    other.wait_for_selector(".owner-notice")
    assert other.locator(".campaign").count() == 0


def test_a_wrong_token_is_said_to_be_wrong(enter: Callable[..., Any]) -> None:
    page = enter("results", token="guessed")
    page.wait_for_selector('.owner-notice[data-level="error"]')
    assert "studio campaign token" in page.locator(".owner-notice").text_content()
    assert page.locator(".js-plotly-plot").count() == 0


@pytest.mark.parametrize(("name", "titles"), [("kestrel", 3), ("merlin", 4)])
def test_results_are_drawn(enter: Callable[..., Any], name: str, titles: int) -> None:
    page = enter(f"results?campaign={name}")
    page.wait_for_selector(".js-plotly-plot .main-svg")
    page.wait_for_function(f"document.querySelectorAll('.js-plotly-plot').length === {titles}")
    page.locator(".js-plotly-plot").first.filter(has_text="heron").wait_for()
    tables = page.locator("#owner-tables").text_content()
    assert ("Mean opinion score" if name == "kestrel" else "Elo") in tables
    assert "traps answered correctly" in tables


def test_what_was_predicted_stands_apart(enter: Callable[..., Any]) -> None:
    """In a card of its own, under people's tables."""
    page = enter("results?campaign=kestrel")
    apart = page.wait_for_selector("#owner-predicted")
    said = apart.text_content()
    assert "Predicted by Fake, not by people" in said and "no system is ranked by them" in said
    assert "redicted" not in page.locator("#owner-tables .owner-card").first.text_content()


def test_without_a_choice_what_was_answered_last_is_shown(site: Site, enter: Callable[..., Any]) -> None:
    """Not the newest campaign, which nobody has rated."""
    page = enter("results")
    page.wait_for_selector(".js-plotly-plot .main-svg")
    assert page.locator("#owner-campaign input").input_value() == "merlin"
    assert "Which one?" in page.locator("#owner-head h2").text_content()


def test_results_follow_what_raters_do(site: Site, enter: Callable[..., Any]) -> None:
    page = enter("results?campaign=untouched")
    page.wait_for_selector("#owner-head dl")
    assert "No answers that count yet" in page.locator("#owner-head").text_content()
    link = json.loads((site.folder / "facts.json").read_text(encoding="utf-8"))["untouched"]
    came = site.post("mos/join", {"campaign": "untouched", "key": link.rpartition("key=")[2], "device": {}})
    site.post("mos/stage", {"stage": "consent", "data": {"agreed": True, "version": 3}}, json.loads(came)["token"])
    page.wait_for_function("document.querySelector('#owner-head dd').textContent === '1'")


@pytest.mark.parametrize(
    ("button", "ending", "part"),
    [("CSV", "csv", "campaign,rater,accept"), ("HTML report", "html", "<!doctype html>"), ("LaTeX", "tex", "tabular")],
)
def test_downloads_are_whole(enter: Callable[..., Any], tmp_path: Path, button: str, ending: str, part: str) -> None:
    page = enter("results?campaign=kestrel")
    page.wait_for_selector("#owner-head dl")
    for _ in range(2):  # the same file again is a download again
        with page.expect_download() as download:
            page.get_by_role("button", name=button, exact=True).click()
        assert download.value.suggested_filename == f"kestrel.{ending}"
        download.value.save_as(tmp_path / "file")
        assert part in (tmp_path / "file").read_text(encoding="utf-8")


def test_the_navigation_leaves_the_raters_page_out(site: Site, enter: Callable[..., Any]) -> None:
    page = enter("campaigns")
    pages = ["Live", "Inspect", "Compare", "Library", "Listening tests", "Results", "Engine"]
    assert page.locator(".masthead nav a").all_text_contents() == pages
    assert page.locator(".masthead nav a[aria-current]").text_content() == "Listening tests"
    assert not re.search(r'href="[^"]*/rate[?"]', site.get("campaigns"))


def test_without_campaigns_the_command_is_named(chromium: Any, tmp_path: Path) -> None:
    site = Site(tmp_path, "--empty")
    try:
        context = chromium.new_context()
        page = context.new_page()
        for path in ("campaigns", "results"):
            page.goto(site.url + path)
            page.wait_for_selector(".owner-notice")
            page.fill("#owner-token input", site.token)
            page.click("#owner-show")
            page.wait_for_function("document.querySelector('.owner-notice')?.textContent.includes('campaign new')")
        context.close()
    finally:
        site.process.kill()
        site.process.wait(10)
