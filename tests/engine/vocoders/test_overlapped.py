"""Overlapped vocoding (paper 004, equation 4): splices, fades, what is held back, and utterances that lose nothing."""

import math
from collections.abc import Iterator
from contextlib import closing

import numpy as np
import pytest
import torch
from listening import samples, say, tiny_engine
from tinyvoice import VOCODERS as TINY
from torch import Tensor

from studio.core import events as ev
from studio.core.errors import BadVoice
from studio.core.ports import SpeakRequest
from studio.engine.engine import LocalEngine
from studio.engine.tokenizers import dmel
from studio.engine.tokenizers.formats import acoustic_tokenizer
from studio.engine.vocoders.module import VocodeModule, build_vocoder
from studio.engine.vocoders.overlapped import HifiGan, OverlappedVocoder, equal_power

torch.set_num_threads(1)
SIZE = 600
CPU = torch.device("cpu")
TEXT = "the morning light came in, slowly, over the wall."


def a_gan(overlap: int = 4) -> HifiGan:
    torch.manual_seed(7)
    made = build_vocoder("hifigan", {**TINY["hifigan"], "overlap_frames": overlap}).eval().requires_grad_(False)
    assert isinstance(made, HifiGan)
    made.leave.weight.mul_(3.0)
    return made


def some_frames(frames: int, rows: int = 1, seed: int = 1) -> Tensor:
    noise = torch.Generator().manual_seed(seed)
    return torch.randn(rows, frames, dmel.CHANNELS, generator=noise).cumsum(1) * 0.4 - 2.5


def vocode_streaming(vocoder: OverlappedVocoder, frames: Tensor, sizes: list[int]) -> Tensor:
    """All samples, those that were held back at last too, without those of the silence before the first frame."""
    state, found = vocoder.init_state(frames.shape[0]), []
    for part in frames.split(sizes, dim=1):
        pcm, state = vocoder.step(part, state)
        assert pcm.shape[1] == part.shape[1] * SIZE
        found.append(pcm)
    return torch.cat([*found, vocoder.held_back(state)], dim=1)[:, vocoder.look_ahead_frames * SIZE :]


def test_equal_power():
    rise, fall = equal_power(8)
    assert torch.allclose(rise.square() + fall.square(), torch.ones(8)) and torch.equal(rise, fall.flip(0))
    assert rise[0] == pytest.approx(math.sin(math.pi / 32)) and (rise.diff() > 0).all()


@pytest.mark.parametrize("overlap", [4, 8])
def test_equation_4(overlap):
    """S_cur = G([tail(M_pre), M_cur]), and its head is faded with the tail of S_pre, as printed."""
    gan, frames = a_gan(overlap), some_frames(30)
    first, second = frames[:, :14], frames[:, 14:]
    before = gan.generate(torch.cat((gan.init_state(1).tail, first), dim=1))
    current = gan.generate(torch.cat((first[:, -overlap:], second), dim=1))
    at, edge = 14 * SIZE, overlap * SIZE
    rise, fall = equal_power(edge)
    faded = rise * current[:, :edge] + fall * before[:, -edge:]
    found = vocode_streaming(gan, frames, [14, 16])
    assert found.shape == (1, 30 * SIZE) and found.std() > 1e-3
    assert torch.allclose(found[:, at - edge : at], faded, atol=1e-6)
    assert torch.allclose(found[:, at:], current[:, edge:], atol=1e-6)


@pytest.mark.parametrize("overlap", [4, 8])
def test_streamed_equals_at_once_where_nothing_is_faded(overlap):
    """The net sees less far than the overlap: away from the seams a chunk makes what the whole makes."""
    gan, frames = a_gan(overlap), some_frames(60)
    whole, parts = gan(frames), vocode_streaming(gan, frames, [20, 20, 20])
    faded = torch.zeros(60 * SIZE, dtype=torch.bool)
    for start in (0, 20, 40):  # the first chunk follows silence
        faded[max(0, start - overlap) * SIZE : (start + overlap * (start == 0)) * SIZE] = True
    assert (parts - whole)[0, ~faded].abs().max() < 1e-4
    assert (parts - whole)[0, faded].abs().max() > 1e-3


@pytest.mark.parametrize("sizes", [[1] * 12, [2, 3, 7], [12]])
def test_chunks_shorter_than_the_overlap_lose_no_sample(sizes):
    gan = a_gan(8)
    found = vocode_streaming(gan, some_frames(12, rows=2), sizes)
    assert found.shape == (2, 12 * SIZE) and found.isfinite().all()


