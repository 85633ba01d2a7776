"""Revisions and cancels: what was heard stays, the rest follows the text (law 6)."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import numpy as np
import pytest
from listening import FRAME, Listener, is_consistent, tiny_engine

from studio.core import events as ev
from studio.core.errors import BadText, Closed, TooLate
from studio.core.text.words import SpokenWord
from studio.core.traces.trace import Trace, collect_trace
from studio.engine.engine import LocalEngine
from studio.engine.request.playback import PlaybackTracker, PlayedExtent

WORDS = "one two three four five six seven eight nine ten".split()
TOLD = "it costs $3.50 today"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalEngine]:
    with closing(tiny_engine(tmp_path_factory.mktemp("voices"))) as engine:
        yield engine


def text(words: list[str]) -> str:
    return "".join(f"{word} " for word in words)


@pytest.fixture(autouse=True)
def nobody_is_left(engine: LocalEngine) -> Iterator[None]:
    yield
    for utterance in engine._admission.running():
        utterance.cancel()


class Windowed(Listener):
    """One who hears a voice of SpeakStream by a window."""

    def __init__(self, engine: LocalEngine, window: tuple[str, int, int] = ("S1", 3, 1), **more: Any) -> None:
        super().__init__(engine, dict(zip(("scheme", "m", "n"), window, strict=True)), **more)


def spoken(engine: LocalEngine, words: list[str], window: tuple[str, int, int] = ("S1", 3, 1)) -> Trace:
    listener = Windowed(engine, window)
    listener.utterance.push_text(text(words))
    listener.utterance.end()
    return listener.rest()


def made_ahead(engine: LocalEngine, window: tuple[str, int, int] = ("S1", 3, 1)) -> tuple[Windowed, list[int]]:
    """All words were sent, sound was made up to the ninth, and the listener gives no more credit; the words' ends."""
    ends = [word.end for word in spoken(engine, WORDS, window).words()]
    listener = Windowed(engine, window, credit_samples=ends[7] + 2 * FRAME)
    listener.utterance.push_text(text(WORDS))
    listener.utterance.end()
    listener.held()
    return listener, ends


@pytest.mark.parametrize("window", [("S1", 3, 1), ("S2", 3, 1), ("S1", 4, 2), ("S2", 1, 1)])
def test_words_that_no_segment_has_seen_are_as_if_they_had_never_been_sent(engine, window):
    """Bit for bit what the new text alone sounds like; most sound that was made ahead stays."""
    new = [*WORDS[:6], "other", "words", "now"]
    listener, _ = made_ahead(engine, window)
    made = listener.utterance._samples
    listener.utterance.revise(len(text(WORDS[:6])), text(new[6:]))
    trace = listener.rest()
    is_consistent(trace)
    assert [word.text for word in trace.words()] == new
    straight = spoken(engine, new, window)
    assert np.array_equal(trace.pcm, straight.pcm) and np.array_equal(trace.frames, straight.frames)
    (revised,) = listener.of(ev.Revised)
    assert revised.take == 1 and revised.words == 6 and 0 < revised.from_sample <= made
    assert revised.from_sample >= trace.words()[3].start, "what had not seen the words stays"


@pytest.mark.parametrize("window", [("S1", 3, 1), ("S2", 3, 1), ("S1", 5, 1)])
def test_what_was_heard_stays_and_the_next_word_is_another(engine, window):
    """The revised word was seen by what has been heard: that is fed again with the new words, and not made again."""
    listener, ends = made_ahead(engine, window)
    listener.utterance.played(ends[2] - 2 * FRAME)
    before = collect_trace({}, listener.events).pcm
    settled = listener.utterance.settled_chars()
    at = WORDS.index("five")
    assert settled <= len(text(WORDS[:at]))
    with pytest.raises(TooLate, match="spoken or being spoken"):
        listener.utterance.revise(settled - 1, "x")
    listener.utterance.revise(len(text(WORDS[:at])), "other words ")
    trace = listener.rest()
    is_consistent(trace)
    (revised,) = listener.of(ev.Revised)
    assert ends[2] <= revised.from_sample and revised.words == at
    assert np.array_equal(trace.pcm[: revised.from_sample], before[: revised.from_sample])
    assert [word.text for word in trace.words()] == [*WORDS[:at], "other", "words"]


