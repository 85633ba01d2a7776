"""What users of such servers report most about words, at every door that sends their times.

Words of text that was interrupted, clauses passed off as words, unspoken text reported as spoken, spoken forms mixed
with written ones, lost spaces, and ``<break>`` that is dropped or spoken.
"""

import base64
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import httpx
import msgpack
import numpy as np
import pytest
from serve.adapters.test_interruption import LocalServed
from serve.serving import Served, Serving
from tones import RATE_HZ, Script
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

WAIT_S = 60.0
packed: Any = msgpack.packb
RAW = {"container": "raw", "encoding": "pcm_s16le", "sample_rate": RATE_HZ}


@dataclass
class Report:
    """What a client was told.

    Attributes:
        words: with their times in seconds.
        text: the characters, where the door sends them.
    """

    words: list[tuple[str, float, float]] = field(default_factory=list)
    text: str = ""
    sound: bytes = b""

    @property
    def names(self) -> list[str]:
        """The words alone."""
        return [word for word, _, _ in self.words]

    @property
    def pcm(self) -> np.ndarray:
        """Samples int16 [T]."""
        return np.frombuffer(self.sound, "<i2")

    def add_characters(self, chars: Sequence[str], starts_s: Sequence[float], ends_s: Sequence[float]) -> None:
        """Characters of an alignment: those with a length are spoken, and next to each other one word."""
        is_within = False
        for char, start_s, end_s in zip(chars, starts_s, ends_s, strict=True):
            is_spoken = end_s > start_s
            if is_spoken and is_within:
                word, from_s, _ = self.words.pop()
                self.words.append((word + char, from_s, end_s))
            elif is_spoken:
                self.words.append((char, start_s, end_s))
            is_within = is_spoken
            self.text += char


def socket_of(server: Served, path: str) -> ClientConnection:
    return connect(server.url.replace("http", "ws") + path, proxy=None, max_size=None)


def json_messages(ws: ClientConnection) -> Iterator[dict[str, Any]]:
    while True:
        try:
            message = json.loads(ws.recv(timeout=WAIT_S))
        except ConnectionClosed:
            return
        assert message.get("error") is None and message.get("type") != "error", message
        yield message


def add_elevenlabs(report: Report, message: Mapping[str, Any]) -> None:
    """Take a message of ElevenLabs' sockets."""
    report.sound += base64.b64decode(message.get("audio") or "")
    if one := message.get("alignment"):
        starts, lengths = np.array(one["charStartTimesMs"]), np.array(one["charDurationsMs"])
        report.add_characters(one["chars"], (starts / 1000).tolist(), ((starts + lengths) / 1000).tolist())


def add_elevenlabs_http(report: Report, message: Mapping[str, Any]) -> None:
    """Take a JSON of ElevenLabs' routes."""
    report.sound += base64.b64decode(message["audio_base64"])
    if one := message["alignment"]:
        times = one["character_start_times_seconds"], one["character_end_times_seconds"]
        report.add_characters(one["characters"], *times)


def add_cartesia(report: Report, message: Mapping[str, Any]) -> None:
    """Take a message of Cartesia's."""
    report.sound += base64.b64decode(message.get("data") or "")
    if one := message.get("word_timestamps"):
        report.words += zip(one["words"], one["start"], one["end"], strict=True)


def elevenlabs_stream(server: Served, voice: str, pieces: Sequence[str], markup: str) -> Report:
    report, more = Report(), f"&markup={markup}" if markup else ""
    path = f"/v1/text-to-speech/{voice}/stream-input?output_format=pcm_24000&sync_alignment=true{more}"
    with socket_of(server, path) as ws:
        for piece in (*pieces, ""):
            ws.send(json.dumps({"text": piece}))
        for message in json_messages(ws):
            add_elevenlabs(report, message)
    return report


