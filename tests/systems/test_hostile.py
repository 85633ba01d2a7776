"""Servers that answer wrongly, or want a key sent elsewhere: a sentence, and the key stays here."""

import base64
import json
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import pytest
from systems.speaking import failure, spoken, tone
from websockets.datastructures import Headers
from websockets.http11 import Request, Response
from websockets.sync.server import ServerConnection, serve

from studio.core.errors import BadOption
from studio.core.events import Ended, WordEnd
from studio.systems.settings import check_system

KEY = "sk-a-secret-key-of-a-test"


@contextmanager
def served(answer: Callable[[ServerConnection], None], **how: Any) -> Generator[str]:
    """The address of a server of sockets."""
    with serve(answer, "127.0.0.1", 0, **how) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.socket.getsockname()[1]}"
        server.shutdown()
        thread.join()


def said(*messages: Any) -> Callable[[ServerConnection], None]:
    def answer(socket: ServerConnection) -> None:
        socket.recv()
        for message in messages:
            socket.send(message if isinstance(message, str | bytes) else json.dumps(message))
        for _ in socket:
            pass

    return answer


_TIMES = {"type": "timestamps", "word_timestamps": {"words": ["Good"], "start": [float("nan")], "end": [1]}}
_REALTIME = {"kind": "realtime", "dialect": "vllm"}


@pytest.mark.parametrize(
    ("system", "message"),
    [
        ({"kind": "cartesia"}, "[" * 100_000),
        ({"kind": "cartesia"}, {"type": "chunk", "data": 7}),
        ({"kind": "cartesia"}, {"type": "timestamps"}),
        ({"kind": "cartesia"}, _TIMES),
        ({"kind": "elevenlabs"}, {"alignment": {"chars": 5}}),
        ({"kind": "kyutai"}, b"\xc1"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_an_answer_that_is_not_understood_is_told_so(system: dict[str, str], message: Any) -> None:
    with served(said(message)) as url:
        assert "not understood" in failure({**system, "url": url})


@pytest.mark.parametrize("kind", ["elevenlabs", "elevenlabs-multi"])
@pytest.mark.parametrize(("durations", "final"), [("charDurationsMs", "isFinal"), ("charsDurationsMs", "is_final")])
def test_fields_of_elevenlabs_have_two_spellings(kind: str, durations: str, final: str) -> None:
    """Servers follow the vendor's older documents or its newer ones."""
    times = {"chars": [*"Good."], "charStartTimesMs": [0, 100, 200, 300, 400], durations: [100] * 5}
    sound = base64.b64encode(tone(0.5).tobytes()).decode("ascii")
    silent = {"audio": "", "alignment": {key: [] for key in times}, "context_id": "one"}
    messages = (
        silent,
        {"audio": sound, "alignment": times, "context_id": "one"},
        {final: True, "context_id": "one"},
    )
    with served(said(*messages)) as url:
        trace = spoken({"kind": kind, "url": url}, "Good.")
    ended = [one.sample for one in trace.events if isinstance(one, WordEnd)]
    assert isinstance(trace.events[-1], Ended) and ended == [pytest.approx(12_000, abs=600)]


@pytest.mark.parametrize("rate_hz", [1, -8000, True, 10**9])
def test_a_rate_that_would_take_all_memory_is_refused(rate_hz: int) -> None:
    with served(said({"type": "audio.start", "sample_rate": rate_hz}, bytes(4000))) as url:
        assert "8,000 to 192,000 Hz" in failure({**_REALTIME, "url": url})


def test_a_key_is_neither_repeated_nor_sent_to_another_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_TEST_API_KEY", KEY)
    system = {"kind": "elevenlabs", "key_env": "A_TEST_API_KEY"}
    with served(said({"error": "quota", "message": f"the key {KEY} is used up"})) as url:
        assert "the key *** is used up" in failure({**system, "url": url})
        asked: list[Headers] = []

        def note(socket: ServerConnection, request: Request) -> None:
            asked.append(request.headers)

        with served(said({}), process_request=note) as other:

            def away(socket: ServerConnection, request: Request) -> Response:
                return Response(307, "Temporary Redirect", Headers({"Location": f"{other.replace('http', 'ws')}/x"}))

            with served(said({}), process_request=away) as here:
                assert "answers 307" in failure({**system, "url": here})
        assert not asked


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:99999", "http://127.0.0.1:0", "http://127.0.0.1:abc", "http://[::1", "http://a b/",
        "http://x\ny/", "http://x\0y/", "http://" + "a" * 64 + "/", "http://..", "http://\u202ehost/", "http://host/#x",
        "http://host/v1?api_key=x", "file:///etc/passwd", "http://me:word@host/",
    ],
)  # fmt: skip
def test_an_address_that_cannot_be_used_is_not_taken(url: str) -> None:
    with pytest.raises(BadOption, match=r"address|IPv6") as refused:
        check_system("far", {"kind": "openai", "url": url})
    assert str(refused.value).isprintable()


@pytest.mark.parametrize("url", ["http://[::1]:8000/v1", "https://münchen.example/v1", "ws://127.0.0.1:1"])
def test_usual_addresses_are_taken(url: str) -> None:
    assert check_system("far", {"kind": "openai", "url": url}).url == url
    assert check_system("far", {**_REALTIME, "url": f"{url}?model=a"}).url == f"{url}?model=a"


@pytest.mark.parametrize("field", ["title", "about", "licence", "voice", "model", "speakers"])
def test_names_hold_no_control_characters(field: str) -> None:
    for text in ("a\nb", "a\0", "\x1b[2J", "\u202ea"):
        with pytest.raises(BadOption, match="control characters"):
            check_system(
                "far", {"kind": "openai", "url": "http://host", field: [text] if field == "speakers" else text}
            )
