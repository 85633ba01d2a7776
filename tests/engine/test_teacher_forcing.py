"""Frames given to a net, not drawn: what it says of them is what it said while it spoke, and no sample changes."""

import threading
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
import tinyvoice
import torch
import toyfamily
from listening import say
from tinyvoice import write_tiny_voice

from studio.core import events as ev
from studio.core.errors import BadFile, BadText, BadVoice, Busy
from studio.core.ports import SpeakRequest
from studio.core.traces.teacher_forcing import (
    CallerGone,
    NotSupported,
    SupportsAttention,
    SupportsTeacherForcing,
    TeacherForcingRequest,
    WordSpan,
)
from studio.core.traces.trace import Trace, collect_trace, open_trace
from studio.core.traces.trace_writer import save_trace
from studio.engine.engine import LocalEngine, open_engine
from studio.engine.families.base import family_info, family_names
from studio.engine.families.common.teacher_forcing import TeacherForcedFamily, TeacherForcingInput
from studio.engine.families.speakstream.model import SpeakStream
from studio.engine.families.speakstream.policy import SpeakStreamOptions
from studio.engine.families.speakstream.runner import SpeakStreamFamily
from studio.engine.tokenizers import dmel
from studio.text.normalise import plain
from studio.train.families.speakstream_fit import BOS, FRAME, SpeakStreamTrainingModule, collate, interleave
from studio.train.features import Sentence

pytestmark = pytest.mark.slow

TEXT = "one two three four five six seven eight nine ten eleven twelve"
FORCIBLE = [name for name in family_names() if family_info(name).supports_teacher_forcing]
ONE_WORD_EACH = {"tacotron": {"clause_words": 1}, "richtts": {"mode": "ngram", "n": 1}, "ngram-richtts": {"n": 1}}


@pytest.fixture(params=FORCIBLE)
def engine(request, tmp_path):
    speaks_on = {"eos_bias": -4.0} if request.param == "t5" else {}  # it reads all of a sentence: one end is the end
    write_tiny_voice(tmp_path, family=request.param, **speaks_on)
    with closing(open_engine(tmp_path, plain(), device="cpu")) as engine:
        yield engine


@pytest.fixture
def stream(tmp_path):
    write_tiny_voice(tmp_path)
    with closing(open_engine(tmp_path, plain(), device="cpu")) as engine:
        yield engine


def spoken(engine: LocalEngine, text: str = TEXT, flush_after: int = 0, **options) -> Trace:
    if flush_after:
        utterance, words = engine.open(SpeakRequest(seed=4, options=options)), text.split()
        utterance.push_text(" ".join(words[:flush_after]) + " ")
        utterance.flush()
        made = []
        for event in utterance.events():
            made.append(event)
            if isinstance(event, ev.WordEnd) and event.i == flush_after - 1:
                utterance.push_text(" ".join(words[flush_after:]))
                utterance.end()
        return collect_trace(utterance.provenance, made)
    utterance = say(engine, text, seed=4, options=options)
    return collect_trace(utterance.provenance, utterance.events())


def test_an_engine_attends(engine) -> None:
    recomputer = engine.recomputer()
    assert isinstance(recomputer, SupportsAttention) and isinstance(recomputer, SupportsTeacherForcing)


def test_what_was_said_while_speaking_is_said_again(engine) -> None:
    """p_eos of every frame; the tiny net forgets its oldest segments after 60 frames, so that is followed, too."""
    trace = spoken(engine, " ".join([TEXT] * 4))
    assert len(trace.frames) > 90
    found = engine.recomputer().compute_attention(trace)
    assert found.difference(trace.p_eos) < 1e-4
    layers = 1 if trace.meta["family"] == "tacotron" else 2
    assert found.by_layer.shape[:2] == (layers, len(trace.frames)) and np.isfinite(found.log_likelihood).all()
    assert (found.word >= 0).all() and (found.shares.sum(1) > 0).all() and (found.shares.sum(1) <= 1.001).all()


@pytest.mark.parametrize(
    "options", [{"m": 1}, {"m": 4, "n": 2}, {"m": 6, "n": 3, "scheme": "S2"}, {"scheme": "S2", "m": 2}]
)
def test_every_window_is_followed(stream, options) -> None:
    trace = spoken(stream, **options)
    assert stream.recomputer().compute_attention(trace).difference(trace.p_eos) < 1e-4


