"""The owner creates a listening test: draft, systems, texts, preview, opening."""

import json
import tomllib
import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from ui.owner_site import Site
from ui.site.test_axe import violations

from studio.mos.campaign.config import from_json

TEXTS = "Good morning to you.\nrain|Will it rain tomorrow?"


def begin(page: Any, name: str, template: str) -> None:
    """From the list of tests to a draft."""
    page.get_by_role("link", name="New listening test").click()
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_role("checkbox").uncheck()  # without voices and texts
    page.locator(f'.kind-card[data-template="{template}"]').click()
    page.locator(".edit-columns").wait_for()
    assert "/edit?campaign=" in page.url


def saved(page: Any) -> None:
    """Wait until all input is saved on the server."""
    page.wait_for_function("() => document.querySelector('.saved').textContent === 'All changes saved'")


def draft(site: Site, name: str) -> dict[str, Any]:
    return json.loads(site.get(f"mos/owner/drafts/{name}", Authorization=f"Bearer {site.token}"))


def settle(page: Any, site: Site, name: str, done: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The draft, once the server has all input."""
    for _ in range(300):
        if done(found := draft(site, name)):
            return found
        page.wait_for_timeout(100)
    raise AssertionError(f"the server has {found}")


def test_is_created_previewed_and_opened(site: Site, enter: Callable[..., Any], tmp_path: Path) -> None:
    page = enter("campaigns")
    begin(page, "windows", "speakstream-mos")
    ready = page.locator(".ready")
    assert "Not ready yet" in ready.inner_text()
    assert page.get_by_role("button", name="Open for raters").is_disabled()
    for window in ("3", "2"):
        page.get_by_label("Look-ahead").fill(window)
        page.get_by_role("button", name="Add this voice").click()
        page.locator(".system").nth(0 if window == "3" else 1).wait_for()
    assert page.locator(".system b").all_text_contents() == ["tone:low", "tone:low?m=2"]
    page.get_by_label("Texts, one per line").fill(TEXTS)
    page.get_by_role("button", name="Speak 4 sounds", exact=True).click()
    page.get_by_role("heading", name="Ready to open").wait_for(timeout=60_000)
    page.get_by_label("5", exact=True).first.fill("Like a person")
    page.get_by_role("button", name="Add quality").click()
    page.get_by_label("Raters for each screen").fill("4")
    found = settle(page, site, "windows", lambda d: d["settings"]["raters_per_stimulus"] == 4)
    assert found["settings"]["questions"][0]["labels"]["5"] == "Like a person"
    assert found["settings"]["questions"][2]["labels"]["1"] == "Bad", "P.800's words come with the attribute"
    saved(page)
    assert "4 screens × 4 raters = 16 answers; 4 raters if all finish." in page.locator(".edit").inner_text()

    page.evaluate("document.querySelectorAll('.edit details').forEach((one) => (one.open = true))")
    assert violations(page) == []
    page.get_by_role("button", name="Preview").click()  # no one is stored by that
    step = page.locator(".preview-bar").get_by_role("button", name="Next")
    while page.locator(".edit-preview .trial").count() == 0:
        step.click()
        page.wait_for_timeout(50)
    assert page.locator(".edit-preview .marks legend").all_text_contents()[0] == "How natural does the speech sound?"
    assert "Like a person" in page.locator(".edit-preview .answers").inner_text()
    assert page.locator(".edit-preview .notice:not(:empty)").count() == 0, "its sounds exist"
    assert violations(page) == []
    page.get_by_role("button", name="Close").click()

    with page.expect_download() as download:
        page.get_by_role("button", name="Download the settings").click()
    download.value.save_as(tmp_path / "windows.toml")
    assert from_json(tomllib.loads((tmp_path / "windows.toml").read_text())) == from_json(found["settings"])

    page.get_by_role("button", name="Open for raters").click()
    page.get_by_role("button", name="No", exact=True).click()
    assert site.states()["windows"] == "draft"
    page.get_by_role("button", name="Open for raters").click()
    page.get_by_role("button", name="Open it").click()
    page.get_by_role("heading", name="Open", exact=True).wait_for()
    assert site.states()["windows"] == "open"
    assert page.get_by_label("Title").is_disabled() and page.locator(".adding:visible").count() == 0


def test_draft_is_left_and_resumed(site: Site, enter: Callable[..., Any], tmp_path: Path) -> None:
    """Clips are uploaded, errors shown at the field, missing sounds requested."""
    page = enter("campaigns")
    begin(page, "own clips", "s5-preference")
    page.get_by_label("Texts, one per line").fill("hello|Hello, and good morning.")
    settle(page, site, "own%20clips", lambda d: d["items"]["test"] == 1)
    for k, system in enumerate(("heron", "teal")):
        pcm = (4000 * np.sin(np.arange(16_000) * (k + 3) / 40)).astype("<i2")
        with wave.open(str(tmp_path / "hello.wav"), "wb") as file:
            file.setparams((1, 2, 16_000, 0, "NONE", ""))
            file.writeframes(pcm.tobytes())
        page.locator("summary", has_text="Add clips of a system").click() if k == 0 else None
        page.get_by_label("System", exact=True).fill(system)
        page.get_by_label("Files").set_input_files(tmp_path / "hello.wav")
        page.get_by_role("button", name="Add these clips").click()
        page.get_by_text(f"1 clip of {system} added.").wait_for()
    page.get_by_role("heading", name="Ready to open").wait_for()
    page.get_by_label("Screens for each rater").fill("0")
    assert page.get_by_label("Screens for each rater").get_attribute("aria-invalid") == "true"
    page.get_by_label("Repeated screens").fill("50")
    page.get_by_text("Not saved: Repeats is 50 with 50 trials per session; 25 at most").wait_for()
    page.get_by_label("Repeated screens").fill("1")
    page.get_by_label("Screens for each rater").fill("2")
    page.get_by_label("Allow “no difference”").check()
    saved(page)

    page.goto(site.url + "campaigns")
    page.get_by_role("article").filter(has_text="own clips").get_by_role("link", name="Edit").click()
    page.locator(".edit-columns").wait_for()
    assert page.get_by_label("Screens for each rater").input_value() == "2"
    assert page.get_by_label("Allow “no difference”").is_checked()
    page.get_by_label("Texts, one per line").fill("")
    page.get_by_text("2 sounds of removed or changed texts").wait_for()
    page.get_by_role("button", name="Restore the texts").click()
    assert page.get_by_label("Texts, one per line").input_value() == "hello|Hello, and good morning."
    page.get_by_role("button", name="Remove teal").click()
    page.get_by_role("button", name="Yes").click()
    page.get_by_text("A pair needs two systems").wait_for()
    page.goto(site.url + "campaigns")
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("article").filter(has_text="own clips").get_by_role("button", name="Delete").click()
    page.get_by_role("article").filter(has_text="own clips").wait_for(state="detached")


def test_failed_save_is_kept_and_retried(site: Site, enter: Callable[..., Any]) -> None:
    page = enter("campaigns")
    begin(page, "fulldisk", "speakstream-mos")

    def fail(route: Any) -> None:
        route.fulfill(status=503, json={"code": "not_stored", "message": "no room"})

    page.route("**/drafts/fulldisk/texts", fail)
    page.get_by_label("Texts, one per line").fill(TEXTS)
    page.get_by_text("Not saved: No room").wait_for()
    shown = page.get_by_label("Raters see the text")
    shown.set_checked(not shown.is_checked())  # saving it also loads the texts of the server
    settle(page, site, "fulldisk", lambda found: found["settings"]["show_text"] == shown.is_checked())
    page.route("**/drafts/fulldisk/settings", fail)
    page.get_by_label("Screens for each rater").fill("3")
    page.get_by_text("Not saved: No room").wait_for()
    assert page.get_by_label("Texts, one per line").input_value() == TEXTS
    asked: list[str] = []
    page.on("dialog", lambda dialog: (asked.append(dialog.type), dialog.accept()))
    page.unroute("**/drafts/fulldisk/texts")
    page.unroute("**/drafts/fulldisk/settings")
    settle(page, site, "fulldisk", lambda found: found["items"]["test"] == 2)
    settle(page, site, "fulldisk", lambda found: found["settings"]["trials_per_sitting"] == 3)
    assert page.get_by_label("Texts, one per line").input_value() == TEXTS
    page.route("**/drafts/fulldisk/settings", lambda route: route.fulfill(status=422, json={"message": "no"}))
    page.get_by_label("Screens for each rater").fill("2")
    page.get_by_text("Not saved: No").wait_for()
    page.reload()
    assert asked == ["beforeunload"]


def test_next_test_is_chosen_from_a_list(site: Site, enter: Callable[..., Any]) -> None:
    """A mismatch is shown on selection, in the page's words; P.835's questions are for no other kind."""
    page = enter("campaigns")
    begin(page, "later", "s5-preference")
    page.get_by_label("Version of the consent").evaluate("(one) => (one.closest('details').open = true)")
    page.get_by_label("Version of the consent").fill("7")
    settle(page, site, "later", lambda d: d["settings"]["texts"]["consent_version"] == 7)
    page.goto(site.url + "campaigns")
    begin(page, "earlier", "speakstream-mos")
    assert page.get_by_role("button", name="Add SIG").count() == 0 and page.get_by_text("as for SIG").count() == 0
    assert page.get_by_role("button", name="Add quality").count() == 1
    following = page.get_by_label("Followed by")
    offered = following.locator("option").all_text_contents()
    assert offered[0] == "no other test" and "later · Pair preference (AB) · draft" in offered
    assert not [one for one in offered if one.startswith("earlier")]
    following.select_option("later")
    page.locator(".follows", has_text="later has another version of the consent").wait_for()
    page.locator(
        ".lacking", has_text="'later', which comes after this test, has another version of the consent"
    ).wait_for()
    assert "then" not in page.locator(".ready").inner_text().replace("then a choice", "").split()
    found = settle(page, site, "earlier", lambda d: d["settings"]["then"] == "later")
    assert found["settings"]["then"] == "later"
    page.get_by_label("Version of the consent").evaluate("(one) => (one.closest('details').open = true)")
    page.get_by_label("Version of the consent").fill("7")
    page.locator(".follows", has_text="later is a draft: open it before this one.").wait_for()
    page.get_by_label("Minimum correlation").evaluate("(one) => (one.closest('details').open = true)")
    page.get_by_label("Minimum correlation").fill("1")
    page.locator(".advice", has_text="no rater reaches an agreement of 1").wait_for()
    assert violations(page) == []
    following.select_option("")
    page.locator(".follows").wait_for(state="hidden")
    settle(page, site, "earlier", lambda d: d["settings"]["then"] == "")


def test_nothing_is_cut_off_on_a_phone(enter: Callable[..., Any]) -> None:
    page = enter("edit?campaign=kestrel", viewport={"width": 390, "height": 844})
    page.locator(".edit-columns").wait_for()
    page.evaluate("document.querySelectorAll('.edit details').forEach((one) => (one.open = true))")
    script = "Math.max(...[...document.querySelectorAll('.edit *')].map((e) => e.getBoundingClientRect().right))"
    assert page.evaluate(script) <= 390
