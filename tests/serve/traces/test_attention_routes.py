"""Attention routes: packed response, one computation at a time, cancelled with the client, errors with reasons."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
from fakes import FakeEngine
from inspection.spoken import story
from inspection.test_timeline import unpack
from serve.mos_serving import ServedTests
from tones import Script

from studio.core.errors import BadFile, BadVoice, Busy, StudioError
from studio.core.traces.teacher_forcing import CallerGone, TeacherForcingResult, never_stop
from studio.core.traces.trace import Trace
from studio.core.traces.trace_writer import TraceWriter, save_trace

FRAMES = 10


def attended(p_eos: np.ndarray) -> TeacherForcingResult:
    by_layer = np.zeros((2, FRAMES, 3), np.float16)
    by_layer[0, :, 0], by_layer[1, :, 2] = 1.0, 0.5
    word = np.repeat([0, 1], FRAMES // 2).astype(np.int32)
    return TeacherForcingResult("mass on words", word, by_layer, p_eos, np.linspace(-9, -1, FRAMES, dtype=np.float32))


class Looking(FakeEngine):
    """Returns known attention, optionally slowly."""

    def __init__(self) -> None:
        super().__init__(Script())
        self.left, self.slow = threading.Event(), False
        self.why: StudioError | None = None
        self._place = threading.Lock()

    def compute_attention(self, trace: Trace, should_continue: Callable[[], bool] = never_stop) -> TeacherForcingResult:
        if trace.meta["voice"] != "v":
            raise BadVoice("the voice is not here")
        if self.why is not None:
            raise self.why
        if not self._place.acquire(blocking=False):
            raise Busy("another one is being computed")
        try:
            until_s = time.monotonic() + 20.0
            while self.slow and time.monotonic() < until_s:
                if not should_continue():
                    self.left.set()
                    raise CallerGone("nobody waits")
                time.sleep(0.02)
            return attended(trace.p_eos)
        finally:
            self._place.release()


class Served(ServedTests):
    """The studio with an engine that computes attention."""

    def __init__(self, folder: Path) -> None:
        self.looking = Looking()
        super().__init__(folder, engine=self.looking)
        self.traces = folder / "traces"

    def keep(self, token: str) -> None:
        writer = TraceWriter(self.traces / token, {})
        writer.write(*story())
        writer.close()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    running = Served(tmp_path)
    yield running
    running.stop()


def test_attention_is_packed(served: Served) -> None:
    served.keep("a" * 22)
    answer = httpx.get(f"{served.url}/traces/{'a' * 22}.attention")
    assert answer.status_code == 200 and answer.headers["cache-control"] == "private, no-store"
    header, arrays = unpack(answer.content)
    assert header["what"] == "mass on words" and header["columns"] == 3 and header["difference"] == 0.0
    assert arrays["attention"].reshape(FRAMES, 3).tolist() == [[128, 0, 64]] * FRAMES
    assert arrays["word"].tolist() == [0] * 5 + [1] * 5 and arrays["likelihood"][0] == -9.0
    body = (served.traces / f"{'a' * 22}.trace").read_bytes()
    assert httpx.post(f"{served.url}/inspect/attention", content=body).content == answer.content
    kept = httpx.post(f"{served.url}/library/files", content=body, headers=served.owner).json()["name"]
    got = httpx.get(f"{served.url}/library/attention/{kept}", headers=served.owner)
    assert got.content == answer.content


def test_stored_attention_is_not_recomputed(served: Served, tmp_path: Path) -> None:
    served.keep("b" * 22)
    from studio.core.traces.trace import open_trace

    trace = open_trace(served.traces / f"{'b' * 22}.trace")
    trace.meta["voice"] = "gone"
    refused = tmp_path / "gone.trace"
    save_trace(trace, refused)
    answer = httpx.post(f"{served.url}/inspect/attention", content=refused.read_bytes())
    assert answer.status_code == 404 and "the voice is not here" in answer.json()["message"]
    trace.layers = attended(trace.p_eos).layers()
    save_trace(trace, tmp_path / "kept.trace")
    header, arrays = unpack(
        httpx.post(f"{served.url}/inspect/attention", content=(tmp_path / "kept.trace").read_bytes()).content
    )
    assert header["columns"] == 3 and arrays["attention"][:3].tolist() == [128, 0, 64]
    view, _ = unpack(httpx.post(f"{served.url}/inspect/open", content=(tmp_path / "kept.trace").read_bytes()).content)
    assert view["has_attention"] is True


def test_uploaded_trace_that_cannot_be_replayed_is_the_clients_error(served: Served) -> None:
    served.keep("f" * 22)
    body = (served.traces / f"{'f' * 22}.trace").read_bytes()
    served.looking.why = BadFile("a word of it is '\\x1b'", "it is damaged")
    answer = httpx.post(f"{served.url}/inspect/attention", content=body)
    assert answer.status_code == 422 and "a word of it" in answer.json()["message"]


def test_one_at_a_time_and_cancelled_with_the_client(served: Served) -> None:
    served.keep("c" * 22)
    served.looking.slow = True
    path = f"/traces/{'c' * 22}.attention"
    with socket.create_connection(("127.0.0.1", int(served.url.rpartition(":")[2]))) as client:
        client.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        time.sleep(0.5)
        second = httpx.get(served.url + path)
        assert second.status_code == 503 and second.json()["code"] == "busy"
        assert not served.looking.left.is_set()
    assert served.looking.left.wait(5.0), "the client has left"
    served.looking.slow = False
    assert httpx.get(served.url + path).status_code == 200


def test_engine_without_attention_says_so(tmp_path: Path) -> None:
    served = ServedTests(tmp_path)
    try:
        writer = TraceWriter(tmp_path / "traces" / ("d" * 22), {})
        writer.write(*story())
        writer.close()
        answer = httpx.get(f"{served.url}/traces/{'d' * 22}.attention")
        assert answer.status_code == 501 and "cannot compute" in answer.json()["message"]
        assert httpx.get(f"{served.url}/traces/{'e' * 22}.attention").status_code == 404
        assert httpx.post(f"{served.url}/inspect/attention", content=b"PK").status_code == 422
    finally:
        served.stop()
