"""An utterance's life: waits, credit, cancel, options in mid-text, pastes, words that cannot be said."""

import time

import pytest
from tinyvoice import write_tiny_voice

from studio.core import events as ev
from studio.core.ports import SpeakRequest
from studio.engine.loop import open_engine
from studio.text.normalise import best


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    """A tiny voice of segments of about half a second."""
    root = tmp_path_factory.mktemp("voices")
    write_tiny_voice(root)
    engine = open_engine(root, best(), device="cpu", threads=1)
    yield engine
    engine.close()


def until(stream, kind, count: int = 1) -> list[ev.Event]:
    """Events up to the count-th of a kind."""
    got = []
    while count:
        got.append(next(stream))
        assert not ev.is_last(got[-1]) or kind is ev.Ended
        count -= isinstance(got[-1], kind)
    return got


def test_credit_is_never_exceeded_and_waiting_for_it_is_no_stall(engine):
    utterance = engine.open(SpeakRequest(credit_samples=6_000))
    utterance.push_text("several words are here to be spoken by it")
    utterance.end()
    stream = utterance.events()
    until(stream, ev.Audio, 10)
    time.sleep(0.3)
    assert utterance._samples == 6_000
    utterance.grant(12_000)
    got = until(stream, ev.Audio, 10)
    waits = [e for e in got if isinstance(e, ev.Wait)]
    assert [w.reason for w in waits] == ["credit"] and waits[0].sample == 6_000 and waits[0].duration_ms > 0
    utterance.grant(10**9)
    assert isinstance(list(stream)[-1], ev.Ended)


def test_waiting_for_text_is_a_wait_of_its_length(engine):
    utterance = engine.open(SpeakRequest(options={"m": 1, "n": 1}))
    stream = utterance.events()
    utterance.push_text("one ")
    got = until(stream, ev.Eos)
    made_ms = 1000 * sum(len(e.pcm) for e in got if isinstance(e, ev.Audio)) / 24_000
    time.sleep(made_ms / 1000 + 0.3)
    utterance.push_text("two ")
    wait = until(stream, ev.Wait)[-1]
    assert wait.reason == "text" and 200 < wait.duration_ms < 1500
    utterance.cancel()
    list(stream)


def test_a_place_is_free_with_the_last_event(tmp_path):
    write_tiny_voice(tmp_path)
    engine = open_engine(tmp_path, best(), device="cpu", threads=1, places=1)
    turn = engine._turn

    def then_dawdle(utterance):
        did = turn(utterance)
        time.sleep(0.05)
        return did

    engine._turn = then_dawdle
    for _ in range(3):
        utterance = engine.open(SpeakRequest())
        utterance.cancel()
        list(utterance.events())
        assert engine.places_free() == 1
    engine.close()


def test_cancel_says_what_was_heard_and_frees_the_place(engine):
    free = engine.places_free()
    utterance = engine.open(SpeakRequest(options={"m": 1, "n": 1}))
    stream = utterance.events()
    utterance.push_text("one two three four five six ")
    got = until(stream, ev.WordEnd, 3)
    ends = [e.sample for e in got if isinstance(e, ev.WordEnd)]
    utterance.cancel(ends[1])
    rest = list(stream)
    cancelled, last = rest[-2:]
    assert isinstance(cancelled, ev.Cancelled) and cancelled.heard == [0, 1] and cancelled.sample == ends[1]
    assert isinstance(last, ev.Ended)
    assert engine.places_free() == free
    utterance.cancel()  # a second one is nothing


def test_options_change_at_the_next_segment(engine):
    utterance = engine.open(SpeakRequest(options={"m": 2, "n": 1}))
    stream = utterance.events()
    utterance.push_text("a b c d e f g h ")
    until(stream, ev.Segment)
    utterance.set_options({"m": 4, "n": 2})
    utterance.end()
    rest = list(stream)
    changed = next(e for e in rest if isinstance(e, ev.Options))
    assert changed.options == {"scheme": "S1", "m": 4, "n": 2}
    after = [e for e in rest[rest.index(changed) :] if isinstance(e, ev.Segment)]
    assert after and all(len(e.words) <= 2 for e in after) and len(after[0].words) == 2 and len(after[0].seen) == 4


def test_a_paste_is_read_only_as_fast_as_it_is_spoken(engine):
    utterance = engine.open(SpeakRequest(credit_samples=24_000))
    stream = utterance.events()
    utterance.push_text("word " * 20_000)
    until(stream, ev.Audio, 40)
    time.sleep(0.2)
    committed = utterance._said_words
    assert committed < 100
    utterance.cancel()
    assert isinstance(list(stream)[-1], ev.Ended)


def test_what_cannot_be_said_is_reported_and_the_rest_is_spoken(engine):
    utterance = engine.open(SpeakRequest(options={"m": 1, "n": 1}))
    utterance.push_text("good 你好 morning 🙂 \ud800")
    utterance.end()
    got = list(utterance.events())
    assert [e.word for e in got if isinstance(e, ev.Committed)] == ["good", "morning"]
    spans = [(e.char_start, e.char_end) for e in got if isinstance(e, ev.Unsupported)]
    assert spans[:2] == [(5, 7), (16, 17)] and all(e.why for e in got if isinstance(e, ev.Unsupported))


@pytest.mark.parametrize("text", ["", "   ", "...", "🙂"])
def test_nothing_to_say_ends_at_once(engine, text):
    utterance = engine.open(SpeakRequest())
    utterance.push_text(text)
    utterance.end()
    last = list(utterance.events())[-1]
    assert isinstance(last, ev.Ended) and last.samples == 0


def test_caller_events_and_played_reports_are_kept_in_order(engine):
    utterance = engine.open(SpeakRequest())
    utterance.note(ev.Edited(first=0, last=0, text="x"))
    utterance.played(5)
    utterance.cancel()
    got = list(utterance.events())
    assert [e.type for e in got][:3] == ["ready", "edited", "played"]
    times = [e.t_ms for e in got]
    assert times == sorted(times)
    utterance.note(ev.Edited(first=0, last=0, text="late"))  # after the end nothing is added
    assert utterance._out.empty()
