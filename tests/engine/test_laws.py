"""The laws of the house (docs/laws.md) over every shipped voice and over tiny random ones."""

from pathlib import Path

import numpy as np
import pytest
from tinyvoice import write_tiny_voice

from studio.core import events as ev
from studio.core.ports import SpeakRequest
from studio.engine.loop import LocalEngine, open_engine
from studio.text.normalise import best

SHIPPED = Path(__file__).parents[2] / "assets" / "voices"
TEXT = "the morning light came in, slowly, over the old stone wall."
WINDOWS = [("S1", 1, 1), ("S1", 3, 1), ("S1", 5, 2), ("S2", 3, 1), ("S2", 4, 3)]


@pytest.fixture(scope="module", params=["tiny", "tiny-vocstream", "shipped"])
def engine(request, tmp_path_factory):
    if request.param == "shipped":
        root = SHIPPED
    else:
        root = tmp_path_factory.mktemp("voices")
        write_tiny_voice(root, vocoder="vocstream" if "vocstream" in request.param else "sourcefilter")
    engine = open_engine(root, best(), device="cpu", threads=1)
    yield engine
    engine.close()


def speak(
    engine: LocalEngine, pieces: list[str], window=("S1", 3, 1), seed: int = 3, ended: bool = True
) -> list[ev.Event]:
    """Events of a text pushed in pieces."""
    scheme, m, n = window
    utterance = engine.open(SpeakRequest(seed=seed, options={"scheme": scheme, "m": m, "n": n}))
    for piece in pieces:
        utterance.push_text(piece)
    if ended:
        utterance.end()
    return list(utterance.events())


def samples(events: list[ev.Event]) -> np.ndarray:
    """All PCM of events."""
    return np.concatenate([e.pcm for e in events if isinstance(e, ev.Audio)] or [np.zeros(0, np.int16)])


def of(kind: type, events: list[ev.Event]) -> list:
    """Events of a kind."""
    return [e for e in events if isinstance(e, kind)]


@pytest.mark.parametrize("window", WINDOWS)
def test_law_1_pieces_do_not_matter(engine, window):
    assert np.array_equal(samples(speak(engine, list(TEXT), window)), samples(speak(engine, [TEXT], window)))


def test_law_4_counts_and_the_last_event(engine):
    events = speak(engine, [TEXT])
    pcm = samples(events)
    frames = sum(len(e.levels) for e in of(ev.Frames, events))
    assert frames * events[0].frame_samples == len(pcm) == events[-1].samples > 0
    assert [ev.is_last(e) for e in events] == [False] * (len(events) - 1) + [True]
    assert np.array_equal(pcm, samples(speak(engine, [TEXT])))
    assert not np.array_equal(pcm, samples(speak(engine, [TEXT], seed=4)))
    at = 0
    for audio in of(ev.Audio, events):
        assert audio.sample == at
        at += len(audio.pcm)


