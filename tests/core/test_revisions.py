"""Events of an often revised utterance that are still valid: equal to a simple reference, in linear time."""

import random
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from studio.core import events as ev
from studio.core.traces.trace import SentText, Trace, TraceWord, sent_text
from studio.inspection.bundle import pack
from studio.inspection.comparison.compare import compare, compared_utterance
from studio.measure.latency import arrivals

RATE_HZ = 24_000


def trace_of(events: list[ev.Event]) -> Trace:
    pcm = np.zeros(RATE_HZ, np.int16)
    return Trace({"rate_hz": RATE_HZ, "frame_samples": 600}, [*events, ev.Audio(sample=0, pcm=pcm)], pcm)


def by_reference(events: list[ev.Event]) -> tuple[list[TraceWord], list[int], list[ev.Wait], str]:
    """Words, segment starts, waits and text, applying each revision when it comes."""
    words: dict[int, dict[str, Any]] = {}
    spans: dict[int, dict[str, Any]] = {}
    segments: list[ev.Segment] = []
    waits: list[ev.Wait] = []
    text = ""
    for event in events:
        if isinstance(event, ev.TextReceived):
            text = text[: event.char_start] + event.text
        elif isinstance(event, ev.Committed):
            words[event.i] = {name: getattr(event, name) for name in ("written", "char_start", "char_end")}
            words[event.i]["text"] = event.word
        elif isinstance(event, ev.WordStart):
            spans[event.i] = {"start": event.sample, "source": event.source}
        elif isinstance(event, ev.WordEnd):
            spans.setdefault(event.i, {}).update(end=event.sample, source=event.source)
        elif isinstance(event, ev.Segment):
            segments.append(event)
        elif isinstance(event, ev.Wait):
            waits.append(event)
        elif isinstance(event, ev.Revised):
            cut = event.from_sample
            words = {i: word for i, word in words.items() if i < event.words}
            spans = {i: span for i, span in spans.items() if span.get("start", cut) < cut}
            for span in spans.values():
                if span.get("end", 0) > cut:
                    del span["end"]
            segments = [one for one in segments if one.sample < cut]
            waits = [replace(one, sample=min(one.sample, cut)) for one in waits]
    in_force = [TraceWord(i=i, **words[i], **spans.get(i, {})) for i in sorted(words)]
    return in_force, [one.sample for one in segments], sorted(waits, key=lambda one: one.sample), text


def random_events(chance: random.Random) -> list[ev.Event]:
    made: list[ev.Event] = []
    for _ in range(60):
        i, sample = chance.randrange(6), chance.randrange(40)
        kinds: list[ev.Event] = [
            ev.TextReceived(char_start=chance.randrange(12), text="abcdef"[: chance.randrange(7)]),
            ev.Committed(i=i, word="abcdef"[i], written=i, char_start=i, char_end=i + 1),
            ev.WordStart(i=i, sample=sample, source="eos"),
            ev.WordEnd(i=i, sample=sample, source="estimate"),
            ev.Segment(index=i, words=[i], seen=[i], sample=sample, frame=sample),
            ev.Wait(reason="text", sample=sample, duration_ms=float(1 + i)),
            ev.Revised(from_sample=sample, take=1, words=i),
        ]
        made.append(chance.choice(kinds))
    return made


def test_valid_events_equal_the_simple_reference() -> None:
    for seed in range(400):
        events = random_events(random.Random(seed))
        found = trace_of(events)
        words, segments, waits, text = by_reference(events)
        assert found.words() == words, seed
        assert [one.start for one in found.segments()] == segments, seed
        assert found.effective_waits() == waits, seed
        assert sent_text(events) == text, seed


def test_segment_has_the_end_of_its_last_version() -> None:
    segment = ev.Segment(index=1, words=[1], seen=[1], sample=600, frame=1)
    events: list[ev.Event] = [
        ev.Segment(index=0, words=[0], seen=[0, 1], sample=0, frame=0),
        ev.Eos(segment=0, frame=1, p=0.7, forced=False),
        segment,
        ev.Eos(segment=1, frame=3, p=0.9, forced=True),
        ev.Revised(from_sample=600, take=1, words=1),
        segment,
    ]
    assert [(one.p_eos, one.forced) for one in trace_of(events).segments()] == [(0.7, False), (None, False)]
    events.append(ev.Eos(segment=1, frame=2, p=0.8, forced=False))
    assert [(one.p_eos, one.forced) for one in trace_of(events).segments()] == [(0.7, False), (0.8, False)]


def test_word_is_committed_by_its_last_commit() -> None:
    word = ev.Committed(i=0, word="one", written=0, char_start=0, char_end=3)
    events: list[ev.Event] = [
        ev.TextReceived(char_start=0, text="one ", t_ms=10.0),
        replace(word, t_ms=11.0),
        ev.Revised(from_sample=0, take=1, words=0, t_ms=20.0),
        ev.TextReceived(char_start=0, text="two ", t_ms=30.0),
        replace(word, t_ms=31.0),
    ]
    assert arrivals(events[:2]) == {0: 10.0}
    assert arrivals(events[:3]) == {}
    assert arrivals(events) == {0: 30.0}


def revised_often(count: int) -> list[ev.Event]:
    made: list[ev.Event] = [ev.TextReceived(char_start=0, text="a " * count)]
    for i in range(count):
        made.append(ev.Committed(i=i, word="a", written=i, char_start=2 * i, char_end=2 * i + 1))
        made.append(ev.WordStart(i=i, sample=0, source="eos"))
        made.append(ev.WordEnd(i=i, sample=0, source="eos"))
        made.append(ev.Segment(index=i, words=[i], seen=[i], sample=0, frame=0))
        made.append(ev.Wait(reason="text", sample=0, duration_ms=0.001))
    return [*made, *(ev.Revised(from_sample=1, take=k, words=count) for k in range(count))]


def sent_in_pieces(count: int) -> list[ev.Event]:
    long = 400 * count
    made: list[ev.Event] = [ev.TextReceived(char_start=0, text="a" * long)]
    made += [ev.TextReceived(char_start=long + k, text="b") for k in range(count)]
    return [*made, *(ev.TextReceived(char_start=long - k, text="c") for k in range(count))]


def reported_between_waits(count: int) -> list[ev.Event]:
    made: list[ev.Event] = [ev.Played(sample=k, t_ms=100.0 * k) for k in range(count)]
    return [*made, *(ev.Wait(reason="text", sample=k, duration_ms=0.001) for k in range(count))]


@pytest.mark.parametrize("made", [revised_often, sent_in_pieces, reported_between_waits])
def test_long_trace_takes_linear_time(made: Any) -> None:
    """CPU time: minutes if each event costs as much as all before it, a second otherwise."""
    ready = ev.Ready(utterance=1, voice="v", speaker="a", family="f", rate_hz=RATE_HZ, frame_samples=600, seed=1)
    found = trace_of([ready, *made(10_000)])
    began_s = time.thread_time()
    pack(found)
    compare([compared_utterance("one", found), compared_utterance("other", found)])
    assert time.thread_time() - began_s < 20.0


def test_text_may_be_inserted_anywhere() -> None:
    text = SentText()
    assert str(text) == ""
    for at, piece, whole in (
        (0, "Hello ", "Hello "),
        (6, "there", "Hello there"),
        (3, "p", "Help"),
        (99, "!", "Help!"),
    ):
        text.put(at, piece)
        assert (str(text), text.chars) == (whole, len(whole))
    text.put(0, "")
    assert (str(text), text.chars) == ("", 0)
