"""The kernels of the CUDA form in Triton's interpreter, against the reference: float32 exactly, float16 closely."""

from pathlib import Path
from typing import Any

import engine.nets.interpreted  # noqa: F401 - before the kernels
import numpy as np
import pytest
import torch
from engine.nets.compiled import compile_kernels, recorded_launches

from studio.bench.speed import gpu_checks
from studio.bench.speed.gpu_checks import decoder_error, randomise
from studio.engine.families.speakstream.model import SpeakStream, SpeakStreamConfig
from studio.engine.families.speakstream.policy import SegmentInput, SegmentPrefill
from studio.engine.families.speakstream.runner import SpeakStreamFamily
from studio.engine.nets.cuda import frame_step, kernels, sampling_kernels
from studio.engine.nets.cuda.decoder import CudaDecoder, TokenIndex
from studio.engine.nets.kv_cache import ContextFull, KVCache
from studio.engine.nets.sampling import sample_levels, uniform
from studio.engine.nets.transformer import CrossAttention, Decoder, DecoderConfig, ReferenceDecoder
from studio.engine.tokenizers import dmel

SIZES = DecoderConfig(layers=2, width=32, heads=2, hidden=48)
LIMITS = {torch.float32: 1e-5, torch.float16: 1e-2}
CPU = torch.device("cpu")


def a_decoder(sizes: DecoderConfig = SIZES) -> Decoder:
    torch.manual_seed(5)
    decoder = Decoder(sizes)
    randomise(decoder)
    return decoder


@pytest.mark.parametrize("dtype", LIMITS)
@torch.inference_mode()
def test_rows_that_join_in_mixed_steps_match_the_reference(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_checks, "_PREFILL", 6)
    monkeypatch.setattr(gpu_checks, "_DECODED", 2)
    assert decoder_error(a_decoder(), dtype=dtype) < LIMITS[dtype]


@torch.inference_mode()
def test_cross_attention_matches_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_checks, "_PREFILL", 4)
    monkeypatch.setattr(gpu_checks, "_DECODED", 2)
    monkeypatch.setattr(gpu_checks, "_ROWS", 2)
    decoder = a_decoder()
    crossings = [CrossAttention(SIZES.width, SIZES.heads) for _ in range(SIZES.layers)]
    for cross in crossings:
        randomise(cross)
    assert decoder_error(decoder, crossings) < 1e-5


class Rows:
    """Rows in a ring of NaN slots, and the same rows in the reference."""

    def __init__(self, count: int, capacity: int, sizes: DecoderConfig = SIZES) -> None:
        self.decoder = a_decoder(sizes)
        self.cache = KVCache(sizes.layers, count + 1, sizes.heads, capacity, sizes.head_width, poison=True)
        self.runner = CudaDecoder(self.decoder, 128)
        self.references = [ReferenceDecoder(self.decoder) for _ in range(count)]
        self._numbers = torch.zeros(4, 128, dtype=torch.int32)

    def step(self, *work: tuple[int, int], spare: int = 0) -> float:
        """Feed tokens of rows, each (row, count), and padding; the largest relative error of a row."""
        inputs, at = [torch.randn(count, SIZES.width) for _, count in work], 0
        self._numbers.zero_()
        self._numbers[0] = len(self.references)
        for (row, count), x in zip(work, inputs, strict=True):
            one = self.references[row]
            one.forget(max(one.start, one.length + count - self.cache.capacity))
            for t in range(count):
                self._numbers[:3, at] = torch.tensor([row, one.length + t, one.start])
                self.runner.x[at], at = x[t], at + 1
        self.runner.x[at : at + spare] = 1.0
        mixed = any(count > 1 for _, count in work)
        self.runner.run(at + spare, TokenIndex(*self._numbers), self.cache, mixed=mixed)
        self.runner.normalise(at + spare)
        at, worst = 0, 0.0
        for (row, count), x in zip(work, inputs, strict=True):
            want = self.references[row].extend(x)[0] / self.decoder.norm.weight
            want = want / want.norm(dim=-1, keepdim=True)
            worst = max(worst, float((self.runner.hidden[at : at + count] - want).norm()))
            at += count
        return worst


@torch.inference_mode()
def test_a_ring_that_wraps_around_and_padding() -> None:
    rows = Rows(3, 8)
    assert rows.step((2, 6)) < 1e-5
    assert rows.step((2, 1), (0, 5), spare=2) < 1e-5
    for _ in range(4):
        assert rows.step((2, 1), (0, 1), spare=2) < 1e-5
    assert rows.step((2, 1), (0, 6), spare=1) < 1e-5
    assert rows.cache.keys[0][1].isnan().all(), "slot 1 has no owner"


