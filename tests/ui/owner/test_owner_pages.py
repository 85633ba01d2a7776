"""The owner's pages, and every endpoint of the mounted app without the owner's token."""

import json
import re
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from ui.live_page import LivePage
from ui.owner_server import OWNER_CODE, TITLE
from ui.owner_site import Site

from studio.mos.store.access import Access
from studio.mos.store.database import Store
from studio.ui.owner import ZONE_COOKIE

PAGES = ("", "campaigns", "results", "rate", "sign-in")
COMPONENTS = ("campaigns", "results", "engine")  # Gradio's pages
SECRETS = ("heron", "osprey", "merlin", "untouched", "Which one?", "/rate?test", "HYPERLINK", "PID-")


def call(site: Site, fn: int, data: list[Any], event: Any, cookie: str) -> str:
    """Gradio's answer to a call through its queue, the only way in."""
    session = uuid.uuid4().hex[:10]
    body = {"fn_index": fn, "data": data, "session_hash": session, "event_data": event, "trigger_id": None}
    said = site.post("gradio_api/queue/join", body, cookie=cookie)
    if "event_id" in said:
        with urllib.request.urlopen(f"{site.url}gradio_api/queue/data?session_hash={session}", timeout=30) as stream:
            for line in stream:
                said += line.decode("utf-8")
                if b'"process_completed"' in line or b'"close_stream"' in line:
                    break
    return said


def config(site: Site, path: str) -> dict[str, Any]:
    """What a page sends the browser about components and endpoints."""
    text = site.get(path)
    found, _ = json.JSONDecoder().raw_decode(
        text, text.index("window.gradio_config = ") + len("window.gradio_config = ")
    )
    return found


def every_call(site: Site, cookie: str) -> str:
    """Call every endpoint of the mounted app with a cookie."""
    calls: dict[int, list[Any]] = {}
    for path in COMPONENTS:
        page = config(site, path)
        kinds = {c["id"]: c["type"] for c in page["components"]}
        fill = {"dropdown": "merlin", "checkbox": True, "state": None}
        calls |= {d["id"]: [fill.get(kinds[i]) for i in d["inputs"]] for d in page["dependencies"]}
    assert len(calls) >= 12
    event = {"campaign": "kestrel", "state": "closed"}
    return "".join(call(site, fn, data, event, cookie) for fn, data in calls.items())


@pytest.mark.parametrize("value", [None, "", "wrong", "out", "x" * 200])
def test_nothing_is_shown_or_done_without_the_cookie(site: Site, value: str | None) -> None:
    name, _, right = site.cookie().partition("=")
    said = every_call(site, "" if value is None else f"{name}={value}")
    assert right not in said
    # Inputs are echoed in places, so the campaign's name is not secret here.
    found = [s for s in SECRETS if s != "merlin" and s in said]
    assert found == []
    assert set(site.states().values()) == {"open"}


def test_same_calls_answer_the_owner(site: Site) -> None:
    said = every_call(site, site.cookie())
    assert [s for s in SECRETS if s not in said] == ["PID-"]  # a rater's own id is shown to no one
    assert site.states()["kestrel"] == "closed"
    request = urllib.request.Request(
        f"{site.url}mos/owner/campaigns/kestrel/state",
        b'{"state": "open"}',
        {"Authorization": f"Bearer {site.token}", "Content-Type": "application/json"},
    )
    urllib.request.urlopen(request, timeout=30).close()
    assert site.states()["kestrel"] == "open"


@pytest.mark.parametrize("path", PAGES)
def test_pages_contain_no_data(site: Site, path: str) -> None:
    text = site.get(path)
    assert [s for s in SECRETS if s in text and s != "/rate?test"] == []
    assert site.token not in text


def test_list_shows_opens_and_closes_campaigns(site: Site, enter: Callable[..., Any]) -> None:
    page = enter("campaigns")
    card = page.locator('.campaign[data-name="kestrel"]')
    card.wait_for()
    assert card.locator("p.muted").first.text_content().startswith(TITLE)  # names are text, never markup
    facts = card.locator("dl").inner_text().split("\n")
    assert facts[:4] == ["6", "raters", "6", "finished"]
    card.locator("button[data-state]").click()
    page.wait_for_selector('.campaign[data-name="kestrel"] .state[data-state="closed"]')
    assert site.states()["kestrel"] == "closed"
    card.locator("button[data-state]").click()
    page.wait_for_selector('.campaign[data-name="kestrel"] .state[data-state="open"]')
    assert site.states() == {"kestrel": "open", "merlin": "open", "untouched": "open"}


