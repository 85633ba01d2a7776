"""What is kept of typing to a voice, for results, exports and merges; and what is left nowhere."""

import os
import time
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from mos.world import World
from serve.mos_serving import ServedTests
from serve.serving import eventually
from serve.typist import vote

from studio.core import events as ev
from studio.core.traces.trace import open_trace
from studio.mos.analysis.results import results
from studio.mos.import_export.export_answers import export_rows, write_traces
from studio.mos.import_export.merge_database import merge_from
from studio.mos.report.formats import markdown
from studio.mos.sessions.campaigns import find_campaign
from studio.mos.sessions.erasure import erase_rater, sweep_takes, takes_folder
from studio.mos.store.database import Store
from studio.mos.store.tables.raters import Rater
from studio.mos.store.tables.trials import Take


def test_what_was_typed_and_heard_is_in_the_results_and_the_export(live: Any, tmp_path: Path) -> None:
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


def test_a_page_that_goes_leaves_a_free_place_and_no_take(live: Any) -> None:
    served, _, typist, trial = live
    typist.take(trial, 0)
    typist.say("edit", utterance=1, at=0, insert="hello there ")
    eventually(lambda: served.engine.free_slots() == served.engine.places - 1, "a place taken")
    typist.ws.socket.close()
    eventually(lambda: served.engine.free_slots() == served.engine.places, "the place of a page that went")
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
    erase_rater(served.world.store, served.world.listening.clips, served.world.listening.access, "typing", name)
    assert served.world.all(Take) == [] and not any(path.exists() for path in paths)


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
