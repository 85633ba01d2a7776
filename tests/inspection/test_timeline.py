"""Typed, synthesised and heard times on one clock, against known times."""

import json
import re
import struct
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from inspection.spoken import FRAME, RATE_HZ, TEXT, pcm, story, trace

from studio.core import events as ev
from studio.core.errors import BadFile
from studio.core.traces.trace import collect_trace, open_trace
from studio.core.traces.trace_writer import TraceWriter
from studio.inspection.bundle import pack, pack_prosody
from studio.inspection.opening import open_file, recording_trace
from studio.inspection.playback import PlaybackRun, playback_time
from studio.inspection.timeline import timeline


def test_word_is_followed_through_typed_made_and_heard() -> None:
    line = timeline(trace())
    assert line.text == TEXT and line.heard_by == "listener"
    one, two, three = line.words
    assert (one.typed_ms, one.known_ms, one.made_ms, one.made_whole_ms) == (0.0, 300.0, 600.0, 630.0)
    assert (one.heard_ms, one.heard_whole_ms) == (600.0, 700.0), "four frames of 25 ms"
    assert (two.typed_ms, two.known_ms, two.made_ms) == (500.0, 800.0, 800.0)
    assert (two.heard_ms, two.heard_whole_ms) == (800.0, 875.0), "after both waits, ending before none"
    assert (three.typed_ms, three.known_ms, three.heard_whole_ms) == (900.0, 1000.0, 950.0)
    assert [word.segment for word in line.words] == [0, 1, 1]
    assert [(one.seen, one.forced) for one in line.segments] == [((0, 1), False), ((1, 2), True)]


def test_pauses_are_named_and_located() -> None:
    line = timeline(trace())
    assert [(one.reason, one.start_ms, one.end_ms, one.is_stall) for one in line.pauses] == [
        ("text", 700.0, 790.0, False),
        ("compute", 790.0, 800.0, True),
    ]
    assert line.runs == (PlaybackRun(600.0, 0, 4 * FRAME), PlaybackRun(800.0, 4 * FRAME, 10 * FRAME))


def test_reported_playback_clock_is_used() -> None:
    """Playback started 40 ms after the first sample was made, and paused for 120 ms before the second segment."""
    line = timeline(trace(played=True))
    assert line.heard_by == "player"
    assert line.words[0].heard_ms == pytest.approx(640.0)
    assert line.words[0].heard_whole_ms == pytest.approx(740.0)
    assert line.words[1].heard_ms == pytest.approx(860.0)
    assert sum(one.duration_ms for one in line.pauses) == pytest.approx(120.0)
    assert [one.reason for one in line.pauses] == ["text", "compute"], "distributed over the waits at that position"


def test_audio_after_the_last_report_of_a_closed_trace_counts_as_heard() -> None:
    """Reports end in the first segment: the second follows when it was made, after its wait."""
    events = [one for one in story(played=True) if not isinstance(one, ev.Played) or one.t_ms < 800.0]
    line = timeline(collect_trace({}, events))
    assert line.heard_by == "player" and line.runs[-1].end == 10 * FRAME
    assert [(one.reason, one.start_ms, one.end_ms) for one in line.pauses] == [("text", 740.0, 800.0)]
    assert line.words[-1].heard_whole_ms == pytest.approx(950.0)
    events.insert(-1, ev.Cancelled(heard=[0], sample=4 * FRAME, t_ms=905.0))
    assert timeline(collect_trace({}, events)).words[-1].heard_ms is None, "after a cancel nothing more is heard"


def test_unexplained_pause_of_the_player_is_labelled() -> None:
    events = [one for one in story(played=True) if not isinstance(one, ev.Wait)]
    assert [one.reason for one in timeline(collect_trace({}, events)).pauses] == ["unknown"]


def test_revised_speech_is_removed_and_its_keys_stay() -> None:
    """The last word is deleted and retyped; the second segment is synthesised again."""
    events = story()[:-1]
    sound = pcm(14)[10 * FRAME :]
    events += [
        ev.TextReceived(char_start=9, text="4 ", t_ms=1100.0),
        ev.Revised(from_sample=7 * FRAME, take=1, words=2, t_ms=1101.0),
        ev.Committed(i=2, word="four", written=2, char_start=9, char_end=10, t_ms=1102.0),
        ev.Segment(index=2, words=[2], seen=[2], sample=7 * FRAME, frame=7, t_ms=1105.0),
        ev.Audio(sample=7 * FRAME, pcm=sound, t_ms=1110.0),
        ev.WordStart(i=2, sample=7 * FRAME, source="eos", t_ms=1110.0),
        ev.Ended(samples=11 * FRAME, t_ms=1120.0),
    ]
    line = timeline(collect_trace({}, events))
    assert line.text == "One  two 4 "
    assert [key.text for key in line.keys if not key.is_kept] == ["3", " "]
    last = line.words[2]
    assert (last.text, last.typed_ms, last.known_ms, last.made_ms) == ("four", 1100.0, 1100.0, 1110.0)
    assert line.words[1].known_ms == 800.0, "times before the revision are unchanged"


