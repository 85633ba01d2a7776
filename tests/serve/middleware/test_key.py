"""A publicly reachable studio requires its key on every page, route and socket except those of raters."""

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fakes import FakeEngine
from mos.world import World
from serve.serving import eventually
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from studio.commands.welcome import welcome
from studio.core.errors import BadOption
from studio.mos.store.database import Store
from studio.serve.app import create_app
from studio.serve.middleware.auth import HEADER, WRONG_BURST
from studio.serve.server import build_server as make_server
from studio.serve.settings import ServeSettings, load_settings

KEY = "a-key-that-nobody-guesses"
HTML = {"Accept": "text/html,*/*"}


class KeyMiddleware:
    """The whole server with a key, and a client without a cookie store."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = probe.getsockname()[1]
        self.world = World(Store(f"sqlite:///{folder / 'studio.sqlite'}"), folder / "clips")
        chosen = replace(ServeSettings(port=self.port, key=KEY, traces_folder=folder / "traces"), **settings)
        self._server = make_server(create_app(FakeEngine(), chosen, listening=self.world.listening), chosen)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        eventually(lambda: self._server.started, "the server")

    def ask(self, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        found = answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read().decode()
        connection.close()
        return found

    def cookie(self) -> str:
        return self.ask(f"/?key={KEY}")[1]["set-cookie"].partition(";")[0]

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(10.0)
        self.world.listening.close()


@pytest.fixture
def keyed(tmp_path: Path) -> Iterator[KeyMiddleware]:
    found = KeyMiddleware(tmp_path)
    yield found
    found.stop()


def test_nothing_answers_without_the_key(keyed: KeyMiddleware) -> None:
    token = keyed.world.listening.access.first_token
    for path in ("/health", "/api/voices", "/traces/x.wav", "/", "/nothing", "/mos/owner/campaigns", "/mos/owner/x"):
        status, _, said = keyed.ask(path, Authorization=f"Bearer {token}")
        assert (status, json.loads(said)["code"]) == (403, "no_key"), path
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert keyed.ask("/health", method)[0] == 403
    with pytest.raises(InvalidStatus) as refused:
        connect(f"ws://127.0.0.1:{keyed.port}/ws/speak", proxy=None)
    assert refused.value.response.status_code == 403


def test_link_sets_a_cookie_and_redirects_to_a_url_without_the_key(keyed: KeyMiddleware) -> None:
    status, headers, said = keyed.ask(f"/results?campaign=a+b&key={KEY}&x=1", **HTML)
    assert (status, headers["location"], said) == (303, "/results?campaign=a+b&x=1", "")
    assert "HttpOnly" in headers["set-cookie"] and "SameSite=Lax" in headers["set-cookie"]
    assert KEY not in headers["set-cookie"] and "Secure" not in headers["set-cookie"]
    assert keyed.ask("/health", Cookie=f"other=1; {keyed.cookie()}")[0] == 200
    with connect(
        f"ws://127.0.0.1:{keyed.port}/ws/speak", proxy=None, additional_headers={"Cookie": keyed.cookie()}
    ) as ws:
        assert json.loads(ws.recv(20))["type"] == "hello"


def test_link_redirects_to_no_other_host(keyed: KeyMiddleware) -> None:
    for path in ("//evil.example/", "/\\evil.example", "/%2f/evil.example", "/%0d%0aX-Evil:1"):
        location = keyed.ask(f"{path}?key={KEY}")[1]["location"]
        assert location.startswith("/") and not location.startswith(("//", "/\\")) and "\n" not in location


def test_programs_send_the_key_in_a_header(keyed: KeyMiddleware) -> None:
    assert keyed.ask("/health", **{HEADER: KEY})[0] == 200
    assert keyed.ask("/health", **{HEADER: KEY + "x"})[0] == 403
    with connect(f"ws://127.0.0.1:{keyed.port}/ws/speak", proxy=None, additional_headers={HEADER: KEY}) as ws:
        assert json.loads(ws.recv(20))["type"] == "hello"


def test_raters_need_none(keyed: KeyMiddleware) -> None:
    keyed.world.campaign()
    link = keyed.world.link("first", "panel")
    assert keyed.ask(f"/mos/greet?campaign=first&key={link}")[0] == 200
    assert json.loads(keyed.ask("/mos/greet?campaign=first&key=wrong")[2])["code"] == "forbidden"
    assert json.loads(keyed.ask("/mos/next")[2])["code"] == "forbidden"
    with connect(f"ws://127.0.0.1:{keyed.port}/mos/live", proxy=None) as ws:
        ws.send('{"type": "enter", "token": "x"}')
        assert json.loads(ws.recv(20))["code"] == "forbidden"


@pytest.mark.parametrize("cookie", ["", "x" * 43, KEY, "\xe9", '"'])
def test_forged_cookie_opens_nothing(keyed: KeyMiddleware, cookie: str) -> None:
    assert keyed.ask("/health", Cookie=f"studio-key-{keyed.port}={cookie}")[0] == 403


def test_wrong_keys_are_limited_and_the_cookie_still_works(keyed: KeyMiddleware) -> None:
    cookie = keyed.cookie()
    tries = [keyed.ask("/?key=wrong%00" + "x" * n)[0] for n in range(WRONG_BURST + 3)]
    assert tries == [403] * WRONG_BURST + [429] * 3
    status, headers, _ = keyed.ask(f"/?key={KEY}")
    assert (status, headers["retry-after"]) == (429, "6"), "not even the right one is checked"
    assert keyed.ask("/health", Cookie=cookie)[0] == 200


def test_browser_gets_a_key_form(keyed: KeyMiddleware) -> None:
    status, headers, said = keyed.ask("/?key=%3Cscript%3E", **HTML)
    assert status == 403 and headers["content-type"].startswith("text/html")
    assert "This is not the key" in said and "<script>" not in said


def test_link_with_a_thousand_fields_is_no_error(keyed: KeyMiddleware) -> None:
    assert keyed.ask("/?" + "&".join(["a=1"] * 1000))[0] == 403


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "studio.lab"])
def test_publicly_reachable_studio_gets_a_key(host: str) -> None:
    found = welcome(ServeSettings(host=host, root_path="/x"), is_open=False)
    assert len(found.settings.key) >= 20
    assert found.links and all(link.endswith(f":7860/x/?key={found.settings.key}") for link in found.links)
    assert found.settings.key != welcome(ServeSettings(host=host), is_open=False).settings.key
    opened = welcome(ServeSettings(host=host), is_open=True)
    assert opened.settings.key == "" and "every client that can reach" in opened.words


def test_loopback_needs_no_key() -> None:
    for host in ("127.0.0.1", "127.0.0.2", "::1", "localhost"):
        found = welcome(ServeSettings(host=host), is_open=False)
        assert (found.settings.key, found.words) == ("", "")
    behind = welcome(ServeSettings(allowed_hosts=("tts.example.org",)), is_open=False)
    assert "tts.example.org" in behind.words and behind.links == ("http://127.0.0.1:7860/",)


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_links_behind_a_proxy_are_those_of_the_proxy(host: str) -> None:
    names, proxies = ("*.example.org", "tts.example.org"), ("10.0.0.0/8",)
    settings = ServeSettings(host=host, key=KEY, allowed_hosts=names, proxies=proxies, root_path="/studio")
    assert welcome(settings, is_open=False).links == ("https://tts.example.org/studio/",)


def test_configured_key_is_required_and_not_printed() -> None:
    settings = load_settings(None, {"STUDIO_SERVE_KEY": KEY})
    found = welcome(settings, is_open=False)
    assert found.settings.key == KEY
    assert KEY not in "".join([*found.links, found.words, repr(settings)])
    with pytest.raises(BadOption, match="leave out --open"):
        welcome(settings, is_open=True)
    with pytest.raises(BadOption, match="at least 12"):
        ServeSettings(key="short")
