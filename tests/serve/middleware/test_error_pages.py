"""Errors as pages, where a browser opens an address itself."""

import httpx
import pytest
from serve.mos_serving import ServedTests

BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


@pytest.mark.parametrize(("path", "reason"), [("nothing", "Not Found."), ("arena", "No arena is open")])
def test_browser_sees_a_page_with_the_reason(tests_served: ServedTests, path: str, reason: str) -> None:
    answer = httpx.get(f"{tests_served.url}/{path}", headers=BROWSER)
    assert answer.status_code == 404 and answer.headers["content-type"].startswith("text/html")
    assert f"<p>{reason}" in answer.text and '<a href="/">' in answer.text
    assert int(answer.headers["content-length"]) == len(answer.content)


def test_address_that_was_sent_to_raters_has_no_link_to_the_studio(tests_served: ServedTests) -> None:
    answer = httpx.get(f"{tests_served.url}/mos/greet?campaign=x&key=y", headers=BROWSER)
    assert answer.status_code >= 400 and "<h1>" in answer.text
    assert "<a " not in answer.text and "Studio" not in answer.text


def test_reason_is_text_not_markup(tests_served: ServedTests) -> None:
    answer = httpx.get(f"{tests_served.url}/mos/stimuli/%3Cb%3E?x=<b>", headers=BROWSER)
    assert answer.status_code >= 400 and "<b>" not in answer.text


def test_program_gets_json(tests_served: ServedTests) -> None:
    answer = httpx.get(f"{tests_served.url}/arena")
    assert answer.status_code == 404 and answer.json()["message"].startswith("no arena is open")
