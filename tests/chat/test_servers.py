"""How real chat servers differ in what they send, and what a listener gets of it."""

import asyncio
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from chatserver import KEY, MODEL, ChatServer, Script, chat_server

from studio.chat.chunks import ChatFailed
from studio.chat.endpoint import ChatClient, ChatEndpoint

DONE = "data: [DONE]"
AT_ONCE_S = 10.0  # on a busy machine; the silence of an endpoint is a minute


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with chat_server() as served:
        yield served


def chunk(finish: str | None = None, **delta: Any) -> str:
    return "data: " + json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


def whole(content: Any, **message: Any) -> bytes:
    choice = {"message": {"role": "assistant", "content": content, **message}, "finish_reason": "stop"}
    return json.dumps({"object": "chat.completion", "choices": [choice]}, indent=1).encode()


def lines(*events: str, end: str = "\n\n") -> list[bytes]:
    """Blocks of a body, an event each."""
    return [f"{one}{end}".encode() for one in events]


HELLO = [chunk(content="Hello "), chunk(content="there.")]
USAGE = 'data: {"choices": [], "usage": {"total_tokens": 7}}'
THINKING = chunk(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}])
ENDINGS = {
    "done without a reason": lines(*HELLO, DONE),
    "done without a space": lines(*HELLO, "data:[DONE]"),
    "done in pieces": [*lines(*HELLO), b"da", b"ta: [DO", b"NE]\n", b"\n"],
    "a reason without done": lines(*HELLO, chunk("stop")),
    "a reason with the last piece": lines(HELLO[0], chunk("stop", content="there."), DONE),
    "a reason of its own": lines(*HELLO, chunk("eos_token"), DONE),
    "usage behind the end": lines(*HELLO, chunk("stop"), USAGE, DONE),
    "usage before everything": lines(USAGE, *HELLO, DONE),
    "comments": lines(": keep-alive", HELLO[0], ": keep-alive", HELLO[1], chunk("stop"), ": bye", DONE),
    "carriage returns": lines(*HELLO, chunk("stop"), DONE, end="\r\n\r\n"),
    "only carriage returns": lines(*HELLO, DONE, end="\r\r"),
    "lines on their own": [one + b"\n" for event in lines(*HELLO, DONE) for one in event.split(b"\n")[:2]],
    "fields of events": lines(*(f"event: message\nid: {n}\n{one}" for n, one in enumerate(HELLO)), DONE),
    "a role first": lines(chunk(role="assistant", content=None), *HELLO, chunk("stop", content=None), DONE),
    "reasoning": lines(chunk(reasoning_content="Hm.", content=None), chunk(reasoning="Hm."), *HELLO, DONE),
    "content in parts": lines(THINKING, chunk(content=[{"type": "text", "text": "Hello there."}]), DONE),
    "an empty reason": lines(*(one.replace("null", '""') for one in HELLO), chunk("stop"), DONE),
    "a tool of the server": lines(chunk(tool_calls=[{"function": {"name": "search"}}]), *HELLO, chunk("stop")),
}


async def read(server: ChatServer, pieces: list[str], silence_s: float = 60.0) -> None:
    client = ChatClient(ChatEndpoint(server.url, MODEL, "STUDIO_TEST_KEY", silence_s=silence_s))
    try:
        async for piece in client.reply([{"role": "user", "content": "Hello?"}]):
            pieces.append(piece)
    finally:
        await client.close()


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STUDIO_TEST_KEY", KEY)


def reply(server: ChatServer, script: Script, silence_s: float = 60.0) -> str:
    server.script, pieces = script, []
    asyncio.run(read(server, pieces, silence_s))
    return "".join(pieces)


def failure(server: ChatServer, script: Script, said: str) -> str:
    server.script, pieces = script, []
    with pytest.raises(ChatFailed) as failed:
        asyncio.run(read(server, pieces))
    assert "".join(pieces) == said and KEY not in str(failed.value)
    return str(failed.value)


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_reply_ends(server: ChatServer, ending: str) -> None:
    assert reply(server, Script(raw=ENDINGS[ending])) == "Hello there."


@pytest.mark.parametrize("is_left_open", [True, None])
@pytest.mark.parametrize("ending", [chunk("stop"), DONE])
def test_a_reply_ends_whatever_becomes_of_the_connection(
    server: ChatServer, ending: str, is_left_open: bool | None
) -> None:
    began_s = time.monotonic()
    assert reply(server, Script(raw=lines(*HELLO, ending), is_left_open=is_left_open)) == "Hello there."
    assert time.monotonic() - began_s < AT_ONCE_S