def test_recording_has_only_its_own_clock() -> None:
    line = timeline(recording_trace(pcm(), RATE_HZ, "one two"))
    assert line.heard_by == "recording" and line.runs == (PlaybackRun(0.0, 0, 10 * FRAME),)
    assert [(word.text, word.known_ms, word.heard_ms) for word in line.words] == [
        ("one", None, None),
        ("two", None, None),
    ]


def test_pauses_of_more_than_an_hour_are_refused() -> None:
    events = story()
    events.insert(-1, ev.Wait(reason="text", sample=5 * FRAME, duration_ms=4e6, t_ms=905.0))
    with pytest.raises(BadFile, match="longer than an hour"):
        timeline(collect_trace({}, events))


@pytest.mark.parametrize("seed", range(5))
def test_lanes_are_ordered_for_any_trace(seed: int) -> None:
    """Random chunks and waits: runs cover the audio once, in order; nothing is heard before it was made."""
    rng = np.random.default_rng(seed)
    events: list[ev.Event] = [story()[0]]
    at, now_ms, dry_ms = 0, 50.0, None
    for _ in range(60):
        samples = int(rng.integers(1, 3) * FRAME)
        now_ms += float(rng.choice([1.0, 20.0, 400.0]))
        if dry_ms is not None and now_ms > dry_ms:
            events.append(ev.Wait(reason="text", sample=at, duration_ms=now_ms - dry_ms, t_ms=now_ms))
        dry_ms = max(now_ms, dry_ms or 0.0) + 1000.0 * samples / RATE_HZ
        events.append(ev.Audio(sample=at, pcm=np.ones(samples, np.int16), t_ms=now_ms))
        at += samples
    line = timeline(collect_trace({}, events))
    assert [run.start for run in line.runs[1:]] == [run.end for run in line.runs[:-1]]
    assert (line.runs[0].start, line.runs[-1].end) == (0, at)
    for event in events:
        if isinstance(event, ev.Audio):
            heard_ms = playback_time(line.runs, [run.start for run in line.runs], line.rate_hz, event.sample)
            assert heard_ms is not None and heard_ms >= event.t_ms - 1e-6


def test_wait_before_revised_audio_still_counts() -> None:
    """Otherwise the new audio would be heard before it was made."""
    sound = np.ones(FRAME, np.int16)
    events = [
        story()[0],
        ev.Audio(sample=0, pcm=sound, t_ms=100.0),
        ev.Wait(reason="text", sample=FRAME, duration_ms=75.0, t_ms=200.0),
        ev.Audio(sample=FRAME, pcm=sound, t_ms=200.0),
        ev.Revised(from_sample=FRAME, take=1, words=1, t_ms=210.0),
        ev.Wait(reason="compute", sample=FRAME, duration_ms=100.0, t_ms=300.0),
        ev.Audio(sample=FRAME, pcm=sound, t_ms=300.0),
    ]
    trace = collect_trace({}, events)
    line = timeline(trace)
    assert [(run.t_ms, run.start, run.end) for run in line.runs] == [(100.0, 0, FRAME), (300.0, FRAME, 2 * FRAME)]
    assert len(trace.pcm_with_waits()) == 2 * FRAME + round(0.175 * RATE_HZ)


def test_keys_keep_their_typing_times() -> None:
    """A word sent whole at 300 ms: letters at 100, 180 and 180 ms, the space when it was sent."""
    events: list[ev.Event] = [
        ev.TypingTimes(t_ms=300.0, char_start=0, before_ms=[200.0, 120.0, 120.0]),
        ev.TextReceived(t_ms=300.0, char_start=0, text="one "),
        ev.Committed(t_ms=301.0, i=0, word="one", written=0, char_start=0, char_end=3),
        ev.TypingTimes(t_ms=400.0, char_start=4, before_ms=[9000.0]),  # before there was a slot for it
        ev.TextReceived(t_ms=400.0, char_start=4, text="b "),
        ev.Committed(t_ms=401.0, i=1, word="b", written=1, char_start=4, char_end=5),
        ev.Audio(t_ms=450.0, sample=0, pcm=pcm(1)),
        ev.TextReceived(t_ms=500.0, char_start=6, text="c "),
        ev.Ended(t_ms=600.0, samples=FRAME, compute_ms=0.0),
    ]
    line = timeline(collect_trace({}, [*story()[:1], *events]))
    assert [(one.t_ms, one.text) for one in line.keys] == [
        (100.0, "o"), (180.0, "ne"), (300.0, " "), (0.0, "b"), (400.0, " "), (500.0, "c ")
    ]  # fmt: skip
    assert line.text == "one b c " and line.words[0].typed_ms == 100.0


