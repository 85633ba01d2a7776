"""What is open is listed: every route of the running app, our own and those that Gradio brings, is held to the list."""

import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fakes import FakeEngine
from fastapi import FastAPI
from mos.world import World
from starlette.testclient import TestClient
from ui.owner_site import Site

from studio.mos.store.database import Store
from studio.serve.app import create_app
from studio.settings import ServeSettings
from studio.ui.app import mount

NOTHING = "there is nothing here\n"
PAGES = {"", "campaigns", "results", "rate"}
# What anyone may fetch, and what wants a token of a rater's or the owner's. A new route fails until it is here.
FOR_ANYONE = {
    ("GET", "/health"),
    ("GET", "/api/voices"),
    ("GET", "/traces/{token}.trace"),  # the token is the key
    ("GET", "/traces/{token}.wav"),
    ("GET", "/mos/greet"),  # wants a signed link
    ("POST", "/mos/join"),
    *(("GET", f"/{page}") for page in PAGES),
    ("HEAD", "/"),
    ("GET", "/assets/{path:path}"),
    ("GET", "/static/{path:path}"),
    ("GET", "/theme.css"),
    ("GET", "/favicon.ico"),
    ("POST", "/gradio_api/queue/join"),
    ("GET", "/gradio_api/queue/data"),
    ("GET", "/gradio_api/heartbeat/{session_hash}"),
}
WITH_TOKEN = {
    ("GET", "/mos/next"),
    ("POST", "/mos/stage"),
    ("POST", "/mos/answer"),
    ("POST", "/mos/withdraw"),
    ("GET", "/mos/clip/{trial}/{slot:small}/{key}"),
    ("HEAD", "/mos/clip/{trial}/{slot:small}/{key}"),
    ("GET", "/mos/headphones/{index:small}"),
    ("GET", "/mos/owner/campaigns"),
    ("POST", "/mos/owner/campaigns/{name}/state"),
    ("POST", "/mos/owner/campaigns/{name}/utterances"),
    ("GET", "/mos/owner/campaigns/{name}"),
    ("GET", "/mos/owner/settings"),
    ("GET", "/mos/owner/drafts"),
}
SOCKETS = {"/ws/speak", "/mos/live"}
HOSTILE = (
    "../../../../etc/passwd",
    "/etc/passwd",
    "http://127.0.0.1:9/x",
    "%2e%2e%2fetc%2fpasswd",
    "1",
    "\x00",
    "x" * 3000,
)


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FastAPI]:
    """The whole app, as ``studio app`` makes it, on the engine that speaks tones."""
    folder = tmp_path_factory.mktemp("app")
    world = World(Store(f"sqlite:///{folder / 'studio.sqlite'}"), folder / "clips")
    engine, settings = FakeEngine(), ServeSettings(traces_folder=folder / "traces")
    yield mount(create_app(engine, settings, listening=world.listening), engine, settings, world.listening)
    world.listening.close()


def gradio_of(mounted: Any) -> Any:
    """Gradio's own app, inside what stands before it."""
    while hasattr(mounted, "_app"):
        mounted = mounted._app
    return mounted


def every_route(app: Any) -> Iterator[tuple[str, str]]:
    """Method and path of every route there is, from the tables themselves, those of what is mounted too."""
    for route in app.routes:
        if hasattr(route, "original_router"):
            yield from every_route(route.original_router)
        elif hasattr(route, "app") and hasattr(route.app, "_app"):  # ours, around Gradio's
            yield from every_route(gradio_of(route.app))
        elif getattr(route, "methods", None):
            yield from ((method, route.path) for method in route.methods)
        else:
            yield "SOCKET", route.path


def filled(path: str, hostile: str) -> str:
    """A route's path with something hostile in each of its places."""
    out = path
    while "{" in out:
        head, _, rest = out.partition("{")
        name, _, tail = rest.partition("}")
        out = head + ("1" if name.endswith(":small") else urllib.parse.quote(hostile, safe="/%:")) + tail
    return out