def test_links_lead_to_the_test_and_can_be_copied(site: Site, enter: Callable[..., Any]) -> None:
    page = enter("campaigns", permissions=["clipboard-read", "clipboard-write"])
    links = json.loads((site.folder / "facts.json").read_text(encoding="utf-8"))["links"]
    card = page.locator('.campaign[data-name="kestrel"]')
    card.locator("[data-copy]").first.click()
    page.wait_for_selector('.campaign[data-name="kestrel"] [data-copy]:text("Copied")')
    assert page.evaluate("navigator.clipboard.readText()") == site.url.rstrip("/") + links["rater"]
    hrefs = [a.get_attribute("href") for a in card.locator(".link a").all()]
    assert hrefs == ["." + links["rater"], "." + links["preview"]]
    card.locator("a.button").click()
    page.wait_for_selector("#owner-head h2")
    assert page.locator("#owner-head h2").text_content() == TITLE


def test_browser_is_signed_in_by_a_cookie_that_scripts_cannot_read(site: Site, enter: Callable[..., Any]) -> None:
    page = enter("campaigns")
    page.wait_for_selector(".campaign")
    (cookie,) = [one for one in page.context.cookies() if one["name"] != ZONE_COOKIE]
    assert cookie["httpOnly"] and cookie["sameSite"] == "Lax" and cookie["name"].endswith(str(site.port))
    assert re.fullmatch(rf"{ZONE_COOKIE}=[\w-]+", page.evaluate("document.cookie"))
    assert page.evaluate("Object.values(sessionStorage).join() + JSON.stringify(localStorage)").count(site.token) == 0
    other = page.context.new_page()
    other.goto(site.url + "library")
    other.wait_for_selector(".library-whole")


def test_signing_in_leads_back_to_the_page(site: Site, enter: Callable[..., Any]) -> None:
    page = enter("edit?campaign=kestrel", token="guessed")
    field = page.get_by_label("Owner's access key")
    field.fill("guessed")
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("alert").filter(has_text="studio campaign token").wait_for()
    field.fill(site.token)
    page.get_by_role("button", name="Sign in").click()
    page.locator(".edit-columns").wait_for()
    assert page.url == f"{site.url}edit?campaign=kestrel"
    page.goto(site.url + "sign-in")
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url(site.url)
    assert page.context.cookies() == []


@pytest.mark.parametrize("wanted", ["https://other.example/", "//other.example", "javascript:alert(1)", "../x"])
def test_signing_in_leads_to_no_other_site(site: Site, enter: Callable[..., Any], wanted: str) -> None:
    page = enter(f"sign-in?{urlencode({'next': wanted})}", token="guessed")
    page.get_by_label("Owner's access key").fill(site.token)
    page.get_by_role("button", name="Sign in").click()
    page.locator(".live").wait_for()
    assert page.url == site.url


def test_link_of_the_server_signs_in(site: Site, enter: Callable[..., Any]) -> None:
    page = enter("?owner=guessed", token="guessed")
    assert page.context.cookies() == []
    page.goto(f"{site.url}?owner={OWNER_CODE}")
    assert page.url == site.url, "the code is not left in the address"
    page.goto(site.url + "library")
    page.locator(".library-whole").wait_for()


def test_signed_out_page_leads_to_the_sign_in_page(enter: Callable[..., Any]) -> None:
    page = enter("results?campaign=kestrel", token="guessed")
    link = page.locator(".owner-notice a")
    link.wait_for()
    assert link.get_attribute("href") == "./sign-in?next=results%3Fcampaign%3Dkestrel"
    assert page.locator(".js-plotly-plot").count() == 0


def test_new_token_signs_every_browser_out(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path / 'studio.sqlite'}")
    access = Access(store)
    before = access.owner_session()
    assert access.is_owner_session(before) and not access.is_owner_session("") and not access.is_owner_session("x")
    access.new_owner_token()
    assert not access.is_owner_session(before)
    store.close()


