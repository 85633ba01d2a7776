"""The laws of the house (docs/laws.md) over every shipped voice and over tiny random ones."""

from pathlib import Path

import numpy as np
import pytest
from tinyvoice import write_tiny_voice

from studio.core import events as ev
from studio.core.ports import SpeakRequest
from studio.engine.engine import LocalEngine, open_engine
from studio.text.normalise import best

SHIPPED = Path(__file__).parents[2] / "assets" / "voices"
TEXT = "the morning light came in, slowly, over the old stone wall."


def family_of(voice: str) -> str:
    """The family that a voice's name says."""
    return next(
        (family for family in ("richtts", "s5", "t5", "ist", "dsm", "tacotron") if family in voice), "speakstream"
    )


SETTINGS: dict[str, list[dict]] = {
    "speakstream": [
        {"scheme": scheme, "m": m, "n": n}
        for scheme, m, n in [("S1", 1, 1), ("S1", 3, 1), ("S1", 5, 2), ("S2", 3, 1), ("S2", 4, 3)]
    ],
    "s5": [{"k": 1}, {"k": 2}, {"k": 3}],
    "dsm": [{"guidance": 1.0}, {"guidance": 2.0}],
    "tacotron": [
        {"clause_words": 3},
        {"clause_words": 1, "chunk_frames": 4},
        {"clause_words": 20, "chunk_frames": 32},
        {"mode": "whole"},
    ],
    "t5": [{"sentence_words": 2, "chunk_frames": 1}, {"sentence_words": 4, "chunk_frames": 60}],
    "richtts": [{"mode": "ngram", "n": 1}, {"mode": "ngram", "n": 4}, {"mode": "whole"}],
    "ist": [{"ratio": ratio} for ratio in ("1:3", "3:9", "whole")],
}
VOICES = [
    "tiny",
    "tiny-vocstream",
    "tiny-s5",
    "tiny-ist",
    "tiny-dsm",
    "tiny-tacotron",
    "tiny-richtts",
    "tiny-t5",
    "shipped",
]
EACH_SETTING = [(v, o) for v in VOICES for o in SETTINGS[family_of(v)]]
BY_WORDS = [voice for voice in VOICES if family_of(voice) not in ("ist", "dsm")]  # rules of tokens, of delays


def kinds(voice: str) -> dict[str, str]:
    """The vocoder and the family that a tiny voice's name says."""
    return {
        "vocoder": "vocstream" if "vocstream" in voice else "sourcefilter",
        "family": family_of(voice),
        "number_format": "int8" if "int8" in voice else "float32",
    }


@pytest.fixture(scope="module", params=VOICES)
def engine(request, tmp_path_factory):
    root = SHIPPED if request.param == "shipped" else tmp_path_factory.mktemp("voices")
    if root != SHIPPED:
        write_tiny_voice(root, **kinds(request.param))
    engine = open_engine(root, best(), device="cpu", threads=1)
    yield engine
    engine.close()


def first_window(options: dict) -> tuple[int, int]:
    """How many words are seen before the first sound, and how many are spoken then."""
    if "k" in options:
        return options["k"] + 1, 1
    if "clause_words" in options:  # all words of a clause, where no mark ends it before
        return (min(options["clause_words"], 5),) * 2
    if "sentence_words" in options:
        return (options["sentence_words"],) * 2
    return options["m"], options["n"]


def with_window(engine: LocalEngine, words: int) -> dict:
    """Options with which a family's first word waits until so many words are there."""
    return window_of(engine.cards()[0].family, words)


def window_of(family: str, words: int) -> dict:
    """The same by a family's name; IST-LM counts tokens instead, of which a word here has several."""
    if family == "dsm":  # two words ahead, whatever is asked; every third with guidance
        return {"guidance": 1.5 if words % 3 == 0 else 1.0}
    if family == "ist":
        return {"ratio": {1: "1:2", 2: "1:4", 3: "3:9", 4: "12:24", 5: "6:12"}[words]}
    if family == "richtts":
        return {"mode": "ngram", "n": words}
    if family == "t5":
        return {"sentence_words": words, "chunk_frames": 4}
    if family == "tacotron":
        return {"clause_words": words, "chunk_frames": 4}
    return {"k": min(max(words - 1, 1), 3)} if family == "s5" else {"m": words, "n": 1}


def speak(
    engine: LocalEngine, pieces: list[str], options: dict | None = None, seed: int = 3, ended: bool = True
) -> list[ev.Event]:
    """Events of a text pushed in pieces."""
    utterance = engine.open(SpeakRequest(seed=seed, options=with_window(engine, 3) if options is None else options))
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


@pytest.mark.parametrize(("engine", "options"), EACH_SETTING, indirect=["engine"])
def test_law_1_pieces_do_not_matter(engine, options):
    assert np.array_equal(samples(speak(engine, list(TEXT), options)), samples(speak(engine, [TEXT], options)))


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