@pytest.mark.slow
@torch.inference_mode()
def test_seventy_rows_in_one_step() -> None:
    rows = Rows(70, 4, DecoderConfig(layers=1, width=32, heads=1, hidden=32))
    assert rows.step(*((row, 1) for row in range(70))) < 1e-5
    assert rows.step(*((row, 2 if row == 3 else 1) for row in range(69))) < 1e-5


@torch.inference_mode()
def test_sampling_draws_the_levels_of_the_cpu_form() -> None:
    channels, levels, count = 10, 16, 4
    logits = 2.0 * torch.randn(count, channels * levels + 1)
    bias = torch.randn(channels * levels + 1)
    heat = torch.tensor([0.7, 0.0, 1.0, 0.3])
    seeds, frames = torch.tensor([3, 2**40 + 5, 0, 7]), torch.tensor([0, 9, 100_000, 2])
    want = sample_levels((logits + bias)[:, :-1].view(count, channels, levels), heat, uniform(seeds, frames, channels))
    last, out = torch.zeros(3, channels, dtype=torch.uint8), torch.zeros(count, channels, dtype=torch.uint8)
    ends, target = torch.zeros(count, 2), torch.tensor([2, -1, 0, -1], dtype=torch.int32)
    halves = [(seeds & 0xFFFFFFFF).to(torch.int64), seeds >> 32, frames]
    sampling_kernels.sample_frames[(count,)](
        logits, bias, *(one.to(torch.int32) for one in halves), heat, target, last, out, ends, logits.shape[1], 0, 0,
        channels, 16, levels, True, channels,
    )  # fmt: skip
    assert torch.equal(out, want)
    assert torch.equal(last[2], want[0])
    assert torch.equal(last[0], want[2])
    assert not last[1].any()
    torch.testing.assert_close(ends[:, 0], (logits + bias)[:, -1])


def a_family(capacity: int) -> SpeakStreamFamily:
    torch.manual_seed(2)
    net = SpeakStream(SpeakStreamConfig(1, 32, 2, 32, 2))
    randomise(net)
    return SpeakStreamFamily(net, 3, CPU, form="cuda", capacity_tokens=capacity)


def prefill(slot: int, frames: int = 3) -> SegmentPrefill:
    silence = np.full((frames, dmel.CHANNELS), 3, np.uint8)
    return SegmentPrefill(0, 0, [SegmentInput(False, [5, 6], (0, 1, 2), silence)], 0, 0.7, slot, 0)


def test_several_frames_of_one_run_are_those_of_single_runs() -> None:
    alone, together = a_family(64), a_family(64)
    rows: list[tuple[int, ...]] = [(0,), (2,)]
    for family in (alone, together):
        family.modules["decode"].run(family.slots, rows, [prefill(0), prefill(2, 5)])
    one_by_one = [alone.modules["decode"].run(alone.slots, rows, [None, None]) for _ in range(3)]
    module: Any = together.modules["decode"]
    at_once = module.run(together.slots, rows, [None, None], 3)
    for row in range(2):
        for step in range(3):
            assert np.array_equal(one_by_one[step][row].levels, at_once[row][step].levels)
            assert one_by_one[step][row].p_eos == at_once[row][step].p_eos
    assert alone.slots.cache.length.tolist() == together.slots.cache.length.tolist()
    assert alone.slots.noise.frame.tolist() == together.slots.noise.frame.tolist()


def test_a_full_slot_raises_and_no_length_changes() -> None:
    family = a_family(1)  # and 8 for frames that a row drops
    module: Any = family.modules["decode"]
    module.run(family.slots, [(0,)], [prefill(0)])
    module.run(family.slots, [(0,)], [None], 3)
    before = family.slots.cache.length.tolist()
    with pytest.raises(ContextFull, match="more than the 9 tokens"):
        module.run(family.slots, [(0,), (1,)], [None, prefill(1)])
    with pytest.raises(ContextFull, match="more than the 9 tokens"):
        module.run(family.slots, [(1,)], [prefill(1, 7)])
    assert family.slots.cache.length.tolist()[0] == before[0]


@pytest.mark.slow
@torch.inference_mode()
def test_every_kernel_compiles_for_two_generations_of_gpus(tmp_path: Path) -> None:
    with recorded_launches(kernels) as launches, recorded_launches(frame_step) as sampled:
        rows = Rows(2, 8)
        rows.step((0, 3), (1, 1))
        rows.step((0, 1))
        rows.step(*((row, 1) for row in (0, 1)), spare=8)
        family = a_family(16)
        family.modules["decode"].run(family.slots, [(0,)], [prefill(0)])
    launches += sampled
    assert {one.name for one in launches} >= {"gemv", "decode_attention", "mixed_attention", "sample_frames"}
    assert compile_kernels(launches, tmp_path)