def test_a_replay_is_what_the_net_would_have_held(engine):
    """Fed again with the words it had, a segment leaves the memory that it left the first time."""
    listener, ends = made_ahead(engine)
    cache, slot = engine.voice("tiny").family.slots.cache, listener.utterance.slots[0]
    before = cache.keys[1][slot].clone()
    listener.utterance.played(ends[3] - 2 * FRAME)
    for words in ("other words " * 4, "six seven eight nine ten "):  # there and back again, at the same place
        listener.utterance.revise(len(text(WORDS[:5])), words)
        listener.until(ev.Segment)
    cuts = [event.from_sample for event in listener.of(ev.Revised)]
    assert cuts[0] == cuts[1] >= ends[3]
    row = listener.utterance._row
    length = row._past[-1].at + row._past[-1].tokens
    assert (cache.keys[1][slot, :, :length] - before[:, :length]).abs().max() < 1e-4
    is_consistent(listener.rest())


def test_the_same_text_changes_no_sample(engine):
    listener, _ = made_ahead(engine)
    listener.utterance.revise(len(text(WORDS[:3])), text(WORDS[3:]))
    trace = listener.rest()
    assert not listener.of(ev.Revised) and np.array_equal(trace.pcm, spoken(engine, WORDS).pcm)


def test_text_that_nobody_has_read_is_replaced(engine):
    listener = Windowed(engine, credit_samples=FRAME)
    listener.utterance.push_text("word " * 2000)
    listener.until(ev.Audio)
    listener.utterance.revise(25, "two three ")
    listener.utterance.push_text("four ")
    listener.utterance.end()
    trace = listener.rest()
    is_consistent(trace)
    assert [word.text for word in trace.words()] == ["word"] * 5 + ["two", "three", "four"]
    texts = listener.of(ev.TextReceived)
    assert [(e.char_start, e.text) for e in texts[1:]] == [(25, "two three "), (35, "four ")]


def test_several_revisions_before_the_next_turn_are_one(engine):
    listener = Windowed(engine, credit_samples=120_000)
    listener.utterance.push_text(text(WORDS))
    listener.until(ev.WordEnd, 5)
    with listener.utterance._lock:
        listener.utterance.revise(len(text(WORDS[:8])), "")
        listener.utterance.revise(len(text(WORDS[:7])), "a b ")
        listener.utterance.push_text("c ")
        listener.utterance.end()
    trace = listener.rest()
    is_consistent(trace)
    assert [word.text for word in trace.words()] == [*WORDS[:7], "a", "b", "c"]
    assert [event.words for event in listener.of(ev.Revised)] == [7]


def test_a_place_of_several_words_is_revised_as_a_whole(engine):
    """A part of "$3.50" that is being said settles all of it; before that, none of it is said."""
    listener = Windowed(engine, ("S1", 1, 1))
    listener.utterance.push_text("it costs $3.50 today ")
    words = [listener.until(ev.WordEnd) for _ in range(4)]
    listener.utterance.played(words[2].sample)  # it costs three
    with pytest.raises(TooLate):
        listener.utterance.revise(len("it costs $"), "4 today ")
    listener.utterance.revise(len("it costs $3.50 "), "now or never ")
    listener.utterance.end()
    trace = listener.rest()
    is_consistent(trace)
    assert [word.text for word in trace.words()] == "it costs three dollars and fifty cents now or never".split()


