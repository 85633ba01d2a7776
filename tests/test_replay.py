"""Replaying a trace gives the same samples for any pacing, flush or end, or reports the difference."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from listening import FRAME, Listener
from serve.serving import eventually
from typer.testing import CliRunner

from studio.cli import cli
from studio.core import events as ev
from studio.core.errors import BadFile
from studio.core.ports import Engine, SpeakRequest
from studio.core.traces.trace import Trace, collect_trace
from studio.core.traces.trace_writer import TraceWriter
from studio.engine.engine import open_engine
from studio.inspection.replay import replay
from studio.inspection.replay_script import MAX_REVISIONS, replay_script
from studio.markup import stretched
from studio.markup.parts import MarkedEngine
from studio.text.normalise import best

pytestmark = pytest.mark.slow

REQUEST = SpeakRequest("tiny", seed=7, options={"m": 3, "n": 1})
TEXT = "one two three four five six "


@pytest.fixture(scope="module")
def engine(voices: Path) -> Iterator[Engine]:
    opened = open_engine(voices, best(), device="cpu")
    yield opened
    opened.close()


def spoken(engine: Engine, *, flush_after: int = 0, cancel_at: int = 0, ends: bool = False) -> Trace:
    """Speak, with a flush after a word, or cancelled from a sample on, ended or not."""
    utterance = engine.open(REQUEST)
    words = TEXT.split()
    first = " ".join(words[:flush_after]) + " " if flush_after else TEXT
    utterance.push_text(first)
    if flush_after:
        utterance.flush()
    elif ends or not cancel_at:
        utterance.end()
    made: list[ev.Event] = []
    for event in utterance.events():
        made.append(event)
        if flush_after and isinstance(event, ev.WordEnd) and event.i == flush_after - 1:
            utterance.push_text(" ".join(words[flush_after:]))
            utterance.end()
        if cancel_at and isinstance(event, ev.Audio) and event.sample >= cancel_at:
            utterance.cancel()
    return collect_trace(dict(utterance.provenance), made)


@pytest.mark.parametrize("how", [{}, {"flush_after": 2}, {"flush_after": 4}, {"cancel_at": 3000}])
def test_same_samples_are_generated(engine: Engine, how: dict[str, int]) -> None:
    before = spoken(engine, **how)
    found = replay(engine, before)
    assert found.is_same and found.samples == len(before.pcm) > 0
    assert found.differences == ()


def test_utterance_cancelled_after_its_end_is_replayed(engine: Engine) -> None:
    whole = spoken(engine)
    last = whole.segments()[-1].start
    before = spoken(engine, cancel_at=last, ends=True)
    assert last < len(before.pcm), "the last word was started, which needs the end of the text"
    found = replay(engine, before)
    assert found.is_same and found.samples == len(before.pcm)


def test_flush_changes_the_speech_so_it_is_replayed(engine: Engine) -> None:
    flushed, plain = spoken(engine, flush_after=2), spoken(engine)
    assert not np.array_equal(flushed.pcm, plain.pcm), "otherwise the previous test is trivial"
    kinds = [step.kind for step in replay_script(flushed.events)]
    assert kinds == ["text", "flush", "until", "text", "end"]


def test_words_sent_before_a_flush_took_effect_are_visible_again(engine: Engine) -> None:
    """The first segment was started by a flush and saw a word sent after it; the next saw no more."""
    utterance = engine.open(replace(REQUEST, options={"m": 6, "n": 1}, credit_samples=0))
    made: list[ev.Event] = []
    events = utterance.events()
    made.append(next(events))  # it has its slot
    utterance.push_text("one two three, ")
    utterance.flush()
    utterance.push_text("four ")
    utterance.grant(2**40)
    for event in events:
        made.append(event)
        if isinstance(event, ev.WordEnd) and event.i == 2:
            utterance.push_text("five six")
            utterance.end()
    before = collect_trace(dict(utterance.provenance), made)
    assert [list(one.seen) for one in before.segments()][:4] == [[0, 1, 2, 3], [1, 2, 3], [2, 3], [3, 4, 5]]
    kinds = [step.kind for step in replay_script(before.events)]
    assert kinds == ["text", "flush", "text", "until", "text", "end"]
    assert replay(engine, before).is_same


@pytest.mark.parametrize("words", [-9, 3, 10**6])
def test_flush_without_words_does_not_block(engine: Engine, words: int) -> None:
    before = spoken(engine)
    events = [replace(event, words=words) if isinstance(event, ev.Flushed) else event for event in before.events]
    events.insert(2, ev.Flushed(words=words))
    before.events[:] = events
    assert replay(engine, before).samples > 0


@pytest.mark.parametrize(
    "change",
    [
        {"seed": "1"},
        {"seed": 1.5},
        {"seed": True},
        {"temperature": "hot"},
        {"temperature": [1]},
        {"options": [[1, 3]]},
        {"voice": 3},
    ],
)
def test_trace_without_provenance_is_refused(engine: Engine, change: dict) -> None:
    before = spoken(engine)
    before.meta.update(change)
    with pytest.raises(BadFile, match="does not say how it was spoken"):
        replay(engine, before)
    before.events.clear()
    before.meta.update({"seed": 1, "temperature": None, "options": {}, "voice": "tiny"})
    with pytest.raises(BadFile, match="holds no events"):
        replay(engine, before)


@pytest.mark.parametrize("change", [{"threads": 2.5}, {"threads": "x"}, {"vocoder": ["a"]}, {"device": 3}])
def test_command_refuses_traces_that_cannot_be_computed(
    engine: Engine, voices: Path, tmp_path: Path, change: dict
) -> None:
    before = spoken(engine)
    writer = TraceWriter(tmp_path / "made", before.meta | change)
    for event in before.events:
        writer.write(event)
    writer.close()
    found = CliRunner().invoke(cli, ["replay", str(tmp_path / "made.trace"), "--voices", str(voices)])
    assert isinstance(found.exception, BadFile) and "how it was computed" in str(found.exception)


def test_differences_are_reported(engine: Engine) -> None:
    before = spoken(engine)
    before.pcm[1234] += 1
    before.meta["git_sha"] = "abc"
    before.events.append(ev.Ended(samples=0))
    found = replay(engine, before)
    assert (found.is_same, found.first_difference) == (False, 1234)
    assert found.differences[0].startswith("git_sha was abc")


def test_revised_text_is_spoken_in_its_final_version() -> None:
    events = [
        ev.TextReceived(char_start=0, text="one twx"),
        ev.TextReceived(char_start=6, text="o "),
        ev.Revised(from_sample=0, take=1, words=1),
        ev.TextReceived(char_start=8, text="three"),
    ]
    assert "".join(step.text for step in replay_script(events)) == "one two three"


WORDS = "one two three four five six seven eight nine ten ".split(" ")[:-1]


class ChangingWriter(Listener):
    """A writer who hears some samples and then edits."""

    def hears(self, frames: int, played: int = 0) -> None:
        self.utterance.grant(self._heard_samples() + frames * FRAME)
        self.held()
        self.utterance.played(played)


def revised_unheard(writer: ChangingWriter) -> None:
    """Text that no segment has seen."""
    writer.utterance.push_text("one two three four five six seven ")
    writer.hears(20)
    writer.utterance.revise(len("one two three four five "), "other words ")
    writer.utterance.end()


def revised_twice(writer: ChangingWriter) -> None:
    """The second edit revises more audio than the first."""
    writer.utterance.push_text("one two three four five six seven eight ")
    writer.hears(30)
    writer.utterance.revise(len("one two three four five "), "other and more ")
    writer.until(ev.Revised)
    writer.hears(8)
    writer.utterance.revise(len("one two three "), "words now and here ")
    writer.until(ev.Revised)
    writer.hears(3)
    writer.utterance.revise(len("one two three words now "), "or then")
    writer.utterance.end()


def revised_after_the_end(writer: ChangingWriter) -> None:
    """The last word, committed by the end of the text, is extended."""
    writer.utterance.push_text("one two three four")
    writer.utterance.end()
    writer.hears(4)
    writer.utterance.revise(len("one two three four"), "teen and more")


def revised_what_was_seen(writer: ChangingWriter) -> None:
    """Words that were look-ahead of heard audio."""
    writer.utterance.push_text(" ".join(WORDS) + " ")
    writer.utterance.end()
    writer.hears(40, played=20 * FRAME)
    at = writer.utterance.settled_chars()
    writer.utterance.revise(at, "other words ")


def revised_between_flushes(writer: ChangingWriter) -> None:
    writer.utterance.push_text("one two ")
    writer.utterance.flush()
    writer.hears(8)
    writer.utterance.revise(len("one two "), "three four five ")
    writer.utterance.flush()
    writer.hears(12)
    writer.utterance.push_text("six seven")
    writer.utterance.end()


@pytest.mark.parametrize("window", [("S1", 3, 1), ("S2", 3, 1), ("S1", 4, 2), ("S1", 1, 1)])
@pytest.mark.parametrize(
    "write", [revised_unheard, revised_twice, revised_after_the_end, revised_what_was_seen, revised_between_flushes]
)
@pytest.mark.parametrize("cut", [False, True])
def test_revisions_are_replayed_at_their_position(engine: Engine, write, window, cut: bool) -> None:
    options = dict(zip(("scheme", "m", "n"), window, strict=True))
    writer = ChangingWriter(engine, options, credit_samples=0)
    writer.until(ev.Ready)
    write(writer)
    if cut:
        writer.utterance.grant(writer._heard_samples() + 8 * FRAME)
        writer.until(ev.Audio)
        writer.utterance.cancel()
    before = collect_trace(dict(writer.utterance.provenance), writer.rest().events)
    assert any(isinstance(one, ev.Revised) for one in before.events) or write is revised_between_flushes
    found = replay(engine, before)
    assert found.is_same and found.samples == len(before.pcm) > 0
    assert found.differences == ()


@pytest.mark.parametrize("speed", [0.5, 0.8, 1.3, 2.0])
def test_revisions_at_a_speed_are_replayed(engine: Engine, speed: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was played is not revised, and it is as much of the voice in both."""
    monkeypatch.setattr(stretched, "IDLE_MS", 60_000.0)  # no seam on a busy machine
    utterance: Any = MarkedEngine(engine, "plain", speed).open(replace(REQUEST, credit_samples=0))
    utterance.push_text(" ".join(WORDS) + " ")
    utterance.end()
    utterance.grant(round(40 * FRAME / speed))
    made: list[ev.Event] = []

    def is_made() -> bool:
        made.extend(utterance.poll_events())
        return utterance._made + FRAME > utterance._granted

    eventually(is_made, "what the credit allows")
    utterance.played(round(20 * FRAME / speed))
    utterance.revise(utterance.settled_chars(), "other words ")
    utterance.grant(10**9)
    made += utterance.events()
    before = collect_trace(dict(utterance.provenance), made)
    assert any(isinstance(one, ev.Revised) for one in before.events)
    monkeypatch.setattr("studio.inspection.replay._IDLE_S", 60.0)
    began_s = time.monotonic()
    found = replay(engine, before)
    assert found.is_same and found.samples == len(before.pcm) > 0
    assert found.differences == ()
    assert time.monotonic() - began_s < 50.0, "it waits for no sound that a stretcher holds back"


