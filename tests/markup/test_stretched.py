"""Utterances at another speed: the sound, and positions in it."""

import random
import time
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from cancels import CANCELS
from fakes import FakeEngine
from serve.serving import eventually
from tones import FRAME_SAMPLES, RATE_HZ, Script

from studio.core import events as ev
from studio.core.errors import BadOption
from studio.core.ports import SpeakRequest
from studio.core.speaking import speak_once
from studio.core.traces.trace import Trace, collect_trace
from studio.markup import stretched
from studio.markup.parts import MarkedEngine, open_marked
from studio.markup.stretched import StretchedUtterance, samples_of_voice

TEXT = "One two three four five six."
SPEEDS = (0.5, 0.8, 1.3, 2.0)


def engine_of(**script: Any) -> Any:
    return FakeEngine(Script(**{"speed": 50.0, **script}))


def spoken(text: str, speed: float, markup: str = "plain") -> Trace:
    return speak_once(MarkedEngine(engine_of(), markup, speed), SpeakRequest(), text)


def pitch_hz(pcm: np.ndarray) -> float:
    """The strongest frequency."""
    return float(np.abs(np.fft.rfft(pcm)).argmax() * RATE_HZ / len(pcm))


def packets_follow(events: list[ev.Event]) -> int:
    """How many samples packets have, after revisions; no packet leaves a gap."""
    end = 0
    for event in events:
        if isinstance(event, ev.Revised):
            assert event.from_sample <= end
            end = event.from_sample
        elif isinstance(event, ev.Audio):
            assert event.sample == end
            end += len(event.pcm)
    return end


@pytest.mark.parametrize("speed", SPEEDS)
def test_a_speed_changes_the_length_and_keeps_the_pitch(speed: float) -> None:
    usual, other = spoken(TEXT, 1.0), spoken(TEXT, speed)
    assert abs(len(other.pcm) - len(usual.pcm) / speed) < 2
    assert abs(pitch_hz(usual.pcm) - pitch_hz(other.pcm)) < 5.0
    assert other.meta["speed"] == speed and "speed" not in usual.meta
    for one, two in zip(usual.words(), other.words(), strict=True):
        assert one.start is not None and two.start is not None and one.end is not None and two.end is not None
        assert abs(one.start / speed - two.start) < 2 and abs(one.end / speed - two.end) < 2
    for one, two in zip(usual.segments(), other.segments(), strict=True):
        assert abs(one.start / speed - two.start) < 2 and one.words == two.words
    last = other.events[-1]
    assert isinstance(last, ev.Ended) and last.samples == packets_follow(other.events) == len(other.pcm)
    times = [one.t_ms for one in other.events]
    assert times == sorted(times)


@pytest.mark.parametrize("hundredths", range(50, 201, 5))
def test_a_word_that_was_played_whole_is_played_whole_by_the_voice(hundredths: int) -> None:
    speed = hundredths / 100
    stretched = StretchedUtterance(engine_of().open(SpeakRequest()), speed)
    assert all(samples_of_voice(stretched._stretched(sample), speed) >= sample for sample in range(0, 300_000, 33))


def test_times_begin_anew_after_the_queue() -> None:
    engine = FakeEngine(Script(speed=50.0), places=1)
    first = engine.open(SpeakRequest())
    second = open_marked(engine, SpeakRequest(), "plain", 1.5)
    queued = second.poll_events()
    assert [type(one) for one in queued] == [ev.Queued]
    second._forward(queued[0].stamped(60_000.0))  # after a minute
    first.cancel()
    second.push_text("One.")
    second.end()
    ready = next(one for one in second.events() if isinstance(one, ev.Ready))
    assert ready.t_ms < 30_000.0