def test_a_slot_says_each_sample_once():
    """What is held is said at a request's end, and what follows it is spliced but not faded into it."""
    gan = a_gan(4)
    module = VocodeModule(gan, acoustic_tokenizer(dmel.ALPHABET), 2, CPU)
    levels = dmel.quantise(some_frames(23))[0].numpy()
    module.reset(1, np.full((10, 80), 3, np.uint8), 0)
    assert module.look_ahead_frames == 4 and len(module.finish(1)) == 0
    counts, said = [], []
    for frames in (levels[:1], levels[1:9], levels[9:10]):
        (pcm,) = module.run(module.slots, [(1,)], [frames])
        counts.append(len(pcm) // SIZE)
        said.append(pcm)
    said.append(module.finish(1))
    assert counts == [0, 5, 1] and len(np.concatenate(said)) == 10 * SIZE
    mark = module.checkpoint(1)
    (after,) = module.run(module.slots, [(1,)], [levels[10:]])
    assert len(after) == 9 * SIZE and len(module.finish(1)) == 4 * SIZE and len(module.finish(1)) == 0
    current = gan.generate(dmel.dequantise(torch.from_numpy(levels[6:]))[None])
    assert np.allclose(after, current[0, 4 * SIZE : 13 * SIZE].numpy(), atol=1e-6), "not faded: its head was said"
    module.restore(1, mark)
    assert np.array_equal(module.run(module.slots, [(1,)], [levels[10:]])[0], after)


@pytest.mark.parametrize("change", [{"upsampling": (10, 6, 5)}, {"overlap_frames": 0}, {"overlap_frames": 41}])
def test_sizes_that_make_no_frame(change):
    with pytest.raises(BadVoice, match=r"restore|overlap_frames cannot be 0"):
        build_vocoder("hifigan", {**TINY["hifigan"], **change})


def test_the_papers_width_is_the_default():
    gan = build_vocoder("hifigan", {})
    assert isinstance(gan, HifiGan) and gan.config.width == 128 and gan.look_ahead_frames == 8
    assert 0.9e6 < gan.parameter_count() < 1.1e6, "HiFi-GAN's V2 has 0.92M"
    assert gan.generate(some_frames(3)).shape == (1, 3 * SIZE)


# ------------------------------------------------------------------ utterances


@pytest.fixture(scope="module", params=["tacotron", "speakstream"])
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalEngine]:
    with closing(
        tiny_engine(tmp_path_factory.mktemp("voices"), slots=4, vocoder="hifigan", family=request.param)
    ) as engine:
        yield engine


def test_laws_1_and_4_with_an_overlapped_vocoder(engine):
    typed = engine.open(SpeakRequest(seed=3))
    for key in TEXT:
        typed.push_text(key)
    typed.end()
    events = [*typed.events()]
    frames = sum(len(e.levels) for e in events if isinstance(e, ev.Frames))
    last = events[-1]
    assert isinstance(last, ev.Ended) and frames * SIZE == len(samples(events)) == last.samples > 0
    assert np.array_equal(samples(events), samples([*say(engine, TEXT, seed=3).events()]))


def test_law_3_with_an_overlapped_vocoder(engine):
    alone = [samples([*say(engine, TEXT[4 * k :], seed=k).events()]) for k in range(4)]
    together = [engine.open(SpeakRequest(seed=k)) for k in range(4)]
    for k, utterance in enumerate(together):
        utterance.push_text(TEXT[4 * k :])
        utterance.end()
    for one, utterance in zip(alone, together, strict=True):
        assert np.array_equal(samples([*utterance.events()]), one)


@pytest.mark.parametrize("engine", ["tacotron"], indirect=True)
def test_a_clause_is_heard_to_its_end_before_the_next_is_typed(engine):
    """Tacotron 2's clauses are requests: nothing of one waits for what is typed next."""
    utterance = engine.open(SpeakRequest(seed=3))
    utterance.push_text("the morning light came in, ")
    stream, got = utterance.events(), list[ev.Event]()
    while not any(isinstance(e, ev.Eos) for e in got):
        got.append(next(stream))
    end = next(e.frame for e in got if isinstance(e, ev.Eos))
    assert len(samples(got)) == end * SIZE
    utterance.cancel()
    assert isinstance(list(stream)[-1], ev.Ended)