@pytest.mark.parametrize("speed", [0.5, 1.3, 2.0])
def test_a_cancel_at_a_speed_is_replayed(engine: Engine, speed: float) -> None:
    """The stretcher ended where it was cancelled, and does so again."""
    utterance = MarkedEngine(engine, "plain", speed).open(replace(REQUEST, credit_samples=0))
    utterance.push_text(TEXT)
    utterance.end()
    utterance.grant(round(24 * FRAME / speed))
    made: list[ev.Event] = []
    for event in utterance.events():
        made.append(event)
        if isinstance(event, ev.Audio) and event.sample >= round(12 * FRAME / speed):
            utterance.cancel()
    before = collect_trace(dict(utterance.provenance), made)
    assert any(isinstance(one, ev.Cancelled) for one in before.events)
    found = replay(engine, before)
    assert found.is_same and found.samples == len(before.pcm) > 0
    assert found.differences == ()


def test_a_seam_at_a_speed_is_named(engine: Engine) -> None:
    """The voice had seconds of sound ahead, so the listener waited for nothing; the stretcher ended all the same."""
    utterance: Any = MarkedEngine(engine, "plain", 1.5).open(REQUEST)
    utterance.push_text("one two three four ")
    made: list[ev.Event] = []

    def is_parted() -> bool:
        made.extend(utterance.poll_events())
        return utterance.made_samples == utterance.sent_samples > 0

    eventually(is_parted, "the end of what was held back")
    utterance.push_text("five six")
    utterance.end()
    made += utterance.events()
    found = replay(engine, collect_trace(dict(utterance.provenance), made))
    assert found.is_same or any("seams at another speed" in one for one in found.differences)


