"""Blinded live tests: both voices get the same keystrokes, and what is stored of them."""

import json
import os
import shutil
import time
import zipfile
from collections import Counter
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakeutterance import FakeUtterance
from mos.world import World, items_of
from serve.mos_serving import ServedTests, words_in
from serve.serving import eventually
from serve.typist import LIVE, VOICES, vote

from studio.core import events as ev
from studio.core.traces.trace import open_trace
from studio.core.traces.trace_writer import TraceWriter
from studio.mos.analysis.results import results
from studio.mos.import_export.export import export_rows, write_traces
from studio.mos.import_export.merge import merge_from
from studio.mos.report.tables import markdown
from studio.mos.sessions.campaigns import find_campaign
from studio.mos.sessions.erasure import erase_rater, sweep_takes, takes_folder
from studio.mos.sessions.takes import MAX_LATE_MS, MISSES_TO_SKIP, Typing
from studio.mos.store.database import Store
from studio.mos.store.tables import Answer, Choice, Rater, Slot, Stimulus, Take

SECRETS = ("zebrafinch", "nightjar", "tone", "low", "high", "speaker", "option", "seed", "temperature")


def trace_of(served: ServedTests, take: Take) -> Any:
    return open_trace(served.world.listening.clips.trace_path(take.trace))


def test_second_voice_gets_the_same_keys_at_the_same_times(live: Any) -> None:
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
    assert one.typed == two.typed and Typing.from_json(one.typed).text() == "hello good friend x"
    assert 0.0 <= two.late_ms <= MAX_LATE_MS
    assert one.latency_ms is not None and two.latency_ms is not None
    # what the voices were given: the same pieces of text
    texts = [[e for e in trace_of(served, take).events if isinstance(e, ev.TextReceived)] for take in (one, two)]
    assert [t.text for t in texts[0]] == [t.text for t in texts[1]] != []
    assert len(served.world.all(Choice)) == 1


@pytest.mark.parametrize(("pause_s", "factor", "later_ms"), [(3.0, 0.1, 0.0), (0.0, 1.0, 1500.0)])
def test_pause_is_the_same_for_both_voices(
    live: Any, monkeypatch: pytest.MonkeyPatch, pause_s: float, factor: float, later_ms: float
) -> None:
    """By its own clock the second voice might judge a pause near the limit differently and block the rater."""
    served, _, typist, trial = live
    flushed: list[FakeUtterance] = []
    really_flush, part = FakeUtterance.flush, served.world.listening.slot_voice

    def flush(utterance: FakeUtterance) -> None:
        flushed.append(utterance)
        really_flush(utterance)

    def at_other_times(rater: int, trial: str, slot: int) -> Any:
        found = part(rater, trial, slot)
        if found.typing is None:
            return found
        strokes = [replace(one, at_ms=one.at_ms * factor) for one in found.typing.strokes]
        return replace(found, typing=Typing(strokes, found.typing.end_ms * factor + later_ms))

    monkeypatch.setattr(FakeUtterance, "flush", flush)
    monkeypatch.setattr(served.world.listening, "slot_voice", at_other_times)
    typist.type(trial, "hello good friend ", pause_s=pause_s)
    _, shown = typist.once_more(trial)
    first, second = served.engine.opened[-2:]
    assert flushed.count(second) == flushed.count(first) >= (pause_s > 0.0)
    assert [one["insert"] for one in shown] == ["hello good friend "], "a pause is no key"


def test_edit_that_changes_nothing_is_no_pause(live: Any) -> None:
    served, _, typist, trial = live
    typist.take(trial, 0)
    typist.say("edit", utterance=1, at=0, insert="hello there ")
    typist.say("edit", utterance=1, at=12)
    typist.say("end", utterance=1)
    assert typist.until("kept", "error")[-1]["type"] == "kept"
    pauses = [one for one in Typing.from_json(served.world.all(Take)[0].typed).strokes if one.is_pause]
    assert len(pauses) <= 1 and all(one.at_ms > 600.0 for one in pauses), "only by the clock, on a slow machine"


def test_both_systems_speak_and_nothing_identifies_them(live: Any) -> None:
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
    said = " ".join(typist.texts)
    assert not words_in(said, SECRETS)
    assert {json.loads(text)["type"] for text in typist.texts} == {"entered", "opened", "ended", "kept", "typed"}


def test_order_of_voices_is_balanced(tests_served: ServedTests) -> None:
    tests_served.world.campaign(LIVE, "typing", VOICES, items_of(2))
    system_of = {s.id: s.system_id for s in tests_served.world.all(Stimulus)}
    for n in range(8):
        rater = tests_served.world.join(f"rater {n}", "typing")
        rater.to_trials()
    firsts = Counter(system_of[slot.stimulus_id] for slot in tests_served.world.all(Slot) if slot.slot == 0)
    assert list(firsts.values()) == [8, 8]


