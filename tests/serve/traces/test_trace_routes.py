"""Traces and WAVs are fetched by unguessable tokens and stored within limits."""

import io
import json
import os
import re
import signal
import socket
import stat
import time
import wave
import zipfile
from pathlib import Path
from typing import Any

import httpx
import pytest
from serve.serving import Served, Serving, eventually, of, pcm

from studio.core.errors import BadFile
from studio.core.traces.captions import cues, srt, webvtt
from studio.core.traces.trace import open_trace
from studio.serve.trace_store import TraceStore
from studio.serve.trace_views import MAX_WAITING_PER_ADDRESS, VIEWS

CAPTIONS = {"srt": srt, "vtt": webvtt}


def spoken(server: Served, pause_s: float = 0.0) -> tuple[dict, list]:
    """Speak two words, pause, speak two more; the trace message and all messages."""
    with server.talk() as talk:
        talk.open(options={"m": 1}, credit_ms=60_000)
        talk.say("text", text="alpha beta ")
        heard = []
        while len(of(heard, "word_end")) < 2:
            heard.append(talk.hear())
        time.sleep(pause_s)
        talk.say("text", text="gamma delta")
        talk.say("end")
        heard += talk.until("trace")
    return heard[-1], heard


def wav_frames(data: bytes) -> tuple[int, bytes]:
    with wave.open(io.BytesIO(data)) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, 24_000)
        return file.getnframes(), file.readframes(file.getnframes())


def refused(url: str) -> bool:
    try:
        return httpx.get(url, timeout=0.5).status_code == 503
    except httpx.ReadTimeout:  # it is queued
        return False