def test_end_of_text_alone_starts_a_last_word(engine: Engine) -> None:
    """A flush starts the fourth word; the end had come by then, so the fifth was spoken with it."""
    writer = ChangingWriter(engine, {"scheme": "S2", "m": 3, "n": 3}, credit_samples=0)
    writer.until(ev.Ready)
    writer.utterance.push_text("one two three four five")
    writer.utterance.flush()
    writer.hears(2)
    writer.utterance.end()
    before = collect_trace(dict(writer.utterance.provenance), writer.rest().events)
    assert [list(one.words) for one in before.segments()] == [[0, 1, 2], [3, 4]]
    assert replay(engine, before).is_same


def test_unsendable_revision_ends_the_replay_with_a_reason(engine: Engine) -> None:
    """A revision of audio already heard, which no engine accepts."""
    before = spoken(engine)
    last = before.segments()[-1].start
    before.events[-1:-1] = [ev.TextReceived(char_start=0, text="seven "), ev.Revised(from_sample=last, take=1, words=0)]
    found = replay(engine, before)
    assert not found.is_same
    assert any("is refused now: the first" in change for change in found.differences)


def test_trace_with_only_revisions_is_refused(engine: Engine) -> None:
    before = spoken(engine)
    before.events[-1:-1] = [ev.Revised(from_sample=k, take=k, words=0) for k in range(1, MAX_REVISIONS + 1)]
    with pytest.raises(BadFile, match="revised more than"):
        replay(engine, before)