@pytest.mark.parametrize("late_ms", [0.5, 6.0, 80.0])
@pytest.mark.parametrize("frame", [2, 4, 7])
def test_nothing_is_heard_before_it_was_made(late_ms: float, frame: int) -> None:
    """A delayed thread reports audio slightly after the end of its wait."""
    events = [
        replace(one, t_ms=one.t_ms + 100.0 + late_ms) if isinstance(one, ev.Audio) and one.sample == frame * FRAME
        else replace(one, t_ms=one.t_ms + 100.0) if isinstance(one, ev.Audio) and one.sample > frame * FRAME
        else one
        for one in story()
    ]  # fmt: skip
    line = timeline(collect_trace({}, events))
    for word in line.words:
        assert word.made_ms is not None and word.heard_ms is not None and word.made_ms <= word.heard_ms
        assert word.made_whole_ms is not None and word.heard_whole_ms is not None
        assert word.made_whole_ms <= word.heard_whole_ms
    ends = [run.t_ms + 1000.0 * (run.end - run.start) / RATE_HZ for run in line.runs]
    assert all(end <= run.t_ms for end, run in zip(ends, line.runs[1:], strict=False)), "in order"
    assert [one.reason for one in line.pauses] == ["text", "compute"]


def test_missing_credit_does_not_count_against_the_voice() -> None:
    """All but the first segment is made 500 ms late for lack of credit, but shown as if it had been ready."""
    late = [
        replace(one, t_ms=one.t_ms + 500.0) if isinstance(one, ev.Audio) and one.sample >= 4 * FRAME else one
        for one in story()
    ]
    late.insert(-1, ev.Wait(reason="credit", sample=4 * FRAME, duration_ms=500.0, t_ms=1300.0))
    assert timeline(collect_trace({}, late)).runs == timeline(trace()).runs


def test_truncated_trace_is_named_by_path(tmp_path: Path) -> None:
    writer = TraceWriter(tmp_path / "speech" / "a", {})
    writer.write(*story())
    path = writer.close()
    whole = path.read_bytes()
    for left, why in ((len(whole) - 100, "is cut short"), (len(whole) // 4, "is not a readable trace")):
        path.write_bytes(whole[:left])
        with pytest.raises(BadFile, match=f"{re.escape(str(path))} {why}"):
            open_file(path)
        with pytest.raises(
            BadFile, match=rf"^(the trace )?a\.trace {why}"
        ):  # error messages of a server name no folder
            open_trace(path)


KINDS = {"i16": "<i2", "u8": "u1", "f32": "<f4", "i32": "<i4"}


def unpack(data: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    (length,) = struct.unpack_from("<I", data)
    header = json.loads(data[4 : 4 + length])
    arrays: dict[str, np.ndarray] = {}
    for one in header["arrays"]:
        at = 4 + length + one["at"]
        assert at % 4 == 0, "a browser needs aligned arrays"
        arrays[one["name"]] = np.frombuffer(data, KINDS[one["kind"]], one["count"], at)
    return header, arrays


def test_packed_data_round_trips() -> None:
    spoken = trace()
    header, arrays = unpack(pack(spoken))
    assert (arrays["pcm"] == spoken.pcm).all()
    assert (arrays["frames"].reshape(-1, header["channels"]) == spoken.frames).all()
    assert np.allclose(arrays["p_eos"], spoken.p_eos)
    assert (header["frame_samples"], header["levels"], header["eos_at"]) == (600, 16, 0.5)
    assert [word["heard_ms"] for word in header["timeline"]["words"]] == [600.0, 800.0, 875.0]
    assert header["timeline"]["pauses"][0]["reason"] == "text"
    assert not [name for name in header["timeline"] if name.startswith("_")]


def test_recording_has_only_audio() -> None:
    header, arrays = unpack(pack(recording_trace(pcm(), RATE_HZ, "añb \u2028 c")))
    assert (arrays["pcm"] == pcm()).all() and not len(arrays["frames"])
    assert header["timeline"]["heard_by"] == "recording" and header["facts"]["ladder"] == {}


def test_level_and_pitch_are_separate(monkeypatch: pytest.MonkeyPatch) -> None:
    time_s = np.arange(RATE_HZ) / RATE_HZ
    buzz = sum(np.sin(2 * np.pi * 150 * k * time_s) / k for k in range(1, 8))
    sound = recording_trace((5000 * np.asarray(buzz)).astype(np.int16), RATE_HZ, "")
    header, arrays = unpack(pack_prosody(sound.pcm, sound.rate_hz))
    assert (header["step_samples"], header["lacks"]) == (120, "")
    assert len(arrays["pitch"]) == len(arrays["level"]) == 200
    assert np.median(arrays["pitch"]) == pytest.approx(150, rel=0.01)
    assert header["active_db"] == pytest.approx(np.median(arrays["level"]), abs=1.0)
    header, arrays = unpack(pack_prosody(sound.pcm, sound.rate_hz, max_s=0.5))
    assert "left out" in header["lacks"] and len(arrays["level"]) == 200 and not len(arrays["pitch"])
    monkeypatch.setitem(sys.modules, "pyworld.pyworld", None)
    header, arrays = unpack(pack_prosody(sound.pcm, sound.rate_hz))
    assert "pip install" in header["lacks"] and len(arrays["level"]) == 200 and not len(arrays["pitch"])