def test_unwanted_wavs_are_not_rendered(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that requests many and disconnects delays neither the next one nor other routes."""
    server = serving()
    message, _ = spoken(server)
    path = "/" + message["wav_url"].lstrip("/")
    assert httpx.get(server.url + path, timeout=60.0).status_code == 200
    hung, made, call = VIEWS.pid, list[str](), VIEWS.call

    def counted(function: Any, *arguments: Any, **options: Any) -> Any:
        made.append(function.__name__)
        return call(function, *arguments, **options)

    monkeypatch.setattr(VIEWS, "call", counted)
    assert hung is not None
    os.kill(hung, signal.SIGSTOP)
    asked = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(MAX_WAITING_PER_ADDRESS)]
    for one in asked:
        one.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    eventually(lambda: refused(server.url + path), "a refusal")
    assert httpx.get(f"{server.url}/health").status_code == 200 and made == ["wav_file"], "one of an address at a time"
    for one in asked:
        one.close()
    eventually(lambda: httpx.get(server.url + path, timeout=60.0).status_code == 200, "the others have left")
    assert VIEWS.pid != hung and len(made) < 5


def test_captions_of_a_trace_are_in_the_time_of_its_sound(serving: Serving, tmp_path: Path) -> None:
    server = serving()
    message, _ = spoken(server, pause_s=1.5)
    url = f"{server.url}/{message['trace_url']}"
    (tmp_path / "back.trace").write_bytes(httpx.get(url).content)
    trace = open_trace(tmp_path / "back.trace")
    files = {
        (one, heard): httpx.get(url.replace(".trace", f".{one}?as_heard={heard}"))
        for one in CAPTIONS
        for heard in (0, 1)
    }
    for (one, heard), answer in files.items():
        assert answer.text == CAPTIONS[one](cues(trace, as_heard=bool(heard))) and "alpha" in answer.text
        assert answer.headers["content-type"].endswith("; charset=utf-8")
        assert re.search(rf'^attachment; filename="[^"]+\.{one}"$', answer.headers["content-disposition"])
        assert answer.headers["cache-control"] == "private, no-store"
    assert files["vtt", 0].headers["content-type"].startswith("text/vtt")
    assert files["srt", 0].text != files["srt", 1].text, "the pause"
    view = httpx.get(url.replace(".trace", ".view")).content
    header = json.loads(view[4 : 4 + int.from_bytes(view[:4], "little")])
    assert header["captions"] == {one: files[one, 1].text for one in CAPTIONS}
    for one in CAPTIONS:
        missing = httpx.get(f"{server.url}/traces/{'x' * 22}.{one}")
        assert (missing.status_code, missing.json()["code"]) == (404, "bad_file")


def test_trace_and_its_wav_are_returned(serving: Serving, tmp_path: Path) -> None:
    server = serving()
    message, heard = spoken(server, pause_s=1.5)
    answer = httpx.get(f"{server.url}/{message['trace_url']}")
    assert answer.headers["content-disposition"].startswith("attachment")
    assert answer.headers["cache-control"] == "private, no-store"
    assert {"meta.json", "events.jsonl", "audio.wav"} <= set(zipfile.ZipFile(io.BytesIO(answer.content)).namelist())
    (tmp_path / "back.trace").write_bytes(answer.content)
    trace = open_trace(tmp_path / "back.trace")
    assert (trace.pcm == pcm(heard)).all()
    assert trace.meta["device"] == "none" and trace.meta["versions"]["numpy"], "one provenance, the engine's"
    assert trace.meta["source"] == "stream"
    assert [word.text for word in trace.words()] == ["alpha", "beta", "gamma", "delta"]

    plain = httpx.get(f"{server.url}/{message['wav_url']}")
    assert plain.headers["content-type"] == "audio/wav"
    assert ".wav" in plain.headers["content-disposition"]
    frames, data = wav_frames(plain.content)
    assert data == pcm(heard).astype("<i2").tobytes()
    as_heard, _ = wav_frames(httpx.get(f"{server.url}/{message['wav_url']}?as_heard=1").content)
    assert as_heard >= frames + 24_000 // 2, "a pause of 1.5 s after 0.55 s of speech is audible"
    assert as_heard == len(trace.pcm_with_waits())
    wrong = httpx.get(f"{server.url}/{message['wav_url']}?as_heard=zz")
    assert (wrong.status_code, wrong.json()["code"]) == (422, "bad_message") and "as_heard" in wrong.json()["message"]


def test_names_cannot_leave_the_folder(serving: Serving, tmp_path: Path) -> None:
    server = serving()
    (tmp_path / "secret.trace").write_bytes(b"x")
    for name in ("../secret", "..%2fsecret", "%2e%2e%2fsecret", "secret", "a" * 22, "a" * 5000, ".", "%00"):
        for kind in ("trace", "wav"):
            answer = httpx.get(f"{server.url}/traces/{name}.{kind}")
            assert answer.status_code == 404, name


def test_folder_is_private_and_bounded(serving: Serving) -> None:
    server = serving(max_traces=2)
    folder = server.settings.traces_folder
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    messages = [spoken(server)[0] for _ in range(3)]
    eventually(lambda: len(list(folder.iterdir())) == 2, "two traces and nothing else")
    statuses = [httpx.get(f"{server.url}/{one['trace_url']}").status_code for one in messages]
    assert statuses == [404, 200, 200]
    assert "no such trace" in httpx.get(f"{server.url}/{messages[0]['trace_url']}").json()["message"]


def test_bytes_are_bounded_and_orphans_deleted(tmp_path: Path) -> None:
    for k in range(4):
        path = tmp_path / f"{'abcd'[k] * 22}.trace"
        path.write_bytes(bytes(1000))
        os.utime(path, (k, k))
    old, new, foreign = tmp_path / ("o" * 22), tmp_path / ("n" * 22), tmp_path / "notes"
    for folder in (old, new, foreign):
        folder.mkdir()
    os.utime(old, (0, 0))
    os.utime(foreign, (0, 0))
    TraceStore(tmp_path, max_traces=10, max_bytes=2500)
    assert sorted(one.name[0] for one in tmp_path.glob("*.trace")) == ["c", "d"]
    assert (old.exists(), new.exists(), foreign.exists()) == (False, True, True)


def test_a_trace_that_was_just_closed_is_no_orphan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its folder is listed and then gone."""
    closed = tmp_path / ("c" * 22)
    monkeypatch.setattr(Path, "iterdir", lambda folder: iter([closed] if folder == tmp_path else []))
    TraceStore(tmp_path, max_traces=2, max_bytes=2500)
    assert not caplog.records


def finished(trace_store: TraceStore) -> str:
    token, writer = trace_store.begin({})
    trace_store.finish(writer)
    return token


def test_clock_set_back_loses_no_trace(tmp_path: Path) -> None:
    """Traces stored under the wrong clock are in the future and must still be evicted first."""
    trace_store = TraceStore(tmp_path, max_traces=2, max_bytes=10**9)
    early = [finished(trace_store) for _ in range(2)]
    for token in early:
        os.utime(tmp_path / f"{token}.trace", (2**32, 2**32))
    late = [finished(trace_store) for _ in range(2)]
    assert {path.stem for path in tmp_path.glob("*.trace")} == set(late)
    assert trace_store.path(late[0]) and trace_store.path(late[1])


def test_clock_set_forward_loses_no_trace_being_written(tmp_path: Path) -> None:
    trace_store = TraceStore(tmp_path, max_traces=2, max_bytes=10**9)
    token, writer = trace_store.begin({})
    for path in (writer.folder, writer.folder / "events.jsonl"):
        os.utime(path, (0, 0))
    finished(trace_store)
    trace_store.finish(writer)
    assert trace_store.path(token)


def test_traces_of_another_server_in_the_folder_are_evicted_in_order(tmp_path: Path) -> None:
    one, other = (TraceStore(tmp_path, max_traces=3, max_bytes=10**9) for _ in range(2))
    tokens = [finished(trace_store) for trace_store in (one, other, one, other, one)]
    assert {path.stem for path in tmp_path.glob("*.trace")} == set(tokens[-3:])


def test_trace_that_cannot_be_closed_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace_store = TraceStore(tmp_path, max_traces=3, max_bytes=10**9)
    _, writer = trace_store.begin({})

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(zipfile.ZipFile, "write", full)
    with pytest.raises(OSError, match="No space"):
        trace_store.finish(writer)
    assert list(tmp_path.iterdir()) == []


def test_impossible_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(BadFile, match="traces_folder"):
        TraceStore(tmp_path / "file" / "traces", 1, 1)


def test_health_and_voices(serving: Serving) -> None:
    server = serving()
    with server.talk() as talk:
        talk.open()
        health = httpx.get(f"{server.url}/health").json()
        assert (health["status"], health["places_free"]) == ("ok", 3)
        assert health["uptime_s"] >= 0
        assert health["version"]
        assert httpx.get(f"{server.url}/api/voices").json()["voices"] == talk.hello["voices"]


def test_damaged_trace_is_reported(serving: Serving) -> None:
    server = serving()
    message, _ = spoken(server)
    path = server.settings.traces_folder / message["trace_url"].removeprefix("traces/")
    data = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        at = archive.getinfo("audio.wav").header_offset
    data[at + 60 : at + 120] = bytes(60)
    path.write_bytes(data)
    for query in ("", "?as_heard=true"):
        answer = httpx.get(f"{server.url}/{message['wav_url']}{query}")
        assert (answer.status_code, answer.json()["code"]) == (404, "bad_file")
