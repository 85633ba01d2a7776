"""Typing to a voice that nobody names: what its socket lets through, what comes again when, what the vote stores."""

import asyncio
import json
import os
import time
import zipfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mos.world import AB, World, items_of
from serve.mos_serving import Browser, ServedTests
from serve.serving import eventually
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect

from studio.core import events as ev
from studio.core.trace import open_trace
from studio.mos.analysis.results import results
from studio.mos.campaign.draft import SystemSpec
from studio.mos.exchange.export import export_rows, write_traces
from studio.mos.exchange.other_database import merge_from
from studio.mos.rating.campaigns import find
from studio.mos.rating.forgetting import forget_rater, sweep_takes, takes_folder
from studio.mos.rating.takes import Typing
from studio.mos.report.formats import markdown
from studio.mos.store.database import Store
from studio.mos.store.tables.answers import Choice
from studio.mos.store.tables.raters import Rater
from studio.mos.store.tables.stimuli import Stimulus
from studio.mos.store.tables.takes import Take
from studio.mos.store.tables.trials import Slot
from studio.serve.mos_live import LiveSession
from studio.serve.protocol import Packet, unpack_packet

LIVE = replace(AB, kind="live", raters_per_stimulus=8, trials_per_sitting=2)
VOICES = (
    SystemSpec("zebrafinch", voice={"voice": "tone", "speaker": "low", "seed": 5, "m": 2, "temperature": 0.3}),
    SystemSpec("nightjar", voice={"voice": "", "speaker": "high", "m": 3, "n": 2}),
)
SECRETS = ("zebrafinch", "nightjar", "tone", "low", "high", "speaker", "option", "seed", "temperature")


class Typist:
    """A rater's page on the live socket."""

    def __init__(self, served: ServedTests, rater: Browser) -> None:
        self.texts: list[str] = []
        self.number = 0
        self.sound: list[Packet] = []
        self.ws: ClientConnection = connect(served.url.replace("http", "ws") + "/mos/live", proxy=None)
        self.say("enter", token=rater.headers["Authorization"].removeprefix("Bearer "))
        assert self.hear()["type"] == "entered"

    def say(self, kind: str, **more: Any) -> None:
        self.ws.send(json.dumps({"type": kind, **more}))

    def hear(self) -> Any:
        """The next message; sound is collected, and played at once."""
        while isinstance(data := self.ws.recv(timeout=20), bytes):
            packet = unpack_packet(data)
            self.sound.append(packet)
            self.say("played", utterance=packet.utterance, sample=packet.first_sample + len(packet.pcm))
        self.texts.append(data)
        return json.loads(data)

    def until(self, *kinds: str) -> list[Any]:
        out = [self.hear()]
        while out[-1]["type"] not in kinds:
            out.append(self.hear())
        return out

    def take(self, trial: str, slot: int) -> dict[str, Any]:
        self.number += 1
        self.sound = []
        self.say("take", utterance=self.number, trial=trial, slot=slot)
        return self.until("opened", "error")[-1]

    def type(self, trial: str, *pieces: str, pause_s: float = 0.05) -> dict[str, Any]:
        """Type to the first voice, with pauses; answers the last word about it."""
        assert self.take(trial, 0)["type"] == "opened"
        at = 0
        for piece in pieces:
            self.say("edit", utterance=self.number, at=at, insert=piece)
            at += len(piece)
            time.sleep(pause_s)
        self.say("end", utterance=self.number)
        return self.until("kept", "error", "again", "dropped")[-1]

    def again(self, trial: str, most: int = 8) -> tuple[dict[str, Any], list[Any]]:
        """Let the second voice hear it, until the keys come in time; the last word, and the keys that were shown."""
        for _ in range(most - 1):
            said = self.once_more(trial)
            if said[0]["type"] != "again":
                return said
        return self.once_more(trial)

    def once_more(self, trial: str) -> tuple[dict[str, Any], list[Any]]:
        opened = self.take(trial, 1)
        if opened["type"] == "error":
            return opened, []
        heard = self.until("kept", "error", "again", "dropped")
        return heard[-1], [one for one in heard if one["type"] == "typed"]

    def pcm(self) -> np.ndarray:
        return np.concatenate([packet.pcm for packet in self.sound])