@pytest.mark.parametrize("window", WINDOWS)
def test_law_5_segments_and_words_in_order(engine, window):
    events = speak(engine, [TEXT], window)
    words = [e.i for e in of(ev.Committed, events)]
    segments, ends = of(ev.Segment, events), of(ev.Eos, events)
    assert [i for s in segments for i in s.words] == words
    frames = [s.frame for s in segments] + [events[-1].samples // events[0].frame_samples]
    assert [e.frame for e in ends] == frames[1:] and frames[0] == 0
    starts, stops = of(ev.WordStart, events), of(ev.WordEnd, events)
    assert [e.i for e in starts] == [e.i for e in stops] == words
    assert all(a.sample <= b.sample for a, b in zip(starts, stops, strict=True))
    assert all(a.sample <= b.sample for a, b in zip(stops, starts[1:], strict=False))
    assert {e.source for e in starts + stops} <= {"eos", "estimate"}


@pytest.mark.parametrize("window", WINDOWS)
def test_law_7_nothing_waits_and_nothing_peeks(engine, window):
    scheme, m, n = window
    words = TEXT.split()
    whole = speak(engine, [TEXT], window)
    ends = {e.i: e.sample for e in of(ev.WordEnd, whole)}
    utterance = engine.open(SpeakRequest(seed=3, options={"scheme": scheme, "m": m, "n": n}))
    utterance.push_text(" ".join(words[:m]) + " ")
    got, spoken = [], 0
    stream = utterance.events()
    while spoken < n:  # with the first m words committed and no end, the first n words come
        event = next(stream)
        got.append(event)
        spoken += isinstance(event, ev.WordEnd)
    assert np.array_equal(samples(got), samples(whole)[: ends[n - 1]])
    utterance.push_text("entirely other words follow now and they change nothing of it ")
    utterance.end()
    got += list(stream)
    assert np.array_equal(samples(got)[: ends[n - 1]], samples(whole)[: ends[n - 1]])


def test_word_by_word_every_word_is_out_before_the_word_after_its_look_ahead(engine):
    m = 3
    words = TEXT.split()
    utterance = engine.open(SpeakRequest(options={"m": m, "n": 1}))
    stream = utterance.events()
    for i, word in enumerate(words):
        utterance.push_text(word + " ")
        due = i - m + 1
        while due >= 0:
            event = next(stream)
            assert not isinstance(event, ev.Failed)
            if isinstance(event, ev.WordEnd):
                assert event.i == due
                break
    utterance.cancel()
    assert isinstance(list(stream)[-1], ev.Ended)


def test_flush_speaks_what_is_committed_and_goes_on(engine):
    utterance = engine.open(SpeakRequest(options={"m": 5, "n": 1}))
    stream = utterance.events()
    utterance.push_text("good morning every")
    utterance.flush()
    ended = 0
    while ended < 2:
        ended += isinstance(next(stream), ev.WordEnd)
    utterance.push_text("one and all")
    utterance.end()
    assert [e.word for e in of(ev.Committed, list(stream))] == ["everyone", "and", "all"]


def test_others_change_nothing(engine):
    alone = samples(speak(engine, [TEXT]))
    first = engine.open(SpeakRequest(seed=3, options={"m": 3, "n": 1}))
    others = [engine.open(SpeakRequest(seed=9 + i)) for i in range(2)]
    for utterance in (first, *others):
        utterance.push_text(TEXT)
    others[0].cancel()
    first.end()
    others[1].end()
    assert np.array_equal(samples(list(first.events())), alone)
    for utterance in others:
        list(utterance.events())


@pytest.mark.parametrize("kind", ["tiny", "tiny-int8", "tiny-vocstream"])
def test_law_3_whoever_shares_the_batch(tmp_path, kind):
    """Six utterances that start one after another, one of them cancelled: each as if it were alone."""
    write_tiny_voice(
        tmp_path,
        vocoder="vocstream" if "vocstream" in kind else "sourcefilter",
        number_format="int8" if "int8" in kind else "float32",
    )
    engine = open_engine(tmp_path, best(), device="cpu", threads=1, places=6)
    sizes: list[int] = []
    module = engine.voice("tiny").family.modules["decode"]
    run = module.run

    def counted(slots, rows, inputs):
        sizes.append(len(rows))
        return run(slots, rows, inputs)

    module.run = counted
    requests = [
        SpeakRequest(voice=f"tiny:{speaker}", seed=k, temperature=0.5 + 0.1 * k, options={"m": m, "n": 1})
        for k, (speaker, m) in enumerate([("one", 1), ("two", 3), ("one", 5), ("two", 2), ("one", 3), ("two", 4)])
    ]
    texts = [TEXT, TEXT[7:], TEXT[12:], TEXT, TEXT[4:30], TEXT[18:]]

    def said(utterance) -> np.ndarray:
        return samples(list(utterance.events()))

    alone = []
    for request, text in zip(requests, texts, strict=True):
        one = engine.open(request)
        one.push_text(text)
        one.end()
        alone.append(said(one))
    assert set(sizes) == {1}
    utterances = []
    for request, text in zip(requests, texts, strict=True):
        utterances.append(engine.open(request))
        utterances[-1].push_text(text)
        if len(utterances) == 4:
            utterances[1].cancel()
        if len(utterances) != 2:
            utterances[-1].end()
    together = [said(one) for one in utterances]
    engine.close()
    assert max(sizes) >= 4, "they never met"
    for k, (wanted, got) in enumerate(zip(alone, together, strict=True)):
        assert np.array_equal(got, wanted[: len(got)]), f"utterance {k}"
        assert k == 1 or len(got) == len(wanted) > 0
