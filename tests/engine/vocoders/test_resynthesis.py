"""Frames vocoded a segment at a time: one function for the bench and the comparison, and the trace that it makes."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from fakes import FakeEngine
from listening import say, tiny_engine
from tinyvoice import write_tiny_voice

from studio.core import events as ev
from studio.core.errors import BadFile, BadVoice
from studio.core.traces.teacher_forcing import CallerGone, SupportsOverlappedVocoding
from studio.core.traces.trace import Trace, collect_trace, open_trace
from studio.core.traces.trace_writer import TraceWriter
from studio.engine.engine import LocalEngine, open_engine
from studio.engine.tokenizers import dmel
from studio.engine.vocoders.module import segment_spans, vocode_by_segment, vocode_streaming
from studio.engine.vocoders.overlapped import FADES, hann
from studio.text.normalise import best


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalEngine]:
    with closing(tiny_engine(tmp_path_factory.mktemp("voices"))) as engine:
        yield engine


@pytest.fixture(scope="module")
def spoken(engine: LocalEngine, tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """As a file holds it."""
    utterance = say(engine, "several words of one sentence", voice="tiny:one", seed=3, options={"m": 2, "n": 1})
    made = collect_trace(utterance.provenance, utterance.events())
    writer = TraceWriter(tmp_path_factory.mktemp("spoken") / "a", made.meta)
    writer.write(*made.events)
    return open_trace(writer.close())


@pytest.mark.parametrize(("name", "frames"), [("equal-power", 4), ("hann", 2)])
def test_segments_are_vocoded_from_silence_and_faded_as_the_papers_say(
    name: str, frames: int, engine: LocalEngine, spoken: Trace
) -> None:
    fade, faded = FADES[name], frames * dmel.TIME_BASE.frame_samples
    vocoder = engine.voice("tiny").vocoder
    mels = dmel.dequantise(torch.from_numpy(np.array(spoken.frames[:20])))
    whole = vocode_by_segment(vocoder, mels, [(0, 20)], 3)
    assert np.abs(whole / 32768.0 - vocode_streaming(vocoder, mels, 3)).max() < 1e-4
    cut = 12
    two = vocode_by_segment(vocoder, mels, [(0, cut), (cut, cut), (cut, 20)], 3, fade)  # one of them has no frames
    at = cut * dmel.TIME_BASE.frame_samples
    assert len(two) == len(whole)
    assert (two[: at - faded] == whole[: at - faded]).all()
    first, second = vocode_streaming(vocoder, mels[:cut], 3), vocode_streaming(vocoder, mels[cut - frames :], 3)
    rise, fall = (side.numpy() for side in fade.curve(faded))
    between = first[-faded:] * fall + second[:faded] * rise
    assert np.abs(two[at - faded : at] / 32768.0 - between).max() < 1e-4
    assert np.abs(two[at:] / 32768.0 - second[faded:]).max() < 1e-4
    assert (two != whole).any()


def test_the_hann_fade() -> None:
    """Paper 001's: a Hanning window's two halves, so that what is alike on both sides stays as loud."""
    rise, fall = hann(600)
    assert torch.allclose(torch.cat((rise, fall)), torch.hann_window(2400)[1::2], atol=1e-6)
    assert torch.allclose(rise + fall, torch.ones(600)) and (rise.diff() > 0).all()


def test_the_voice_of_a_family_is_faded_as_its_paper_says(tmp_path: Path) -> None:
    write_tiny_voice(tmp_path, family="s5")
    found = open_engine(tmp_path, best(), "cpu")
    try:
        utterance = say(found, "several words of one sentence", voice="tiny:one", seed=3)
        spoken = collect_trace(utterance.provenance, utterance.events())
        mels = dmel.dequantise(torch.from_numpy(np.array(spoken.frames)))
        spans = segment_spans(spoken, dmel.TIME_BASE.frame_samples)
        wanted = vocode_by_segment(found.voice("tiny").vocoder, mels, spans, 3, FADES["hann"])
        made = found.recomputer().vocode_overlapped(spoken).pcm
        assert (made[: len(wanted)] == wanted[: len(made)]).all()
        otherwise = vocode_by_segment(found.voice("tiny").vocoder, mels, spans, 3)
        assert (made[: len(wanted)] != otherwise[: len(made)]).any()
    finally:
        found.close()


def test_the_trace_is_the_same_utterance_with_another_sound(engine: LocalEngine, spoken: Trace, tmp_path: Path) -> None:
    assert isinstance(engine.recomputer(), SupportsOverlappedVocoding)
    made = engine.recomputer().vocode_overlapped(spoken)
    mels = dmel.dequantise(torch.from_numpy(np.array(spoken.frames)))
    wanted = vocode_by_segment(
        engine.voice("tiny").vocoder, mels, segment_spans(spoken, dmel.TIME_BASE.frame_samples), 3
    )
    assert len(made.pcm) == len(spoken.pcm) and (made.pcm[: len(wanted)] == wanted[: len(made.pcm)]).all()
    assert (made.pcm != spoken.pcm).any()
    writer = TraceWriter(tmp_path / "a", made.meta)
    writer.write(*made.events)
    again = open_trace(writer.close())
    assert (again.pcm == made.pcm).all() and (again.frames == spoken.frames).all()
    assert again.words() == spoken.words() and again.segments() == spoken.segments()
    assert [one.t_ms for one in again.events] == [one.t_ms for one in spoken.events]
    assert again.meta["vocoder"] == f"{spoken.meta['vocoder']}, overlapped"
    with pytest.raises(BadFile, match="vocoded again"):
        _ = again.request
    with pytest.raises(BadFile, match="a voice has spoken"):
        engine.recomputer().vocode_overlapped(again)


def test_what_was_spoken_live_is_vocoded_again_and_what_nobody_spoke_is_not(engine: LocalEngine, spoken: Trace) -> None:
    """Wherever its text came from; the fake engine is held to it, too."""
    for one in (engine.recomputer(), FakeEngine()):
        for source in ("keyboard", "stream"):
            again = one.vocode_overlapped(replace(spoken, meta={**spoken.meta, "source": source}))
            assert len(again.pcm) == len(spoken.pcm)
        for source in ("recording", "forced", "overlapped"):
            with pytest.raises(BadFile, match="a voice has spoken"):
                one.vocode_overlapped(replace(spoken, meta={**spoken.meta, "source": source}))


def test_what_cannot_be_vocoded_again_is_told(engine: LocalEngine, spoken: Trace) -> None:
    with pytest.raises(CallerGone):
        engine.recomputer().vocode_overlapped(spoken, lambda: False)
    with pytest.raises(BadFile, match="no frames"):
        engine.recomputer().vocode_overlapped(replace(spoken, frames=np.zeros((0, 80), np.uint8)))
    with pytest.raises(BadFile, match="no frames"):
        engine.recomputer().vocode_overlapped(
            replace(spoken, events=[one for one in spoken.events if not isinstance(one, ev.Segment)])
        )
    with pytest.raises(BadVoice, match="have changed since"):
        engine.recomputer().vocode_overlapped(replace(spoken, meta={**spoken.meta, "checkpoint_sha256": {"a": "b"}}))
    with pytest.raises(BadVoice, match="not available"):
        engine.recomputer().vocode_overlapped(replace(spoken, meta={**spoken.meta, "voice": "gone"}))
    with pytest.raises(BadFile, match="another acoustic tokenizer"):
        engine.recomputer().vocode_overlapped(replace(spoken, frames=spoken.frames[:, :7]))