@pytest.mark.parametrize("content", ["Hello there.", [{"type": "text", "text": "Hello there."}]])
def test_a_server_that_does_not_stream_is_read(server: ChatServer, content: Any) -> None:
    script = Script(raw=[whole(content)], media="application/json; charset=utf-8")
    assert reply(server, script) == "Hello there."


def test_a_server_that_keeps_the_connection_alive_is_not_silent(server: ChatServer) -> None:
    waits = lines(*[": keep-alive"] * 8)
    assert reply(server, Script(raw=[*waits, *lines(*HELLO, DONE)], every_s=0.25), silence_s=1.0) == "Hello there."


def test_a_long_reply_whose_events_come_in_pieces_is_no_endless_event(
    server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("studio.chat.chunks.MAX_EVENT_BYTES", 2000)
    events = [chunk(content="word ") + "\n", "\n"] * 100
    assert reply(server, Script(raw=[*(one.encode() for one in events), *lines(DONE)])) == "word " * 100


@pytest.mark.parametrize(
    ("ending", "says"),
    [
        ([chunk("length"), DONE], "the model reached its limit of tokens, and the reply ends there; raise the limit"),
        ([chunk("content_filter"), DONE], "the model refuses to answer"),
        ([chunk(refusal="No."), chunk("stop"), DONE], "the model refuses to answer: No."),
        ([chunk("tool_calls", tool_calls=[{"function": {"name": "search"}}])], "calls a tool 'search'"),
        ([chunk("error"), DONE], "the reply broke off: the model ended with 'error'"),
        ([chunk("insufficient_system_resource")], "the reply broke off: the model ended with 'insufficient"),
        (['data: {"error": {"message": "out of memory", "code": 500}}'], "the reply broke off: out of memory"),
        (['data: {"error": "out of memory"}'], "the reply broke off: out of memory"),
        (['event: error\ndata: {"error": {"message": "out of memory"}}'], "the reply broke off: out of memory"),
        (['data: {"object": "error", "message": "out of memory", "code": 500}'], "the reply broke off: out of memory"),
        ([f'data: {{"error": "the key {KEY} is used up"}}'], "the reply broke off: the key *** is used up"),
        ([": bye"], "the reply broke off: the endpoint closed the connection"),
    ],
)
def test_a_reply_that_is_not_whole_says_why(server: ChatServer, ending: list[str], says: str) -> None:
    assert says in failure(server, Script(raw=lines(*HELLO, *ending)), "Hello there.")


def test_a_tool_without_a_reply_is_named(server: ChatServer) -> None:
    called = chunk(tool_calls=[{"index": 0, "function": {"name": "search", "arguments": ""}}])
    said = failure(server, Script(raw=lines(called, chunk("tool_calls"), DONE)), "")
    assert "calls a tool 'search' and waits for its answer; let the server offer it no tools" in said


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b'{"error": {"message": "out of memory"}}', "the reply broke off: out of memory"),
        (b'{"error": "out of memory"}', "the reply broke off: out of memory"),
        (b'{"models": []}', "sent JSON without a reply"),
        (b"[1]", "sent JSON without a reply"),
        (b'{"choices": ["x"]}', "the reply is empty"),
        (b"{", "sent a piece that is no JSON"),
        (b"[" * 100_000, "sent a piece that is no JSON"),
        (b"\n\n" * 600_000, "sends a piece without an end"),
        (whole(None, tool_calls=[{"function": {"name": "search"}}]), "calls a tool 'search'"),
    ],
)
def test_json_that_is_no_reply_says_why(server: ChatServer, body: bytes, says: str) -> None:
    assert says in failure(server, Script(raw=[body], media="application/json"), "")


@pytest.mark.parametrize(
    ("status", "header", "says"),
    [
        (429, "20", "answers 429: slow down; ask again in 20 s"),
        (503, "0.2", "answers 503: slow down; ask again in 1 s"),
        (429, "Wed, 21 Oct 2026 07:28:00 GMT", "answers 429: slow down; ask again later"),
        (429, "-1", "ask again later"),
        (429, "nan", "ask again later"),
        (429, "1e9", "ask again later"),
        (400, "20", "answers 400: slow down; see the model's settings"),
    ],
)
def test_a_busy_server_says_when(server: ChatServer, status: int, header: str, says: str) -> None:
    body = b'{"error": {"message": "slow down", "type": "rate_limit"}}'
    script = Script(raw=[body], media="application/json", status=status, headers={"Retry-After": header})
    assert says in failure(server, script, "")