@pytest.mark.parametrize(
    ("family", "options"),
    [
        ("ist", {"ratio": "whole"}),
        ("ist", {"ratio": "3:12"}),
        ("dsm", {"guidance": 2.0}),
        ("dsm", {"other_speaker": 1}),
        ("tacotron", {"mode": "whole"}),
        ("tacotron", {"clause_words": 3, "chunk_frames": 1}),
        ("richtts", {"mode": "ngram", "n": 3}),
    ],
)
def test_what_a_family_can_do_is_followed(tmp_path, family, options) -> None:
    write_tiny_voice(tmp_path, family=family)
    with closing(open_engine(tmp_path, plain(), device="cpu")) as made:
        trace = spoken(made, " ".join([TEXT + "."] * 3), **options)
        assert made.recomputer().compute_attention(trace).difference(trace.p_eos) < 1e-4


def test_a_flush_is_followed(engine) -> None:
    trace = spoken(engine, flush_after=5)
    assert any(isinstance(one, ev.Flushed) for one in trace.events)
    assert engine.recomputer().compute_attention(trace).difference(trace.p_eos) < 1e-4


def test_what_was_broken_off_is_followed_as_far_as_it_went(engine) -> None:
    utterance = engine.open(SpeakRequest(seed=4, credit_samples=32 * 600))  # it is not over before it is cancelled
    utterance.push_text(" ".join([TEXT] * 3))
    utterance.end()
    made = []
    for event in utterance.events():
        made.append(event)
        if isinstance(event, ev.Audio) and event.sample + len(event.pcm) > 25 * 600:
            utterance.cancel()
    trace = collect_trace(utterance.provenance, made)
    assert any(isinstance(one, ev.Cancelled) for one in trace.events) and len(trace.frames) > 25
    found = engine.recomputer().compute_attention(trace)
    assert found.difference(trace.p_eos) < 1e-4 and len(found.word) == len(trace.frames)


def test_options_that_change_in_mid_text_are_followed(stream) -> None:
    utterance = stream.open(SpeakRequest(seed=1, options={"m": 5}))
    utterance.push_text(TEXT + " ")
    made = []
    for event in utterance.events():
        made.append(event)
        if isinstance(event, ev.WordEnd) and event.i == 3:
            utterance.set_options({"m": 2, "scheme": "S2"})
            utterance.end()
    trace = collect_trace(utterance.provenance, made)
    assert any(isinstance(one, ev.OptionsChanged) for one in trace.events)
    assert stream.recomputer().compute_attention(trace).difference(trace.p_eos) < 1e-4


def test_other_frames_are_other_figures(stream) -> None:
    trace = spoken(stream)
    trace.frames = (trace.frames + 3) % dmel.LEVELS
    assert stream.recomputer().compute_attention(trace).difference(trace.p_eos) > 1e-3


def test_looking_changes_no_sample(engine) -> None:
    alone = spoken(engine)
    stop, looks = threading.Event(), []

    def look() -> None:
        while not stop.is_set():
            looks.append(engine.recomputer().compute_attention(alone))

    beside = threading.Thread(target=look)
    beside.start()
    try:
        again = [spoken(engine) for _ in range(3)]
    finally:
        stop.set()
        beside.join()
    assert looks
    for one in again:
        np.testing.assert_array_equal(one.pcm, alone.pcm)
        np.testing.assert_array_equal(one.p_eos, alone.p_eos)


def test_one_at_a_time_and_only_for_those_who_wait(engine) -> None:
    trace = spoken(engine)
    with pytest.raises(CallerGone):
        engine.recomputer().compute_attention(trace, lambda: False)
    refused = []

    def asks_beside() -> bool:
        with pytest.raises(Busy):
            engine.recomputer().compute_attention(trace)
        refused.append(True)
        return True

    engine.recomputer().compute_attention(trace, asks_beside)
    assert refused


