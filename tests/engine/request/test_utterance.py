"""An utterance's life, beside what ``test_engine_contract`` tests of every engine: waits, pastes, races, listeners."""

import threading
import time
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
import torch
from listening import say, tiny_engine
from safetensors.torch import load_file, save_file
from tinyvoice import write_tiny_voice

from studio.core import events as ev
from studio.core.cards import read_card, sha256_of, write_card
from studio.core.errors import BadOption
from studio.core.ports import SpeakRequest
from studio.engine.engine import LocalEngine, open_engine
from studio.engine.request.client import FULL
from studio.text.normalise import best


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    """A tiny voice of segments of about half a second."""
    with closing(tiny_engine(tmp_path_factory.mktemp("voices"))) as engine:
        yield engine


def until(stream, kind, count: int = 1) -> list[ev.Event]:
    """Events up to the count-th of a kind."""
    got = []
    while count:
        got.append(next(stream))
        assert not ev.is_last(got[-1]) or kind is ev.Ended
        count -= isinstance(got[-1], kind)
    return got


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
    engine = tiny_engine(tmp_path, slots=1)
    turn = engine._scheduler.step

    def then_dawdle(active):
        did = turn(active)
        time.sleep(0.05)
        return did

    engine._scheduler.step = then_dawdle
    for _ in range(3):
        utterance = engine.open(SpeakRequest())
        utterance.cancel()
        list(utterance.events())
        assert engine.free_slots() == 1
    engine.close()


def test_a_paste_is_read_only_as_fast_as_it_is_spoken(engine):
    utterance = engine.open(SpeakRequest(credit_samples=24_000))
    stream = utterance.events()
    utterance.push_text("word " * 20_000)
    until(stream, ev.Audio, 40)
    time.sleep(0.2)
    committed = utterance._committed_words
    assert committed < 100
    utterance.cancel()
    assert isinstance(list(stream)[-1], ev.Ended)


def test_options_do_not_wait_behind_text(engine):
    """With two hundred words unread, the next segment obeys all the same."""
    utterance = engine.open(SpeakRequest(options={"m": 2, "n": 1}, credit_samples=12_000))
    stream = utterance.events()
    utterance.push_text("word " * 200)
    before = [e for e in until(stream, ev.Audio, 20) if isinstance(e, ev.Segment)]
    utterance.set_options({"m": 5, "n": 2})
    utterance.grant(10**9)
    got = until(stream, ev.Segment, 2)
    segments = [e for e in got if isinstance(e, ev.Segment)]
    assert len(segments[-1].words) == 2 and len(segments[-1].seen) == 5 and segments[-1].index <= before[-1].index + 3
    utterance.cancel()
    list(stream)


def test_options_are_checked_against_those_that_wait(engine):
    """n = 3 is fine, and so is m = 2, but not together: who asks is told, and the voice goes on."""
    utterance = engine.open(SpeakRequest(options={"m": 3, "n": 1}))
    utterance.set_options({"n": 3})
    with pytest.raises(BadOption, match="hop n = 3"):
        utterance.set_options({"m": 2})
    with pytest.raises(BadOption, match="temperature"):
        utterance.set_options({}, temperature=float("nan"))
    utterance.push_text("one two three four")
    utterance.end()
    got = list(utterance.events())
    assert isinstance(got[-1], ev.Ended)
    assert [len(e.words) for e in got if isinstance(e, ev.Segment)] == [3, 1]


def test_a_text_that_cannot_be_spoken_keeps_nobody_waiting(engine):
    silent = say(engine, "🙂 " * 30_000)
    other = say(engine, "good morning", options={"m": 1, "n": 1})
    assert isinstance(list(other.events())[-1], ev.Ended)
    assert not silent.done, "it is read beside the other's speech, not before it"
    silent.cancel()
    left = [e for e in silent.events() if isinstance(e, ev.Unsupported)]
    assert len(left) < 30_000


def test_the_last_frame_is_kept_at_a_cancel(engine):
    utterance = engine.open(SpeakRequest(credit_samples=6_000))
    stream = utterance.events()
    utterance.push_text("several words are here to be spoken by it")
    got = until(stream, ev.Audio, 10)
    utterance.cancel(3_000)
    got += list(stream)
    frames = [e for e in got if isinstance(e, ev.Frames)]
    assert [e.first_frame for e in frames] == [*range(10)]
    assert got[-1].samples == 6_000


def test_text_that_comes_between_a_turn_and_the_wait_is_not_overheard(engine):
    utterance = engine.open(SpeakRequest(options={"m": 1, "n": 1}))
    turn, pushed = engine._scheduler.step, []

    def late(active):
        did = turn(active)
        if not did and not pushed:  # the engine is about to wait for news
            pushed.append(True)
            utterance.push_text("good morning ")
        return did

    engine._scheduler.step = late
    try:
        utterance.add_event(ev.Edited(first=0, last=0, text=""))
        engine._wakeup.set()
        until(utterance.events(), ev.Audio)
    finally:
        engine._scheduler.step = turn
        utterance.cancel()
    assert isinstance(list(utterance.events())[-1], ev.Ended)


