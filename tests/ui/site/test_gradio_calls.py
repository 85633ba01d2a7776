"""Memory that Gradio keeps per page is bounded, and freed when no client listens."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fakes import FakeEngine
from mos.world import World
from mounted import layers
from starlette.testclient import TestClient

from studio.mos.store.database import Store
from studio.serve.app import create_app
from studio.serve.settings import ServeSettings
from studio.ui import gradio_middleware
from studio.ui.app import mount
from studio.ui.gradio_middleware import FORGOTTEN_S, MAX_SESSIONS, MAX_WAITING, QueueCalls

pytestmark = pytest.mark.slow


class Pages:
    """The running app with a fake clock, and the state it keeps."""

    def __init__(self, folder: Path) -> None:
        self.world = World(Store(f"sqlite:///{folder / 'studio.sqlite'}"), folder / "clips")
        engine, settings = FakeEngine(), ServeSettings(traces_folder=folder / "traces")
        app = create_app(engine, settings, listening=self.world.listening)
        mounted = mount(app, engine, settings, self.world.listening)
        self.calls = next(one for one in layers(mounted) if isinstance(one, QueueCalls))
        self.now_s = 0.0
        self.calls._sessions._clock = lambda: self.now_s
        self.blocks = self.calls._app.get_blocks()
        self.client = TestClient(mounted, base_url="http://127.0.0.1:7860")
        self.function = next(n for n, fn in self.blocks.fns.items() if fn.fn and len(fn.inputs) == 0)

    def join(self, session: str, **change: Any) -> int:
        call = {"data": [], "fn_index": self.function, "session_hash": session} | change
        return self.client.post("/gradio_api/queue/join", json=call).status_code

    def listen(self, session: str) -> str:
        """All responses to a page until no more are expected."""
        return self.client.get(f"/gradio_api/queue/data?session_hash={session}").text

    def until_done(self) -> None:
        """Wait until no call is in progress."""
        until_s = time.monotonic() + 20.0
        while self.blocks._queue.event_ids_to_events:
            assert time.monotonic() < until_s
            time.sleep(0.01)

    def sessions_in_memory(self) -> set[str]:
        """Sessions with any state in memory."""
        queue = self.blocks._queue
        tables = (queue.pending_messages_per_session, queue.pending_event_ids_session)
        states = (self.blocks.state_holder.session_data, self.blocks.state_holder.time_last_used)
        return {name for table in (*tables, *states) for name in table}


@pytest.fixture
def pages(tmp_path: Path) -> Iterator[Pages]:
    found = Pages(tmp_path)
    with found.client:
        yield found
    found.world.listening.close()


def test_listening_page_gets_its_response(pages: Pages) -> None:
    assert pages.join("abc") == 200
    assert "process_completed" in pages.listen("abc")


def test_listener_without_a_pending_call_is_told_so(pages: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradio would start a response, wait in it and abort it with a traceback."""
    monkeypatch.setattr(gradio_middleware, "_LEAVING_S", 0.1)
    assert pages.join("abc") == 200
    assert "process_completed" in pages.listen("abc")
    del pages.blocks._queue.pending_messages_per_session["abc"]  # as after a listener has left
    assert pages.client.get("/gradio_api/queue/data?session_hash=abc").status_code == 404
    assert pages.join("abc") == 200
    with pages.calls._sessions.listening("abc"):
        assert pages.client.get("/gradio_api/queue/data?session_hash=abc").status_code == 404
    assert "process_completed" in pages.listen("abc")


def test_unfetched_responses_are_dropped(pages: Pages) -> None:
    for k in range(20):
        assert pages.join(f"s{k}") == 200
    pages.until_done()
    assert len(pages.sessions_in_memory()) == 20
    pages.now_s += FORGOTTEN_S + 1.0
    assert pages.join("later") == 200
    pages.until_done()
    assert pages.sessions_in_memory() == {"later"}


def test_unfetched_responses_are_dropped_without_further_calls(pages: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gradio_middleware, "FORGOTTEN_S", 0.2)
    pages.calls._sessions._clock = time.monotonic
    assert pages.join("abc") == 200
    until_s = time.monotonic() + 20.0
    while pages.sessions_in_memory():
        assert time.monotonic() < until_s
        time.sleep(0.05)


def test_number_of_pages_in_memory_is_limited(pages: Pages) -> None:
    for k in range(MAX_SESSIONS + 30):
        assert pages.join(f"s{k}") in (200, 503)  # 503: the queue itself was full for a moment
    pages.until_done()
    assert len(pages.sessions_in_memory()) <= MAX_SESSIONS


def test_page_that_never_listens_is_refused(pages: Pages) -> None:
    assert [pages.join("abc") for _ in range(MAX_WAITING + 2)] == [200] * MAX_WAITING + [503] * 2
    assert pages.join("another") == 200


def test_listening_pages_keep_their_state(pages: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gradio_middleware, "MAX_SESSIONS", 1)
    sessions = pages.calls._sessions

    async def crowd() -> list[bool]:
        first = await sessions.admit("first")
        with sessions.listening("first") as is_known:
            second = await sessions.admit("second")
        return [first, is_known, second, await sessions.admit("third")]

    assert pages.client.portal is not None
    assert pages.client.portal.call(crowd) == [True, True, False, True]


@pytest.mark.parametrize(
    "change",
    [{"fn_index": 100}, {"fn_index": True}, {"data": [""]}, {"data": ["", ""]}, {"data": [{"path": "/etc/passwd"}]}],
)
def test_unknown_function_is_refused(pages: Pages, change: dict[str, Any]) -> None:
    assert pages.join("abc", **change) == 422
    assert pages.sessions_in_memory() == set()


def test_browser_side_function_is_not_called_on_the_server(pages: Pages, capfd: pytest.CaptureFixture[str]) -> None:
    script = next(n for n, fn in pages.blocks.fns.items() if not fn.fn)
    assert pages.join("abc", fn_index=script, data=[]) == 422
    assert pages.listen("nobody") == "this page has no pending call; reload the page\n"
    assert "Traceback" not in capfd.readouterr().err


def test_heartbeat_ends_at_once(pages: Pages) -> None:
    """Browsers allow six requests per host, and each open page would hold one."""
    answer = pages.client.get("/gradio_api/heartbeat/abc")
    assert (answer.status_code, answer.content) == (204, b"")