def test_the_pass_is_that_of_training(stream) -> None:
    """p_eos and likelihood of a sentence with known word ends: as the whole sequence in training gives them."""
    family = stream.voice("tiny").family
    assert isinstance(family, SpeakStreamFamily)
    rng = np.random.default_rng(5)
    levels = rng.integers(0, dmel.LEVELS, (40, dmel.CHANNELS), dtype=np.uint8)
    words, ends = TEXT.split()[:6], [5, 11, 17, 22, 30, 36]
    sentence = Sentence("two", words, ends, levels, np.zeros(40, np.uint8))
    options = SpeakStreamOptions("S1", 3, 1)
    silence = family.prompt(1)
    row = interleave(sentence, silence, options, rng, prompt=len(silence))
    batch = collate([row], ["one", "two"], 0.0, rng)
    fitter = SpeakStreamTrainingModule(SpeakStream(family.net.config))
    fitter.net = family.net
    with torch.no_grad():
        logits, eos = family.net.heads(fitter.hidden(batch))
    places = [k for k in range(len(row)) if row.kind[k] == FRAME and row.value[k] >= len(silence)]
    targets = [k for k in range(len(row)) if row.target[k] >= 0]
    likely = logits.log_softmax(-1)[targets].gather(-1, torch.from_numpy(levels).long()[..., None])[..., 0].sum(-1)
    given = TeacherForcingInput(words, levels, 1, {"scheme": "S1", "m": 3, "n": 1}, word_ends=ends)
    found = [*family.teacher_force(given)]
    assert [one.first for one in found] == [0, *ends[:-1]] and BOS in row.kind
    p_eos = np.concatenate([one.p_eos for one in found])
    np.testing.assert_allclose(p_eos, eos.sigmoid()[places].numpy(), atol=1e-4)
    np.testing.assert_allclose(np.concatenate([one.log_likelihood for one in found]), likely.numpy(), rtol=1e-4)


def test_a_recording_becomes_a_trace_that_can_be_kept(engine, tmp_path) -> None:
    said = spoken(engine)
    trace = engine.recomputer().teacher_force(
        TeacherForcingRequest(said.pcm, said.rate_hz, text=TEXT, voice="tiny:two")
    )
    assert trace.meta["source"] == "forced" and trace.meta["speaker"] == "two" and trace.meta["placed_by"] == "p_eos"
    assert "temperature" not in trace.meta and "vocoder" not in trace.meta
    assert len(trace.frames) == len(trace.p_eos) == len(trace.layers["log_likelihood"])
    save_trace(trace, tmp_path / "kept.trace")
    again = open_trace(tmp_path / "kept.trace")
    assert again.meta == trace.meta | {"channels": 80} and again.words() == trace.words()
    for name, layer in trace.layers.items():
        np.testing.assert_array_equal(again.layers[name], layer)
    np.testing.assert_array_equal(again.pcm, said.pcm)
    found = engine.recomputer().compute_attention(again)  # a forced trace is one like any other
    assert found.difference(trace.p_eos) < 1e-4
    np.testing.assert_allclose(found.shares, trace.layers["attention"], atol=2e-3)


def test_words_lie_where_a_reference_says(engine) -> None:
    rng = np.random.default_rng(0)
    pcm = (3000 * rng.standard_normal(48_000)).astype(np.int16)
    spans = [WordSpan("Hello", 0.2, 0.7), WordSpan("my", 0.7, 1.0), WordSpan("friend", 1.3, 2.9)]
    family = engine.cards()[0].family
    one_word_each = ONE_WORD_EACH.get(family, {})
    trace = engine.recomputer().teacher_force(
        TeacherForcingRequest(pcm, 16_000, spans=spans, options=one_word_each, placed_by="a.TextGrid")
    )
    assert trace.rate_hz == 24_000 and len(trace.pcm) == 72_000
    assert [(word.start, word.end, word.source) for word in trace.words()] == [
        (4800, 16800, "aligner"), (16800, 24000, "aligner"), (31200, 69600, "aligner")
    ]  # fmt: skip
    begun = {
        "s5": [0, 28],
        "t5": [0],
        "ist": [*range(0, 46, 3)],
        "dsm": [0, 28, 52],
    }  # what S5 looks ahead to is in one step
    assert [one.frame for one in trace.segments()] == begun.get(family, [0, 28, 40])
    assert len(trace.p_eos) == len(trace.frames) == 120


def test_words_of_a_reference_are_cut_as_texts_are(engine) -> None:
    family, pcm = engine.cards()[0].family, np.ones(72_000, np.int16)
    spans = [WordSpan("one\x1cmore", 0.1, 0.5), WordSpan("two", 0.5, 1.0), WordSpan("three", 2.0, 2.5)]
    trace = engine.recomputer().teacher_force(
        TeacherForcingRequest(pcm, 24_000, spans=spans, options=ONE_WORD_EACH.get(family, {}))
    )
    assert [word.start for word in trace.words()][-2:] == [12_000, 48_000]
    for back in ([spans[1], spans[0]], [spans[2], spans[1]]):
        with pytest.raises(BadFile, match="begins earlier than the one before it"):
            engine.recomputer().teacher_force(TeacherForcingRequest(pcm, 24_000, spans=back))