def test_who_asks_for_places_does_not_wait_for_who_opens(engine):
    voice = engine.voice("tiny")
    go_on, inside = threading.Event(), threading.Event()
    whole = voice.assign_slots

    def slow(*args):
        inside.set()
        go_on.wait(20)
        return whole(*args)

    voice.assign_slots = slow
    try:
        opening = threading.Thread(target=lambda: engine.open(SpeakRequest()).cancel(), daemon=True)
        opening.start()
        assert inside.wait(20)
        free: list[int] = []
        asking = threading.Thread(target=lambda: free.append(engine.free_slots()), daemon=True)
        asking.start()
        asking.join(5.0)
        assert free == [3], "three are left while one is being opened"
    finally:
        go_on.set()
        opening.join(20)
        voice.assign_slots = whole


@pytest.mark.parametrize("part", ["speakstream", "s5", "sourcefilter"])
def test_what_is_no_number_ends_the_utterance_as_failed(tmp_path, part):
    folder = write_tiny_voice(tmp_path, family="s5" if part == "s5" else "speakstream")
    file = folder / f"{part}.safetensors"
    weights = load_file(file)
    name = "enter.weight" if part == "sourcefilter" else "levels_out.weight"
    # Numbers all of them, as the card's loader wants, but their products are none.
    save_file({**weights, name: torch.full_like(weights[name], 3e38)}, file)
    card = read_card(folder)
    write_card(folder, replace(card, sha256=card.sha256 | {file.name: sha256_of(file)}))
    engine = open_engine(tmp_path, best(), device="cpu", threads=1)
    utterance = say(engine, "good morning to you")
    last = list(utterance.events())[-1]
    engine.close()
    assert isinstance(last, ev.Failed) and last.code == "not_finite"


def test_the_cards_own_defaults_and_ranges_hold(tmp_path):
    folder = write_tiny_voice(tmp_path)
    card = read_card(folder)
    narrowed = [replace(o, default=4, high=4) if o.name == "m" else o for o in card.options]
    write_card(folder, replace(card, options=tuple(narrowed)))
    engine = open_engine(tmp_path, best(), device="cpu", threads=1)
    with pytest.raises(BadOption, match="from 1 to 4"):
        engine.open(SpeakRequest(options={"m": 5}))
    with pytest.raises(BadOption, match="there is no option"):
        engine.open(SpeakRequest(options={"window": 5}))
    utterance = engine.open(SpeakRequest())
    with pytest.raises(BadOption, match="from 1 to 4"):
        utterance.set_options({"m": 6})
    utterance.push_text("one two three four five six")
    utterance.end()
    got = list(utterance.events())
    engine.close()
    assert got[0].options["m"] == 4
    assert [len(e.seen) for e in got if isinstance(e, ev.Segment)][:2] == [4, 4]


PATIENCE_S = 60.0


def still(utterance: Any) -> int:
    """Events that wait, once no more come."""
    until_s, last = time.monotonic() + PATIENCE_S, -1
    while (found := utterance._outbox._queue.qsize()) != last:
        assert time.monotonic() < until_s, "it goes on and on"
        last = found
        time.sleep(0.3)
    return last


def rest_of(utterance: Any) -> list[ev.Event]:
    """Take slowly, a few at a time, to the end."""
    found: list[ev.Event] = []
    until_s = time.monotonic() + PATIENCE_S
    while not (found and ev.is_last(found[-1])):
        assert time.monotonic() < until_s, "it does not go on"
        taken = utterance.poll_events(500)
        assert len(taken) <= 500
        found += taken
        time.sleep(0.0 if taken else 0.002)
    return found


def test_text_that_cannot_be_spoken_is_read_as_fast_as_its_listener_hears_so(engine: LocalEngine) -> None:
    utterance = engine.open(SpeakRequest(credit_samples=24_000))
    utterance.set_listener(lambda: None)
    utterance.push_text("\u2603 " * 5000)
    utterance.end()
    assert FULL <= still(utterance) < FULL + 70, "a turn reads 64 pieces at most"
    found = rest_of(utterance)
    assert sum(isinstance(one, ev.Unsupported) for one in found) == 5000
    assert [one for one in found if isinstance(one, ev.Ended)] == found[-1:]


def test_sound_that_nobody_takes_is_not_made(engine: LocalEngine) -> None:
    utterance = engine.open(SpeakRequest(credit_samples=60 * 24_000, options={"m": 1, "n": 1}))
    utterance.set_listener(lambda: None)
    utterance.push_text("several words are here to be spoken by it again and again " * 12)
    utterance.end()
    assert FULL <= still(utterance) < FULL + 70
    found = rest_of(utterance)
    sound = [one for one in found if isinstance(one, ev.Audio)]
    [ended] = [one for one in found if isinstance(one, ev.Ended)]
    assert sum(len(one.pcm) for one in sound) == ended.samples == sound[-1].sample + len(sound[-1].pcm)
    assert not [one for one in found if isinstance(one, ev.Wait) and one.reason == "compute" and one.duration_ms > 5000]


def test_who_waits_in_events_is_not_held_up(engine: LocalEngine) -> None:
    """It has no listener who could be late: benches speak first and look afterwards."""
    utterance = say(engine, "\u2603 " * 3000, credit_samples=24_000)
    assert still(utterance) > 3000
    assert len([*utterance.events()]) > 3000
