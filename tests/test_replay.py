"""A trace is made again: the same samples, whatever pace, flush or end it had; or what differs is told."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tinyvoice import write_tiny_voice
from typer.testing import CliRunner

from studio.cli import cli
from studio.core import events as ev
from studio.core.errors import BadFile
from studio.core.ports import Engine, SpeakRequest
from studio.core.traces.trace import Trace, TraceWriter, collect
from studio.engine.loop import open_engine
from studio.replay import replay, script
from studio.text.normalise import best

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
    return collect(dict(utterance.provenance), made)


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
    kinds = [step.kind for step in script(flushed.events)]
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
    before = collect(dict(utterance.provenance), made)
    assert [list(one.seen) for one in before.segments()][:4] == [[0, 1, 2, 3], [1, 2, 3], [2, 3], [3, 4, 5]]
    kinds = [step.kind for step in script(before.events)]
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
    assert isinstance(found.exception, BadFile) and "by what it was computed" in str(found.exception)


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
        ev.Text(char_start=0, text="one twx"),
        ev.Text(char_start=6, text="o "),
        ev.Revised(from_sample=0, take=1, words=1),
        ev.Text(char_start=8, text="three"),
    ]
    assert "".join(step.text for step in script(events)) == "one two three"


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
