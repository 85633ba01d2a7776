"""Captions: cues in the words as written, with the times of the sound."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from studio.core import events as ev
from studio.core.errors import BadFile
from studio.core.traces.captions import MAX_CUE_S, MAX_LINE_CHARS, MAX_LINES, cues, srt, webvtt, write_captions
from studio.core.traces.trace import Trace

RATE_HZ = 1000


def trace_of(text: str, spans_s: Sequence[tuple[float, float]], waits: Sequence[ev.Wait] = ()) -> Trace:
    """A trace whose tokens are the text's words, each spoken as one word in its span."""
    events: list[ev.Event] = [ev.TextReceived(char_start=0, text=text)]
    at = 0
    for i, (word, (start_s, end_s)) in enumerate(zip(text.split(), spans_s, strict=True)):
        at = text.index(word, at)
        events += [
            ev.Committed(i=i, word=word.lower(), written=i, char_start=at, char_end=at + len(word)),
            ev.WordStart(i=i, sample=round(start_s * RATE_HZ), source="eos"),
            ev.WordEnd(i=i, sample=round(end_s * RATE_HZ), source="eos"),
        ]
        at += len(word)
    return Trace({"rate_hz": RATE_HZ}, [*events, *waits], np.zeros(round(spans_s[-1][1] * RATE_HZ), np.int16))


def in_turn(text: str, word_s: float = 0.3) -> Trace:
    return trace_of(text, [(k * word_s, (k + 1) * word_s) for k in range(len(text.split()))])


def test_words_that_claim_the_whole_text_take_little_memory() -> None:
    text, count = "a" * 100_000, 1000
    events: list[ev.Event] = [ev.TextReceived(char_start=0, text=text)]
    for i in range(count):
        events += [
            ev.Committed(i=i, word="a", written=i, char_start=0, char_end=len(text)),
            ev.WordStart(i=i, sample=i, source="eos"),
            ev.WordEnd(i=i, sample=i + 1, source="eos"),
        ]
    found = cues(Trace({"rate_hz": RATE_HZ}, events, np.zeros(count + 1, np.int16)))
    assert sum(len(line) for cue in found for line in cue.lines) <= len(text)


def test_sentences_have_cues_of_their_own() -> None:
    found = cues(in_turn("Good morning. How are you?"))
    assert [(one.lines, one.start_s, one.end_s) for one in found] == [
        (("Good morning.",), 0.0, pytest.approx(0.6)),
        (("How are you?",), 0.6, pytest.approx(1.5)),
    ]


def test_sentence_that_ends_in_a_quotation_ends_the_cue() -> None:
    assert [one.lines for one in cues(in_turn('He said "Stop!" and left.'))] == [('He said "Stop!"',), ("and left.",)]


def test_full_stop_of_an_abbreviation_ends_no_cue() -> None:
    trace = in_turn("Meet Dr. Smith.")
    trace.events = [
        ev.Committed(i=1, word="doctor", written=1, char_start=5, char_end=8)
        if isinstance(e, ev.Committed) and e.i == 1
        else e
        for e in trace.events
    ]
    assert [one.lines for one in cues(trace)] == [("Meet Dr. Smith.",)]


def test_silence_ends_a_cue() -> None:
    found = cues(trace_of("one two", [(0.0, 0.5), (1.3, 1.6)]))
    assert [one.lines for one in found] == [("one",), ("two",)]
    assert len(cues(trace_of("one two", [(0.0, 0.5), (1.1, 1.6)]))) == 1


def test_lines_and_cues_are_bounded() -> None:
    text = " ".join(f"word{k}" for k in range(60))
    found = cues(in_turn(text, 0.4))
    assert " ".join(line for one in found for line in one.lines) == text
    assert all(len(line) <= MAX_LINE_CHARS for one in found for line in one.lines)
    assert max(len(one.lines) for one in found) == MAX_LINES
    assert max(one.end_s - one.start_s for one in found) <= MAX_CUE_S
    assert all(a.end_s <= b.start_s for a, b in pairwise(found))


def test_number_is_captioned_as_it_is_written() -> None:
    """ "1999" is three spoken words, and one of the caption."""
    events: list[ev.Event] = [ev.TextReceived(char_start=0, text="In 1999 .")]
    for i, (word, first, last, written) in enumerate(
        [("in", 0, 2, 0), ("nineteen", 3, 7, 1), ("ninety", 3, 7, 1), ("nine", 3, 7, 1)]
    ):
        events.append(ev.Committed(i=i, word=word, written=written, char_start=first, char_end=last))
        events.append(ev.WordStart(i=i, sample=100 * i, source="eos"))
        events.append(ev.WordEnd(i=i, sample=100 * (i + 1), source="eos"))
    found = cues(Trace({"rate_hz": RATE_HZ}, events, np.zeros(400, np.int16)))
    assert [(one.lines, one.end_s) for one in found] == [(("In 1999",), 0.4)]


def test_words_that_were_not_spoken_are_left_out() -> None:
    trace = in_turn("one two three")
    trace.events = [e for e in trace.events if not (isinstance(e, ev.WordStart | ev.WordEnd) and e.i == 2)]
    assert [one.lines for one in cues(trace)] == [("one two",)]


def test_times_as_heard_include_the_pauses_before_a_word() -> None:
    waits = [
        ev.Wait(reason="text", sample=500, duration_ms=2000.0),
        ev.Wait(reason="credit", sample=0, duration_ms=9e3),
    ]
    trace = trace_of("one two", [(0.0, 0.5), (0.5, 1.0)], waits)
    assert [(one.start_s, one.end_s) for one in cues(trace, as_heard=True)] == [(0.0, 0.5), (2.5, 3.0)]
    assert [(one.start_s, one.end_s) for one in cues(trace)] == [(0.0, 1.0)]


def test_srt_and_webvtt_are_written_as_players_read_them(tmp_path: Path) -> None:
    trace = trace_of("A<b> & c. Next", [(0.0, 0.25), (0.25, 0.5), (0.5, 1.0), (3661.0, 3661.5)])
    found = cues(trace)
    assert srt(found) == ("1\n00:00:00,000 --> 00:00:01,000\nA<b> & c.\n\n2\n01:01:01,000 --> 01:01:01,500\nNext\n")
    assert webvtt(found) == (
        "WEBVTT\n\n00:00:00.000 --> 00:00:01.000\nA&lt;b&gt; &amp; c.\n\n01:01:01.000 --> 01:01:01.500\nNext\n"
    )
    assert write_captions(trace, tmp_path / "a.srt") == 2 and (tmp_path / "a.srt").read_text() == srt(found)
    assert write_captions(trace, tmp_path / "a.VTT") == 2 and (tmp_path / "a.VTT").read_text() == webvtt(found)


def test_sound_without_word_times_has_no_captions(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="no word of it has a time"):
        write_captions(Trace({"rate_hz": RATE_HZ}, [], np.zeros(10, np.int16)), tmp_path / "a.srt")
    assert not (tmp_path / "a.srt").exists()
