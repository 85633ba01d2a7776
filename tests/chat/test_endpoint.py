"""Replies of a chat endpoint piece by piece, and what is said when it fails."""

import asyncio
import time
from collections.abc import Iterator

import pytest
from chatserver import KEY, MODEL, ChatServer, Script, chat_server

from studio.chat.chunks import ChatFailed
from studio.chat.conversation import MAX_REPLY_CHARS
from studio.chat.endpoint import ChatClient, ChatEndpoint
from studio.core.errors import BadOption

QUESTION = [{"role": "user", "content": "What is on the stove?"}]


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with chat_server() as served:
        yield served


async def read(endpoint: ChatEndpoint, pieces: list[str]) -> None:
    client = ChatClient(endpoint)
    try:
        async for piece in client.reply(QUESTION):
            pieces.append(piece)
    finally:
        await client.close()


def test_pieces_come_as_they_are_sent(server: ChatServer) -> None:
    pieces: list[str] = []
    asyncio.run(read(ChatEndpoint(server.url, MODEL, system_prompt="Be brief."), pieces))
    assert pieces == server.script.pieces
    assert server.requests[0]["messages"] == [{"role": "system", "content": "Be brief."}, *QUESTION]
    assert server.requests[0]["stream"] is True
    asyncio.run(read(ChatEndpoint(f"{server.url}/chat/completions", MODEL, system_prompt=""), pieces))
    assert server.requests[1]["messages"] == QUESTION


@pytest.mark.parametrize(
    ("kind", "says", "spoken"),
    [
        ("key", "refuses the key (401)", 0),
        ("html", "sent text/html, no stream", 0),
        ("busy", "answers 429: ", 0),
        ("redirect", "answers 307", 0),
        ("silent", "sent nothing for 1 s", 0),
        ("error", "the reply broke off: the GPU is on fire", 3),
        ("garbage", "sent a piece that is no JSON", 3),
        ("deep", "sent a piece that is no JSON", 3),
        ("long", "sends a piece without an end", 3),
        ("packed", "sends its replies as gzip", 0),
        ("shape", "the reply broke off: the endpoint closed the connection", 3),
        ("cut", "the reply broke off: the endpoint closed the connection", 3),
        ("abort", "the reply broke off: ", 3),
        ("refusal", "the model refuses to answer: I cannot say that.", 3),
        ("filter", "the model refuses to answer; ask something else", 3),
    ],
)
def test_each_failure_has_a_sentence(
    server: ChatServer, kind: str, says: str, spoken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STUDIO_TEST_KEY", "wrong-key-of-a-test" if kind == "key" else KEY)
    server.script = Script(kind=kind)
    pieces: list[str] = []
    with pytest.raises(ChatFailed) as failed:
        asyncio.run(read(ChatEndpoint(server.url, MODEL, "STUDIO_TEST_KEY", silence_s=1.0), pieces))
    assert says in str(failed.value) and len(pieces) == spoken
    assert KEY not in str(failed.value) and "; " in str(failed.value)
    if kind == "key":
        assert "STUDIO_TEST_KEY" in str(failed.value)


def test_endless_and_empty_replies_end(server: ChatServer) -> None:
    server.script, pieces = Script(["word " * 100], kind="endless"), []
    with pytest.raises(ChatFailed, match="more than 20,000 characters"):
        asyncio.run(read(ChatEndpoint(server.url, MODEL), pieces))
    assert len("".join(pieces)) == MAX_REPLY_CHARS
    server.script = Script([])
    with pytest.raises(ChatFailed, match="the reply is empty"):
        asyncio.run(read(ChatEndpoint(server.url, MODEL), []))


def test_unknown_models_and_absent_servers_are_named(server: ChatServer) -> None:
    with pytest.raises(ChatFailed, match=r"has no model 'owl'.*\(404\)"):
        asyncio.run(read(ChatEndpoint(server.url, "owl"), []))
    server.stop()
    with pytest.raises(ChatFailed, match=r"cannot be used.*see whether it runs there"):
        asyncio.run(read(ChatEndpoint(server.url, MODEL), []))


def test_a_reply_that_is_left_ends_the_request(server: ChatServer) -> None:
    server.script = Script(["word "], every_s=0.01, kind="endless")

    async def leave() -> None:
        client = ChatClient(ChatEndpoint(server.url, MODEL))
        reply = client.reply(QUESTION)
        assert await anext(reply) == "word "
        assert server.open == 1
        await reply.aclose()
        until_s = time.monotonic() + 20.0
        while server.open and time.monotonic() < until_s:
            await asyncio.sleep(0.01)
        assert server.open == 0
        await client.close()

    asyncio.run(leave())


@pytest.mark.parametrize("url", ["127.0.0.1:1", "ftp://host/v1", "http://me:secret@host/v1", "http://"])
def test_addresses_are_checked(url: str) -> None:
    with pytest.raises(BadOption):
        ChatEndpoint(url, MODEL)


def test_the_key_is_read_from_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STUDIO_TEST_KEY", raising=False)
    with pytest.raises(BadOption, match="STUDIO_TEST_KEY is not set"):
        ChatClient(ChatEndpoint("http://127.0.0.1:1/v1", MODEL, "STUDIO_TEST_KEY"))
    with pytest.raises(BadOption, match="has no name"):
        ChatEndpoint("http://127.0.0.1:1/v1", "")