def test_a_segment_of_minutes_is_refused_before_it_takes_the_memory(engine) -> None:
    minute = TeacherForcingRequest(np.ones(60 * 1000, np.int16), 1000, text="one")
    if engine.cards()[0].family in ("tacotron", "dsm"):  # no frame attends to all frames of a segment
        assert len(engine.recomputer().teacher_force(minute).frames) == 2400
        return
    with pytest.raises(BadFile, match=r"would have 2,[34]\d\d frames, and 2,000 is the most; give the text of all"):
        engine.recomputer().teacher_force(minute)


def test_what_cannot_be_forced_is_refused_in_words(stream, tmp_path) -> None:
    second = np.ones(24_000, np.int16)
    with pytest.raises(BadText, match="no word"):
        stream.recomputer().teacher_force(TeacherForcingRequest(second, 24_000, text="..."))
    with pytest.raises(BadFile, match="too long"):
        stream.recomputer().teacher_force(TeacherForcingRequest(np.ones(601 * 1000, np.int16), 1000, text="one"))
    with pytest.raises(BadVoice):
        stream.recomputer().teacher_force(TeacherForcingRequest(second, 24_000, text="one", voice="nobody"))
    for rate_hz in (24_000, 8_000):
        with pytest.raises(BadFile, match="at least 50 ms"):
            stream.recomputer().teacher_force(
                TeacherForcingRequest(np.ones(rate_hz // 20 - 1, np.int16), rate_hz, text="one")
            )
        shortest = TeacherForcingRequest(np.ones(rate_hz // 20, np.int16), rate_hz, text="one two")
        assert len(stream.recomputer().teacher_force(shortest).frames) == 2
    trace = spoken(stream)
    trace.frames = trace.frames[:0]
    with pytest.raises(BadFile, match="no frame"):
        stream.recomputer().compute_attention(trace)
    trace = spoken(stream)
    trace.meta["checkpoint_sha256"] = {"other": "weights"}
    with pytest.raises(BadVoice, match="have changed since"):
        stream.recomputer().compute_attention(trace)
    damaged = [("seed", None), ("seed", -1), ("seed", 2**70), ("options", []), ("options", None), ("options", True)]
    for name, value in damaged:
        trace = spoken(stream)
        trace.meta[name] = value
        with pytest.raises(BadFile, match="it is damaged: no utterance has this value"):
            stream.recomputer().compute_attention(trace)
    trace = spoken(stream)
    trace.events = [one for one in trace.events if not (isinstance(one, ev.Segment) and one.index == 1)]
    with pytest.raises(BadFile, match="saw other words"):
        stream.recomputer().compute_attention(trace)


def test_a_family_of_another_package_that_cannot_says_so(tmp_path) -> None:
    with pytest.MonkeyPatch.context() as patch, toyfamily.installed(tmp_path):
        patch.setitem(tinyvoice.NETS, "toy", lambda _: toyfamily.Net(toyfamily.Config()))
        write_tiny_voice(tmp_path, family="toy")
        with closing(open_engine(tmp_path, plain(), device="cpu")) as other:
            assert not other.recomputer().teacher_forcing_cards()
            with pytest.raises(NotSupported, match=r"family toy.* these families do: .*tacotron"):
                other.recomputer().teacher_force(TeacherForcingRequest(np.ones(24_000, np.int16), 24_000, text="one"))


@pytest.mark.parametrize("family", family_names())
def test_who_says_that_it_can_be_given_frames_can(tmp_path, family) -> None:
    write_tiny_voice(tmp_path, family=family)
    supports = family_info(family).supports_teacher_forcing
    with closing(open_engine(tmp_path, plain(), device="cpu")) as made:
        assert isinstance(made.voice("tiny").family, TeacherForcedFamily) == supports
        assert [card.name for card in made.recomputer().teacher_forcing_cards()] == ["tiny"] * supports


@pytest.mark.parametrize("word", ["\x1b[31m", "\x00", "", "two words", "Two", "42", "\u00e9", "a" * 41, "a" * 100_000])
def test_a_word_that_nobody_says_is_refused(engine, word) -> None:
    """By every family: what a trace says may come from anywhere, and nets know their own letters only."""
    trace = spoken(engine, "one two three")
    trace.events = [replace(one, word=word) if isinstance(one, ev.Committed) else one for one in trace.events]
    with pytest.raises(BadFile, match="word 0 of the trace is "):
        engine.recomputer().compute_attention(trace)


def test_a_word_that_is_missing_is_told(stream) -> None:
    trace = spoken(stream, "one two three")
    trace.events = [one for one in trace.events if not (isinstance(one, ev.Committed) and one.i == 1)]
    with pytest.raises(BadFile, match="word 1 of the trace is missing"):
        stream.recomputer().compute_attention(trace)
