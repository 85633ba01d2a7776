"""Gradio's own client speaks: an audio file with the times of its words, and a stream."""

import asyncio
import base64
import html
import io
import json
import subprocess
import sys
import urllib.request
import wave
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import httpx2
import numpy as np
import pytest
from fakes import FakeEngine
from fakeutterance import FakeUtterance
from gradio_client import Client
from gradio_client.exceptions import AppError
from mcp.client import Client as McpClient
from mcp.client.streamable_http import streamable_http_client
from serve.serving import Served, eventually
from tones import RATE_HZ, Script, tone_card

from studio.core.ports import SpeakRequest
from studio.core.speakers import REFERENCE
from studio.markup import Markup
from studio.ui import gradio_middleware
from studio.ui.app import mount

pytestmark = pytest.mark.slow

KEY = "a-key-that-nobody-guesses"


class Pages(Served):
    """A served fake engine with the pages."""

    def make_app(self) -> Any:
        engine: Any = self.engine
        return mount(super().make_app(), engine, self.settings)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Pages]:
    server = Pages(tmp_path)
    yield server
    server.stop()


def client_of(server: Served, folder: Path, **how: Any) -> Client:
    patient = {"timeout": 120.0}  # the first call imports Gradio
    return Client(
        server.url, verbose=False, analytics_enabled=False, download_files=folder, httpx_kwargs=patient, **how
    )


def test_a_text_is_an_audio_file_with_times(served: Pages, tmp_path: Path) -> None:
    client = client_of(served, tmp_path)
    path, told = client.predict("**Alpha** beta.", "tone:low", api_name="/speak")
    with wave.open(path) as file:
        pcm = np.frombuffer(file.readframes(file.getnframes()), "<i2")
        assert file.getframerate() == told["rate_hz"] == RATE_HZ
    assert len(pcm) == served.engine.opened[-1].samples == round(told["duration_s"] * RATE_HZ)
    assert [one["word"] for one in told["words"]] == ["Alpha", "beta."]
    assert 0 <= told["words"][0]["start_s"] < told["words"][1]["start_s"] < told["words"][1]["end_s"]
    assert served.engine.opened[-1].card.name == "tone"


SSML = '<speak>Alpha <break time="500ms"/> beta <sub alias="gamma">G</sub>.</speak>'


@pytest.mark.parametrize("name", ["/speak", "/speak_stream"])
def test_a_text_may_be_ssml(served: Pages, tmp_path: Path, name: str) -> None:
    job = client_of(served, tmp_path).submit(SSML, "tone:low", "ssml", api_name=name)
    result = job.result(timeout=60)
    words = result[1]["words"] if name == "/speak" else [word for piece in job.outputs() for word in piece["words"]]
    assert [one["word"] for one in words] == ["Alpha", "beta", "gamma."]
    assert words[1]["start_s"] - words[0]["end_s"] >= 0.5


def test_markup_is_read_as_it_is_asked_for(served: Pages, tmp_path: Path) -> None:
    client = client_of(served, tmp_path)
    for markup, spoken in [("markdown", "Alpha beta."), ("plain", "**Alpha** beta."), ("breaks", "**Alpha** beta.")]:
        _, told = client.predict("**Alpha** beta.", "tone:low", markup, api_name="/speak")
        assert " ".join(one["word"] for one in told["words"]) == spoken
    with pytest.raises(AppError, match="markup: Input should be 'plain', 'markdown', 'ssml' or 'breaks'"):
        client.predict("Alpha.", "tone:low", "html", api_name="/speak")
    with pytest.raises(AppError, match="<audio>"):
        client.predict("<audio>Alpha.</audio>", "tone:low", "ssml", api_name="/speak")
    assert served.engine.free_slots() == served.engine.places


def test_a_stream_grows(served: Pages, tmp_path: Path) -> None:
    client = client_of(served, tmp_path)
    job = client.submit("Alpha beta gamma delta epsilon zeta.", api_name="/speak_stream")
    eventually(lambda: len(job.outputs()) >= 2, "pieces of the sound")
    job.result(timeout=60)
    pieces: list[Any] = job.outputs()
    sound = b"".join(base64.b64decode(one["pcm"]) for one in pieces)
    assert len(sound) // 2 == served.engine.opened[-1].samples
    starts = [one["sample"] for one in pieces]
    assert starts == sorted(set(starts)) and len(starts) >= 3
    assert [w["word"] for one in pieces for w in one["words"]] == "Alpha beta gamma delta epsilon zeta.".split()


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[Pages]:
    """Its speech takes minutes."""
    server = Pages(tmp_path, script=Script(speed=0.2))
    yield server
    server.stop()


def speaks(server: Served) -> bool:
    return server.engine.free_slots() < server.engine.places


CALLING = """
import sys, time
from gradio_client import Client
client = Client(sys.argv[1], verbose=False, analytics_enabled=False, httpx_kwargs={"timeout": 120.0})
job = client.submit("Alpha beta gamma delta. " * 100, api_name=sys.argv[2])
while job.status().code.name not in ("PROCESSING", "ITERATING"):
    time.sleep(0.02)
print("listens", flush=True)
job.result()
"""


