"""The list of open routes: every route of the running app, including Gradio's, is checked against it."""

import json
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

import pytest
from fakemanaged import ManagedFake
from fastapi import FastAPI
from mos.world import World
from mounted import beside_gradio, gradio_of
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect
from ui.owner_site import Site

from studio.mos.store.database import Store
from studio.serve.app import create_app
from studio.serve.middleware.auth import ADAPTER_PATHS
from studio.serve.settings import ServeSettings
from studio.ui.app import mount
from studio.ui.gradio_middleware import PageLimits

pytestmark = pytest.mark.slow

NOTHING = "there is nothing here\n"
PAGES = {"", "inspect", "compare", "library", "campaigns", "edit", "results", "engine", "sign-in", "glossary", "api"}
PAGES |= {"rate", "annotate", "design", "lexicon"}
DOCUMENTS = PAGES - {"campaigns", "results", "engine", "api"}  # the others are Gradio's
# Routes that are public, and those that need a rater's or owner's token. A new route fails until it is listed.
FOR_ANYONE = {
    ("GET", "/health"),
    ("GET", "/api/voices"),
    ("GET", "/metrics"),
    *(("POST", f"/v1/text-to-speech/{{voice}}{rest}") for rest in ("", "/stream", "/with-timestamps")),
    ("POST", "/v1/text-to-speech/{voice}/stream/with-timestamps"),
    *(("POST", f"/tts/{kind}") for kind in ("bytes", "sse")),
    ("POST", "/v1/speak"),
    ("POST", "/v1/audio/speech"),  # speech for clients of other systems, with the limits of /ws/speak
    ("GET", "/v1/audio/voices"),
    *(("GET", path) for path in ("/v1/models", "/v1/models/{model}")),
    *(("GET", path) for path in ("/v1/voices", "/v1/voices/{voice}", "/v2/voices", "/voices", "/voices/{voice}")),
    ("GET", "/traces/{token}.trace"),  # the token is the key
    ("GET", "/traces/{token}.wav"),
    *(("GET", f"/traces/{{token}}.{captions}") for captions in ("srt", "vtt")),
    ("GET", "/traces/{token}.view"),
    ("GET", "/traces/{token}.prosody"),
    ("GET", "/traces/{token}.attention"),
    ("POST", "/traces/{token}/overlapped"),
    ("GET", "/compare/view"),  # traces by their tokens; the library with the owner's token
    ("GET", "/compare/words"),
    ("GET", "/compare/difference"),
    ("POST", "/inspect/open"),  # the caller's own file, not stored
    ("POST", "/inspect/prosody"),
    ("POST", "/inspect/attention"),
    ("GET", "/inspect/voices"),  # those of /api/voices that accept recordings
    ("POST", "/inspect/force"),  # the caller's own recording; its trace is stored like an utterance's
    ("GET", "/mos/greet"),  # needs a signed link
    ("GET", "/arena"),  # totals only, while an arena is open
    ("HEAD", "/arena"),
    ("GET", "/arena/vote"),  # leads to the signed link of the newest open arena
    ("HEAD", "/arena/vote"),
    ("POST", "/mos/join"),
    *(("GET", f"/{page}") for page in PAGES),
    *(("HEAD", f"/{page}") for page in DOCUMENTS),
    ("POST", "/mos/owner/session"),  # needs the owner's token
    ("DELETE", "/mos/owner/session"),
    *(("GET", f"/{folder}/{{path:path}}") for folder in ("assets", "static")),
    ("GET", "/theme.css"),
    ("GET", "/favicon.ico"),
    ("POST", "/gradio_api/queue/join"),
    ("POST", "/gradio_api/cancel"),  # a call of one's own session
    ("GET", "/gradio_api/queue/data"),
    ("GET", "/config"),  # of Gradio's clients
    ("GET", "/gradio_api/info"),
    ("GET", "/gradio_api/heartbeat/{session_hash}"),  # ends at once
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
    ("GET", "/library/voices"),
    *(("POST", f"/library/voices/{work}") for work in ("look", "pull", "stop", "push", "verify", "remove")),
    ("GET", "/library/voices/push"),
    ("GET", "/library/speakers"),
    *(("POST", f"/library/speakers/{work}") for work in ("add", "remove")),
    ("GET", "/annotation/assignment"),  # an annotator's link
    ("GET", "/annotation/view/{number:small}"),
    ("GET", "/annotation/prosody/{number:small}"),
    ("GET", "/annotation/marks/{number:small}"),
    ("POST", "/annotation/edit/{number:small}"),
    ("GET", "/lexicon/entries"),
    ("POST", "/lexicon/entries"),
    ("POST", "/lexicon/remove"),
    ("GET", "/lexicon/file"),
    ("POST", "/lexicon/import"),
    ("GET", "/systems"),
    ("POST", "/systems"),
    ("POST", "/systems/test"),
    ("POST", "/systems/remove"),
}
# Their clients expect 400 where the studio's own get 422.
BAD_REQUESTS = {("POST", path) for path in ("/v1/audio/speech", "/v1/speak", "/tts/bytes", "/tts/sse")}
FOREIGN_SOCKETS = {f"/v1/text-to-speech/{{voice}}/{kind}" for kind in ("stream-input", "multi-stream-input")}
FOREIGN_SOCKETS |= {"/api/tts_streaming", "/tts/websocket", "/v1/speak"}
SOCKETS = {"/ws/speak", "/mos/live"} | FOREIGN_SOCKETS
AGENTS = {"/gradio_api/mcp", "/gradio_api/mcp/"}  # runs in the server's lifespan: test_gradio_client.py
FOR_ANYONE |= {("POST", path) for path in AGENTS}
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
# What a studio with a key answers without it: raters and annotators have a signed link.
WITHOUT_KEY = {
    "/rate",
    "/annotate",
    "/annotation/assignment",
    "/annotation/view/{number:small}",
    "/annotation/prosody/{number:small}",
    "/annotation/marks/{number:small}",
    "/annotation/edit/{number:small}",
    "/arena",
    "/arena/vote",
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
    """As ``studio app`` makes it, on the tone engine."""
    world = World(Store(f"sqlite:///{folder / 'studio.sqlite'}"), folder / "clips")
    engine, chosen = (
        ManagedFake(),
        ServeSettings(traces_folder=folder / "traces", design_page=True, **settings),
    )
    yield mount(create_app(engine, chosen, listening=world.listening), engine, chosen, world.listening)
    world.listening.close()


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FastAPI]:
    yield from whole_app(tmp_path_factory.mktemp("app"))


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FastAPI]:
    yield from whole_app(tmp_path_factory.mktemp("keyed"), key=KEY)


