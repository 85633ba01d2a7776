"""What a shared link shows is ours alone."""

import re
import struct
import urllib.request
from typing import Any

from ui.rate_page import Ratings


def _page(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return answer.read().decode()


def _tags(html: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in re.findall(r'<meta\s+(?:property|name)="([^"]+)"\s+content="([^"]*)"', html):
        found.setdefault(name, []).append(value)
    return found


def test_a_shared_link_shows_our_title_description_and_picture_once(server: Any) -> None:
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


def test_a_link_to_a_listening_test_shows_nothing_of_the_studio(ratings: Ratings) -> None:
    tags = _tags(_page(ratings.url + "rate"))
    assert not [name for name in tags if name.startswith(("og:", "twitter:", "description"))]


def test_a_page_links_to_no_manifest_that_nobody_serves(server: Any) -> None:
    assert 'rel="manifest"' not in _page(server.url)
