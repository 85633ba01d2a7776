"""Teacher forcing over HTTP: results, refusals, cancellation."""

import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import numpy as np
import pytest
from fakes import FakeEngine
from inspection.spoken import story
from serve.mos_serving import ServedTests
from tinyvoice import write_tiny_voice
from tones import Script

from studio.core.cards import Card
from studio.core.clips import wav_bytes
from studio.core.errors import Busy
from studio.core.traces.teacher_forcing import CallerGone, TeacherForcingRequest, never_stop
from studio.core.traces.trace import Trace, collect_trace, open_trace
from studio.engine.engine import open_engine
from studio.text.normalise import plain

GRID = b"""File type = "ooTextFile"
Object class = "TextGrid"

0
2
<exists>
1
"IntervalTier"
"words"
0
2
2
0
0.5
"Good"
0.5
1.5
"morning"
"""
RATE_HZ = 16_000


def sound(length_s: float = 2.0, rate_hz: int = RATE_HZ) -> bytes:
    rng = np.random.default_rng(0)
    return wav_bytes((3000 * rng.standard_normal(int(length_s * rate_hz))).astype(np.int16), rate_hz)


class Taking(FakeEngine):
    """Accepts recordings and stores them, optionally slowly."""

    def __init__(self) -> None:
        super().__init__(Script())
        self.given: list[TeacherForcingRequest] = []
        self.left, self.slow = threading.Event(), False
        self._place = threading.Lock()

    def teacher_forcing_cards(self) -> Sequence[Card]:
        return self.cards()

    def teacher_force(
        self, recording: TeacherForcingRequest, should_continue: Callable[[], bool] = never_stop
    ) -> Trace:
        if not self._place.acquire(blocking=False):
            raise Busy("another one is taken")
        try:
            until_s = time.monotonic() + 20.0
            while self.slow and time.monotonic() < until_s:
                if not should_continue():
                    self.left.set()
                    raise CallerGone("nobody waits")
                time.sleep(0.02)
            self.given.append(recording)
            return collect_trace({"source": "forced"}, story())
        finally:
            self._place.release()


class Served(ServedTests):
    def __init__(self, folder: Path, engine: Any) -> None:
        super().__init__(folder, engine=engine)
        self.traces = folder / "traces"

    def send(self, body: bytes, text: str = "", **headers: str) -> httpx.Response:
        reply = {name.replace("_", "-"): quote(value) for name, value in headers.items()}
        reply["X-Studio-Text"] = quote(text)
        return httpx.post(f"{self.url}/inspect/force", content=body, headers=reply, timeout=60.0)


@pytest.fixture
def taking() -> Taking:
    return Taking()


@pytest.fixture
def served(tmp_path: Path, taking: Taking) -> Iterator[Served]:
    running = Served(tmp_path, taking)
    yield running
    running.stop()


def test_voices_with_teacher_forcing_are_listed(served: Served, tmp_path: Path) -> None:
    reply = httpx.get(f"{served.url}/inspect/voices").json()
    assert reply["voices"] == httpx.get(f"{served.url}/api/voices").json()["voices"]
    assert reply["families"] == [reply["voices"][0]["family"]]
    assert reply["aligner"] == ("pocketsphinx" if find_spec("pocketsphinx") else "")
    (tmp_path / "bare").mkdir()
    bare = ServedTests(tmp_path / "bare")
    try:
        reply = httpx.get(f"{bare.url}/inspect/voices").json()
        assert reply["voices"] == [] and reply["families"] is None
        answer = httpx.post(f"{bare.url}/inspect/force", content=sound(), headers={"X-Studio-Text": "Good"})
        assert answer.status_code == 501 and "takes no recordings" in answer.json()["message"]
    finally:
        bare.stop()


def test_result_is_stored_and_can_be_added_to_the_library(served: Served, taking: Taking) -> None:
    options = {"X_Studio_Voice": "tones:one", "X_Studio_Options": '{"m": 2}'}
    answer = served.send(sound(), "Guten Morgen, Jürgen.", **options)
    assert answer.status_code == 200 and answer.headers["cache-control"] == "private, no-store"
    token = answer.json()["trace"]
    (given,) = taking.given
    assert (given.voice, given.text, given.rate_hz) == ("tones:one", "Guten Morgen, Jürgen.", RATE_HZ)
    assert len(given.pcm) == 2 * RATE_HZ and not given.spans and given.options == {"m": 2}
    assert open_trace(served.traces / f"{token}.trace").meta["source"] == "forced"
    assert httpx.get(f"{served.url}/traces/{token}.view").status_code == 200
    kept = httpx.post(f"{served.url}/library/keep", json={"trace": token}, headers=served.owner)
    assert kept.status_code == 200