def every_route(app: Any) -> Iterator[tuple[str, str]]:
    """Method and path of every route, including mounted apps."""
    for route in app.routes:
        if hasattr(route, "original_router"):
            yield from every_route(route.original_router)
        elif isinstance(getattr(route, "app", None), PageLimits):  # ours, around Gradio's
            yield from every_route(gradio_of(app))
            yield from ((method, one.path) for one in beside_gradio(app) for method in one.methods or {"POST"})
        elif getattr(route, "methods", None):
            yield from ((method, route.path) for method in route.methods)
        else:
            yield "SOCKET", route.path


def filled(path: str, hostile: str) -> str:
    """A route's path with hostile parameters."""
    value = urllib.parse.quote(hostile, safe="/%:")
    return re.sub(r"\{([^{}]*)\}", lambda found: "1" if found[1].endswith(":small") else value, path)


def the_list(found: Collection[tuple[str, str]]) -> set[tuple[str, str]]:
    """The open paths, scripts with the digest of their current URL."""
    return FOR_ANYONE | WITH_TOKEN | {(m, p) for m, p in found if p.startswith("/studio-assets/")}


def client_of(app: FastAPI) -> TestClient:
    return TestClient(app, base_url="http://127.0.0.1:7860", raise_server_exceptions=False, follow_redirects=False)


def test_listed_paths_exist(app: FastAPI) -> None:
    found = set(every_route(app))
    assert len(found) > 80, "the tables were not found"
    assert {path for method, path in found if method == "SOCKET"} == SOCKETS
    assert the_list(found) - found == set()


@pytest.mark.parametrize("methods", [("GET",), ("POST",), ("HEAD", "DELETE", "PUT", "PATCH")], ids="/".join)
def test_every_route_is_listed_or_answers_404(app: FastAPI, methods: Sequence[str]) -> None:
    """Ours and Gradio's, with correct and incorrect methods and hostile parameters."""
    routes = {(method, path) for method, path in every_route(app) if path not in AGENTS}
    client, known = client_of(app), the_list(routes)
    assert {method for method, _ in routes} <= {"GET", "POST", "HEAD", "DELETE", "PUT", "PATCH", "SOCKET"}
    asked_of = {(one, path) for one in methods for method, path in routes if one in ("GET", "POST") or one == method}
    for asked, path in sorted(asked_of):
        for hostile in HOSTILE:
            for token in ("", "wrong"):
                headers = {"Authorization": f"Bearer {token}"} if token else {}
                body = {"data": [hostile], "path": hostile, "url": hostile}
                said = client.request(asked, filled(path, hostile), headers=headers, json=body)
                where = f"{asked} {path} with {hostile[:30]!r}: {said.status_code} {said.text[:80]!r}"
                assert "root:" not in said.text, where
                if (asked, path) in WITH_TOKEN:
                    assert said.status_code in (403, 404, 405, 429), where
                elif (asked, path) in BAD_REQUESTS:
                    message = {"/v1/speak": "err_msg", "/tts/bytes": "message", "/tts/sse": "message"}.get(
                        path, "error"
                    )
                    assert said.status_code == 400 and said.json()[message], where
                elif (asked, path) in known:
                    assert said.status_code in (200, 204, 303, 403, 404, 405, 422, 429), where
                else:
                    assert said.status_code in (404, 405), where
                    assert said.text in (NOTHING, "") or said.status_code == 405 or "{" in path, where