@pytest.fixture
def live(tests_served: ServedTests) -> Iterator[tuple[ServedTests, Browser, Typist, str]]:
    """A live campaign, a rater at its first screen, and their socket."""
    tests_served.world.campaign(LIVE, "typing", VOICES, items_of(2))
    answer = tests_served.http.post("join", json={**tests_served.link(name="typing"), "panel": {"PROLIFIC_PID": "p1"}})
    rater = Browser(tests_served.http, answer.json()["token"])
    trial = rater.to_trials()["trial"]["trial"]
    typist = Typist(tests_served, rater)
    yield tests_served, rater, typist, trial
    typist.ws.close()


def vote(rater: Browser, trial: str, *takes: dict[str, Any], outcome: str = "b") -> Any:
    plays = [{"slot": k, "plays": 1, "heard_ms": one["samples"] / 24} for k, one in enumerate(takes)]
    choices = [{"question": "preference", "outcome": outcome}]
    return rater.post("answer", {"trial": trial, "choices": choices, "plays": plays, "response_ms": 1.0})


def trace_of(served: ServedTests, take: Take) -> Any:
    return open_trace(served.world.listening.clips.trace_path(take.trace))


def test_the_other_voice_hears_the_same_keys_at_the_same_times(live: Any) -> None:
    served, rater, typist, trial = live
    screen = rater.next()
    assert [slot["url"] for slot in screen["trial"]["slots"]] == ["", ""]
    first = typist.type(trial, "he", "llo ", "good", " friend", " x", pause_s=0.17)
    assert first["type"] == "kept" and first["samples"] == len(typist.pcm()) > 0
    second, shown = typist.again(trial)
    assert second["type"] == "kept"
    assert [one["insert"] for one in shown] == ["he", "llo ", "good", " friend", " x"]
    assert vote(rater, trial, first, second).status_code == 200
    one, two = served.world.all(Take)
    assert (one.slot, two.slot, one.late_ms) == (0, 1, 0.0)
    assert one.typed == two.typed and Typing.of_json(one.typed).text() == "hello good friend x"
    assert 0.0 <= two.late_ms <= 20.0
    assert one.latency_ms is not None and two.latency_ms is not None
    # what the voices themselves were given: the same text, each piece within 20 ms of when the other had it
    texts = [[e for e in trace_of(served, take).events if isinstance(e, ev.Text)] for take in (one, two)]
    assert [t.text for t in texts[0]] == [t.text for t in texts[1]] != []
    gaps_ms = [np.diff([t.t_ms for t in each]) for each in texts]
    assert np.abs(gaps_ms[0] - gaps_ms[1]).max() <= 20.0
    assert len(served.world.all(Choice)) == 1


def test_the_two_systems_speak_and_nothing_tells_which(live: Any) -> None:
    served, _, typist, trial = live
    typist.type(trial, "hello there good friend ")
    opened = [served.engine.opened[-1]]
    sizes = [{len(packet.pcm) for packet in typist.sound}]
    typist.again(trial)
    opened.append(served.engine.opened[-1])
    sizes.append({len(packet.pcm) for packet in typist.sound})
    by_speaker = {u.speaker: u for u in opened}
    assert by_speaker["low"]._options["m"] == 2 and by_speaker["low"]._request.seed == 5
    assert by_speaker["low"]._request.temperature == 0.3
    assert (by_speaker["high"]._options["m"], by_speaker["high"]._options["n"]) == (3, 2)
    assert sizes[0] == sizes[1] == {600}
    said = " ".join(typist.texts).lower()
    assert not [word for word in SECRETS if word in said]
    assert {json.loads(text)["type"] for text in typist.texts} == {"entered", "opened", "ended", "kept", "typed"}