@pytest.mark.parametrize("speed", SPEEDS)
def test_sound_lies_where_its_words_are(speed: float) -> None:
    """The first samples of a tone are quiet, which marks each word's begin in the sound."""
    trace = spoken("Alphabetical betabetabeta gammagamma.", speed)
    step = RATE_HZ // 200
    level = np.abs(trace.pcm[: len(trace.pcm) // step * step].reshape(-1, step)).max(1)
    for word in trace.words()[1:]:
        assert word.start is not None
        near = slice(max(0, word.start // step - 10), word.start // step + 10)  # 50 ms on either side
        assert level[near].min() < 0.9 * np.median(level)


def test_a_speed_applies_to_rates_and_breaks_of_ssml() -> None:
    ssml = 'One two <break time="1s"/><prosody rate="50%">three</prosody> four.'
    usual, fast = spoken(ssml, 1.0, "ssml"), spoken(ssml, 2.0, "ssml")
    assert abs(len(fast.pcm) - len(usual.pcm) / 2) < 3
    assert [one.text for one in fast.words()] == ["one", "two", "three", "four."]


@pytest.mark.parametrize("speed", [0.4, 2.1, float("nan")])
def test_other_speeds_are_refused(speed: float) -> None:
    engine = engine_of()
    with pytest.raises(BadOption, match=r"0\.5 to 2"):
        open_marked(engine, SpeakRequest(), "plain", speed)
    assert not engine.opened


@pytest.mark.parametrize("speed", SPEEDS)
def test_credit_is_in_samples_that_are_sent(speed: float) -> None:
    utterance = open_marked(engine_of(speed=500.0), SpeakRequest(credit_samples=4800), "plain", speed)
    utterance.push_text(TEXT * 3)
    utterance.end()
    sent = granted = 0
    for event in utterance.events():
        if isinstance(event, ev.Audio):
            sent += len(event.pcm)
            assert sent <= max(4800, granted) + RATE_HZ // 10
            granted = sent + 4800
            utterance.grant(granted)
    assert sent > RATE_HZ


@pytest.mark.parametrize("speed", SPEEDS)
def test_a_cancel_tells_the_words_that_were_played(speed: float) -> None:
    """At random samples, and at ends of words and beside them."""
    draw = random.Random(7)
    words = spoken(TEXT, speed).words()
    for _ in range(CANCELS):
        sample = draw.randrange(1, words[3].end or 0)
        if draw.random() < 0.4:
            sample = (draw.choice(words[:3]).end or 0) + draw.randrange(-1, 2)
        utterance = open_marked(engine_of(speed=500.0), SpeakRequest(), "plain", speed)
        utterance.push_text(f"{TEXT} Seven eight nine. ")
        heard, sent, is_cancelled = list[ev.Event](), 0, False
        for event in utterance.events():
            heard.append(event)
            sent += len(event.pcm) if isinstance(event, ev.Audio) else 0
            if sent >= sample and not is_cancelled:
                is_cancelled = True
                utterance.played(sample)
                utterance.cancel()
        cancelled = next(one for one in heard if isinstance(one, ev.Cancelled))
        known = [one.i for one in words if one.end is not None and one.end <= sample]
        assert cancelled.heard == known and cancelled.sample == sample
        assert cancelled.char_end == (words[known[-1]].char_end if known else 0)
        assert cancelled.word == max(one.i for one in words if one.start is not None and one.start < sample)
        after = heard[heard.index(cancelled) + 1 :]
        assert [type(one) for one in after] == [ev.Ended]


@pytest.mark.parametrize("speed", SPEEDS)
def test_no_word_ends_behind_the_sound_of_a_cancel(speed: float) -> None:
    """What the stretcher holds back is sent: the word was told when it was made."""
    end = spoken(TEXT, speed).words()[1].end
    utterance = open_marked(engine_of(), SpeakRequest(credit_samples=end), "plain", speed)
    utterance.push_text(TEXT)
    utterance.end()
    heard = list[ev.Event]()
    for event in utterance.events():
        heard.append(event)
        if isinstance(event, ev.WordEnd) and event.i == 1:
            utterance.cancel()
    assert isinstance(heard[-1], ev.Ended) and heard[-1].samples == packets_follow(heard) == end
    assert isinstance(heard[-2], ev.Cancelled), "no sound follows it"


@pytest.mark.parametrize("speed", SPEEDS)
def test_a_revision_takes_sound_back(speed: float) -> None:
    utterance = open_marked(engine_of(speed=20.0), SpeakRequest(), "plain", speed)
    utterance.push_text("One two three four five six ")
    heard, is_revised = list[ev.Event](), False
    for event in utterance.events():
        heard.append(event)
        if isinstance(event, ev.WordEnd) and event.i == 2 and not is_revised:
            is_revised = True
            utterance.played(1)
            utterance.revise(len("One two three "), "twelve.")
            utterance.end()
    trace = collect_trace(dict(utterance.provenance), heard)
    expected = spoken("One two three twelve.", speed)
    assert [one.text for one in trace.words()] == ["one", "two", "three", "twelve."]
    assert packets_follow(heard) == len(trace.pcm)
    assert abs(len(trace.pcm) - len(expected.pcm)) < 4
    for one, two in zip(trace.words(), expected.words(), strict=True):
        assert one.start is not None and two.start is not None and abs(one.start - two.start) < 4
    assert abs(pitch_hz(trace.pcm) - pitch_hz(expected.pcm)) < 5.0


@pytest.mark.parametrize("speed", [0.5, 2.0])
def test_the_end_of_a_word_is_not_held_back_while_text_is_missing(speed: float) -> None:
    utterance = open_marked(engine_of(), SpeakRequest(options={"m": 1, "n": 1}), "plain", speed)
    utterance.push_text("One two ")
    heard: list[ev.Event] = []
    ends = [one.end for one in spoken("One two", speed).words()]

    def sent() -> int:
        heard.extend(utterance.poll_events())
        return packets_follow(heard)

    eventually(lambda: sent() == ends[1], "the end of the second word")
    utterance.push_text("three ")
    utterance.end()
    heard += utterance.events()
    assert packets_follow(heard) == (heard[-1].samples if isinstance(heard[-1], ev.Ended) else -1)
    assert [type(one) for one in heard].count(ev.WordEnd) == 3


def test_no_sound_is_sent_early_where_credit_is_missing() -> None:
    """A flush would part the sound at each grant."""
    utterance = open_marked(engine_of(), SpeakRequest(credit_samples=2400), "plain", 2.0)
    utterance.push_text(TEXT)
    time.sleep(0.5)
    assert sum(len(one.pcm) for one in utterance.poll_events() if isinstance(one, ev.Audio)) < 2400
    utterance.grant(10**9)
    utterance.end()
    assert isinstance([*utterance.events()][-1], ev.Ended)


def test_a_player_that_pauses_costs_no_timers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread every 150 ms, for each utterance, until it plays on."""
    monkeypatch.setattr(stretched, "IDLE_MS", 60_000.0)  # called below
    utterance: Any = open_marked(engine_of(), SpeakRequest(credit_samples=2400), "plain", 2.0)
    utterance.push_text(TEXT)

    def is_used_up() -> bool:
        utterance.poll_events()
        return utterance._made + FRAME_SAMPLES > utterance._granted

    eventually(is_used_up, "the end of the credit")
    assert utterance._is_watched
    utterance._check_idle()
    assert not utterance._is_watched
    utterance.grant(4800)
    assert utterance._is_watched
    utterance.cancel()


def test_waits_of_callers_lie_in_the_stretched_sound() -> None:
    utterance = open_marked(engine_of(), SpeakRequest(), "plain", 2.0)
    utterance.push_text(TEXT)
    utterance.end()
    utterance.add_event(ev.Wait(reason="network", sample=4801, duration_ms=50.0))
    events = [*utterance.events()]
    assert [one.sample for one in events if isinstance(one, ev.Wait) and one.reason == "network"] == [4801]
    assert all(one.t_ms <= two.t_ms for one, two in pairwise(events))


def test_a_failure_leaves_the_sound_before_it() -> None:
    whole = spoken("One two", 2.0)
    utterance = open_marked(engine_of(fail_at_word=2), SpeakRequest(), "plain", 2.0)
    utterance.push_text(TEXT)
    utterance.end()
    events = [*utterance.events()]
    assert any(isinstance(one, ev.Failed) for one in events)
    assert packets_follow(events) == len(whole.pcm)
