"""What a front promises its clients, with replicas that speak tones."""

import io
import json
import socket
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pytest
import soundfile
from deploy.fronting import Fronted, Fronting
from serve.serving import Talk, eventually
from tones import Script
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from studio.serve.live.socket import IDLE

SLOW = Script(speed=1.0)
LONG = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "


def test_an_utterance_is_spoken_through_a_front(front: Fronting) -> None:
    fronted = front()
    with fronted.talk() as talk:
        talk.open()
        talk.say("text", text="good morning to you")
        talk.say("end")
        events = talk.until("trace")
        with urllib.request.urlopen(f"{fronted.url}/{events[-1]['wav_url']}") as answer:
            assert answer.read(4) == b"RIFF"


def test_utterances_fill_every_slot_before_one_waits(front: Fronting) -> None:
    fronted = front(count=3, places=2, script=SLOW)
    talks = [fronted.talk(close_timeout=0.1) for _ in range(7)]
    for talk in talks[:6]:
        assert talk.open()["type"] == "ready"
        talk.say("text", text=LONG)
    assert fronted.speaking() == {"r0": 2, "r1": 2, "r2": 2}
    talks[6].say("open")
    assert talks[6].hear()["type"] == "queued"  # only now
    for talk in talks:
        talk.ws.close()


def test_a_socket_that_stands_at_a_full_replica_speaks_at_another(front: Fronting) -> None:
    fronted = front(count=2, places=1, script=SLOW)
    with fronted.talk() as one, fronted.talk() as two, fronted.talk() as three:
        for talk in (one, two):
            assert talk.open()["type"] == "ready"
        one.say("cancel")
        one.until("trace")
        eventually(lambda: sum(fronted.speaking().values()) == 1, "a free slot")
        assert three.open()["type"] == "ready"  # wherever its socket was
        three.say("cancel")
        three.until("trace")


def speak_on_one(fronted: Fronted, talk: Talk) -> str:
    """Speak a long text; returns the name of the replica that does."""
    talk.open()
    talk.say("text", text=LONG)
    talk.until("word_start")
    (name,) = [name for name, count in fronted.speaking().items() if count]
    return name


def test_utterances_of_a_lost_replica_fail_and_the_socket_goes_on(front: Fronting) -> None:
    fronted = front(count=2, places=1, script=SLOW)
    with fronted.talk() as talk:
        name = speak_on_one(fronted, talk)
        fronted.replicas.pop(name).die()
        *_, failed, last = talk.until("error")
        assert (failed["type"], failed["code"], last["code"]) == ("failed", "replica_lost", "bad_file")
        talk.say("text", text="late words are dropped")
        assert talk.open()["type"] == "ready"
        talk.say("text", text="on the other one")
        talk.say("end")
        talk.until("trace")


def test_a_draining_replica_finishes_and_gets_no_more(front: Fronting) -> None:
    fronted = front(count=2, places=2, script=SLOW)
    with fronted.talk() as talk:
        talk.open(credit_ms=60_000)
        talk.say("text", text="it goes on after the drain began ")
        (name,) = [name for name, count in fronted.speaking().items() if count]
        fronted.replicas[name].drain.is_announced = True
        eventually(lambda: fronted.members.by_name[name].is_draining, "the drain at the front")
        with fronted.talk() as other:
            other.open()
            assert fronted.speaking() == {"r0": 1, "r1": 1}
            other.say("cancel")
            other.until("trace")
        with urllib.request.urlopen(f"{fronted.url}/health") as answer:
            states = {one["name"]: one["status"] for one in json.load(answer)["replicas"]}
        assert sorted(states.values()) == ["draining", "ok"]
        talk.say("text", text="and takes text ")
        talk.say("end")
        assert talk.until("trace", "error")[-2]["type"] == "ended"
        fronted.replicas.pop(name).stop()
        talk.say("open", 2)  # the socket outlives the replica
        assert talk.hear()["type"] == "ready"