@pytest.mark.parametrize("name", ["/speak", "/speak_stream"])
def test_a_client_that_is_killed_frees_its_place(slow: Pages, name: str) -> None:
    with subprocess.Popen([sys.executable, "-c", CALLING, slow.url, name], stdout=subprocess.PIPE) as calling:
        assert calling.stdout is not None and calling.stdout.readline() == b"listens\n"
        eventually(lambda: speaks(slow), "the speech")
        calling.kill()
    assert eventually(lambda: not speaks(slow), "a free place") < 3.0


@pytest.mark.parametrize("name", ["/speak", "/speak_stream"])
def test_a_cancelled_job_frees_its_place_and_the_next_one_speaks(slow: Pages, tmp_path: Path, name: str) -> None:
    client = client_of(slow, tmp_path)
    job = client.submit("Alpha beta gamma delta. " * 100, api_name=name)
    eventually(lambda: speaks(slow), "the speech")
    job.cancel()
    assert eventually(lambda: not speaks(slow), "a free place") < 3.0
    slow.engine.script = Script(speed=20.0)
    assert client.predict("Alpha.", api_name="/speak")[1]["words"]


def test_calls_of_one_client_share_a_stream(served: Pages, tmp_path: Path) -> None:
    """The end of a stream between two calls cancels neither."""
    client = client_of(served, tmp_path)
    for _ in range(5):
        jobs = [client.submit("Alpha beta.", api_name="/speak") for _ in range(3)]
        assert all(len(job.result(timeout=60)[1]["words"]) == 2 for job in jobs)


def test_a_call_to_which_nobody_listens_frees_its_place(slow: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gradio_middleware, "LISTEN_S", 0.3)
    described = httpx2.get(f"{slow.url}/config", timeout=120.0).json()["dependencies"]
    [function] = [one["id"] for one in described if one["api_name"] == "speak"]
    data = ["Alpha beta gamma delta. " * 100, "default", "markdown"]
    call = {"data": data, "fn_index": function, "session_hash": "nobody"}
    assert httpx2.post(f"{slow.url}/gradio_api/queue/join", json=call, timeout=120.0).status_code == 200
    eventually(lambda: slow.engine.opened, "the speech")
    eventually(lambda: not speaks(slow), "a free place")
    assert slow.engine.opened[-1].samples < RATE_HZ * 60


@pytest.mark.parametrize("change", [{"fn_index": 10_000}, {"session_hash": "../x"}, {"event_id": 7}, {"more": 1}])
def test_what_no_client_cancels_is_refused(served: Pages, change: dict[str, Any]) -> None:
    message = {"fn_index": 0, "session_hash": "abc", "event_id": "abc"} | change
    address = f"{served.url}/gradio_api/cancel"
    assert httpx2.post(address, json=message, timeout=120.0).status_code == 422
    assert httpx2.post(address, content=b"[" * 60_000, timeout=120.0).status_code == 422


def test_mistakes_are_told(served: Pages, tmp_path: Path) -> None:
    client = client_of(served, tmp_path)
    with pytest.raises(AppError, match="there are default, tone:"):
        client.predict("Alpha.", "alloy", api_name="/speak")
    with pytest.raises(AppError, match=r"text: .* at most 4096"):
        client.predict("a " * 3000, api_name="/speak")
    for wrong in [(None,), (["Alpha."],), ("Alpha.", 7), ("Alpha.", "default", None)]:
        with pytest.raises(AppError, match=r"(text|voice|markup): Input should be"):
            client.predict(*wrong, api_name="/speak")
    with pytest.raises(AppError, match="nothing to speak"):
        client.predict("``` ```", api_name="/speak")
    with pytest.raises(AppError, match="can be spoken"):
        client.predict("! ?", api_name="/speak")
    assert served.engine.free_slots() == served.engine.places


def test_a_full_server_is_told(served: Pages, tmp_path: Path) -> None:
    client = client_of(served, tmp_path)
    served.engine.places = 0
    served.engine.queue = 0
    with pytest.raises(AppError, match="try again"):
        client.predict("Alpha.", api_name="/speak")


def test_only_these_functions_are_described(served: Pages, tmp_path: Path) -> None:
    client = client_of(served, tmp_path)
    described: Any = client.view_api(return_format="dict")
    assert set(described["named_endpoints"]) == {"/speak", "/speak_stream"} and not described["unnamed_endpoints"]
    text, voice, markup = described["named_endpoints"]["/speak"]["parameters"]
    assert not text["parameter_has_default"] and voice["parameter_default"] == "default"
    assert markup["parameter_default"] == "markdown" and markup["type"]["enum"] == [*get_args(Markup)]


