"""Metadata of shared links."""

import json
import re
import struct
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest
from ui.rate_page import RatePage, Ratings
from ui.waits import comes_to

from studio.ui.documents import CLAIM
from studio.ui.page import TITLE


def _page(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return answer.read().decode()


def _tags(html: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in re.findall(r'<meta\s+(?:property|name)="([^"]+)"\s+content="([^"]*)"', html):
        found.setdefault(name, []).append(value)
    return found


def test_shared_link_shows_our_title_description_and_picture_once(server: Any) -> None:
    html = _page(server.url + "?text=hello")
    tags = _tags(html)
    assert tags["og:title"] == ["Streaming-TTS Studio"]
    assert tags["description"] == tags["og:description"] == ["It speaks while you are still typing."]
    assert not any("gradio" in value.lower() for values in tags.values() for value in values)
    (picture,) = tags["og:image"]
    assert picture.startswith(server.url) and tags["twitter:image"] == [picture]
    with urllib.request.urlopen(picture, timeout=60) as answer:
        assert answer.headers["content-type"] == "image/png"
        assert struct.unpack(">II", answer.read()[16:24]) == (1200, 630)


def test_link_to_a_listening_test_shows_nothing_of_the_studio(ratings: Ratings) -> None:
    tags = _tags(_page(ratings.url + "rate"))
    assert not [name for name in tags if name.startswith(("og:", "twitter:", "description", "theme-color"))]
    assert 'rel="manifest"' not in _page(ratings.url + "rate")


@pytest.mark.parametrize("path", ["", "engine"])
def test_page_links_to_one_manifest(server: Any, path: str) -> None:
    (address,) = re.findall(r'<link rel="manifest" href="\.([^"]+)"', _page(server.url + path))
    manifest = json.loads(_page(server.url[:-1] + address))
    assert (manifest["name"], manifest["description"]) == (TITLE, CLAIM)


def test_page_of_the_owner_has_the_title_of_the_page_to_sign_in(ratings: Ratings) -> None:
    assert f"<title>Sign in · {TITLE}</title>" in _page(ratings.url + "library")


def test_listening_test_has_the_title_that_raters_see(rate: Callable[..., RatePage]) -> None:
    page = rate("mos").page
    page.wait_for_selector('.rate[data-stage="welcome"]')
    title = page.locator(".rate-title").text_content()
    assert title
    comes_to(page.title, title)
