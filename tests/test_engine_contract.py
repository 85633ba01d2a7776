"""The contract of every engine (studio.core.ports), over the fake and the real one with several families."""

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from fakes import FakeEngine
from listening import of, samples, say
from tinyvoice import write_tiny_voice
from tones import Script

from studio.core import events as ev
from studio.core.errors import BadOption, BadVoice, Busy, Closed, Full
from studio.core.ports import MAX_SEED, MAX_TEMPERATURE, Engine, SpeakRequest, Utterance
from studio.core.traces.trace import collect_trace
from studio.engine.admission import EngineLimits
from studio.engine.engine import open_engine
from studio.text.normalise import best

PLACES, QUEUE = 3, 2
TEXT = "several words are here to be spoken by it "


@pytest.fixture(scope="module", params=["fake", "speakstream", "s5", "dsm"])
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    if request.param == "fake":
        made: Engine = FakeEngine(Script(speed=200.0), places=PLACES, queue=QUEUE)
    else:
        root = tmp_path_factory.mktemp("voices")
        write_tiny_voice(root, family=request.param)
        made = open_engine(root, best(), device="cpu", threads=1, slots=PLACES, limits=EngineLimits(queue=QUEUE))
    yield made
    assert made.free_slots() == PLACES, "every slot was released"
    made.close()


def has(engine: Engine, option: str) -> bool:
    return option in {spec.name for spec in engine.cards()[0].options}


def changed(engine: Engine) -> dict[str, Any]:
    """One of the voice's options with a non-default value."""
    for spec in engine.cards()[0].options:
        values = spec.choices if spec.kind == "choice" else (spec.low, spec.high)
        for value in values:
            if value not in (None, spec.default):
                return {spec.name: value}
    raise AssertionError("a voice without options")


def said(engine: Engine, text: str = TEXT, **request: Any) -> list[ev.Event]:
    """Every event of a text."""
    return [*say(engine, text, **request).events()]


def until(stream: Iterator[ev.Event], kind: type, count: int = 1) -> list[ev.Event]:
    """Events up to the count-th of a kind."""
    got: list[ev.Event] = []
    while count:
        got.append(next(stream))
        assert not ev.is_last(got[-1]), got[-1]
        count -= isinstance(got[-1], kind)
    return got


def over(utterance: Utterance) -> list[ev.Event]:
    """Cancel, and receive the rest."""
    utterance.cancel()
    return [*utterance.events()]


def test_ready_is_first_one_last_event_and_times_increase(engine: Engine) -> None:
    events = said(engine, seed=4)
    card, ready = engine.cards()[0], events[0]
    assert isinstance(ready, ev.Ready) and (ready.voice, ready.seed, ready.queued_ms) == (card.name, 4, 0.0)
    assert ready.options == {spec.name: spec.default for spec in card.options}
    assert (ready.rate_hz, ready.frame_samples) == (card.sample_rate_hz, card.frame_samples)
    assert [ev.is_last(one) for one in events] == [False] * (len(events) - 1) + [True]
    times_ms = [one.t_ms for one in events]
    assert times_ms == sorted(times_ms) and times_ms[0] >= 0


def test_samples_frames_segments_and_words_are_consistent(engine: Engine) -> None:
    events = said(engine)
    at = 0
    for audio in of(ev.Audio, events):
        assert audio.sample == at and audio.pcm.dtype == np.int16
        at += len(audio.pcm)
    frames = sum(len(one.levels) for one in of(ev.Frames, events))
    assert frames * events[0].frame_samples == at == events[-1].samples > 0
    words = [one.i for one in of(ev.Committed, events)]
    assert words == [*range(len(TEXT.split()))]
    assert [i for one in of(ev.Segment, events) for i in one.words] == words
    starts, ends = of(ev.WordStart, events), of(ev.WordEnd, events)
    assert [one.i for one in starts] == [one.i for one in ends] == words
    assert all(a.sample <= b.sample for a, b in zip(starts, ends, strict=True))
    assert all(a.sample <= b.sample for a, b in zip(ends, starts[1:], strict=False))
    assert [one.segment for one in of(ev.Eos, events)] == [one.index for one in of(ev.Segment, events)]


