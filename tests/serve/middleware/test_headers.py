"""Response headers, trusted proxies, and how much of a request an error quotes."""

import json
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import Request
from serve.mos_serving import ServedTests
from serve.serving import Served, Serving

from studio.core.errors import BadOption
from studio.serve.live import protocol as wire
from studio.serve.settings import ServeSettings

TOLD = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "x-frame-options": "DENY",
}


def who(server: Served, **headers: str) -> dict[str, Any]:
    """The caller and scheme as the server sees them."""
    if not any(getattr(route, "path", "") == "/who" for route in server.app.routes):

        @server.app.get("/who")
        def forwarded(request: Request) -> dict[str, Any]:
            return {"host": request.client.host if request.client else "", "scheme": request.url.scheme}

    return httpx.get(f"{server.url}/who", headers=headers).json()


@pytest.mark.parametrize("path", ["health", "nothing", "traces/x.wav", "mos/next", "mos/greet?campaign=x&key=y"])
@pytest.mark.parametrize("host", ["", "evil.example"])
def test_every_response_has_security_headers(tests_served: ServedTests, path: str, host: str) -> None:
    answer = httpx.get(f"{tests_served.url}/{path}", headers={"Host": host} if host else {})
    for name, value in TOLD.items():
        assert answer.headers.get_list(name) == [value], (path, name)
    [policy] = answer.headers.get_list("content-security-policy")
    assert policy.startswith("default-src 'none'") and policy.endswith("frame-ancestors 'none'")
    assert "server" not in answer.headers


def test_errors_of_limits_have_security_headers(serving: Serving) -> None:
    answer = httpx.post(f"{serving().url}/health", content=b"x" * 70_000)
    assert answer.status_code == 413 and answer.headers["referrer-policy"] == "same-origin"


def test_allowed_origins_may_frame_pages(serving: Serving) -> None:
    answer = httpx.get(f"{serving(allowed_origins=('https://a.example',)).url}/health")
    assert answer.headers["content-security-policy"].endswith("frame-ancestors 'self' https://a.example")
    assert "x-frame-options" not in answer.headers


FORWARDED = {"X-Forwarded-For": "198.51.100.7", "X-Forwarded-Proto": "https"}


def test_forwarded_address_is_trusted_from_a_named_proxy_only(serving: Serving) -> None:
    assert who(serving(), **FORWARDED) == {"host": "127.0.0.1", "scheme": "http"}
    assert who(serving(proxies=("10.0.0.0/8",)), **FORWARDED) == {"host": "127.0.0.1", "scheme": "http"}
    for named in ("127.0.0.1", "127.0.0.0/8"):
        assert who(serving(proxies=(named,)), **FORWARDED) == {"host": "198.51.100.7", "scheme": "https"}


@pytest.mark.parametrize("key", ["", "a-key-that-is-long-enough"])
def test_foreign_cookies_are_neither_read_nor_passed_on(serving: Serving, key: str) -> None:
    server = serving(key=key)

    @server.app.get("/mos/cookies")  # needs no key
    def cookies(request: Request) -> dict[str, str]:
        return dict(request.cookies)

    # Python before 3.11.10 takes half a minute for this and blocks everybody.
    hostile = 'a="' + "\\" * 50_000 + '"'
    began_s = time.thread_time()
    answer = httpx.get(f"{server.url}/mos/cookies", headers=[("Cookie", hostile), ("Cookie", "studio-x=1; b=2")])
    assert answer.json() == {"studio-x": "1"}
    assert httpx.get(f"{server.url}/health", headers={"Cookie": hostile}).status_code == (403 if key else 200)
    assert time.thread_time() - began_s < 5.0


def test_key_cookie_is_found_in_any_cookie_header(serving: Serving) -> None:
    server = serving(key="a-key-that-is-long-enough")
    given = httpx.get(f"{server.url}/health?key=a-key-that-is-long-enough").headers["set-cookie"].split(";")[0]
    headers = [("Cookie", "a=1"), ("Cookie", f"b=2; {given}; c=3")]
    assert httpx.get(f"{server.url}/health", headers=headers).status_code == 200