def elevenlabs_multi(server: Served, voice: str, pieces: Sequence[str], markup: str) -> Report:
    report, more = Report(), f"&markup={markup}" if markup else ""
    path = f"/v1/text-to-speech/{voice}/multi-stream-input?output_format=pcm_24000&sync_alignment=true{more}"
    with socket_of(server, path) as ws:
        for piece in pieces:
            ws.send(json.dumps({"text": piece, "context_id": "one"}))
        ws.send(json.dumps({"context_id": "one", "flush": True}))
        ws.send(json.dumps({"context_id": "one", "close_context": True}))
        for message in json_messages(ws):
            if message.get("isFinal"):
                break
            add_elevenlabs(report, message)
    return report


def elevenlabs_whole(server: Served, voice: str, pieces: Sequence[str], markup: str) -> Report:
    report, more = Report(), f"&markup={markup}" if markup else ""
    url = f"{server.url}/v1/text-to-speech/{voice}/with-timestamps?output_format=pcm_24000{more}"
    answer = httpx.post(url, json={"text": "".join(pieces)}, timeout=WAIT_S)
    add_elevenlabs_http(report, answer.raise_for_status().json())
    return report


def elevenlabs_lines(server: Served, voice: str, pieces: Sequence[str], markup: str) -> Report:
    report, more = Report(), f"&markup={markup}" if markup else ""
    url = f"{server.url}/v1/text-to-speech/{voice}/stream/with-timestamps?output_format=pcm_24000{more}"
    answer = httpx.post(url, json={"text": "".join(pieces)}, timeout=WAIT_S)
    for line in answer.raise_for_status().text.splitlines():
        add_elevenlabs_http(report, json.loads(line))
    return report


def cartesia_request(voice: str, text: str, markup: str, **more: Any) -> dict[str, Any]:
    written = {"markup": markup} if markup else {}
    return {"transcript": text, "voice": voice, "output_format": RAW, "add_timestamps": True, **written, **more}


def cartesia(server: Served, voice: str, pieces: Sequence[str], markup: str) -> Report:
    report = Report()
    with socket_of(server, "/tts/websocket") as ws:
        for piece in (*pieces, ""):
            more = {"context_id": "one", "continue": bool(piece)}
            ws.send(json.dumps(cartesia_request(voice, piece, markup, **more)))
        for message in json_messages(ws):
            if message["done"]:
                break
            add_cartesia(report, message)
    return report


def cartesia_sse(server: Served, voice: str, pieces: Sequence[str], markup: str) -> Report:
    report, body = Report(), cartesia_request(voice, "".join(pieces), markup)
    answer = httpx.post(f"{server.url}/tts/sse", json=body, timeout=WAIT_S).raise_for_status()
    for line in answer.text.splitlines():
        if line.startswith("data: "):
            add_cartesia(report, json.loads(line.removeprefix("data: ")))
    return report


def kyutai(server: Served, voice: str, pieces: Sequence[str], markup: str) -> Report:
    """Its clients send words."""
    report, more = Report(), f"&markup={markup}" if markup else ""
    with socket_of(server, f"/api/tts_streaming?voice={voice}&format=PcmMessagePack{more}") as ws:
        for word in "".join(pieces).split(" "):
            ws.send(packed({"type": "Text", "text": word}))
        ws.send(packed({"type": "Eos"}))
        while True:
            try:
                message: Any = msgpack.unpackb(ws.recv(timeout=WAIT_S))
            except ConnectionClosed:
                return report
            assert message["type"] != "Error", message
            if message["type"] == "Text":
                report.words.append((message["text"], message["start_s"], message["stop_s"]))
            if message["type"] == "Audio":
                report.sound += (np.array(message["pcm"]) * 32768).astype("<i2").tobytes()


def openai(server: Served, voice: str, pieces: Sequence[str], markup: str) -> Report:
    body = {"input": "".join(pieces), "voice": voice, "response_format": "pcm", "stream_format": "json"}
    url = f"{server.url}/v1/audio/speech"
    told = httpx.post(url, json={**body, "markup": markup or "plain"}, timeout=WAIT_S).raise_for_status().json()
    words = [(one["word"], one["start_s"], one["end_s"]) for one in told["words"]]
    assert [told["text"][one["char_start"] : one["char_end"]] for one in told["words"]] == [
        name for name, _, _ in words
    ]
    return Report(words, told["text"], base64.b64decode(told["audio"]))