def test_word_has_its_position_in_the_sent_text(engine: Engine) -> None:
    events = said(engine, "Good  morning,\n dear ")
    sent = "".join(one.text for one in of(ev.TextReceived, events))
    assert [sent[one.char_start : one.char_end] for one in of(ev.Committed, events)] == ["Good", "morning,", "dear"]


def test_unspeakable_text_is_reported_and_the_rest_spoken(engine: Engine) -> None:
    events = said(engine, "good 你好 morning 🙂 \ud800")
    assert [one.word for one in of(ev.Committed, events)] == ["good", "morning"]
    listed = of(ev.Unsupported, events)
    assert [(one.char_start, one.char_end) for one in listed][:2] == [(5, 7), (16, 17)]
    assert all(one.why for one in listed)
    assert "".join(one.text for one in of(ev.TextReceived, events)).encode("utf-8")


@pytest.mark.parametrize("text", ["", "  ", "...", "🙂"])
def test_nothing_to_say_ends_without_a_sample(engine: Engine, text: str) -> None:
    last = said(engine, text)[-1]
    assert isinstance(last, ev.Ended) and last.samples == 0


def test_trace_can_be_synthesised_again(engine: Engine) -> None:
    utterance = say(engine, TEXT, seed=11, temperature=0.3, options=changed(engine))
    about = utterance.provenance
    assert {"git_sha", "versions", "device", "threads", "dtype", "vocoder", "checkpoint_sha256"} <= about.keys()
    assert about["device"] != "auto" and about["temperature"] == 0.3
    trace = collect_trace(about, utterance.events())
    again = engine.open(trace.request)
    again.push_text("".join(one.text for one in of(ev.TextReceived, trace.events)))
    again.end()
    assert np.array_equal(collect_trace(again.provenance, again.events()).pcm, trace.pcm)


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        ({"voice": "nobody"}, BadVoice),
        ({"voice": ":nobody"}, BadVoice),
        ({"seed": -1}, BadOption),
        ({"seed": MAX_SEED + 1}, BadOption),
        ({"temperature": MAX_TEMPERATURE + 0.1}, BadOption),
        ({"temperature": float("nan")}, BadOption),
        ({"options": {"window": 3}}, BadOption),
        ({"options": {"m": 0}}, BadOption),
        ({"options": {"m": True}}, BadOption),
        ({"options": {"m": 2, "n": 3}}, BadOption),
        ({"options": {"scheme": "S3"}}, BadOption),
    ],
)
def test_invalid_request_is_refused_with_a_hint(engine: Engine, request_: dict[str, Any], error: type) -> None:
    if request_.get("voice", "").startswith(":"):
        request_ = {"voice": engine.cards()[0].name + request_["voice"]}
    with pytest.raises(error) as refused:
        engine.open(SpeakRequest(**request_))
    assert refused.value.do


def test_slot_is_free_with_the_last_event(engine: Engine) -> None:
    taken = [engine.open(SpeakRequest()) for _ in range(PLACES)]
    assert engine.free_slots() == 0
    for free, utterance in enumerate(taken, 1):
        assert isinstance(over(utterance)[-1], ev.Ended)
        assert engine.free_slots() == free


def test_utterances_queue_in_order_and_a_full_queue_is_busy(engine: Engine) -> None:
    taken = [engine.open(SpeakRequest()) for _ in range(PLACES)]
    waiting = [engine.open(SpeakRequest(seed=k)) for k in range(QUEUE)]
    heard = [one.events() for one in waiting]
    with pytest.raises(Busy):
        engine.open(SpeakRequest())
    with pytest.raises(BadOption):
        waiting[0].set_options({"m": 1, "n": 2})
    places = [next(one) for one in heard]
    assert of(ev.Queued, places) == places and [one.ahead for one in places] == [*range(QUEUE)]
    for text in ("good mor", "ning "):
        waiting[1].push_text(text)
    waiting[1].end()
    over(taken[0])
    ready = next(heard[0])
    assert isinstance(ready, ev.Ready) and ready.t_ms < ready.queued_ms and ready.seed == 0, "first come, first served"
    assert isinstance(moved := next(heard[1]), ev.Queued) and moved.ahead == 0
    over(waiting[0])
    spoken = [*heard[1]]
    assert isinstance(spoken[0], ev.Ready) and spoken[0].seed == 1
    assert [one.text for one in of(ev.TextReceived, spoken)] == ["good mor", "ning "]
    assert [one.t_ms for one in spoken] == sorted(one.t_ms for one in spoken)
    assert spoken[-1].samples == said(engine, "good morning ", seed=1)[-1].samples > 0
    for one in taken[1:]:
        over(one)