def test_the_order_of_the_voices_is_balanced(tests_served: ServedTests) -> None:
    tests_served.world.campaign(LIVE, "typing", VOICES, items_of(2))
    system_of = {s.id: s.system_id for s in tests_served.world.all(Stimulus)}
    for n in range(8):
        sitting = tests_served.world.join(f"rater {n}", "typing")
        sitting.to_trials()
    firsts = Counter(system_of[slot.stimulus_id] for slot in tests_served.world.all(Slot) if slot.slot == 0)
    assert list(firsts.values()) == [8, 8]


def test_a_vote_needs_both_voices_of_one_typing(live: Any) -> None:
    served, rater, typist, trial = live
    refused, _ = typist.again(trial)
    assert refused["code"] == "bad_message"
    whole = {"samples": 24_000}
    assert vote(rater, trial, whole, whole).status_code == 422
    first = typist.type(trial, "hello ")
    assert vote(rater, trial, first, whole).status_code == 422
    typist.again(trial)
    other = typist.type(trial, "something else entirely ")
    assert vote(rater, trial, other, whole).status_code == 422, "the second voice heard another text"
    second, _ = typist.again(trial)
    short = {"samples": second["samples"] // 2}
    assert vote(rater, trial, other, short).status_code == 422, "and it was not heard out"
    assert vote(rater, trial, other, second).status_code == 200
    assert typist.take(trial, 0)["code"] == "not_this_stage", "what was voted on is not typed anew"
    assert sorted((t.slot, t.number) for t in served.world.all(Take)) == [(0, 1), (0, 2), (1, 1), (1, 2)]


def test_sound_comes_at_the_level_of_all(live: Any) -> None:
    served, _, typist, trial = live
    gains = {"low": -6.0206, "high": 0.0}
    part = served.world.listening.part

    def levelled(rater: int, trial: str, slot: int) -> Any:
        found = part(rater, trial, slot)
        return replace(found, gain_db=gains[found.said_by.speaker])

    served.world.listening.part = levelled
    peaks: dict[str, int] = {}
    typist.type(trial, "hello there ")
    peaks[served.engine.opened[-1].speaker] = int(np.abs(typist.pcm()).max())
    typist.again(trial)
    peaks[served.engine.opened[-1].speaker] = int(np.abs(typist.pcm()).max())
    assert peaks["low"] == pytest.approx(peaks["high"] / 2, rel=0.01)


def test_keys_that_come_late_are_played_again(live: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    served, _, typist, trial = live
    typist.type(trial, "hello ", "there ")
    monkeypatch.setattr("studio.serve.mos_live.MAX_LATE_MS", -1.0)
    again, _ = typist.once_more(trial)
    assert again["type"] == "again"
    assert [take.slot for take in served.world.all(Take)] == [0]
    monkeypatch.undo()
    assert typist.again(trial)[0]["type"] == "kept"


def test_strangers_and_other_raters_are_refused(live: Any) -> None:
    served, _, typist, trial = live
    with pytest.raises(InvalidStatus):
        connect(
            served.url.replace("http", "ws") + "/mos/live", proxy=None, additional_headers={"Origin": "http://evil"}
        )
    with connect(served.url.replace("http", "ws") + "/mos/live", proxy=None) as ws:
        for message in (
            {"type": "take", "trial": trial, "slot": 0, "utterance": 1},
            {"type": "enter", "token": "x" * 50},
        ):
            ws.send(json.dumps(message))
            assert json.loads(ws.recv(timeout=5))["type"] == "error"
    other = served.http.post("join", json={**served.link(name="typing"), "panel": {"PROLIFIC_PID": "p2"}})
    stranger = Typist(served, Browser(served.http, other.json()["token"]))
    assert stranger.take(trial, 0)["code"] == "forbidden"
    for bad in ({"slot": 2}, {"slot": "0"}, {"trial": 7}, {"utterance": -1}):
        typist.say("take", **({"trial": trial, "slot": 0, "utterance": 99} | bad))
        assert typist.hear()["code"] == "bad_message"
    for kind in ("open", "options", "flush", "text"):
        typist.say(kind, utterance=1)
        assert typist.hear()["code"] == "bad_message"
    stranger.ws.close()


def test_a_page_that_goes_leaves_a_free_place_and_no_take(live: Any) -> None:
    served, _, typist, trial = live
    typist.take(trial, 0)
    typist.say("edit", utterance=1, at=0, insert="hello there ")
    eventually(lambda: served.engine.places_free() == served.engine.places - 1, "a place taken")
    typist.ws.socket.close()
    eventually(lambda: served.engine.places_free() == served.engine.places, "the place of a page that went")
    assert served.world.all(Take) == []
    folder = takes_folder(served.world.listening.clips)
    eventually(lambda: not list(folder.iterdir()), "what was typed is kept nowhere")


def test_a_forgotten_rater_leaves_no_typing(live: Any) -> None:
    served, rater, typist, trial = live
    first = typist.type(trial, "my secret text ")
    second, _ = typist.again(trial)
    assert vote(rater, trial, first, second).status_code == 200
    paths: list[Path] = [served.world.listening.clips.trace_path(t.trace) for t in served.world.all(Take)]
    with zipfile.ZipFile(BytesIO(paths[0].read_bytes())) as trace:
        assert b"secret" in trace.read("events.jsonl")
    [name] = [r.pseudonym for r in served.world.all(Rater)]
    forget_rater(served.world.store, served.world.listening.clips, "typing", name)
    assert served.world.all(Take) == [] and not any(path.exists() for path in paths)


def test_a_take_begins_while_others_come_and_go(live: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    served, rater, typist, trial = live
    second_tab, real, came = Typist(served, rater), LiveSession.hush, []

    async def hush(session: LiveSession) -> None:
        came.append(await asyncio.to_thread(Typist, served, rater))
        await real(session)

    monkeypatch.setattr(LiveSession, "hush", hush)
    assert typist.take(trial, 0)["type"] == "opened"
    assert len(came) == 1
    for tab in (second_tab, *came):
        tab.ws.close()


def test_too_much_typing_is_refused(live: Any) -> None:
    _, _, typist, trial = live
    typist.take(trial, 0)
    typist.say("edit", utterance=1, at=0, insert="x" * 2001)
    assert typist.until("error")[-1]["code"] == "bad_text"
    typist.say("cancel", utterance=1)
    assert typist.until("dropped", "kept")[-1]["type"] == "dropped"


def test_a_voice_that_cannot_speak_is_not_named(tests_served: ServedTests) -> None:
    broken = SystemSpec("zebrafinch", voice={"voice": "nightingale", "speaker": "s1"})
    tests_served.world.campaign(LIVE, "typing", (broken, replace(broken, name="nightjar")), items_of(1))
    answer = tests_served.http.post("join", json={**tests_served.link(name="typing"), "panel": {"PROLIFIC_PID": "p1"}})
    rater = Browser(tests_served.http, answer.json()["token"])
    typist = Typist(tests_served, rater)
    refused = typist.take(rater.to_trials()["trial"]["trial"], 0)
    assert refused["code"] == "mute" and "nightingale" not in json.dumps(refused)
    typist.ws.close()


def test_what_was_typed_and_heard_is_in_the_results_and_the_export(live: Any, tmp_path: Path) -> None:
    served, rater, typist, trial = live
    first = typist.type(trial, "hello good friend ")
    second, _ = typist.again(trial)
    assert vote(rater, trial, first, second, outcome="a").status_code == 200
    takes = {take.slot: take for take in served.world.all(Take)}
    with served.world.store.read() as session:
        campaign = find(session, "typing")
        [row] = list(export_rows(session, campaign))
        found = results(session, campaign)
        text = markdown(found)
        assert write_traces(session, campaign, served.world.listening.clips, tmp_path / "out") == 2
    assert (row["latency_a_ms"], row["latency_b_ms"]) == (takes[0].latency_ms, takes[1].latency_ms)
    assert (row["trace_a"], row["late_ms"]) == (takes[0].trace, takes[1].late_ms)
    by_system = {one["system"]: one for one in found["takes"]}
    assert by_system[row["system_a"]]["latency_ms"] == takes[0].latency_ms
    assert by_system[row["system_b"]]["late_ms"] == takes[1].late_ms
    assert "First sound while typing" in text
    latency = found["tables"]["latency"]
    assert latency["n"] == latency["preference"]["n"] == 1
    assert latency["systems"][row["system_a"]]["median_ms"] == takes[0].latency_ms
    apart = abs(takes[0].latency_ms - takes[1].latency_ms)
    assert latency["preference"]["bins"][0]["middle_ms"] == pytest.approx(apart)
    assert "Voices by latency" in text and "Preference by latency" in text
    heard = open_trace(tmp_path / "out" / f"{trial}-a.trace")
    assert "".join(e.text for e in heard.events if isinstance(e, ev.Text)) == "hello good friend "


def test_a_merge_brings_the_takes_and_their_traces(live: Any, tmp_path: Path) -> None:
    served, rater, typist, trial = live
    first = typist.type(trial, "hello good friend ")
    second, _ = typist.again(trial)
    assert vote(rater, trial, first, second).status_code == 200
    here = World(Store(f"sqlite:///{tmp_path / 'here.sqlite'}"), tmp_path / "here")
    for _ in range(2):
        merge_from(here.listening, str(tmp_path / "studio.sqlite"), only="typing")
        assert [t.typed for t in here.all(Take)] == [t.typed for t in served.world.all(Take)]
        assert all(here.listening.clips.trace_path(t.trace).is_file() for t in here.all(Take))
    here.listening.close()


def test_only_what_the_first_voice_took_reaches_the_second(live: Any) -> None:
    _, _, typist, trial = live
    typist.take(trial, 0)
    typist.say("edit", utterance=1, at=0, insert="hello good friend ")
    typist.say("edit", utterance=1, at=4_000_000_000, remove=1, insert="nowhere ")
    assert typist.until("error")[-1]["code"] == "bad_message"
    typist.say("end", utterance=1)
    typist.say("edit", utterance=1, at=18, insert="too late ")
    heard = typist.until("kept")
    assert [one["code"] for one in heard if one["type"] == "error"] == ["closed"]
    assert [one["insert"] for one in typist.again(trial)[1]] == ["hello good friend "]


def test_the_field_and_not_the_keys_is_bounded(live: Any) -> None:
    _, _, typist, trial = live
    typist.take(trial, 0)
    typist.say("edit", utterance=1, at=0, insert="x" * 1990)
    typist.say("edit", utterance=1, at=0, remove=1990)
    typist.say("edit", utterance=1, at=0, insert="hello there " * 50)
    typist.say("end", utterance=1)
    assert not [one for one in typist.until("kept") if one["type"] == "error"]


def test_one_rater_holds_one_place(live: Any) -> None:
    served, rater, typist, trial = live
    tabs = [typist, *(Typist(served, rater) for _ in range(3))]
    for tab in tabs:
        assert tab.take(trial, 0)["type"] == "opened"
    for tab in tabs[:-1]:
        assert tab.until("dropped")[-1]["type"] == "dropped"
    assert served.engine.places_free() == served.engine.places - 1
    for tab in tabs[1:]:
        tab.ws.close()


def test_what_is_no_screen_is_refused(live: Any) -> None:
    _, _, typist, _ = live
    for trial in ("\ud800", "a\0b", "ab" * 40, 7, None):
        typist.say("take", trial=trial, slot=0, utterance=9)
        assert typist.hear()["code"] == "bad_message"


def test_a_crash_leaves_no_typing_for_long(tests_served: ServedTests) -> None:
    clips = tests_served.world.listening.clips
    old, new = takes_folder(clips) / ("x" * 22), takes_folder(clips) / ("y" * 22)
    for left in (old, new):
        left.mkdir(parents=True)
        (left / "events.jsonl").write_text("secret")
    long_ago = time.time() - 3600
    for path in (old / "events.jsonl", old):
        os.utime(path, (long_ago, long_ago))
    sweep_takes(clips)
    assert not old.exists() and new.exists(), "what is being spoken stays"
