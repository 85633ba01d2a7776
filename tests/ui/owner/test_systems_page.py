"""The owner adds, tests and removes a system on the Library page."""

from collections.abc import Callable
from typing import Any

import pytest
from ui.owner_site import Site
from ui.site.test_axe import violations


def opened(page: Any) -> Any:
    """The section, opened."""
    page.locator(".library[data-stage=open]").wait_for()
    section = page.locator("details.systems")
    section.locator("summary").click()
    return section


def test_a_system_is_added_tested_and_removed(site: Site, enter: Callable[..., Any]) -> None:
    page = enter("library")
    section = opened(page)
    section.get_by_role("button", name="Add a system").click()
    kinds = section.get_by_label("Kind").locator("option").all_text_contents()
    assert "Cartesia" in kinds and not {"Program", "Python function", "Folder of sounds"} & {*kinds}
    section.get_by_label("Kind").select_option("cartesia")
    section.get_by_label("Name", exact=True).fill("far")
    section.get_by_label("Address").fill("http://127.0.0.1:9")
    assert violations(page) == []
    section.get_by_role("button", name="Add this system").click()
    section.get_by_text("far is added").wait_for()
    section.get_by_role("button", name="Test far").click()
    section.get_by_text("far does not speak").wait_for()
    assert (
        "http://127.0.0.1:9/tts/websocket cannot be used".replace("http", "ws")
        in section.locator(".failure").inner_text()
    )
    assert "far" in site.get("api/voices")
    section.get_by_role("button", name="Remove far").click()
    page.get_by_role("button", name="Remove it").click()
    section.get_by_text("far is removed").wait_for()
    assert section.locator(".system").count() == 0 and "far" not in site.get("api/voices")
    section.get_by_role("button", name="Add a system").click()
    section.get_by_label("Name", exact=True).fill("far")
    section.get_by_label("Address").fill(site.url)
    section.get_by_label("Kind").select_option("cartesia")
    section.get_by_label("Voice").fill("low")
    section.get_by_role("button", name="Add this system").click()
    section.get_by_role("button", name="Test far").click()
    section.get_by_text("far works: first sound after").wait_for()
    assert violations(page) == []


def test_others_are_refused(site: Site) -> None:
    body = {"name": "other", "kind": "openai", "url": site.url}
    for path in ("systems", "systems/test", "systems/remove"):
        assert '"forbidden"' in site.post(path, body)
        assert '"forbidden"' in site.post(path, body, token="wrong")
    said = site.post("systems", {**body, "kind": "command", "command": "true"}, token=site.token)
    assert "not allowed" in said or "command" in said
    assert '"name":"other"' not in site.get("api/voices")


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light"), (1920, "dark")])
def test_nothing_is_cut_off(enter: Callable[..., Any], width: int, scheme: str) -> None:
    page = enter("library", viewport={"width": width, "height": 900}, color_scheme=scheme)
    section = opened(page)
    section.get_by_role("button", name="Add a system").click()
    right = "Math.max(...[...document.querySelectorAll('.library *')].map((e) => e.getBoundingClientRect().right))"
    assert page.evaluate(right) <= width