def test_the_key_is_checked_at_the_front_and_at_the_replica(front: Fronting) -> None:
    fronted = front(count=1, key="the key of the front")
    for url in (fronted.url, fronted.replicas["r0"].url):
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(f"{url}/api/voices")
    with pytest.raises(InvalidStatus, match="403"):
        connect(f"ws://127.0.0.1:{fronted.port}/ws/speak", proxy=None)
    with pytest.raises(InvalidStatus, match="404"):
        url = f"ws://127.0.0.1:{fronted.port}/replica/load"
        connect(url, proxy=None, additional_headers={"X-Studio-Key": "the key of the front"})
    asked = urllib.request.Request(f"{fronted.url}/api/voices", headers={"X-Studio-Key": "the key of the front"})
    with urllib.request.urlopen(asked) as answer:
        assert json.load(answer)["voices"]


def test_metrics_carry_the_name_of_the_replica(front: Fronting) -> None:
    fronted = front(count=2)
    with urllib.request.urlopen(f"{fronted.url}/metrics") as answer:
        text = answer.read().decode()
    places = sorted(line for line in text.splitlines() if line.startswith("studio_engine_places"))
    assert places == ['studio_engine_places{replica="r0"} 2.0', 'studio_engine_places{replica="r1"} 2.0']


def test_requests_go_on_when_a_replica_dies(front: Fronting) -> None:
    fronted = front(count=2)
    fronted.replicas.pop("r0").die()
    for _ in range(10):
        with urllib.request.urlopen(f"{fronted.url}/api/voices") as answer:
            assert answer.status == 200


def test_speech_of_other_clients_goes_where_there_is_room(front: Fronting) -> None:
    fronted = front(count=2, places=1, script=SLOW)
    with fronted.talk(close_timeout=0.1) as talk:
        talk.open()
        talk.say("text", text=LONG)
        full = max(fronted.speaking(), key=fronted.speaking().get)
        spoken = httpx.post(
            f"{fronted.url}/v1/audio/speech", json={"input": "good day", "model": "tts-1", "voice": "low"}
        )
        assert (spoken.status_code, spoken.headers["content-type"]) == (200, "audio/mpeg")
        assert len(fronted.replicas[full].engine.opened) == 1, "it is full"


def test_a_caller_that_leaves_frees_its_slot(front: Fronting) -> None:
    fronted = front(count=1, places=1, script=SLOW)
    asked = {"input": LONG, "model": "tts-1", "voice": "low", "response_format": "pcm"}
    with httpx.stream("POST", f"{fronted.url}/v1/audio/speech", json=asked) as answer:
        next(answer.iter_raw())
        assert fronted.speaking() == {"r0": 1}
    eventually(lambda: fronted.speaking() == {"r0": 0}, "the slot")


def test_uploads_pass_as_they_come_and_limits_are_those_of_the_replicas(front: Fronting) -> None:
    fronted = front(count=1)
    wav = io.BytesIO()
    soundfile.write(wav, np.zeros(200_000, np.float32), 24_000, format="WAV", subtype="PCM_16")
    for content in (wav.getvalue(), iter([wav.getvalue()[:100_000], wav.getvalue()[100_000:]])):
        answer = httpx.post(f"{fronted.url}/inspect/open", content=content, timeout=60.0)
        assert answer.status_code in (200, 411), answer.text  # a body without a length is refused, as by one server
    assert httpx.post(f"{fronted.url}/mos/join", content=b"x" * 70_000).status_code == 413


def test_a_socket_of_another_client_stays_and_is_closed_with_a_code(front: Fronting) -> None:
    fronted = front(count=2, script=SLOW)
    url = f"ws://127.0.0.1:{fronted.port}/v1/text-to-speech/tone:low/stream-input?output_format=pcm_24000"
    with connect(url, proxy=None) as socket:
        socket.send(json.dumps({"text": LONG}))
        socket.send(json.dumps({"text": LONG, "flush": True}))
        assert json.loads(socket.recv(timeout=20.0))["audio"]
        (name,) = [name for name, count in fronted.speaking().items() if count]
        fronted.replicas.pop(name).die()
        with pytest.raises(ConnectionClosed) as closed:
            while True:
                socket.recv(timeout=20.0)
    assert closed.value.rcvd is not None and closed.value.rcvd.code == 1012