@pytest.mark.parametrize(
    ("sent", "more"),
    [
        ("one two three four five", "teen six"),
        ("one two three four five", " six"),
        ("one two three four five ", "six"),
        ("one two three has 12", "5 of them"),
        ("one two three costs $5", " million"),
        ("one two three saw Dr.", " No"),
        ("one two three twenty-", "one"),
    ],
)
def test_what_is_added_to_a_text_that_was_over_is_read_with_its_last_word(engine, sent, more):
    """The end had committed that word as it stood; the words are those of the whole text all the same."""
    listener = Windowed(engine, credit_samples=10 * FRAME)
    listener.utterance.push_text(sent)
    listener.utterance.end()
    listener.until(ev.Segment)  # the end was read by then: it lets the last words be committed
    while not any(one.i >= 3 for one in listener.of(ev.Committed)):
        listener.until(ev.Committed)
    listener.utterance.revise(len(sent), more)
    trace = listener.rest()
    is_consistent(trace)
    straight = Windowed(engine)
    straight.utterance.push_text(sent + more)
    straight.utterance.end()
    assert [word.text for word in trace.words()] == [word.text for word in straight.rest().words()]


def test_a_last_word_that_is_being_said_is_not_gone_on_with(engine):
    listener = Windowed(engine, ("S1", 1, 1), credit_samples=0)
    listener.utterance.push_text("one two")
    listener.utterance.end()
    listener.until(ev.Ready)
    last = 0
    while last < 1:  # frame by frame, until the last word has begun
        listener.utterance.grant(listener._heard_samples() + FRAME)
        listener.until(ev.Audio)
        last = max(event.i for event in listener.of(ev.WordStart))
        listener.utterance.played(listener._heard_samples())
    assert listener.utterance.settled_chars() == len("one two")
    with pytest.raises(TooLate, match="begin what follows it with a space"):
        listener.utterance.revise(len("one two"), "end")
    listener.utterance.revise(len("one two"), " end")
    trace = listener.rest()
    is_consistent(trace)
    assert [word.text for word in trace.words()] == ["one", "two", "end"]


def test_what_cannot_be_revised_is_refused_in_words(engine):
    listener = Windowed(engine)
    listener.utterance.push_text("one two ")
    with pytest.raises(BadText, match="no character 9 of the 8"):
        listener.utterance.revise(9, "x")
    listener.utterance.cancel()
    with pytest.raises(Closed):
        listener.utterance.revise(0, "x")
    listener.rest()
    with pytest.raises(Closed):
        listener.utterance.revise(0, "x")


