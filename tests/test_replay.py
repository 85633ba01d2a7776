"""A trace is made again: the same samples, whatever pace, flush or end it had; or what differs is told."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from listening import FRAME, Listener
from tinyvoice import write_tiny_voice
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
from studio.text.normalise import best

pytestmark = pytest.mark.slow

REQUEST = SpeakRequest("tiny", seed=7, options={"m": 3, "n": 1})
TEXT = "one two three four five six "


@pytest.fixture(scope="module")
def voices(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("voices")
    write_tiny_voice(folder)
    return folder


@pytest.fixture(scope="module")
def engine(voices: Path) -> Iterator[Engine]:
    opened = open_engine(voices, best(), device="cpu")
    yield opened
    opened.close()


def spoken(engine: Engine, *, flush_after: int = 0, cancel_at: int = 0, ends: bool = False) -> Trace:
    """Speak, with a flush after so many words that is waited for, or cancelled from a sample on, ended or not."""
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
def test_the_same_samples_come_again(engine: Engine, how: dict[str, int]) -> None:
    before = spoken(engine, **how)
    found = replay(engine, before)
    assert found.is_same and found.samples == len(before.pcm) > 0
    assert found.differences == ()


def test_what_was_broken_off_after_its_end_had_come_is_made_again(engine: Engine) -> None:
    whole = spoken(engine)
    last = whole.segments()[-1].start
    before = spoken(engine, cancel_at=last, ends=True)
    assert last < len(before.pcm), "the last word was begun, which only the text's end lets begin"
    found = replay(engine, before)
    assert found.is_same and found.samples == len(before.pcm)


def test_a_flush_changes_what_is_said_so_it_is_followed(engine: Engine) -> None:
    flushed, plain = spoken(engine, flush_after=2), spoken(engine)
    assert not np.array_equal(flushed.pcm, plain.pcm), "otherwise the test above says nothing"
    kinds = [step.kind for step in replay_script(flushed.events)]
    assert kinds == ["text", "flush", "until", "text", "end"]


def test_words_that_came_before_a_flush_was_acted_on_are_seen_again(engine: Engine) -> None:
    """The first segment was let begin by a flush, with a word in sight that came after it; the next saw no more."""
    utterance = engine.open(replace(REQUEST, options={"m": 6, "n": 1}, credit_samples=0))
    made: list[ev.Event] = []
    events = utterance.events()
    made.append(next(events))  # it has its place
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
def test_a_flush_of_words_that_are_not_there_holds_nothing_up(engine: Engine, words: int) -> None:
    before = spoken(engine)
    events = [replace(event, words=words) if isinstance(event, ev.Flushed) else event for event in before.events]
    events.insert(2, ev.Flushed(words=words))
    before.events[:] = events
    assert replay(engine, before).samples > 0


@pytest.mark.parametrize(
    "told",
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
def test_a_trace_that_was_written_by_nobody_is_refused(engine: Engine, told: dict) -> None:
    before = spoken(engine)
    before.meta.update(told)
    with pytest.raises(BadFile, match="does not say how it was spoken"):
        replay(engine, before)
    before.events.clear()
    before.meta.update({"seed": 1, "temperature": None, "options": {}, "voice": "tiny"})
    with pytest.raises(BadFile, match="holds no events"):
        replay(engine, before)


@pytest.mark.parametrize("told", [{"threads": 2.5}, {"threads": "x"}, {"vocoder": ["a"]}, {"device": 3}])
def test_the_command_refuses_what_nothing_can_be_computed_by(
    engine: Engine, voices: Path, tmp_path: Path, told: dict
) -> None:
    before = spoken(engine)
    writer = TraceWriter(tmp_path / "made", before.meta | told)
    for event in before.events:
        writer.write(event)
    writer.close()
    found = CliRunner().invoke(cli, ["replay", str(tmp_path / "made.trace"), "--voices", str(voices)])
    assert isinstance(found.exception, BadFile) and "how it was computed" in str(found.exception)


def test_what_differs_is_told(engine: Engine) -> None:
    before = spoken(engine)
    before.pcm[1234] += 1
    before.meta["git_sha"] = "abc"
    before.events.append(ev.Ended(samples=0))
    found = replay(engine, before)
    assert (found.is_same, found.first_difference) == (False, 1234)
    assert found.differences[0].startswith("git_sha was abc")


def test_text_that_was_revised_is_spoken_as_it_stood_in_the_end() -> None:
    events = [
        ev.TextReceived(char_start=0, text="one twx"),
        ev.TextReceived(char_start=6, text="o "),
        ev.Revised(from_sample=0, take=1, words=1),
        ev.TextReceived(char_start=8, text="three"),
    ]
    assert "".join(step.text for step in replay_script(events)) == "one two three"


WORDS = "one two three four five six seven eight nine ten ".split(" ")[:-1]


class Writer(Listener):
    """One who hears so much, and then changes his mind."""

    def hears(self, frames: int, played: int = 0) -> None:
        self.utterance.grant(self._heard_samples() + frames * FRAME)
        self.held()
        self.utterance.played(played)


def revised_unheard(writer: Writer) -> None:
    """What no segment has seen."""
    writer.utterance.push_text("one two three four five six seven ")
    writer.hears(20)
    writer.utterance.revise(len("one two three four five "), "other words ")
    writer.utterance.end()


def revised_twice(writer: Writer) -> None:
    """The second one takes back more of the sound than the first."""
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


def revised_after_the_end(writer: Writer) -> None:
    """The last word goes on: it had been committed by the end alone."""
    writer.utterance.push_text("one two three four")
    writer.utterance.end()
    writer.hears(4)
    writer.utterance.revise(len("one two three four"), "teen and more")


def revised_what_was_seen(writer: Writer) -> None:
    """What has been heard saw the words that are others now."""
    writer.utterance.push_text(" ".join(WORDS) + " ")
    writer.utterance.end()
    writer.hears(40, played=20 * FRAME)
    at = writer.utterance.settled_chars()
    writer.utterance.revise(at, "other words ")


def revised_between_flushes(writer: Writer) -> None:
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
def test_revisions_are_followed_where_they_were(engine: Engine, write, window, cut: bool) -> None:
    options = dict(zip(("scheme", "m", "n"), window, strict=True))
    writer = Writer(engine, options, credit_samples=0)
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


def test_the_end_alone_lets_a_last_word_be_planned(engine: Engine) -> None:
    """A flush let the fourth word begin; by then the end had come, and the fifth was said with it."""
    writer = Writer(engine, {"scheme": "S2", "m": 3, "n": 3}, credit_samples=0)
    writer.until(ev.Ready)
    writer.utterance.push_text("one two three four five")
    writer.utterance.flush()
    writer.hears(2)
    writer.utterance.end()
    before = collect_trace(dict(writer.utterance.provenance), writer.rest().events)
    assert [list(one.words) for one in before.segments()] == [[0, 1, 2], [3, 4]]
    assert replay(engine, before).is_same


def test_what_cannot_be_sent_again_ends_the_replay_in_words(engine: Engine) -> None:
    """A revision of what was said by then, as no engine lets it come to pass."""
    before = spoken(engine)
    last = before.segments()[-1].start
    before.events[-1:-1] = [
        ev.TextReceived(char_start=0, text="seven "),
        ev.Revised(from_sample=last, take=1, words=0),
    ]
    found = replay(engine, before)
    assert not found.is_same
    assert any("is refused now: the first" in told for told in found.differences)


def test_a_trace_of_revisions_alone_is_refused(engine: Engine) -> None:
    before = spoken(engine)
    before.events[-1:-1] = [ev.Revised(from_sample=k, take=k, words=0) for k in range(1, MAX_REVISIONS + 1)]
    with pytest.raises(BadFile, match="revised more than"):
        replay(engine, before)


def test_changed_options_are_told_and_nothing_is_said_against_the_result(engine: Engine) -> None:
    before = spoken(engine)
    before.events.insert(-1, ev.OptionsChanged(options={"m": 2}))
    found = replay(engine, before)
    assert found.is_same and found.differences[0].endswith("samples may differ")


def test_the_command_tells_and_its_exit_status_says(engine: Engine, voices: Path, tmp_path: Path) -> None:
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


def test_a_recording_cannot_be_spoken_again(engine: Engine) -> None:
    with pytest.raises(BadFile, match="does not say how"):
        replay(engine, Trace({"rate_hz": 24000}, [ev.Ended(samples=1)], np.ones(1, np.int16)))
