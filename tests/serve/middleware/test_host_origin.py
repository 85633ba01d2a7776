"""Foreign hosts and origins are refused on routes and sockets; the message names the setting that admits them."""

import socket
import threading
from pathlib import Path

import httpx
import pytest
from fakes import FakeEngine
from serve.serving import Served, Serving, eventually
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from studio.core.errors import BadOption
from studio.serve.app import create_app
from studio.serve.middleware.auth import host_allowed, origin_allowed
from studio.serve.server import bind_port
from studio.serve.server import build_server as make_server
from studio.serve.settings import ServeSettings


def sock_status(server: Served, host: str, **headers: str) -> tuple[int, str]:
    """The answer to a handshake with a given Host: 101, or the status and body of a refusal."""
    url = f"ws://{host}/ws/speak"
    try:
        raw = socket.create_connection(("127.0.0.1", server.port))
        with connect(url, sock=raw, proxy=None, additional_headers=headers) as ws:
            ws.recv()
            return 101, ""
    except InvalidStatus as refused:
        return refused.response.status_code, (refused.response.body or b"").decode()


def test_foreign_hosts_are_refused(serving: Serving) -> None:
    server = serving()
    for path in ("/health", "/api/voices", "/traces/x.trace", "/nothing"):
        answer = httpx.get(server.url + path, headers={"Host": f"evil.example:{server.port}"})
        assert answer.status_code == 403
        assert "allowed_hosts" in answer.text
        assert "STUDIO_SERVE_ALLOWED_HOSTS" in answer.text
    status, body = sock_status(server, f"evil.example:{server.port}")
    assert status == 403
    assert "allowed_hosts" in body
    assert sock_status(server, f"localhost:{server.port}") == (101, "")


def test_foreign_origins_are_refused(serving: Serving) -> None:
    server = serving()
    here = f"127.0.0.1:{server.port}"
    for origin in (
        "https://evil.example",
        "null",
        f"http://127.0.0.1:{server.port + 1}",
        f"http://localhost:{server.port}",
    ):
        answer = httpx.get(f"{server.url}/health", headers={"Origin": origin})
        assert (answer.status_code, "allowed_origins" in answer.text) == (403, True)
        assert sock_status(server, here, Origin=origin)[0] == 403
    assert httpx.get(f"{server.url}/health", headers={"Origin": f"http://{here}"}).status_code == 200
    assert sock_status(server, here, Origin=f"http://{here}") == (101, "")
    assert server.engine.free_slots() == 4


def test_settings_admit_them(serving: Serving) -> None:
    server = serving(allowed_hosts=("tts.example",), allowed_origins=("https://friend.example",))
    port = server.port
    assert sock_status(server, f"tts.example:{port}", Origin="https://friend.example") == (101, "")
    assert sock_status(server, f"tts.example:{port}", Origin=f"http://tts.example:{port}") == (101, "")
    assert sock_status(server, f"other.example:{port}")[0] == 403


def test_pages_of_listed_origins_may_call_the_routes(serving: Serving) -> None:
    """Their browsers ask first, without the key, and let the pages read errors as well; nothing allows cookies."""
    friend = {"Origin": "https://friend.example"}
    url = serving(allowed_origins=("https://Friend.example/",), key="a-key-that-nobody-guesses").url + "/v1/models"
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"}
    first = httpx.options(url, headers=friend | asked, timeout=60.0)
    assert first.status_code == 200 and "authorization" in first.headers["access-control-allow-headers"]
    for headers, status in (({}, 401), ({"Authorization": "Bearer a-key-that-nobody-guesses"}, 200)):
        answer = httpx.get(url, headers=friend | headers, timeout=60.0)
        assert answer.status_code == status
        assert answer.headers["access-control-allow-origin"] == friend["Origin"]
        assert "access-control-allow-credentials" not in answer.headers
    foreign = httpx.options(url, headers={"Origin": "https://evil.example"} | asked, timeout=60.0)
    assert foreign.status_code == 403 and "access-control-allow-origin" not in foreign.headers
    closed = httpx.options(f"{serving().url}/v1/models", headers=friend | asked, timeout=60.0)
    assert closed.status_code == 403