def test_names_of_speakers_are_text_on_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    speaker = "[ann](evil.example) <b>&"
    card = replace(tone_card(), name="pulled", speakers=(speaker,), default_speaker="")
    monkeypatch.setattr(FakeEngine, "cards", lambda self: (tone_card(), card))
    server = Pages(tmp_path)
    try:
        parts = [one["props"] for one in httpx2.get(f"{server.url}/config", timeout=120.0).json()["components"]]
        shown = [str(one["value"]) for one in parts if "ann" in str(one.get("value"))]
        assert len(shown) == 1 and html.escape(f"pulled:{speaker}") in shown[0]
        assert not any("ann" in str(one.get("info")) for one in parts)
    finally:
        server.stop()


def test_key_is_sent_in_a_header(tmp_path: Path) -> None:
    server = Pages(tmp_path, key=KEY)
    try:
        with pytest.raises(Exception, match="Could not fetch config"):
            client_of(server, tmp_path)
        client = client_of(server, tmp_path, headers={"X-Studio-Key": KEY})
        path, _ = client.predict("Alpha.", api_name="/speak")
        assert Path(path).stat().st_size > 44
    finally:
        server.stop()


def called(server: Served, tool: str, arguments: dict[str, Any], **headers: str) -> Any:
    async def call() -> Any:
        async with (
            httpx2.AsyncClient(headers=headers, timeout=120.0) as http,
            McpClient(streamable_http_client(f"{server.url}/gradio_api/mcp/", http_client=http)) as client,
        ):
            [one] = (await client.list_tools()).tools
            assert (
                one.name == "speak"
                and "tone:low" in str(one.description)
                and set(one.input_schema["properties"]) == {"text", "voice", "markup"}
            )
            return await client.call_tool(tool, arguments)

    with ThreadPoolExecutor(1) as thread:  # Playwright's loop runs in this one where a browser's tests came before
        return thread.submit(asyncio.run, call()).result()


def test_the_sound_of_the_tool_names_the_consent(served: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    begin = served.engine.open

    def cloned(request: SpeakRequest) -> FakeUtterance:
        utterance = begin(request)
        utterance.provenance |= {REFERENCE: {"consent_at": "2026-11-30T10:00:00Z"}}
        return utterance

    monkeypatch.setattr(served.engine, "open", cloned)
    sound = called(served, "speak", {"text": "Alpha.", "voice": "tone:low"}).content[1]
    comment = (
        b"voice tone:low, Streaming-TTS Studio. The speaker was cloned from a recording with consent given on 2026"
    )
    assert comment in base64.b64decode(sound.data)


def test_agents_have_a_tool(served: Pages) -> None:
    answer = called(served, "speak", {"text": "**Alpha** beta.", "voice": "tone:low"})
    assert not answer.is_error
    text, sound = answer.content
    told = json.loads(text.text)
    assert [one["word"] for one in told["words"]] == ["Alpha", "beta."] and told == answer.structured_content
    with wave.open(io.BytesIO(base64.b64decode(sound.data))) as file:
        assert file.getnframes() == served.engine.opened[-1].samples
    assert urllib.request.urlopen(told["url"], timeout=60).read()[:4] == b"RIFF"
    assert "there are default, tone:" in called(served, "speak", {"text": "Alpha.", "voice": "alloy"}).content[0].text
    assert called(served, "speak", {"text": "a " * 3000}).is_error
    paused = called(served, "speak", {"text": SSML, "markup": "ssml"}).structured_content["words"]
    assert [one["word"] for one in paused] == ["Alpha", "beta", "gamma."]
    assert called(served, "speak", {"text": "Alpha.", "markup": "html"}).is_error


def test_an_agent_that_leaves_frees_its_place(tmp_path: Path) -> None:
    server = Pages(tmp_path, script=Script(speed=0.2))
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    call |= {"params": {"name": "speak", "arguments": {"text": "Alpha beta gamma delta. " * 100}}}
    headers = {"Accept": "application/json, text/event-stream"}

    async def leave() -> None:
        async with httpx2.AsyncClient(timeout=120.0) as http:
            calling = asyncio.create_task(http.post(f"{server.url}/gradio_api/mcp", json=call, headers=headers))
            await asyncio.to_thread(eventually, lambda: speaks(server), "the speech")
            calling.cancel()

    try:
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, leave()).result()
        eventually(lambda: not speaks(server), "a free place")
        assert server.engine.opened[-1].samples < RATE_HZ * 60
    finally:
        server.stop()


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"jsonrpc": "2.0", "method": "x"}', b"[" * 60_000, b"x" * 70_000])
def test_what_no_agent_sends_is_refused(served: Pages, body: bytes) -> None:
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    answer = httpx2.post(f"{served.url}/gradio_api/mcp", content=body, headers=headers, timeout=120.0)
    assert 400 <= answer.status_code < 500 or (answer.status_code, answer.content) == (202, b"")
    assert httpx2.get(f"{served.url}/gradio_api/mcp", headers=headers, timeout=120.0).status_code == 404


def test_agents_send_the_key_as_a_bearer(tmp_path: Path) -> None:
    server = Pages(tmp_path, key=KEY)
    try:
        with pytest.raises(Exception, match="unhandled errors"):
            called(server, "speak", {"text": "Alpha."})
        assert not called(server, "speak", {"text": "Alpha."}, Authorization=f"Bearer {KEY}").is_error
    finally:
        server.stop()