def test_no_replica_is_a_503(front: Fronting) -> None:
    fronted = front(count=1)
    fronted.replicas.pop("r0").die()
    eventually(lambda: not fronted.members.by_name, "nobody")
    for path in ("/api/voices", "/health"):
        with pytest.raises(urllib.error.HTTPError, match="503"):
            urllib.request.urlopen(fronted.url + path)
    with pytest.raises(InvalidStatus, match="503"):
        connect(f"ws://127.0.0.1:{fronted.port}/ws/speak", proxy=None)


@pytest.mark.parametrize("upgrade", ["", "Upgrade: websocket\r\nConnection: Upgrade\r\n"], ids=["request", "socket"])
@pytest.mark.parametrize("target", ["@{}/x", "%2F@{}/x", "http://{}/x", "x"])
def test_a_front_connects_to_no_other_host(front: Fronting, target: str, upgrade: str) -> None:
    """A target without a slash behind ``http://REPLICA:PORT`` would name one, which gets the replicas' key."""
    fronted = front(count=1)
    with socket.create_server(("127.0.0.1", 0)) as other:
        other.settimeout(0.1)
        asked = target.format(f"127.0.0.1:{other.getsockname()[1]}")
        with socket.create_connection(("127.0.0.1", fronted.port), timeout=20.0) as client:
            client.sendall(
                f"GET {asked} HTTP/1.1\r\nHost: 127.0.0.1:{fronted.port}\r\n{upgrade}"
                "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
            )
            assert client.recv(65_536).startswith(b"HTTP/1.1 400 ")
        with pytest.raises(TimeoutError):
            other.accept()


def test_the_second_utterance_of_a_socket_fails_with_its_replica(front: Fronting) -> None:
    fronted = front(count=2, places=2, script=SLOW)
    with fronted.talk() as talk:
        assert talk.open(1)["type"] == talk.open(2)["type"] == "ready"
        talk.say("cancel", 1)
        talk.until("trace", utterance=1)
        (name,) = [name for name, count in fronted.speaking().items() if count]
        fronted.replicas.pop(name).die()
        *_, failed, last = talk.until("error", utterance=2)
        assert (failed["type"], failed["code"], last["code"]) == ("failed", "replica_lost", "bad_file")
        assert talk.open(3)["type"] == talk.open(2)["type"] == "ready"  # 2 may be used again beside another one


def test_a_socket_stays_while_its_second_utterance_runs(front: Fronting) -> None:
    fronted = front(count=2, places=3, script=SLOW)
    with fronted.talk() as talk:
        assert talk.open(1)["type"] == talk.open(2)["type"] == "ready"
        talk.say("cancel", 1)
        talk.until("trace", utterance=1)
        (name,) = [name for name, count in fronted.speaking().items() if count]
        fronted.replicas[name].drain.is_announced = True
        eventually(lambda: fronted.members.by_name[name].is_draining, "the drain at the front")
        assert talk.open(3)["type"] == "ready"  # at the replica that drains: 2 would be lost elsewhere
        assert fronted.speaking()[name] == 2
        for number in (2, 3):
            talk.say("cancel", number)
        talk.until("trace", utterance=2)


def test_a_front_does_not_pace_requests_beside_speech(front: Fronting) -> None:
    """It has no speech to protect; one utterance slowed all requests of all users to 12 a second."""
    fronted = front(count=1, script=SLOW)
    with fronted.talk(close_timeout=0.1) as talk:
        talk.open()
        talk.say("text", text=LONG)
        talk.until("word_start")
        assert fronted.replicas["r0"].drain.is_speaking() and not fronted.is_pacing