def test_textgrid_precedes_the_audio(served: Served, taking: Taking) -> None:
    headers = {"X_Studio_TextGrid_Bytes": str(len(GRID))}
    assert served.send(GRID + sound(), **headers).status_code == 200
    assert [(one.text, one.start_s, one.end_s) for one in taking.given[0].spans] == [
        ("Good", 0.0, 0.5),
        ("morning", 0.5, 1.5),
    ]
    assert taking.given[0].placed_by == "the TextGrid"
    no_words = GRID.replace(b'"words"', b'"phones"')
    for body, count, why in (
        (no_words + sound(), len(no_words), "has no tier named words"),
        (GRID[:40] + sound(), 40, "TextGrid"),
        (GRID + sound(), len(GRID) + 9, "WAV"),
        (GRID, 1 << 22, "the sound is empty"),
    ):
        answer = served.send(body, X_Studio_TextGrid_Bytes=str(count))
        assert answer.status_code == 422 and why in answer.json()["message"], answer.text
    assert served.send(sound(), "a", X_Studio_TextGrid_Bytes="-1").status_code == 422


@pytest.mark.parametrize(
    ("body", "text", "headers", "why"),
    [
        (b"", "Good", {}, "the sound is empty"),
        (b"RIFF....", "Good", {}, "WAV"),
        (sound(0.0), "Good", {}, "no samples"),
        (sound(), "  ", {}, "the text of the recording is missing"),
        (sound(601.0, 1000), "Good", {}, "at most 600 s"),
        (sound(121.0, 1000), "Good", {"X_Studio_Placed_By": "pocketsphinx"}, "at most 120 s"),
        (sound(), "Good", {"X_Studio_Placed_By": "somebody"}, "nothing here is called 'somebody'"),
        (sound(), "Good", {"X_Studio_Options": '{"m": 3'}, "the options are no JSON"),
        (sound(), "Good", {"X_Studio_Options": "[" * 600}, "the options are no JSON"),
        (sound(), "Good", {"X_Studio_Options": "[3]"}, "the options are no JSON object"),
        (GRID + sound(), "", {"X_Studio_TextGrid_Bytes": str(len(GRID)), "X_Studio_Placed_By": "pocketsphinx"}, "both"),
    ],
)
def test_invalid_recording_is_refused_with_a_reason(
    served: Served, taking: Taking, body: bytes, text: str, headers: dict[str, str], why: str
) -> None:
    answer = served.send(body, text, **headers)
    assert answer.status_code == 422 and why in answer.json()["message"], answer.text
    assert not taking.given and not [*served.traces.glob("*")]


def test_one_at_a_time_and_cancelled_with_the_client(served: Served, taking: Taking) -> None:
    taking.slow = True
    body = sound(0.1)
    head = (
        f"POST /inspect/force HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Studio-Text: Good\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", int(served.url.rpartition(":")[2]))) as client:
        client.sendall(head.encode() + body)
        time.sleep(0.5)
        second = served.send(body, "Good")
        assert second.status_code == 503 and second.json()["code"] == "busy"
        assert not taking.left.is_set()
    assert taking.left.wait(5.0), "the client has left"
    assert not [*served.traces.glob("*")]
    taking.slow = False
    assert served.send(body, "Good").status_code == 200


def test_real_voice_forces_a_recording(tmp_path: Path) -> None:
    write_tiny_voice(tmp_path / "voices", family="tacotron")
    engine = open_engine(tmp_path / "voices", plain(), device="cpu")
    served = Served(tmp_path, engine)
    try:
        reply = httpx.get(f"{served.url}/inspect/voices").json()
        assert [one["name"] for one in reply["voices"]] == ["tiny"] and reply["families"] == ["tacotron"]
        answer = served.send(sound(), "Good morning.", X_Studio_Voice="tiny:two")
        trace = open_trace(served.traces / f"{answer.json()['trace']}.trace")
        assert trace.meta["speaker"] == "two" and len(trace.p_eos) == 80 and "attention" in trace.layers
        for voice, status in (("nobody", 404), ("tiny:nobody", 404)):
            assert served.send(sound(), "Good morning.", X_Studio_Voice=voice).status_code == status
        assert served.send(sound(), "...").status_code == 422
        for options, why in (('{"m": 3}', "m"), ('{"clause_words": NaN}', "clause_words")):
            answer = served.send(sound(), "Good morning.", X_Studio_Options=options)
            assert answer.status_code == 422 and why in answer.json()["message"], answer.text
        body = GRID.replace(b"1.5", b"9.5") + sound()
        answer = served.send(body, X_Studio_TextGrid_Bytes=str(len(GRID)))
        assert answer.status_code == 422 and "beyond the recording" in answer.json()["message"]
    finally:
        served.stop()
        engine.close()