def test_clients_share_the_queue_fairly(engine: Engine) -> None:
    one, other = SpeakRequest(client="192.0.2.1"), SpeakRequest(client="192.0.2.2")
    taken = [engine.open(one) for _ in range(PLACES)]
    waiting = [engine.open(one) for _ in range(QUEUE)]
    heard = [each.events() for each in waiting]
    assert [next(each).ahead for each in heard] == [*range(QUEUE)]
    with pytest.raises(Busy):
        engine.open(one)
    first = engine.open(other)
    *_, failed = heard[-1]
    assert isinstance(failed, ev.Failed) and failed.code == "busy", (
        "the last utterance of the client with the most makes room"
    )
    listed = first.events()
    assert isinstance(queued := next(listed), ev.Queued) and queued.ahead == 0, (
        "before others' next, after those with a slot"
    )
    assert next(heard[0]).ahead == 1
    with pytest.raises(Busy):
        engine.open(SpeakRequest(client="192.0.2.2"))
    over(taken[0])
    assert isinstance(next(listed), ev.Ready)
    for each in (first, *taken[1:], *waiting[:-1]):
        over(each)


def test_guests_give_way_to_guests_with_fewer_utterances_only(engine: Engine) -> None:
    mine = [engine.open(SpeakRequest(client="192.0.2.1")) for _ in range(PLACES + QUEUE)]
    with pytest.raises(Busy):
        engine.open(SpeakRequest(client="192.0.2.2", is_guest=True))
    for each in mine:
        over(each)


