"""What is open is listed: every route of the running app, our own and those that Gradio brings, is held to the list."""

import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Collection, Iterator
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

import pytest
from fakes import FakeEngine
from fastapi import FastAPI
from mos.world import World
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect
from ui.owner_site import Site

from studio.mos.store.database import Store
from studio.serve.app import create_app
from studio.serve.settings import ServeSettings
from studio.ui.app import mount

pytestmark = pytest.mark.slow

NOTHING = "there is nothing here\n"
PAGES = {"", "inspect", "compare", "library", "campaigns", "edit", "results", "engine", "rate", "annotate"}
# What anyone may fetch, and what wants a token of a rater's or the owner's. A new route fails until it is here.
FOR_ANYONE = {
    ("GET", "/health"),
    ("GET", "/api/voices"),
    ("GET", "/metrics"),
    ("GET", "/traces/{token}.trace"),  # the token is the key
    ("GET", "/traces/{token}.wav"),
    ("GET", "/traces/{token}.view"),
    ("GET", "/traces/{token}.prosody"),
    ("GET", "/traces/{token}.attention"),
    ("POST", "/traces/{token}/overlapped"),
    ("GET", "/compare/view"),  # of traces by their tokens; of the library with the owner's
    ("GET", "/compare/words"),
    ("GET", "/compare/difference"),
    ("POST", "/inspect/open"),  # a file of the caller's own, which is not kept
    ("POST", "/inspect/prosody"),
    ("POST", "/inspect/attention"),
    ("GET", "/inspect/voices"),  # those of /api/voices that take recordings
    ("POST", "/inspect/force"),  # a recording of the caller's own; its trace lies where utterances' do
    ("GET", "/mos/greet"),  # wants a signed link
    ("GET", "/arena"),  # totals alone, and only while an arena is open
    ("HEAD", "/arena"),
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
    ("GET", "/mos/environment/{index:small}"),
    ("GET", "/mos/owner/campaigns"),
    ("POST", "/mos/owner/campaigns/{name}/state"),
    ("POST", "/mos/owner/campaigns/{name}/utterances"),
    ("POST", "/mos/owner/campaigns/{name}/remove"),
    ("GET", "/mos/owner/campaigns/{name}"),
    ("GET", "/mos/owner/campaigns/{name}/sound/view"),
    ("GET", "/mos/owner/campaigns/{name}/sound/prosody"),
    ("GET", "/mos/owner/campaigns/{name}/sound/attention"),
    ("GET", "/mos/owner/campaigns/{name}/sound/ratings"),
    ("GET", "/mos/owner/settings"),
    ("GET", "/mos/owner/drafts"),
    ("POST", "/mos/owner/drafts"),
    ("GET", "/mos/owner/drafts/{name}"),
    ("GET", "/mos/owner/drafts/{name}/preview"),
    ("GET", "/mos/owner/drafts/{name}/settings.toml"),
    ("GET", "/mos/owner/drafts/{name}/sound"),
    ("POST", "/mos/owner/drafts/{name}/plan"),
    ("POST", "/mos/owner/drafts/{name}/settings"),
    ("POST", "/mos/owner/drafts/{name}/sounds"),
    ("POST", "/mos/owner/drafts/{name}/speak"),
    ("POST", "/mos/owner/drafts/{name}/speak/stop"),
    ("POST", "/mos/owner/drafts/{name}/systems"),
    ("POST", "/mos/owner/drafts/{name}/systems/drop"),
    ("POST", "/mos/owner/drafts/{name}/texts"),
    ("POST", "/mos/owner/sounds"),
    ("GET", "/mos/owner/templates"),
    ("GET", "/library/entries"),
    ("GET", "/library/view/{name}"),
    ("GET", "/library/prosody/{name}"),
    ("GET", "/library/attention/{name}"),
    ("GET", "/library/file/{name}"),
    ("POST", "/library/keep"),
    ("POST", "/library/files"),
    ("POST", "/library/note"),
    ("POST", "/library/remove"),
    ("GET", "/library/annotations/of/{name}"),
    ("GET", "/library/annotations/by/{name}"),
    ("GET", "/library/annotations/file/{name}"),
    ("GET", "/library/annotations/agreement/{name}"),
    ("POST", "/library/annotations/import"),
    ("POST", "/library/annotations/edit"),
    ("POST", "/library/annotations/remove"),
    ("GET", "/library/assignments"),
    ("GET", "/library/assignment/{assignment}"),
    ("POST", "/library/assignments"),
    ("POST", "/library/assignments/remove"),
    ("GET", "/annotation/assignment"),  # an annotator's link
    ("GET", "/annotation/view/{number:small}"),
    ("GET", "/annotation/prosody/{number:small}"),
    ("GET", "/annotation/marks/{number:small}"),
    ("POST", "/annotation/edit/{number:small}"),
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


KEY = "a-key-that-nobody-guesses"
# What a studio with a key answers to those who have not shown it: raters and annotators bring a signed link.
WITHOUT_KEY = {
    "/rate",
    "/annotate",
    "/annotation/assignment",
    "/annotation/view/{number:small}",
    "/annotation/prosody/{number:small}",
    "/annotation/marks/{number:small}",
    "/annotation/edit/{number:small}",
    "/arena",
    "/mos/greet",
    "/mos/join",
    "/mos/next",
    "/mos/stage",
    "/mos/answer",
    "/mos/withdraw",
    "/mos/clip/{trial}/{slot:small}/{key}",
    "/mos/headphones/{index:small}",
    "/mos/environment/{index:small}",
    "/mos/live",
    "/assets/{path:path}",
    "/static/{path:path}",
    "/theme.css",
    "/favicon.ico",
}


def whole_app(folder: Path, **settings: Any) -> Iterator[FastAPI]:
    """As ``studio app`` makes it, on the engine that speaks tones."""
    world = World(Store(f"sqlite:///{folder / 'studio.sqlite'}"), folder / "clips")
    engine, chosen = FakeEngine(), ServeSettings(traces_folder=folder / "traces", **settings)
    yield mount(create_app(engine, chosen, listening=world.listening), engine, chosen, world.listening)
    world.listening.close()


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FastAPI]:
    yield from whole_app(tmp_path_factory.mktemp("app"))


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FastAPI]:
    yield from whole_app(tmp_path_factory.mktemp("keyed"), key=KEY)


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


