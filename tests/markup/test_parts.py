"""Utterances in parts: counted through as one, with silence between them and rates of their own."""

import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from fakes import FakeEngine
from serve.serving import eventually
from tones import FRAME_SAMPLES, RATE_HZ, Script

from studio.core import events as ev
from studio.core.errors import Busy, Closed, StudioError
from studio.core.ports import SpeakRequest
from studio.core.speaking import speak_once
from studio.core.traces.trace import Trace, collect_trace
from studio.markup.parts import MarkedEngine, open_marked
from studio.markup.stretching import Stretcher


def engine_of(**script: Any) -> Any:
    return FakeEngine(Script(**{"speed": 50.0, **script}))


def spoken(text: str, markup: str = "ssml", engine: Any = None) -> Trace:
    return speak_once(MarkedEngine(engine or engine_of(), markup), SpeakRequest(), text)


def silences(pcm: np.ndarray, shortest_s: float = 0.2) -> list[float]:
    """Lengths of exact silence in seconds."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], (pcm == 0).astype(np.int8), [0]])))
    lengths = (edges[1::2] - edges[::2]) / RATE_HZ
    return [round(float(one), 2) for one in lengths if one >= shortest_s]


def check(trace: Trace) -> None:
    """What holds of every utterance."""
    assert isinstance(trace.events[-1], ev.Ended) and trace.events[-1].samples == len(trace.pcm)
    times = [one.t_ms for one in trace.events]
    assert times == sorted(times)
    words = trace.words()
    assert [one.i for one in words] == [*range(len(words))]
    edges = [edge for one in words for edge in (one.start, one.end) if edge is not None]
    assert len(edges) == 2 * len(words) and edges == sorted(edges) and edges[-1] <= len(trace.pcm)
    text = "".join(one.text for one in trace.events if isinstance(one, ev.TextReceived))
    for one in words:
        assert text[one.char_start : one.char_end].strip(".,!?").lower() == one.text.strip(".,!?")
    assert sum(isinstance(one, ev.Ready) for one in trace.events) == 1
    written = [one.written for one in words]
    assert written == sorted(written)


def test_a_break_is_silence_in_one_utterance() -> None:
    trace = spoken('One two.<break time="1s"/>Three <break time="500ms"/> four.')
    check(trace)
    assert [one.text for one in trace.words()] == ["one", "two.", "three", "four."]
    assert silences(trace.pcm) == [1.0, 0.5]
    two, three = trace.words()[1:3]
    assert three.start is not None and two.end is not None and three.start - two.end >= RATE_HZ


def test_breaks_at_the_ends_and_next_to_each_other() -> None:
    trace = spoken('<break time="300ms"/><break time="200ms"/>One.<break time="1s"/><break time="1s"/>')
    check(trace)
    assert silences(trace.pcm) == [0.5, 2.0]
    assert not trace.pcm[: RATE_HZ // 2].any() and not trace.pcm[-2 * RATE_HZ :].any()


@pytest.mark.parametrize("rate", ["50%", "0.8", "fast", "200%", "+25%"])
def test_a_rate_changes_the_length_and_keeps_the_pitch(rate: str) -> None:
    usual, other = (spoken(f'<prosody rate="{one}">One two three four.</prosody>') for one in ("100%", rate))
    check(other)
    factor = {"50%": 0.5, "0.8": 0.8, "fast": 1.3, "200%": 2.0, "+25%": 1.25}[rate]
    assert abs(len(other.pcm) - len(usual.pcm) / factor) < 2
    loudest = [float(np.abs(np.fft.rfft(one.pcm)).argmax() * RATE_HZ / len(one.pcm)) for one in (usual, other)]
    assert abs(loudest[0] - loudest[1]) < 5.0
    for a, b in zip(usual.words(), other.words(), strict=True):
        assert a.start is not None and b.start is not None and abs(a.start / factor - b.start) < 2


def test_a_rate_within_a_text_is_a_part_of_its_own() -> None:
    trace = spoken('One two <prosody rate="50%">three four</prosody> five.')
    check(trace)
    assert [one.text for one in trace.words()] == ["one", "two", "three", "four", "five."]
    lengths = [one.end - one.start for one in trace.words() if one.end is not None and one.start is not None]
    assert 1.8 < lengths[2] / (lengths[0] * 5 / 3) < 2.2


TEXT = 'One two. <break time="1.0s" />Three <b>four</b> < five <break/> six <brea time="1s"/> <break time=1s> end.'


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_breaks_are_read_however_the_text_is_cut(size: int) -> None:
    whole = spoken(TEXT, "breaks")
    check(whole)
    assert silences(whole.pcm) == [1.0, 0.4]
    utterance = open_marked(engine_of(), SpeakRequest(), "breaks")
    for at in range(0, len(TEXT), size):
        utterance.push_text(TEXT[at : at + size])
    utterance.end()
    cut = collect_trace(utterance.provenance, utterance.events())
    assert np.array_equal(cut.pcm, whole.pcm) and [*map(vars, cut.words())] == [*map(vars, whole.words())]


def test_text_behind_a_break_is_spoken_as_it_comes() -> None:
    utterance = open_marked(engine_of(), SpeakRequest(), "breaks")
    events = utterance.events()
    utterance.push_text('One two three four. <break time="1s"/>')
    heard = 0
    while heard < 1.5 * RATE_HZ:  # the words and the silence, before there is more text
        heard += sum(len(one.pcm) for one in [next(events)] if isinstance(one, ev.Audio))
    utterance.push_text("Five six seven eight nine ")
    next(one for one in events if isinstance(one, ev.WordStart) and one.i == 4)
    utterance.flush()
    assert next(one for one in events if isinstance(one, ev.Flushed)).words == 9
    utterance.end()
    assert isinstance([*events][-1], ev.Ended)


def test_credit_is_kept_and_a_long_pause_does_not_use_it_up() -> None:
    utterance = open_marked(engine_of(speed=500.0), SpeakRequest(credit_samples=2400), "breaks")
    utterance.push_text('One two three. <break time="9s"/> Four five six. <break time="3s"/> Seven.')
    utterance.end()
    sent = granted = 0
    for event in utterance.events():
        if isinstance(event, ev.Audio):
            assert event.sample == sent
            sent += len(event.pcm)
            silent = not event.pcm.any()
            assert silent or sent <= max(2400, granted) + FRAME_SAMPLES
            granted = sent + 2400
            utterance.grant(granted)
        last = event
    assert isinstance(last, ev.Ended) and last.samples == sent > 12 * RATE_HZ


@pytest.mark.parametrize("text", ["<emphasis>x</emphasis>", "a & b", "<break time='11s'/>x", "a<break/>" * 200, " "])
def test_wrong_markup_fails_in_words_and_frees_the_slot(text: str) -> None:
    engine = engine_of()
    last = spoken(text, engine=engine).events[-1]
    assert isinstance(last, ev.Failed) and last.code == "bad_text" and len(last.message) > 20
    until_s = time.monotonic() + 10.0
    while engine.free_slots() < engine.places:
        assert time.monotonic() < until_s


def test_what_is_not_spoken_between_breaks_is_no_end() -> None:
    trace = spoken('One <break time="1s"/> ! <break time="1s"/> two.')
    assert isinstance(trace.events[-1], ev.Ended)
    assert [one.text for one in trace.words()] == ["one", "two."]


def test_a_busy_engine_fails_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engine_of()
    utterance = open_marked(engine, SpeakRequest(), "breaks")

    def full(request: SpeakRequest) -> Any:
        raise Busy("all slots are taken", "try again")

    monkeypatch.setattr(engine, "open", full)
    utterance.push_text('One two. <break time="1s"/> Three.')
    utterance.end()
    last = [*utterance.events()][-1]
    assert isinstance(last, ev.Failed) and last.code == "busy"


def test_a_bug_of_the_engine_ends_the_utterance(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engine_of()
    utterance = open_marked(engine, SpeakRequest(), "breaks")

    def broken(request: SpeakRequest) -> Any:
        raise ValueError("a bug")

    monkeypatch.setattr(engine, "open", broken)
    utterance.push_text('One two. <break time="1s"/> Three.')
    utterance.end()
    last = [*utterance.events()][-1]
    assert isinstance(last, ev.Failed) and "this utterance failed" in last.message


@pytest.mark.parametrize("until_s", [0.0, 0.3, 1.0, 1.5, 2.0, 2.6, 3.0, 5.0])
def test_a_cancel_tells_the_words_that_were_played(until_s: float) -> None:
    """In a part, in a pause, in the part after it, and before anything was played."""
    whole = spoken('One two. <break time="1s"/> Three four. <break time="1s"/> Five.', "breaks")
    engine = engine_of()
    utterance = open_marked(engine, SpeakRequest(), "breaks")
    utterance.push_text('One two. <break time="1s"/> Three four. <break time="1s"/> Five.')
    utterance.end()
    events: list[ev.Event] = []
    sent = 0
    for event in utterance.events():
        events.append(event)
        sent += len(event.pcm) if isinstance(event, ev.Audio) else 0
        if sent >= until_s * RATE_HZ:
            break
    sample = min(round(until_s * RATE_HZ), sent)
    utterance.cancel(sample)
    events += utterance.events()
    cancelled = [one for one in events if isinstance(one, ev.Cancelled)]
    if not cancelled:  # it had ended
        assert isinstance(events[-1], ev.Ended)
        return
    heard = [one.i for one in whole.words() if one.end is not None and one.end <= sample]
    assert cancelled[0].heard == heard
    begun = [one.i for one in whole.words() if one.start is not None and one.start < sample]
    assert cancelled[0].word == (begun[-1] if begun else None)
    assert isinstance(events[-1], ev.Ended)
    assert cancelled[0].char_end == max((one.char_end for one in whole.words() if one.i in heard), default=0)
    assert not engine.speaking or time.sleep(0.5) or not engine.speaking


def test_no_sound_follows_a_cancel() -> None:
    """Sound that is being stretched is held back; a cancel sends it before it tells what was heard."""
    utterance = open_marked(engine_of(), SpeakRequest(), "ssml")
    utterance.push_text('<prosody rate="slow">One two three four five six.</prosody> Seven.')
    utterance.end()
    events: list[ev.Event] = []
    for event in utterance.events():
        events.append(event)
        if isinstance(event, ev.WordEnd) and event.i == 1:
            utterance.cancel(event.sample)
    after = events[next(k for k, one in enumerate(events) if isinstance(one, ev.Cancelled)) + 1 :]
    assert [type(one) for one in after] == [ev.Ended]


@pytest.mark.parametrize("rate", ["50%", "200%"])
def test_no_word_ends_behind_the_sound_of_a_cancel(rate: str) -> None:
    text = f'<prosody rate="{rate}">One two three four five six.</prosody>'
    end = spoken(text).words()[1].end
    assert end is not None
    utterance = open_marked(engine_of(), SpeakRequest(credit_samples=0), "ssml")
    utterance.push_text(text)
    utterance.end()
    utterance.grant(end)
    heard = list[ev.Event]()
    for event in utterance.events():
        heard.append(event)
        if isinstance(event, ev.WordEnd) and event.i == 1:
            utterance.cancel(0)
    sound = [len(one.pcm) for one in heard if isinstance(one, ev.Audio)]
    assert isinstance(heard[-1], ev.Ended) and heard[-1].samples == sum(sound) == end


def test_a_failure_leaves_the_sound_before_it() -> None:
    whole = spoken('<prosody rate="50%">One two</prosody>')
    failed = spoken('<prosody rate="50%">One two three four five.</prosody>', engine=engine_of(fail_at_word=2))
    assert any(isinstance(one, ev.Failed) for one in failed.events)
    assert len(failed.pcm) == len(whole.pcm)


def test_a_cancel_between_two_parts_is_no_end_of_the_text() -> None:
    """The part has ended, and nobody has read that yet."""
    engine = engine_of()
    utterance = open_marked(engine, SpeakRequest(), "breaks")
    utterance.push_text('One. <break time="1s"/> Two.')
    utterance.end()
    eventually(lambda: not engine.speaking, "the end of the first part")
    utterance.cancel(0)
    events = [*utterance.events()]
    assert [type(one) for one in events[-2:]] == [ev.Cancelled, ev.Ended]
    assert [one.word for one in events if isinstance(one, ev.Committed)] == ["one."]


def test_no_revision_and_no_text_after_the_end() -> None:
    utterance = open_marked(engine_of(), SpeakRequest(), "ssml")
    utterance.push_text("One.")
    with pytest.raises(StudioError, match="revised"):
        utterance.revise(0, "Two.")
    utterance.end()
    with pytest.raises(Closed):
        utterance.push_text("more")
    assert isinstance([*utterance.events()][-1], ev.Ended)


def test_frames_and_segments_stay_in_step() -> None:
    trace = spoken('One two. <break time="1s"/> Three four five six.')
    indices = [one.index for one in trace.segments()]
    assert indices == [*range(len(indices))]
    starts = [one.start for one in trace.segments()]
    assert starts == sorted(starts)
    for one, other in pairwise(trace.segments()):
        assert one.end == other.start


@pytest.mark.parametrize("pieces", [[2400] * 20, [48_000], [1, 599, 30_000, 7]])
def test_the_stretcher_is_a_stream(pieces: Sequence[int]) -> None:
    pcm = (8000 * np.sin(2 * np.pi * 220 * np.arange(sum(pieces)) / RATE_HZ)).astype(np.int16)
    stretcher, at, out = Stretcher(RATE_HZ, 0.5), 0, []
    for size in pieces:
        out.append(stretcher.feed(pcm[at : at + size]))
        at += size
    made = np.concatenate([*out, stretcher.finish()])
    assert abs(len(made) - 2 * len(pcm)) < 0.05 * RATE_HZ and made.dtype == np.int16


def test_rates_and_speed_tell_the_engine_how_fast_its_sound_is_played() -> None:
    engine = engine_of()
    utterance = open_marked(engine, SpeakRequest(), "ssml", 2.0)
    utterance.push_text('<prosody rate="50%">One two</prosody> three. <break time="1s"/> Four.')
    utterance.end()
    assert isinstance([*utterance.events()][-1], ev.Ended)
    assert [one.pace for one in engine.opened] == [1.0, 2.0, 2.0]