Door = Callable[[Served, str, Sequence[str], str], Report]
STREAMS: dict[str, Door] = {  # text that comes in pieces
    "elevenlabs-stream-input": elevenlabs_stream,
    "elevenlabs-multi-stream-input": elevenlabs_multi,
    "cartesia": cartesia,
}
DOORS: dict[str, Door] = {
    **STREAMS,
    "elevenlabs-with-timestamps": elevenlabs_whole,
    "elevenlabs-lines": elevenlabs_lines,
    "cartesia-sse": cartesia_sse,
    "kyutai": kyutai,
    "openai-json": openai,
}


@pytest.mark.parametrize("door", DOORS)
def test_no_clause_is_passed_off_as_a_word(serving: Serving, door: str) -> None:
    text = "Alpha beta, gamma delta; epsilon. Zeta eta!"
    report = DOORS[door](serving(), "tone:low", [text], "")
    assert report.names == text.split()
    edges = [edge for _, *span in report.words for edge in span]
    assert edges == sorted(edges) and edges[-1] <= len(report.pcm) / RATE_HZ + 0.001
    assert all(0.1 < end_s - start_s < 0.5 for _, start_s, end_s in report.words), "each has its own time"


@pytest.mark.parametrize("door", DOORS)
def test_unspoken_text_is_not_reported_as_spoken(serving: Serving, door: str) -> None:
    text = "\U0001f600 Alpha \U0001f600 -- beta \u2026 gamma \U0001f600"
    report = DOORS[door](serving(), "tone:low", [text], "")
    assert report.names == ["Alpha", "beta", "gamma"]
    assert report.text in ("", text)