@pytest.mark.parametrize(
    ("heard", "chars"), [(0, ""), (2, "it costs"), (3, "it costs"), (6, "it costs"), (7, "it costs $3.50"), (8, TOLD)]
)
def test_cancel_answers_with_what_was_heard_of_the_text_as_sent(engine, heard, chars):
    """Three dollars and fifty cents are one place of the text: it was heard with its last word."""
    listener = Windowed(engine, ("S1", 1, 1))
    listener.utterance.push_text(TOLD + " ")
    ends = [0] + [listener.until(ev.WordEnd).sample for _ in range(8)]
    assert [e.word for e in listener.of(ev.Committed)] == "it costs three dollars and fifty cents today".split()
    listener.utterance.played(ends[heard] // 2)
    listener.utterance.cancel(ends[heard] + 1)
    trace = listener.rest()
    cancelled, last = trace.events[-2:]
    assert isinstance(cancelled, ev.Cancelled) and isinstance(last, ev.Ended)
    assert (cancelled.heard, cancelled.char_end) == ([*range(heard)], len(chars))
    assert cancelled.sample == min(ends[heard] + 1, ends[-1])
    assert cancelled.word == min(heard, 7)


@pytest.mark.parametrize("window", [("S1", 4, 3), ("S2", 6, 6)])
def test_cancel_tells_words_inside_a_segment_that_was_not_over(engine, window):
    """Their places are estimates; they are told as such, and what was heard is told by them."""
    listener = Windowed(engine, window, credit_samples=0)
    listener.utterance.push_text(text(WORDS))
    listener.until(ev.Ready)
    made = 0
    while made < 10 * FRAME:  # a segment of several words; a tiny net may end it, and then the next one is begun
        listener.utterance.grant(made + FRAME)
        listener.until(ev.Audio)
        made = listener._heard_samples()
    listener.utterance.cancel(made)
    trace = listener.rest()
    cancelled = trace.events[-2]
    assert isinstance(cancelled, ev.Cancelled) and cancelled.sample == made
    whole = [word.i for word in trace.words() if word.end is not None and word.end <= made]
    assert cancelled.heard == whole and whole
    begun = [word.i for word in trace.words() if word.start is not None and word.start < made]
    assert cancelled.word == begun[-1]
    starts = [(one.sample, one.i) for one in listener.of(ev.WordStart)]
    assert starts == sorted(starts)


def test_a_segment_that_is_broken_off_is_taken_to_be_as_long_as_those_before_it():
    playback = PlaybackTracker(24_000)
    playback.committed([SpokenWord(i, "four", i, 5 * i, 5 * i + 4) for i in range(12)])

    def begins(index: int, sample: int) -> None:
        words = [*range(3 * index, 3 * index + 3)]
        playback.on_event(ev.Segment(index=index, words=words, seen=words, sample=sample, frame=sample // FRAME))
        playback.on_event(ev.WordStart(i=words[0], sample=sample, source="eos"))

    begins(0, 0)  # nothing is known: 50 ms a character, the space counted
    assert [(e.type, e.i, e.sample) for e in playback.estimate_open_segment(10_000)] == [
        ("word_end", 0, 6000),
        ("word_start", 1, 6000),
    ]
    assert len(playback.estimate_open_segment(15_000)) == 4 and playback.estimate_open_segment(6000) == []
    for sample, end in ((0, 60_000), (60_000, 120_000), (120_000, 180_000)):  # four times as slow
        playback.on_event(ev.WordEnd(i=sample // 20_000 + 2, sample=end, source="eos"))
        begins(sample // 60_000 + 1, end)
    (end, start) = playback.estimate_open_segment(180_000 + 19_000)
    assert end.sample == start.sample and 195_000 < end.sample < 199_000, "as slow as what was said, nearly"
    assert len(playback.estimate_open_segment(180_000 + 300_000)) == 4, (
        "longer than foreseen: the last word is still being said"
    )
    playback.on_event(ev.WordStart(i=9, sample=180_000, source="attention"))
    assert playback.estimate_open_segment(200_000) == [], "who tells words as they come needs no estimates"


def test_a_cancel_frees_its_place_within_one_turn(engine):
    listener = Windowed(engine, credit_samples=10 * FRAME)
    listener.utterance.push_text(text(WORDS))
    listener.held()
    turns, turn = [], engine._scheduler.step

    def counted(active):
        turns.append(len(active))
        return turn(active)

    engine._scheduler.step = counted
    free = engine.free_slots()
    listener.utterance.cancel(5 * FRAME)
    listener.until(ev.Ended)
    assert [count for count in turns if count] == [1] and engine.free_slots() == free + 1
    engine._scheduler.step = turn


def test_words_that_stand_in_another_order_than_they_are_said_count_when_all_before_them_are_heard():
    """Five million dollars: "dollars" comes from the first token, "million" from the second."""
    playback = PlaybackTracker(24_000)
    playback.committed(
        [SpokenWord(0, "five", 0, 0, 2), SpokenWord(1, "million", 1, 3, 10), SpokenWord(2, "dollars", 0, 0, 2)]
    )
    for i in range(3):
        playback.on_event(ev.WordStart(i=i, sample=100 * i, source="eos"))
        playback.on_event(ev.WordEnd(i=i, sample=100 * i + 100, source="eos"))
    assert playback.played_until(0) == PlayedExtent(0, None, 0)
    assert playback.played_until(200) == PlayedExtent(2, 1, 0)
    assert playback.played_until(300) == PlayedExtent(3, 2, 10)