@pytest.mark.parametrize(("name", "titles"), [("kestrel", 3), ("merlin", 4)])
def test_results_are_drawn(enter: Callable[..., Any], name: str, titles: int) -> None:
    page = enter(f"results?campaign={name}")
    page.wait_for_selector(".js-plotly-plot .main-svg")
    page.wait_for_function(f"() => document.querySelectorAll('.js-plotly-plot').length === {titles}")
    page.locator(".js-plotly-plot").first.filter(has_text="heron").wait_for()
    tables = page.locator("#owner-tables").text_content()
    assert ("Mean opinion score" if name == "kestrel" else "Elo") in tables
    assert "traps answered correctly" in tables


def test_days_of_joining_are_of_the_viewers_time_zone(enter: Callable[..., Any]) -> None:
    joined: list[date] = []
    for zone in ("Pacific/Pago_Pago", "Pacific/Kiritimati"):  # a day and an hour apart
        page = enter("results?campaign=kestrel", timezone_id=zone)
        summary = page.locator("summary", has_text="who joined on").first
        joined.append(date.fromisoformat((summary.text_content() or "").split()[-1]))
    assert timedelta(days=1) <= joined[1] - joined[0] <= timedelta(days=2)


def test_predictions_are_shown_separately(enter: Callable[..., Any]) -> None:
    """In their own card below the ratings' tables."""
    page = enter("results?campaign=kestrel")
    apart = page.wait_for_selector("#owner-predicted")
    said = apart.text_content()
    assert "Predicted by Fake, not by people" in said and "no system is ranked by them" in said
    assert "redicted" not in page.locator("#owner-tables .owner-card").first.text_content()


def test_last_answered_campaign_is_selected_by_default(site: Site, enter: Callable[..., Any]) -> None:
    """Not the newest, which is unrated."""
    page = enter("results")
    page.wait_for_selector(".js-plotly-plot .main-svg")
    assert page.locator("#owner-campaign input").input_value() == "merlin"
    assert "Which one?" in page.locator("#owner-head h2").text_content()


def test_results_follow_the_raters(site: Site, enter: Callable[..., Any]) -> None:
    page = enter("results?campaign=untouched")
    page.wait_for_selector("#owner-head dl")
    assert "No answers that count yet" in page.locator("#owner-head").text_content()
    link = json.loads((site.folder / "facts.json").read_text(encoding="utf-8"))["untouched"]
    came = site.post("mos/join", {"campaign": "untouched", "key": link.rpartition("key=")[2], "device": {}})
    site.post("mos/stage", {"stage": "consent", "data": {"agreed": True, "version": 3}}, json.loads(came)["token"])
    page.wait_for_function("() => document.querySelector('#owner-head dd').textContent === '1'")


@pytest.mark.parametrize(
    ("button", "ending", "part"),
    [("CSV", "csv", "campaign,rater,accept"), ("HTML report", "html", "<!doctype html>"), ("LaTeX", "tex", "tabular")],
)
def test_downloads_are_complete(enter: Callable[..., Any], tmp_path: Path, button: str, ending: str, part: str) -> None:
    page = enter("results?campaign=kestrel")
    page.wait_for_selector("#owner-head dl")
    for _ in range(2):  # a repeated download works
        with page.expect_download() as download:
            page.get_by_role("button", name=button, exact=True).click()
        assert download.value.suggested_filename == f"kestrel.{ending}"
        download.value.save_as(tmp_path / "file")
        assert part in (tmp_path / "file").read_text(encoding="utf-8")


def test_navigation_omits_the_raters_page(site: Site, enter: Callable[..., Any]) -> None:
    page = enter("campaigns")
    pages = ["Live", "Inspect", "Compare", "Library", "Listening tests", "Results", "Engine"]
    page.locator(".masthead nav a").first.wait_for()
    assert page.locator(".masthead nav a:visible").all_text_contents() == pages
    assert page.locator(".masthead nav a[aria-current]").text_content() == "Listening tests"
    assert not re.search(r'href="[^"]*/rate[?"]', site.get("campaigns"))