def test_changed_options_are_reported_without_a_verdict(engine: Engine) -> None:
    before = spoken(engine)
    before.events.insert(-1, ev.OptionsChanged(options={"m": 2}))
    found = replay(engine, before)
    assert found.is_same and found.differences[0].endswith("samples may differ")


def test_command_reports_and_sets_its_exit_status(engine: Engine, voices: Path, tmp_path: Path) -> None:
    before = spoken(engine)
    writer = TraceWriter(tmp_path / "a", before.meta)
    writer.write(*before.events)
    path = writer.close()
    done = CliRunner().invoke(cli, ["replay", str(path), "--voices", str(voices)])
    assert done.exit_code == 0 and "bit for bit" in done.stdout
    before.pcm[600] ^= 1
    writer = TraceWriter(tmp_path / "b", before.meta)
    writer.write(*(one for one in before.events if not isinstance(one, ev.Audio)))
    writer.write(ev.Audio(sample=0, pcm=before.pcm))
    done = CliRunner().invoke(cli, ["replay", str(writer.close()), "--voices", str(voices)])
    assert done.exit_code == 1 and "differs is 600, at 0.025 s" in done.stdout


def test_recording_cannot_be_synthesised_again(engine: Engine) -> None:
    with pytest.raises(BadFile, match="does not say how"):
        replay(engine, Trace({"rate_hz": 24000}, [ev.Ended(samples=1)], np.ones(1, np.int16)))