def the_list(found: Collection[tuple[str, str]]) -> set[tuple[str, str]]:
    """What is open, the scripts with the digest that is in their address today."""
    return FOR_ANYONE | WITH_TOKEN | {(m, p) for m, p in found if p.startswith("/studio-assets/")}


def client_of(app: FastAPI) -> TestClient:
    return TestClient(app, base_url="http://127.0.0.1:7860", raise_server_exceptions=False, follow_redirects=False)


def test_the_list_names_what_is_there(app: FastAPI) -> None:
    found = set(every_route(app))
    assert len(found) > 80, "the tables were not found"
    assert {path for method, path in found if method == "SOCKET"} == SOCKETS
    assert the_list(found) - found == set()


@pytest.mark.parametrize("method", ["GET", "POST", "its own"])
def test_every_route_is_listed_or_is_not_there(app: FastAPI, method: str) -> None:
    """Ours and Gradio's, asked as they want it and as they do not, with hostile words in every place."""
    client, known = client_of(app), the_list(every_route(app))
    for its_own, path in sorted(set(every_route(app))):
        asked = its_own if method == "its own" else method
        if asked == "SOCKET" or path.startswith("/gradio_api/heartbeat/"):  # it answers for ever
            continue
        for hostile in HOSTILE:
            for token in ("", "wrong"):
                headers = {"Authorization": f"Bearer {token}"} if token else {}
                body = {"data": [hostile], "path": hostile, "url": hostile}
                said = client.request(asked, filled(path, hostile), headers=headers, json=body)
                where = f"{asked} {path} with {hostile[:30]!r}: {said.status_code} {said.text[:80]!r}"
                assert "root:" not in said.text, where
                if (asked, path) in WITH_TOKEN:
                    assert said.status_code in (403, 404, 405, 429), where
                elif (asked, path) in known:
                    assert said.status_code in (200, 404, 405, 422, 429), where
                else:
                    assert said.status_code in (404, 405), where
                    assert said.text in (NOTHING, "") or said.status_code == 405 or "{" in path, where


def opens(client: TestClient, path: str, *, enter: bool = False) -> bool:
    """Whether there is a socket; to a rater's a wrong token is sent."""
    try:
        with client.websocket_connect(f"ws://127.0.0.1:7860{filled(path, '1')}") as ws:
            if enter:
                ws.send_json({"type": "enter", "token": "wrong"})
                assert ws.receive_json()["code"] in ("forbidden", "too_many")
    except WebSocketDisconnect:
        return False
    except CancelledError:  # how the client ends a session that is still at its end
        pass
    return True


def test_sockets_are_listed_or_are_not_there(app: FastAPI) -> None:
    """Every address is tried as a socket, also those that only answer requests."""
    client = client_of(app)
    paths = {path for _, path in every_route(app)}
    assert {path for path in paths if opens(client, path, enter=path == "/mos/live")} == SOCKETS


def test_with_a_key_only_raters_get_in(keyed: FastAPI) -> None:
    """Of every route, asked without the key: what answers is listed, everything else wants it."""
    client = client_of(keyed)
    for method, path in sorted(set(every_route(keyed))):
        if method == "SOCKET":
            assert opens(client, path) == (path in WITHOUT_KEY), path
            continue
        for hostile in ("1", "%2e%2e%2fresults", "..%2f..%2fresults"):
            said = client.request(method, filled(path, hostile), json={})
            wants_key = said.status_code == 403 and '"no_key"' in said.text
            may = path in WITHOUT_KEY or path.startswith("/studio-assets/")
            if said.request.method != "HEAD":
                assert wants_key != may, f"{method} {path} with {hostile}: {said.status_code} {said.text[:80]}"
    for path in ("/", "/results", "/health", "/api/voices"):
        assert client.get(path, headers={"X-Studio-Key": KEY}).status_code == 200


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