@pytest.fixture(scope="module")
def engine_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The engine, which reads numbers and abbreviations."""
    server = LocalServed(tmp_path_factory.mktemp("engine"))
    yield server
    server.stop()
    server.engine.close()


@pytest.mark.parametrize("door", DOORS)
def test_spoken_and_written_forms_are_not_mixed(engine_server: Served, door: str) -> None:
    """A word is reported once, as it is written, whatever is spoken for it."""
    text = "In 1999 Dr. Who paid $5, twice."
    report = DOORS[door](engine_server, "tiny:one", [text], "")
    assert report.names == text.split()
    assert all(a[2] <= b[1] + 0.001 for a, b in pairwise(report.words))
    assert report.text in ("", text)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    "pieces", [["Alpha  beta ", "gamma."], [*"Alpha  beta gamma."], ["Al", "pha  be", "ta", " gamma."]]
)
def test_no_space_is_lost(serving: Serving, door: str, pieces: list[str]) -> None:
    report = DOORS[door](serving(), "tone:low", pieces, "")
    assert report.names == ["Alpha", "beta", "gamma."], "nothing is glued together, nothing is torn apart"
    assert report.text in ("", "Alpha  beta gamma.")


@pytest.mark.parametrize("door", DOORS)
def test_a_break_is_a_pause_and_no_word(serving: Serving, door: str) -> None:
    written = "Alpha <break_time='0.5s'/> beta."  # Kyutai's clients cut at spaces
    pieces = (
        [written.replace("break_time", "break time")]
        if door != "kyutai"
        else [written.replace("break_time", "break\ntime")]
    )
    report = DOORS[door](serving(), "tone:low", pieces, "breaks")
    assert report.names == ["Alpha", "beta."]
    (_, _, before_s), (_, after_s, _) = report.words
    assert after_s - before_s >= 0.499
    assert not report.pcm[round(before_s * RATE_HZ) :][: RATE_HZ // 2].any() and report.pcm[-RATE_HZ // 10 :].any()


def two_contexts(
    messages: Iterable[Mapping[str, Any]], add: Callable[[Report, Mapping[str, Any]], None], name: str, end: str
) -> tuple[Report, Report]:
    """What was told of the contexts ``old`` and ``new``, up to the end of both; ``name`` and ``end`` are fields."""
    reports, left = {"old": Report(), "new": Report()}, {"old", "new"}
    for message in messages:
        if message.get(end):
            left.remove(message[name])  # once
            if not left:
                return reports["old"], reports["new"]
        else:
            assert message[name] in left, "nothing follows the end of a context"
            add(reports[message[name]], message)
    raise AssertionError("the socket closed early")


OLD, NEW = " ".join(f"old{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"), "Alpha beta gamma."


def check_interrupted(old: Report, new: Report) -> None:
    """No word of the old text comes with the new one, and none whose sound did not come."""
    assert old.names == OLD.split()[: len(old.words)] and len(old.words) < 26
    assert all(end_s <= len(old.pcm) / RATE_HZ + 0.001 for _, _, end_s in old.words)
    assert new.names == NEW.split() and new.words[0][1] == 0.0 and new.text in ("", NEW, f"{NEW} ")
    assert abs(new.words[-1][2] - len(new.pcm) / RATE_HZ) < 0.002


def test_no_word_of_a_closed_context_follows_elevenlabs(serving: Serving) -> None:
    path = "/v1/text-to-speech/tone:low/multi-stream-input?output_format=pcm_24000&sync_alignment=true"
    with socket_of(serving(script=Script(speed=8.0)), path) as ws:
        for _ in range(5):
            ws.send(json.dumps({"text": f"{OLD} ", "context_id": "old"}))
            first = next(one for one in json_messages(ws) if one.get("audio"))
            ws.send(json.dumps({"context_id": "old", "close_context": True}))
            ws.send(json.dumps({"text": f"{NEW} ", "context_id": "new"}))
            ws.send(json.dumps({"context_id": "new", "flush": True}))
            ws.send(json.dumps({"context_id": "new", "close_context": True}))
            old, new = two_contexts(json_messages(ws), add_elevenlabs, "contextId", "isFinal")
            old.sound = base64.b64decode(first["audio"]) + old.sound
            check_interrupted(old, new)


def test_no_word_of_a_cancelled_context_follows_cartesia(serving: Serving) -> None:
    with socket_of(serving(script=Script(speed=8.0)), "/tts/websocket") as ws:
        for _ in range(5):
            ws.send(json.dumps(cartesia_request("tone:low", OLD, "", context_id="old")))
            first = next(one for one in json_messages(ws) if one.get("data"))
            ws.send(json.dumps({"cancel": True, "context_id": "old"}))
            ws.send(json.dumps(cartesia_request("tone:low", NEW, "", context_id="new")))
            old, new = two_contexts(json_messages(ws), add_cartesia, "context_id", "done")
            old.sound = base64.b64decode(first["data"]) + old.sound
            check_interrupted(old, new)


def test_no_word_follows_a_cancel_or_its_revision_natively(serving: Serving) -> None:
    with serving(script=Script(speed=8.0)).talk() as talk:
        talk.open(1, options={"m": 1})
        talk.say("text", text=f"{OLD} ")
        talk.until("word_end")
        talk.say("cancel", 1, played_sample=0)
        heard = talk.until("ended")
        kinds = [one["type"] for one in heard if isinstance(one, dict)]
        assert not {"word_start", "word_end", "committed"} & {*kinds[kinds.index("cancelled") :]}
        talk.open(2, options={"m": 1}, credit_ms=60_000)
        talk.say("text", 2, text=f"{OLD} ")
        before = talk.until("word_end", utterance=2)
        talk.say("revise", 2, at=OLD.index("oldz"), text=NEW)
        talk.say("end", 2)
        committed, started = dict[int, str](), list[str]()
        for message in [*before, *talk.until("ended", utterance=2)]:
            kind = message["type"] if isinstance(message, dict) else "audio"
            if kind == "committed":
                committed[message["i"]] = message["word"]
            elif kind == "word_start":
                started.append(committed[message["i"]])
            elif kind == "revised":
                started.clear()
        expected = [*OLD.split()[:-1], *NEW.lower().split()]
        assert len(started) > 3 and started == expected[-len(started) :]