@pytest.mark.parametrize(("engine", "options"), EACH_SETTING, indirect=["engine"])
def test_law_5_segments_and_words_in_order(engine, options):
    events = speak(engine, [TEXT], options)
    words = [e.i for e in of(ev.Committed, events)]
    segments, ends = of(ev.Segment, events), of(ev.Eos, events)
    assert [i for s in segments for i in s.words] == words
    frames = [s.frame for s in segments] + [events[-1].samples // events[0].frame_samples]
    assert frames[0] == 0 and sorted(frames) == frames and ends[-1].frame == frames[-1]
    if engine.cards()[0].family == "ist":  # a stretch is a segment for each chunk of text, and the last one ends it
        assert [e.frame for e in ends] == [frames[e.segment + 1] for e in ends]
    else:
        assert [e.frame for e in ends] == frames[1:]
    starts, stops = of(ev.WordStart, events), of(ev.WordEnd, events)
    assert [e.i for e in starts] == [e.i for e in stops] == words
    assert all(a.sample <= b.sample for a, b in zip(starts, stops, strict=True))
    assert all(a.sample <= b.sample for a, b in zip(stops, starts[1:], strict=False))
    assert {e.source for e in starts + stops} <= {"eos", "action", "attention", "estimate"}


@pytest.mark.parametrize(
    ("engine", "options"),
    [e for e in EACH_SETTING if e[0] in BY_WORDS and "mode" not in e[1]],
    indirect=["engine"],
)
def test_law_7_nothing_waits_and_nothing_peeks(engine, options):
    m, n = first_window(options)
    words = TEXT.split()
    whole = speak(engine, [TEXT], options)
    ends = {e.i: e.sample for e in of(ev.WordEnd, whole)}
    utterance = engine.open(SpeakRequest(seed=3, options=options))
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


@pytest.mark.parametrize(("engine", "options"), [e for e in EACH_SETTING if e[0] == "tiny-ist"], indirect=["engine"])
def test_law_7_in_tokens(engine, options):
    """With so many whole chunks of n tokens committed and no end, m frames come for each; no later text changes one."""
    whole = samples(speak(engine, [TEXT], options))
    encode = engine.voice("tiny").family.bpe.encode
    n, _, m = options["ratio"].partition(":")
    due = []  # frames that must be there after each word
    tokens = 0
    for word in TEXT.split():
        tokens += len(encode(word))
        due.append(0 if n == "whole" else tokens // int(n) * int(m))
    utterance = engine.open(SpeakRequest(seed=3, options=options))
    stream, got = utterance.events(), []
    for word, frames in zip(TEXT.split()[:4], due, strict=False):
        utterance.push_text(word + " ")
        while len(samples(got)) < frames * 600:
            got.append(next(stream))
    assert len(samples(got)) == due[3] * 600, "and no more than that"
    utterance.push_text("entirely other words follow now and they change nothing of it ")
    utterance.end()
    got += list(stream)
    assert np.array_equal(samples(got)[: due[3] * 600], whole[: due[3] * 600])
    assert n == "whole" or not np.array_equal(samples(got), whole)


@pytest.mark.parametrize("engine", BY_WORDS, indirect=True)
def test_word_by_word_every_word_is_out_before_the_word_after_its_look_ahead(engine):
    m = 3
    words = TEXT.split()
    utterance = engine.open(SpeakRequest(options=with_window(engine, m)))
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
    utterance = engine.open(SpeakRequest(options=with_window(engine, 4)))
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
    first = engine.open(SpeakRequest(seed=3, options=with_window(engine, 3)))
    others = [engine.open(SpeakRequest(seed=9 + i)) for i in range(2)]
    for utterance in (first, *others):
        utterance.push_text(TEXT)
    others[0].cancel()
    first.end()
    others[1].end()
    assert np.array_equal(samples(list(first.events())), alone)
    for utterance in others:
        list(utterance.events())


@pytest.mark.parametrize(
    "kind",
    [
        "tiny",
        "tiny-int8",
        "tiny-vocstream",
        "tiny-s5",
        "tiny-s5-int8",
        "tiny-ist",
        "tiny-ist-int8",
        "tiny-dsm",
        "tiny-dsm-int8",
        "tiny-tacotron",
        "tiny-tacotron-int8",
        "tiny-richtts",
        "tiny-richtts-int8",
        "tiny-t5",
        "tiny-t5-int8",
    ],
)
def test_law_3_whoever_shares_the_batch(tmp_path, kind):
    """Six utterances that start one after another, one of them cancelled: each as if it were alone."""
    write_tiny_voice(tmp_path, **kinds(kind))
    engine = open_engine(tmp_path, best(), device="cpu", threads=1, slots=6)
    sizes: list[int] = []
    module = engine.voice("tiny").family.modules["decode"]
    run = module.run

    def counted(slots, rows, inputs):
        sizes.append(len(rows))
        return run(slots, rows, inputs)

    module.run = counted
    requests = [
        SpeakRequest(
            voice=f"tiny:{speaker}",
            seed=k,
            temperature=0.5 + 0.1 * k,
            options=window_of(family_of(kind), m),
        )
        for k, (speaker, m) in enumerate([("one", 1), ("two", 3), ("one", 5), ("two", 2), ("one", 3), ("two", 4)])
    ]
    texts = [TEXT, TEXT[7:], TEXT[12:], TEXT, TEXT[4:30], TEXT[18:]]
    if family_of(kind) == "tacotron":  # quick, and now and then at a clause's beginning: give them time to meet
        texts = [f"{text} {TEXT} {TEXT}" for text in texts]

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