def test_every_route_is_listed_or_is_not_there(app: FastAPI) -> None:
    client = TestClient(app, base_url="http://127.0.0.1:7860", raise_server_exceptions=False)
    found = sorted(set(every_route(app)))
    assert len(found) > 80, "the tables were not found"
    assert {path for method, path in found if method == "SOCKET"} == SOCKETS
    asset = {(m, p) for m, p in found if p.startswith("/studio-assets/")}
    known = FOR_ANYONE | WITH_TOKEN | asset
    assert known - set(found) == set(), "the list names what is not there"
    for method, path in found:
        if method == "SOCKET" or path == "/gradio_api/heartbeat/{session_hash}":
            continue
        for hostile in HOSTILE:
            for token in ("", "wrong"):
                headers = {"Authorization": f"Bearer {token}"} if token else {}
                body = {"data": [hostile], "path": hostile, "url": hostile} if method not in ("GET", "HEAD") else None
                said = client.request(method, filled(path, hostile), headers=headers, json=body, follow_redirects=False)
                where = f"{method} {path} with {hostile[:30]!r}: {said.status_code} {said.text[:80]!r}"
                if (method, path) in WITH_TOKEN:
                    assert said.status_code in (403, 404, 405, 429), where
                elif (method, path) in known:
                    assert said.status_code in (200, 404, 405, 422, 429), where
                else:
                    assert said.status_code in (404, 405), where
                    assert said.text in (NOTHING, "") or said.status_code == 405 or "{" in path, where
                assert "root:" not in said.text, where


def refused(site: Site, path: str, data: bytes | None = None, **headers: str) -> int:
    """The status of a refusal."""
    request = urllib.request.Request(site.url + path, data, headers)
    with pytest.raises(urllib.error.HTTPError) as error:
        urllib.request.urlopen(request, timeout=10.0)
    return error.value.code


def a_file(path: str) -> dict[str, Any]:
    return {"path": path, "meta": {"_type": "gradio.FileData"}, "orig_name": "x", "url": None, "size": 1}


@pytest.mark.parametrize("path", ["/etc/passwd", "/dev/zero", "studio.sqlite", "http://127.0.0.1:9/x"])
def test_no_file_of_the_machine_is_read(site: Site, path: str) -> None:
    """What a break-in did: a call that describes a file has Gradio copy it to where it can be fetched."""
    place = str(site.folder / path) if path == "studio.sqlite" else path
    call = {"data": [a_file(place)], "fn_index": 0, "session_hash": "abc"}
    for route in ("gradio_api/run/predict", "gradio_api/api/predict", "gradio_api/call/predict"):
        assert refused(site, route, json.dumps(call).encode(), **{"Content-Type": "application/json"}) == 404
    for value in (a_file(place), [a_file(place)], {"a": [a_file(place)]}):
        body = json.dumps(call | {"data": [value]}).encode()
        assert refused(site, "gradio_api/queue/join", body, **{"Content-Type": "application/json"}) == 422
    for route in (f"gradio_api/file={place}", f"gradio_api/file/{place}", "gradio_api/deep_link?session_hash=abc"):
        assert refused(site, route) == 404
    began_s = time.monotonic()
    assert site.get("health")
    assert time.monotonic() - began_s < 2.0


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"\xff\xfe",
        b'{"data": ["\\ud800"], "fn_index": 0, "session_hash": "abc"}',
        b'{"data": [NaN], "fn_index": 0, "session_hash": "abc"}',
        b'{"data": [1' + b"0" * 400 + b'], "fn_index": 0, "session_hash": "abc"}',
        b'{"data": [], "fn_index": 1' + b"0" * 5000 + b', "session_hash": "abc"}',
        b'{"data": [], "fn_index": 0, "session_hash": "../x"}',
        b'{"data": [], "fn_index": 0, "session_hash": "abc", "batched": true}',
        b"[" * 60_000,
    ],
)
def test_a_call_that_no_page_makes_is_refused(site: Site, body: bytes) -> None:
    assert refused(site, "gradio_api/queue/join", body, **{"Content-Type": "application/json"}) == 422


def test_a_long_call_is_refused_before_it_is_kept(site: Site) -> None:
    body = json.dumps({"data": ["x" * 70_000], "fn_index": 0, "session_hash": "abc"}).encode()
    assert refused(site, "gradio_api/queue/join", body) == 413


def test_gradio_checks_files_too(app: FastAPI) -> None:
    """Beyond the list: mounting leaves Gradio's own check of paths off, so it is switched on."""
    gradio = gradio_of(app.routes[-1].app)
    assert gradio.get_blocks().has_launched


def test_a_query_that_gradio_would_read_is_not_passed_on(site: Site) -> None:
    assert '"deep_link_state":"none"' in site.get("?deep_link=abc").replace(" ", "")


def test_doors_that_no_page_uses_are_shut(site: Site) -> None:
    for path in (
        "gradio_api/upload",
        "gradio_api/proxy=%00",
        "openapi.json",
        "config",
        "gradio_api/info",
        "monitoring",
    ):
        assert refused(site, path) == 404
    part = b'--x\r\nContent-Disposition: form-data; name="files"; filename="a"\r\n\r\nabc\r\n--x--\r\n'
    assert refused(site, "gradio_api/upload", part, **{"Content-Type": "multipart/form-data; boundary=x"}) == 404
    assert list(Path(site.folder).glob("**/gradio/*")) == []