def test_guests_leave_a_slot_and_half_of_the_queue_to_others(engine: Engine) -> None:
    guests = [engine.open(SpeakRequest(is_guest=True)) for _ in range(PLACES - 1 + QUEUE // 2)]
    heard = [one.events() for one in guests]
    assert [next(one).type for one in heard] == ["ready"] * (PLACES - 1) + ["queued"] * (QUEUE // 2)
    with pytest.raises(Busy):
        engine.open(SpeakRequest(is_guest=True))
    others = [engine.open(SpeakRequest()) for _ in range(1 + QUEUE - QUEUE // 2)]
    listed = [one.events() for one in others]
    assert [next(one).type for one in listed] == ["ready"] + ["queued"] * (QUEUE - QUEUE // 2), (
        "ahead of the waiting guests"
    )
    with pytest.raises(Busy):
        engine.open(SpeakRequest())
    for one in (*others, *guests[:-1]):
        over(one)
    assert isinstance(next(heard[-1]), ev.Ready), "its turn has come"
    over(guests[-1])


def test_leaving_the_queue_makes_room_at_once_without_further_events(engine: Engine) -> None:
    taken = [engine.open(SpeakRequest()) for _ in range(PLACES)]
    waiting = [engine.open(SpeakRequest()) for _ in range(QUEUE)]
    waiting[0].push_text(TEXT)
    assert [one.type for one in over(waiting[0])] == ["queued", "cancelled", "ended"]
    behind = waiting[1].events()
    assert [one.ahead for one in until(behind, ev.Queued, 2)] == [1, 0]
    again = engine.open(SpeakRequest())  # there is room again
    for one in (*taken, *waiting[1:], again):
        over(one)
    assert not engine.free_slots() - PLACES


def test_queued_text_can_be_revised(engine: Engine) -> None:
    taken = [engine.open(SpeakRequest()) for _ in range(PLACES)]
    waiting = engine.open(SpeakRequest())
    waiting.push_text("good evening ")
    assert waiting.settled_chars() == 0
    waiting.revise(5, "morning ")
    waiting.end()
    for one in taken:
        over(one)
    events = [*waiting.events()]
    assert [word.text for word in collect_trace({}, events).words()] == ["good", "morning"]
    assert events[-1].samples == said(engine, "good morning ")[-1].samples


def test_no_text_is_accepted_after_the_end(engine: Engine) -> None:
    utterance = say(engine, TEXT)
    utterance.push_text("")
    for late in (lambda: utterance.push_text("more "), utterance.flush, utterance.end):
        with pytest.raises(Closed):
            late()
    events = over(utterance)
    assert isinstance(events[-1], ev.Ended)
    with pytest.raises(Closed):
        utterance.set_options({"m": 2})


def test_excess_text_is_refused_and_earlier_text_stays(engine: Engine) -> None:
    utterance = engine.open(SpeakRequest())
    utterance.push_text("good ")
    with pytest.raises(Full):
        utterance.push_text("x" * 1_000_001)
    utterance.push_text("morning")
    utterance.end()
    assert [one.word for one in of(ev.Committed, [*utterance.events()])] == ["good", "morning"]


def test_credit_is_never_exceeded(engine: Engine) -> None:
    utterance = engine.open(SpeakRequest(credit_samples=1_200))
    stream = utterance.events()
    utterance.push_text(TEXT)
    utterance.end()
    got = [next(stream)]
    while len(samples(got)) < 1_200:
        got.append(next(stream))
    time.sleep(0.15)  # longer than the audio lasts: a player underruns
    utterance.grant(600)  # it only ever grows
    utterance.grant(6_000)
    while len(samples(got)) < 6_000:
        got.append(next(stream))
    credit = [one for one in of(ev.Wait, got) if one.reason == "credit"]
    assert [one.sample for one in credit] == [1_200] and credit[0].duration_ms > 0
    assert {one.reason for one in of(ev.Wait, got)} <= {"credit", "compute"}, "of a busy machine"
    rest = over(utterance)
    assert not of(ev.Audio, rest) and rest[-1].samples == 6_000


def test_flush_speaks_pending_text_and_the_text_continues(engine: Engine) -> None:
    utterance = engine.open(SpeakRequest(options={"m": 5} if has(engine, "m") else {}))
    stream = utterance.events()
    utterance.push_text("good morning ")
    utterance.flush()
    got = until(stream, ev.WordEnd, 2)
    assert [one.words for one in of(ev.Flushed, got)] == [2]
    utterance.push_text("everyone")
    utterance.end()
    assert [one.word for one in of(ev.Committed, [*stream])] == ["everyone"]


def test_options_take_effect_at_the_next_segment(engine: Engine) -> None:
    windows = has(engine, "m")
    utterance = engine.open(SpeakRequest(options={"m": 2} if windows else {}, credit_samples=0))
    stream = utterance.events()
    utterance.push_text("a b c d e f g h ")
    with pytest.raises(BadOption):
        utterance.set_options({"m": 1, "n": 2})
    with pytest.raises(BadOption):
        utterance.set_options({}, temperature=-1.0)
    now = {"m": 4, "n": 2} if windows else changed(engine)
    utterance.set_options(now)
    utterance.grant(10**9)
    utterance.end()
    rest = [*stream]
    listed = of(ev.OptionsChanged, rest)
    assert len(listed) == 1 and listed[0].options == rest[0].options | now
    after = of(ev.Segment, rest[rest.index(listed[0]) :])
    assert after
    if windows:
        assert [len(one.words) for one in after[:2]] == [2, 2] and len(after[0].seen) == 4


def test_cancel_reports_the_heard_words(engine: Engine) -> None:
    utterance = engine.open(SpeakRequest(options={"m": 1} if has(engine, "m") else {}))
    stream = utterance.events()
    utterance.push_text("one two three four five six seven eight ")
    ends = [one.sample for one in of(ev.WordEnd, until(stream, ev.WordEnd, 3))]
    utterance.cancel(ends[1])
    utterance.cancel(0)  # a second one has no effect
    rest = [*stream]
    cancelled = of(ev.Cancelled, rest)
    assert len(cancelled) == 1 and [*cancelled[0].heard] == [0, 1] and cancelled[0].sample == ends[1]
    assert isinstance(rest[-1], ev.Ended)


def test_callers_events_are_in_the_stream_in_order(engine: Engine) -> None:
    utterance = engine.open(SpeakRequest())
    utterance.add_event(ev.Edited(first=0, last=0, text="x"))
    utterance.played(5)
    events = over(utterance)
    assert [one.type for one in events][:3] == ["ready", "edited", "played"]
    utterance.add_event(ev.Edited(first=0, last=0, text="late"))
    assert not utterance.poll_events(), "after the last event nothing is added"


def test_same_seed_gives_the_same_samples(engine: Engine) -> None:
    assert np.array_equal(samples(said(engine, seed=5)), samples(said(engine, seed=5)))