def test_caller_cannot_set_the_servers_address(serving: Serving) -> None:
    server = serving()
    forwarded = {"X-Forwarded-Host": "evil.com", "X-Gradio-Server": "https://evil.com", "Forwarded": "host=evil.com"}

    @server.app.get("/headers")
    def headers(request: Request) -> dict[str, str]:
        return dict(request.headers)

    assert "evil.com" not in httpx.get(f"{server.url}/headers", headers=forwarded).text


def test_caller_cannot_prepend_to_the_proxys_header(serving: Serving) -> None:
    made_up = FORWARDED | {"X-Forwarded-For": "192.0.2.1, 198.51.100.7"}
    assert who(serving(proxies=("127.0.0.1",)), **made_up)["host"] == "198.51.100.7"


def test_server_environment_does_not_widen_trust(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "*")
    assert who(serving(), **FORWARDED)["host"] == "127.0.0.1"


@pytest.mark.parametrize("proxies", [("*",), ("proxy.lab",), ("10.0.0.1/8",), ("",)])
def test_proxy_is_named_by_its_address(proxies: tuple[str, ...]) -> None:
    with pytest.raises(BadOption, match="give addresses or networks"):
        ServeSettings(proxies=proxies)


LONG = "Q" * 5000
ECHOES = [
    {"type": LONG, "utterance": 1},
    {"type": "open", "utterance": 1, LONG: 1},
    {"type": "open", "utterance": 1, "voice": LONG},
    {"type": "open", "utterance": 1, "voice": LONG[:200]},
    {"type": "open", "utterance": 1, "voice": "tone:" + LONG[:190]},
    {"type": "open", "utterance": 1, "options": {LONG: 1}},
    {"type": "open", "utterance": 1, "options": {LONG[: 40 + n]: 1 for n in range(24)}},
    {"type": "open", "utterance": 1, "options": {"scheme": LONG[:64]}},
    {"type": "open", "utterance": 1, "source": LONG},
    {"type": "edit", "utterance": 1, "at": LONG},
]


@pytest.mark.parametrize("message", ECHOES, ids=lambda message: json.dumps(message)[:50])
def test_errors_quote_little_of_a_request(serving: Serving, message: dict[str, Any]) -> None:
    with serving().talk() as talk:
        talk.ws.send(json.dumps(message))
        answer = talk.until("error")[-1]
    assert answer["message"].count("Q") <= 200


def test_real_engines_options_are_quoted_in_part() -> None:
    from studio.core.options import default_options, merge_options
    from studio.engine.families.speakstream.policy import OPTION_SPECS

    with pytest.raises(BadOption) as refused:
        merge_options(OPTION_SPECS, {"Q" * (400 + n): 1 for n in range(24)}, default_options(OPTION_SPECS))
    assert wire.error_message(refused.value).count("Q") <= 200


@pytest.mark.parametrize(
    "body",
    [
        {LONG: 1},
        {"campaign": LONG, "key": "x"},
        {"campaign": "first", "key": LONG},
        {"campaign": LONG[:80], "key": "x"},
        {"campaign": "first", "key": "x", "panel": {LONG: 1}},
    ],
)
def test_errors_quote_little_of_a_body(tests_served: ServedTests, body: dict[str, Any]) -> None:
    for path in ("join", "stage", "answer"):
        headers = tests_served.join("p").headers if path != "join" else {}
        answer = tests_served.http.post(path, json=body, headers=headers)
        assert answer.status_code in (403, 422, 429) and answer.text.count("Q") <= 200
    for path in (LONG, f"owner/campaigns/{LONG}", f"clip/{LONG}/0/{LONG}", f"greet?campaign={LONG}&key={LONG}"):
        assert tests_served.http.get(path, headers=tests_served.owner).text.count("Q") <= 200


def test_foreign_host_is_quoted_in_part(serving: Serving, tmp_path: Path) -> None:
    assert httpx.get(f"{serving().url}/health", headers={"Host": LONG}).text.count("Q") <= 200