@pytest.mark.parametrize(
    ("host", "settings", "allowed"),
    [
        ("127.0.0.1:7860", {}, True),
        ("localhost", {}, True),
        ("[::1]:7860", {}, True),
        ("127.8.9.1", {}, True),
        ("LOCALHOST:7860".lower(), {}, True),
        ("", {}, False),
        ("localhost.evil.example", {}, False),
        ("127.0.0.1.evil.example", {}, False),
        ("evil.example/@localhost", {}, False),
        ("user@localhost", {}, False),
        ("localhost:x", {}, False),
        ("192.168.1.5:7860", {}, False),
        ("192.168.1.5:7860", {"host": "0.0.0.0"}, True),
        ("rebound.example", {"host": "0.0.0.0"}, False),
        ("192.168.1.5", {"host": "192.168.1.5"}, True),
        ("a.hf.space", {"allowed_hosts": ("*.hf.space",)}, True),
        ("hf.space.evil.example", {"allowed_hosts": ("*.hf.space",)}, False),
        ("anything.example", {"allowed_hosts": ("*",)}, True),
    ],
)
def test_hosts(host: str, settings: dict, allowed: bool) -> None:
    assert host_allowed(host, ServeSettings(traces_folder=Path("x"), **settings)) is allowed


@pytest.mark.parametrize(
    ("origin", "host", "allowed"),
    [
        ("http://localhost:7860", "localhost:7860", True),
        ("https://tts.example", "tts.example", True),
        ("https://tts.example", "tts.example:443", True),
        ("http://tts.example", "tts.example:8080", False),
        ("ftp://tts.example", "tts.example", False),
        ("null", "null", False),
        ("file://", "", False),
        ("tts.example", "tts.example", False),
    ],
)
def test_origins(origin: str, host: str, allowed: bool) -> None:
    assert origin_allowed(origin, host, ServeSettings()) is allowed


def test_full_server_says_so_and_refusals_are_not_logged_as_errors(
    serving: Serving, caplog: pytest.LogCaptureFixture
) -> None:
    server = serving(max_sockets=1)
    here = f"127.0.0.1:{server.port}"
    with connect(f"ws://{here}/ws/speak", proxy=None) as ws:
        ws.recv()
        status, body = sock_status(server, here)
        assert (status, "try again" in body) == (503, True)
    assert sock_status(server, here, Origin="null")[0] == 403
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_used_port_is_reported_first() -> None:
    with bind_port(ServeSettings(port=0)) as first:
        first.listen()
        port = first.getsockname()[1]
        with pytest.raises(BadOption, match=f"port {port} of 127.0.0.1 cannot be taken"):
            bind_port(ServeSettings(port=port))
    with bind_port(ServeSettings(port=port)) as again:
        assert again.getsockname()[1] == port


def test_responses_do_not_wait_for_an_acknowledgement(serving: Serving) -> None:
    """Nagle's algorithm would delay a body after its head, or audio after a word, by 40 ms."""
    server = serving()
    with server.talk() as talk, httpx.Client() as kept:
        talk.open()
        assert kept.get(server.url + "/health").status_code == 200
        sockets = [one.get_extra_info("socket") for one in server.connections]
        assert len(sockets) == 2 and all(one.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) for one in sockets)


def test_reported_port_answers(tmp_path: Path) -> None:
    taken = bind_port(ServeSettings(port=0))
    settings = ServeSettings(port=taken.getsockname()[1], traces_folder=tmp_path, drain_ms=0)
    server = make_server(create_app(FakeEngine(), settings), settings)
    ports: list[int] = []

    def listening() -> None:
        with socket.create_connection(("127.0.0.1", settings.port), timeout=10.0):  # refused if the port is only bound
            ports.append(settings.port)

    server.on_ready = listening
    thread = threading.Thread(target=server.run, args=([taken],), daemon=True)
    thread.start()
    eventually(lambda: ports or not thread.is_alive(), "the server")
    assert ports and httpx.get(f"http://127.0.0.1:{ports[0]}/health", timeout=20.0).status_code == 200
    server.should_exit = True
    thread.join(10.0)