def test_without_campaigns_the_command_is_named(chromium: Any, tmp_path: Path) -> None:
    site = Site(tmp_path, "--empty")
    try:
        context = chromium.new_context()
        site.sign_in(context)
        page = context.new_page()
        for path in ("campaigns", "results"):
            page.goto(site.url + path)
            page.wait_for_function(
                "() => document.querySelector('.owner-notice')?.textContent.includes('campaign new')"
            )
        context.close()
    finally:
        site.process.kill()
        site.process.wait(10)


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_cut_off_at_the_side(enter: Callable[..., Any], width: int) -> None:
    page = enter("campaigns", viewport={"width": width, "height": 844})
    page.wait_for_selector(".campaign")
    script = "s => Math.max(...[...document.querySelectorAll(s)].map((e) => e.getBoundingClientRect().right))"
    assert page.evaluate(script, ".masthead *, .campaign") <= width
    page.goto(page.url.replace("campaigns", "results?campaign=merlin"))
    page.wait_for_selector(".js-plotly-plot .main-svg")
    assert page.evaluate(script, ".owner-card, .owner-plot, .owner-choose, .owner-files button") <= width


def test_phone_tables_fit_or_show_that_they_scroll(enter: Callable[..., Any]) -> None:
    """Gates are fully visible; scrolling tables have a shadow at the edge where there is more."""
    page = enter("results?campaign=merlin", viewport={"width": 390, "height": 844})
    page.wait_for_selector("#owner-tables table")
    sizes = {
        wide.locator("th").first.text_content(): wide.evaluate("e => [e.clientWidth, e.scrollWidth]")
        for wide in page.locator("#owner-tables .owner-card > .wide").all()
    }
    assert sizes["Check"][1] <= sizes["Check"][0]
    wide = page.locator("#owner-tables .wide").first  # eight columns of preferences
    assert wide.evaluate("e => e.scrollWidth - e.clientWidth") > 100
    # Two covers scroll and two shadows do not, so a shadow is visible where there is more. The style is
    # checked, not the pixels: a headless browser does not always paint it.
    assert wide.evaluate("e => getComputedStyle(e).backgroundAttachment") == "local, local, scroll, scroll"
    assert wide.evaluate("e => getComputedStyle(e).backgroundImage.split('linear-gradient').length - 1") == 4


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (1280, "dark")])
def test_engine_page_follows_an_utterance(visit: Callable[..., LivePage], width: int, scheme: str) -> None:
    live = visit()
    tab = live.page.context.browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page: Any = tab.new_page()
    page.goto(live.url + "engine")
    page.wait_for_selector("#engine-load .owner-card")
    fact = "what => [...document.querySelectorAll('#engine-load dt')].find((e) => e.textContent === what)"
    spoken_s = f"() => parseFloat(({fact})('of audio').previousElementSibling.textContent)"
    before = page.evaluate(spoken_s)
    live.type("Speech flows from words as they arrive. ")
    live.finish(spoken=1)
    page.wait_for_function(f"before => ({spoken_s})() > before", arg=before)
    page.wait_for_selector("#engine-load table.runs")
    edges = "[...document.querySelectorAll('.owner-card')].map((e) => e.getBoundingClientRect().right)"
    assert page.evaluate(f"Math.max(...{edges})") <= width
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    hidden = "[...document.querySelectorAll('#engine-load .wide')].map((e) => e.scrollWidth - e.clientWidth)"
    assert max(page.evaluate(hidden)) <= 0, "a table is fully visible"
    assert "a module is a part of a voice" in page.inner_text("#engine-load").lower()
    replicas = [
        {"name": name, "status": "ok", "places_free": 3, "places": 4, "waiting": 0, "step_share": 0.25}
        for name in ("bpbke12k", "<b>i1k5ncoi")
    ]
    page.route("**/health", lambda route: route.fulfill(json={"status": "ok", "replicas": replicas}))
    page.wait_for_selector("#engine-replicas tbody tr")
    assert page.locator("#engine-replicas tbody tr").last.inner_text().split("\t") == [
        "<b>i1k5ncoi", "ok", "1 of 4", "0", "25%"
    ]  # fmt: skip
    assert page.evaluate("document.querySelector('#engine-replicas').getBoundingClientRect().right") <= width
    page.unroute("**/health")
    page.route("**/health", lambda route: route.abort())
    page.wait_for_selector("#engine-away p:has-text('does not answer')")
    page.unroute("**/health")
    page.wait_for_function("() => document.querySelector('#engine-away p').textContent === ''")
    tab.close()