def test_audio_has_the_campaigns_level(live: Any) -> None:
    served, _, typist, trial = live
    gains = {"low": -6.0206, "high": 0.0}
    part = served.world.listening.slot_voice

    def levelled(rater: int, trial: str, slot: int) -> Any:
        found = part(rater, trial, slot)
        return replace(found, gain_db=gains[found.voice.speaker])

    served.world.listening.slot_voice = levelled
    peaks: dict[str, int] = {}
    typist.type(trial, "hello there ")
    peaks[served.engine.opened[-1].speaker] = int(np.abs(typist.pcm()).max())
    typist.again(trial)
    peaks[served.engine.opened[-1].speaker] = int(np.abs(typist.pcm()).max())
    assert peaks["low"] == pytest.approx(peaks["high"] / 2, rel=0.01)


def test_late_keys_are_replayed(live: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    served, rater, typist, trial = live
    typist.type(trial, "hello ", "there ")
    monkeypatch.setattr("studio.serve.mos.live.MAX_LATE_MS", -1.0)
    for n in range(1, MISSES_TO_SKIP + 1):
        again, _ = typist.once_more(trial)
        assert again["type"] == "again"
        assert ('{"type": "may_skip"}' in typist.texts) == (n == MISSES_TO_SKIP), "nobody is blocked for ever"
    assert [take.slot for take in served.world.all(Take)] == [0]
    monkeypatch.undo()
    assert typist.again(trial)[0]["type"] == "kept"
    skipped = rater.post("answer", {"trial": trial, "skipped": True})
    assert (skipped.status_code, skipped.json()["counted"]) == (200, True)
    assert [a.missing for a in served.world.all(Answer)] == ["late"]
    assert rater.next()["trial"]["trial"] != trial


def test_second_voice_gets_only_what_the_first_one_used(live: Any) -> None:
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


def test_typed_and_heard_text_is_in_results_and_export(live: Any, tmp_path: Path) -> None:
    served, rater, typist, trial = live
    first = typist.type(trial, "hello good friend ")
    second, _ = typist.again(trial)
    assert vote(rater, trial, first, second, outcome="a").status_code == 200
    takes = {take.slot: take for take in served.world.all(Take)}
    with served.world.store.read() as session:
        campaign = find_campaign(session, "typing")
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
    assert "".join(e.text for e in heard.events if isinstance(e, ev.TextReceived)) == "hello good friend "


def test_merge_imports_takes_and_traces(live: Any, tmp_path: Path) -> None:
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


def test_closed_page_frees_its_slot_and_leaves_no_take(live: Any) -> None:
    served, _, typist, trial = live
    typist.take(trial, 0)
    typist.say("edit", utterance=1, at=0, insert="hello there ")
    eventually(lambda: served.engine.free_slots() == served.engine.places - 1, "a place taken")
    typist.ws.socket.close()
    eventually(lambda: served.engine.free_slots() == served.engine.places, "the place of a page that went")
    assert served.world.all(Take) == []
    folder = takes_folder(served.world.listening.clips)
    eventually(lambda: not list(folder.iterdir()), "what was typed is kept nowhere")


def test_erased_rater_leaves_no_typing(live: Any) -> None:
    served, rater, typist, trial = live
    first = typist.type(trial, "my secret text ")
    second, _ = typist.again(trial)
    assert vote(rater, trial, first, second).status_code == 200
    paths: list[Path] = [served.world.listening.clips.trace_path(t.trace) for t in served.world.all(Take)]
    with zipfile.ZipFile(BytesIO(paths[0].read_bytes())) as trace:
        assert b"secret" in trace.read("events.jsonl")
    [name] = [r.pseudonym for r in served.world.all(Rater)]
    erase_rater(served.world.store, served.world.listening.clips, served.world.listening.access, "typing", name)
    assert served.world.all(Take) == [] and not any(path.exists() for path in paths)


def test_typing_lost_in_a_crash_is_deleted(tests_served: ServedTests) -> None:
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


def test_running_take_stays_where_the_clock_is_set_forward(tests_served: ServedTests) -> None:
    clips = tests_served.world.listening.clips
    folder = takes_folder(clips) / ("z" * 22)
    writer = TraceWriter(folder, {})
    for path in (*folder.iterdir(), folder):
        os.utime(path, (0.0, 0.0))
    sweep_takes(clips)
    assert folder.exists()
    writer._audio.close()  # as the end of its process does
    sweep_takes(clips)
    assert not folder.exists()


def test_take_may_end_during_a_sweep(tests_served: ServedTests, monkeypatch: pytest.MonkeyPatch) -> None:
    clips, rglob = tests_served.world.listening.clips, Path.rglob
    for number in range(3):
        (takes_folder(clips) / f"{number:022}").mkdir(parents=True)

    def ended(folder: Path, pattern: str) -> Any:
        shutil.rmtree(folder)
        return rglob(folder, pattern)

    monkeypatch.setattr(Path, "rglob", ended)
    sweep_takes(clips)
    assert not [*takes_folder(clips).iterdir()]
