"""Behind deploy/Caddyfile: TLS, a path, and every page, route and socket below it."""

import json
import re
import urllib.error
from typing import Any

import pytest
from ui.deployed.conftest import KEY
from ui.deployed.proxy import PATH, Proxy
from ui.live_page import LivePage
from ui.owner_site import Site
from ui.site.test_open_routes import PAGES
from ui.site.test_page_load import READY

pytestmark = pytest.mark.slow

_LINKS = "links => links.map((one) => one.href).filter((one) => one.startsWith('http'))"


def test_live_page_speaks(visitor: Any, proxy: Proxy) -> None:
    live = LivePage(visitor.new_page(), proxy.url)
    live.open()
    live.type("one two three ")
    live.finish(spoken=1)
    assert len(live.rendered()) and live.errors == []
    link = live.page.locator('[data-get="heard"]').get_attribute("href")
    assert link.startswith(proxy.url) and visitor.request.get(link).ok
    assert visitor.wrong == []


@pytest.mark.parametrize("path", sorted(PAGES - {"design"}))
def test_page_stays_below_the_path(visitor: Any, site: Site, proxy: Proxy, path: str) -> None:
    assert visitor.request.post(f"{proxy.url}mos/owner/session", data={"token": site.token}).ok
    assert {(one["path"], one["secure"]) for one in visitor.cookies()} == {(PATH, True)}  # of the key and the owner
    page = visitor.new_page()
    facts = json.loads((site.folder / "facts.json").read_text(encoding="utf-8"))
    page.goto(proxy.url + (facts["links"]["rater"].lstrip("/") if path == "rate" else path))
    page.locator(READY.get(path, "main, #api-page")).first.wait_for(state="attached")
    page.wait_for_load_state("networkidle")
    assert visitor.wrong == []
    links = page.locator("a[href]").evaluate_all(_LINKS)
    assert [one for one in links if one.startswith(proxy.origin) and not one.startswith(proxy.url)] == []
    for tag in page.locator('meta[property="og:image"]').all():
        assert tag.get_attribute("content").startswith(proxy.url)


def test_owner_signs_in_and_is_led_back(visitor: Any, site: Site, proxy: Proxy) -> None:
    page = visitor.new_page()
    page.goto(proxy.url + "library")
    page.wait_for_url(re.compile(re.escape(proxy.url) + r"sign-in\?"))
    page.locator(".signin input").fill(site.token)
    page.keyboard.press("Enter")
    page.wait_for_url(proxy.url + "library")
    assert visitor.wrong == []


def test_addresses_outside_the_path(proxy: Proxy) -> None:
    with pytest.raises(urllib.error.HTTPError, match="403"):  # led to the path; no key
        proxy.get(proxy.url[:-1])
    with pytest.raises(urllib.error.HTTPError, match="404"):
        proxy.get(proxy.origin)
    response = proxy.get(proxy.url[:-1] + "?lang=de", **{"X-Studio-Key": KEY})
    assert response.url == f"{proxy.url}?lang=de"
    assert f"wss://localhost:{proxy.port}" in response.headers["content-security-policy"]
