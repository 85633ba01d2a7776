"""The laws (docs/laws.md) over every registered family, including one from another package, and a shipped voice.

A new family needs an entry in ``tinyvoice.FAMILIES``.
"""

import math
from collections.abc import Mapping
from itertools import accumulate
from typing import Any

import numpy as np
import pytest
from engine.families.family_engines import (
    FAMILIES,
    ROWS,
    SPEAKSTREAMS,
    TEXT,
    VARIANTS,
    choices,
    facts_of,
    speak,
)
from listening import FRAME, Listener, is_consistent, of, samples
from tinyvoice import FAMILIES as FAMILIES_OF_THE_STUDIO

from studio.core import events as ev
from studio.core.errors import BadVoice, TooLate
from studio.core.ports import SpeakRequest
from studio.core.traces.trace import collect_trace
from studio.engine.engine import LocalEngine
from studio.engine.families.base import family_info
from studio.engine.voices import Voice
from studio.text import phonemes

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("engine", [*FAMILIES, *VARIANTS], indirect=True)
def test_laws_1_4_and_5_pieces_counts_and_order(engine: LocalEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    voice, finite = engine.voice(engine.cards()[0].name), list[bool]()
    run = voice.vocode.run

    def watched(*given: Any) -> list[np.ndarray]:
        results = run(*given)
        finite.extend(bool(np.isfinite(one).all()) for one in results)
        return results

    monkeypatch.setattr(voice.vocode, "run", watched)
    spoken = 0
    for options in choices(voice.card):
        events = speak(engine, [*TEXT], options=options)
        if events is None:
            continue
        spoken += 1
        sound = samples(events)
        assert np.array_equal(sound, samples(speak(engine, [TEXT], options=options))), "law 1"
        frames = sum(len(one.levels) for one in of(ev.Frames, events))
        assert frames * voice.card.frame_samples == len(sound) == events[-1].samples > 0
        assert [one.sample for one in of(ev.Audio, events)] == [
            *accumulate([len(one.pcm) for one in of(ev.Audio, events)][:-1], initial=0)
        ]
        assert all(math.isfinite(p) for one in of(ev.Frames, events) for p in one.p_eos)
        assert all(math.isfinite(one.p) for one in of(ev.Eos, events))
        assert [ev.is_last(one) for one in events] == [False] * (len(events) - 1) + [True]
        _are_in_order(events, frames, is_chunked=facts_of(voice.card.family).by_ratio)
    assert spoken and finite and all(finite), "law 4: nothing but numbers leaves"
    assert not np.array_equal(samples(speak(engine, [TEXT])), samples(speak(engine, [TEXT], seed=4)))


def _are_in_order(events: list[ev.Event], frames: int, *, is_chunked: bool) -> None:
    """Law 5. ``is_chunked``: a passage has a segment for each chunk of text, and the last one ends it."""
    words, segments = [one.i for one in of(ev.Committed, events)], of(ev.Segment, events)
    assert [i for one in segments for i in one.words] == words and segments[0].sample == 0
    borders, closed = [*(one.frame for one in segments), frames], of(ev.Eos, events)
    assert borders[0] == 0 and sorted(borders) == borders and closed[-1].frame == frames
    assert [one.frame for one in closed] == (
        [borders[one.segment + 1] for one in closed] if is_chunked else borders[1:]
    )
    starts, ends = of(ev.WordStart, events), of(ev.WordEnd, events)
    assert [one.i for one in starts] == [one.i for one in ends] == words
    assert all(a.sample <= b.sample for a, b in zip(starts, ends, strict=True))
    assert all(a.sample <= b.sample for a, b in zip(ends, starts[1:], strict=False))
    assert {one.source for one in starts + ends} <= {"eos", "action", "attention", "estimate"}


def _in_what_segments_say(engine: LocalEngine, options: Mapping[str, Any], look_ahead: int) -> None:
    """A segment starts once the words in ``seen`` are committed, and later text does not change its samples."""
    words = TEXT.replace(",", "").split()
    whole = speak(engine, [" ".join(words)], options=options)
    due = [one for one in of(ev.Segment, whole) if max(one.seen) < len(words) - 1]
    assert len(due) >= 3 and all(max(one.seen) >= one.words[0] + look_ahead for one in due)
    utterance = engine.open(SpeakRequest(seed=3, options=options))
    stream, got, pushed = utterance.events(), list[ev.Event](), 0
    for segment in due:
        for word in words[pushed : max(segment.seen) + 1]:
            utterance.push_text(word + " ")
            pushed += 1
        while segment.index not in [one.index for one in of(ev.Segment, got)]:
            got.append(next(stream))
            assert not ev.is_last(got[-1])
    utterance.push_text("and then it was another text to its end ")
    utterance.end()
    got += [next(stream), *stream]
    said = due[-1].sample
    assert said > 0 and np.array_equal(samples(got)[:said], samples(whole)[:said])
    assert not np.array_equal(samples(got), samples(whole))


def test_law_7_nothing_waits_and_nothing_peeks(engine: LocalEngine) -> None:
    """Word i is spoken before word i + L + 1 is pushed, and later text changes no sample of it."""
    card, words = engine.cards()[0], TEXT.replace(",", "").split()
    facts = facts_of(card.family)
    if facts.delayed:
        _in_what_segments_say(engine, {}, card.look_ahead_words)
        return
    if facts.clauses is not None:
        _in_what_segments_say(engine, *facts.clauses)
        return
    by_ratio = facts.by_ratio
    utterance = engine.open(SpeakRequest(seed=3))
    stream, got = utterance.events(), list[ev.Event]()

    def out() -> int:
        if by_ratio:
            return len({i for one in of(ev.Segment, got) for i in one.words})
        return len(of(ev.WordEnd, got))

    for i, word in enumerate(words[:6]):
        utterance.push_text(word + " ")
        while i >= card.look_ahead_words and out() < i - card.look_ahead_words + 1:
            got.append(next(stream))
            assert not ev.is_last(got[-1])
    utterance.push_text("and then it was another text to its end ")
    utterance.end()
    said = of(ev.Segment if by_ratio else ev.WordEnd, got)[-1].sample
    changed = [*got, *stream]
    whole = speak(engine, [" ".join(words)])
    assert said > 0 and np.array_equal(samples(changed)[:said], samples(whole)[:said])


WINDOWS = [("speakstream", {"m": m, "n": 1}) for m in (1, 3)] + [
    (family, options) for family, one in FAMILIES_OF_THE_STUDIO.items() if one.first_window for options in one.settings
]


@pytest.mark.parametrize(
    ("engine", "options"),
    WINDOWS + [(name, options) for name in SPEAKSTREAMS for family, options in WINDOWS if family == "speakstream"],
    indirect=["engine"],
)
def test_law_7_the_first_window_is_enough(engine: LocalEngine, options: dict[str, Any]) -> None:
    """With the first m words committed and no end, the first n words come; later text changes no sample of them."""
    first_window = facts_of(engine.cards()[0].family).first_window
    assert first_window is not None
    m, n = first_window(options)
    whole = speak(engine, [TEXT], options=options)
    end = {one.i: one.sample for one in of(ev.WordEnd, whole)}[n - 1]
    utterance = engine.open(SpeakRequest(seed=3, options=options))
    utterance.push_text(" ".join(TEXT.split()[:m]) + " ")
    stream, got = utterance.events(), list[ev.Event]()
    while len(of(ev.WordEnd, got)) < n:
        got.append(next(stream))
    assert np.array_equal(samples(got), samples(whole)[:end])
    utterance.push_text("entirely other words follow now and they change nothing of it ")
    utterance.end()
    assert np.array_equal(samples([*got, *stream])[:end], samples(whole)[:end])


@pytest.mark.parametrize(
    ("engine", "ratio"), [("ist", ratio) for ratio in ("1:3", "3:9", "whole")], indirect=["engine"]
)
def test_law_7_in_tokens(engine: LocalEngine, ratio: str) -> None:
    """With whole chunks of n tokens committed and no end, m frames come for each; no later text changes one."""
    whole = samples(speak(engine, [TEXT], options={"ratio": ratio}))
    encode = engine.voice("tiny").family.bpe.encode
    n, _, m = ratio.partition(":")
    tokens = [*accumulate(len(encode(word)) for word in TEXT.split()[:4])]
    due = [0 if ratio == "whole" else 600 * (count // int(n) * int(m)) for count in tokens]  # samples after each word
    utterance = engine.open(SpeakRequest(seed=3, options={"ratio": ratio}))
    stream, got = utterance.events(), list[ev.Event]()
    for word, count in zip(TEXT.split(), due, strict=False):
        utterance.push_text(word + " ")
        while len(samples(got)) < count:
            got.append(next(stream))
    assert len(samples(got)) == due[-1], "and no more than that"
    utterance.push_text("entirely other words follow now and they change nothing of it ")
    utterance.end()
    sound = samples([*got, *stream])
    assert np.array_equal(sound[: due[-1]], whole[: due[-1]])
    assert ratio == "whole" or not np.array_equal(sound, whole)


@pytest.mark.parametrize("engine", [*FAMILIES, *VARIANTS], indirect=True)
def test_flush_speaks_what_is_committed_and_goes_on(engine: LocalEngine) -> None:
    utterance = engine.open(SpeakRequest(options=facts_of(engine.cards()[0].family).window(4)))
    stream = utterance.events()
    utterance.push_text("good morning every")
    utterance.flush()
    ended = 0
    while ended < 2:
        ended += isinstance(next(stream), ev.WordEnd)
    utterance.push_text("one and all")
    utterance.end()
    assert [one.word for one in of(ev.Committed, [*stream])] == ["everyone", "and", "all"]


WORDS = "one two three four five six seven eight nine ten eleven twelve".split()


def text(words: list[str]) -> str:
    return "".join(f"{word} " for word in words)


def revisable(engine: LocalEngine, words: list[str] = WORDS, **more: Any) -> Listener:
    """A listener to a text of several words, with options for short clauses."""
    options, _ = facts_of(engine.cards()[0].family).clauses or ({}, 0)
    listener = Listener(engine, options, **more)
    listener.utterance.push_text(text(words))
    listener.utterance.end()
    return listener


def partly_synthesized(engine: LocalEngine, words: list[str] = WORDS) -> tuple[Listener, int]:
    """A listener whose credit covers three quarters of the samples, and the number of all samples."""
    whole = len(revisable(engine, words).rest().pcm)
    listener = revisable(engine, words, credit_samples=whole * 3 // 4)
    listener.held()
    return listener, whole


def test_law_6_families_without_revision_refuse_it(engine: LocalEngine) -> None:
    listener = revisable(engine, credit_samples=4 * FRAME)
    if not facts_of(engine.cards()[0].family).revises:
        with pytest.raises(TooLate, match="cannot revise text"):
            listener.utterance.revise(len(text(WORDS[:11])), "other ")
    else:
        listener.utterance.revise(len(text(WORDS[:11])), "other ")
    assert [word.text for word in listener.rest().words()][:11] == WORDS[:11]


def test_law_6_the_same_text_changes_no_sample(engine: LocalEngine) -> None:
    if not facts_of(engine.cards()[0].family).revises:
        return
    straight = revisable(engine).rest()
    listener, _ = partly_synthesized(engine)
    at = listener.utterance.settled_chars()
    listener.utterance.revise(at, text(WORDS)[at:])
    trace = listener.rest()
    assert not listener.of(ev.Revised) and np.array_equal(trace.pcm, straight.pcm)


def test_law_6_replaced_words_that_the_net_has_not_seen_leave_no_trace(engine: LocalEngine) -> None:
    if not facts_of(engine.cards()[0].family).revises:
        return
    new = [*WORDS[:6], "other", "words"]
    listener, _ = partly_synthesized(engine, WORDS[:8])  # few words: DSM-TTS cannot restore what its slot has dropped
    listener.utterance.revise(len(text(WORDS[:6])), text(new[6:]))
    trace, straight = listener.rest(), revisable(engine, new).rest()
    is_consistent(trace)
    assert [word.text for word in trace.words()] == new
    assert np.array_equal(trace.pcm, straight.pcm) and np.array_equal(trace.frames, straight.frames)


@pytest.mark.parametrize("then", [["and", "another", "one"], []], ids=["more", "nothing"])
@pytest.mark.parametrize("heard", [0.1, 0.3, 0.5])
def test_law_6_played_samples_stay_and_the_new_text_follows(engine: LocalEngine, heard: float, then: list[str]) -> None:
    """Repeated revisions from the first revisable character on."""
    if not facts_of(engine.cards()[0].family).revises:
        return
    listener, whole = partly_synthesized(engine)
    played = round(whole * heard)
    listener.utterance.played(played)
    before = collect_trace({}, listener.events).pcm
    at = listener.utterance.settled_chars()
    assert 0 < at < len(text(WORDS))
    with pytest.raises(TooLate, match="spoken or being spoken"):
        listener.utterance.revise(at - 1, "x")
    stay = text(WORDS)[:at].split()
    cuts = list[int]()
    for words in (["other", "words"] * 8, ["quite", "other", "words", "now"] * 4, then):  # more than its credit says
        listener.utterance.revise(at, text(words))
        cuts.append(listener.until(ev.Revised).from_sample)
    trace = listener.rest()
    is_consistent(trace)
    assert min(cuts) >= played and np.array_equal(trace.pcm[: min(cuts)], before[: min(cuts)])
    assert [word.text for word in trace.words()] == [*stay, *then]
    assert len(trace.pcm) > min(cuts) or not then


def test_g2p_runs_outside_this_process(engine: LocalEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    guesses = phonemes._g2p_cache()
    monkeypatch.setattr(guesses, "_net", lambda word: 1 / 0)  # in this process
    family = engine.cards()[0].family
    own = "".join(filter(str.isalpha, family))  # unknown to the caches
    events = speak(engine, [f"the {own}blor came in, over {own}wiv walls."])
    assert isinstance(events[-1], ev.Ended) and len(samples(events))
    if facts_of(family).pronounces:
        assert {f"{own}blor", f"{own}wiv"} <= guesses._cache.keys()


def test_an_unknown_family_is_reported_with_the_registered_ones() -> None:
    with pytest.raises(BadVoice, match=r"registered families: .*speakstream"):
        family_info("nobody")


def test_slots_are_freed(engine: LocalEngine) -> None:
    voice: Voice = engine.voice(engine.cards()[0].name)
    assert engine.free_slots() == ROWS
    assert sorted(voice.free_slots) == [*range(ROWS * voice.family.slots_per_row)]