def opens(client: TestClient, path: str, *, enter: bool = False) -> bool:
    """Whether there is a socket; a rater's gets a wrong token."""
    try:
        with client.websocket_connect(f"ws://127.0.0.1:7860{filled(path, '1')}") as ws:
            if enter:
                ws.send_json({"type": "enter", "token": "wrong"})
                assert ws.receive_json()["code"] in ("forbidden", "too_many")
    except WebSocketDisconnect:
        return False
    except CancelledError:  # how the client ends a session that has not begun
        pass
    return True


def test_sockets_are_listed_or_refused(app: FastAPI) -> None:
    """Every path is tried as a socket, including plain routes."""
    client = client_of(app)
    paths = {path for _, path in every_route(app)}
    assert {path for path in paths if opens(client, path, enter=path == "/mos/live")} == SOCKETS


def test_with_a_key_only_rater_routes_are_open(keyed: FastAPI) -> None:
    """Every route without the key: it is either listed or refused."""
    client = client_of(keyed)
    for method, path in sorted(set(every_route(keyed))):
        if method == "SOCKET":
            assert opens(client, path) == (path in WITHOUT_KEY), path
            continue
        for hostile in ("1", "%2e%2e%2fresults", "..%2f..%2fresults"):
            said = client.request(method, filled(path, hostile), json={})
            status = 401 if path.startswith(ADAPTER_PATHS) else 403
            wants_key = said.status_code == status and '"no_key"' in said.text
            may = path in WITHOUT_KEY or path.startswith("/studio-assets/")
            if said.request.method != "HEAD":
                assert wants_key != may, f"{method} {path} with {hostile}: {said.status_code} {said.text[:80]}"
    for path in ("/", "/results", "/health", "/api/voices"):
        assert client.get(path, headers={"X-Studio-Key": KEY}).status_code == 200


def refused(site: Site, path: str, data: bytes | None = None, **headers: str) -> int:
    """The status of a refusal."""
    request = urllib.request.Request(site.url + path, data, headers)
    with pytest.raises(urllib.error.HTTPError) as error:
        urllib.request.urlopen(request, timeout=60.0)
    return error.value.code


def a_file(path: str) -> dict[str, Any]:
    return {"path": path, "meta": {"_type": "gradio.FileData"}, "orig_name": "x", "url": None, "size": 1}


@pytest.mark.parametrize("path", ["/etc/passwd", "/dev/zero", "studio.sqlite", "http://127.0.0.1:9/x"])
def test_no_file_of_the_machine_can_be_read(site: Site, path: str) -> None:
    """An earlier vulnerability: a call with a file description made Gradio copy the file to a public path."""
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
def test_call_that_no_page_makes_is_refused(site: Site, body: bytes) -> None:
    assert refused(site, "gradio_api/queue/join", body, **{"Content-Type": "application/json"}) == 422


def test_oversized_call_is_refused_before_it_is_stored(site: Site) -> None:
    body = json.dumps({"data": ["x" * 70_000], "fn_index": 0, "session_hash": "abc"}).encode()
    assert refused(site, "gradio_api/queue/join", body) == 413


def test_gradio_checks_file_paths_too(app: FastAPI) -> None:
    """Mounting leaves Gradio's own path check off, so it is switched on."""
    gradio = gradio_of(app)
    assert gradio.get_blocks().has_launched


def test_query_that_gradio_would_interpret_is_dropped(site: Site) -> None:
    assert '"deep_link_state":"none"' in site.get("campaigns?deep_link=abc").replace(" ", "")


def test_unused_gradio_routes_are_closed(site: Site) -> None:
    closed = ("upload", "proxy=%00", "startup-events", "cancel")
    for path in (*(f"gradio_api/{one}" for one in closed), "openapi.json", "monitoring"):
        assert refused(site, path) == 404
    part = b'--x\r\nContent-Disposition: form-data; name="files"; filename="a"\r\n\r\nabc\r\n--x--\r\n'
    assert refused(site, "gradio_api/upload", part, **{"Content-Type": "multipart/form-data; boundary=x"}) == 404
    assert list(Path(site.folder).glob("**/gradio/*")) == []