def test_utterances_of_a_replica_that_hangs_fail_within_seconds(front: Fronting) -> None:
    """Nothing closes the connection where a process hangs or a machine is lost; 30 s passed."""
    fronted = front(count=2, places=1, script=SLOW)
    with fronted.talk() as talk:
        name = speak_on_one(fronted, talk)
        with fronted.replicas[name].frozen():
            *_, failed, last = talk.until("error")
            assert (failed["type"], failed["code"], last["code"]) == ("failed", "replica_lost", "bad_file")
            assert talk.open()["type"] == "ready"  # at the other one


def test_an_offer_to_a_replica_that_hangs_goes_to_another(front: Fronting) -> None:
    fronted = front(count=2, places=1, script=SLOW)
    one, two = fronted.replicas.values()
    two.drain.is_announced = True
    eventually(lambda: fronted.members.by_name["r1"].is_draining, "the drain at the front")
    with fronted.talk() as talk, one.frozen():
        talk.say("open")  # offered to the one that hangs now
        two.drain.is_announced = False
        assert talk.until("ready", "error")[-1]["type"] == "ready"
        assert fronted.speaking() == {"r0": 0, "r1": 1}


def test_the_cookie_of_a_key_is_valid_at_every_front_until_the_key_changes(front: Fronting) -> None:
    first, second, changed = (front(count=1, key=f"the key of the {name}") for name in ("fronts", "fronts", "others"))
    asked = httpx.get(f"{first.url}/?key=the key of the fronts")
    (value,) = asked.cookies.values()
    statuses = [
        httpx.get(f"{one.url}/api/voices", headers={"Cookie": f"studio-key-{one.port}={value}"}).status_code
        for one in (first, second, changed)
    ]
    assert statuses == [200, 200, 403]


def test_a_full_site_closes_an_idle_socket_for_a_new_one(front: Fronting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("studio.serve.live.socket.NEW_S", 0.0)
    fronted = front(count=2, max_sockets=1)
    with fronted.talk() as one, fronted.talk() as two, fronted.talk() as new:
        assert new.open()["type"] == "ready"
        closed = eventually_one_closed(one, two)
    assert closed.rcvd is not None and closed.rcvd.code == IDLE


def eventually_one_closed(*talks: Talk) -> ConnectionClosed:
    """How the first socket to be closed was closed."""
    while True:
        for talk in talks:
            try:
                talk.ws.recv(timeout=0.1)
            except TimeoutError:
                continue
            except ConnectionClosed as closed:
                return closed


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("v1/audio/speech", {"input": "good day", "model": "tts-1", "voice": "low"}),
        ("tts/bytes", {"transcript": "good day", "model_id": "tone", "voice": "low"}),
    ],
)
def test_a_request_waits_in_no_queue_while_another_replica_has_a_slot(
    front: Fronting, monkeypatch: pytest.MonkeyPatch, path: str, asked: dict[str, str]
) -> None:
    """A replica may be filled after its report, as by another front."""
    fronted = front(count=2, places=1, script=SLOW)
    with fronted.talk(close_timeout=0.1) as talk:
        talk.open()
        talk.say("text", text=LONG)
        (full,) = [name for name, count in fronted.speaking().items() if count]
        found = sorted(fronted.members.by_name.values(), key=lambda one: one.name != full)
        monkeypatch.setattr(fronted.members, "with_room", lambda: iter(found))
        assert httpx.post(f"{fronted.url}/{path}", json=asked, timeout=20.0).status_code == 200
        assert len(fronted.replicas[full].engine.opened) == 1


def test_a_request_waits_in_a_queue_where_all_replicas_are_full(front: Fronting) -> None:
    fronted = front(count=1, places=1, script=SLOW)
    engine = fronted.replicas["r0"].engine
    asked = {"input": "good day", "model": "tts-1", "voice": "low", "response_format": "pcm"}
    with fronted.talk() as talk, ThreadPoolExecutor(1) as thread:
        talk.open()
        answer = thread.submit(httpx.post, f"{fronted.url}/v1/audio/speech", json=asked, timeout=60.0)
        eventually(lambda: engine.waiting, "the request in the queue")
        talk.say("cancel")
        assert answer.result().status_code == 200
