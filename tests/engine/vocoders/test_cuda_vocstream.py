"""The CUDA form of VocStream, run by Triton's interpreter: the samples of the reference, and its state."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import engine.nets.interpreted  # noqa: F401 - before the kernels
import numpy as np
import pytest
import torch
from engine.nets.compiled import SHARED_MEMORY, compile_kernels, recorded_launches
from torch import Tensor

from studio.engine.tokenizers import dmel
from studio.engine.tokenizers.formats import acoustic_tokenizer
from studio.engine.vocoders import cuda, cuda_kernels
from studio.engine.vocoders.base import Vocoder
from studio.engine.vocoders.cuda import CudaVocStream, VocStreamRings, supports
from studio.engine.vocoders.module import Form, VocodeModule, build_vocoder, slot_bytes
from studio.engine.vocoders.vocstream import NARROW, PAPER, VocStream, VocStreamConfig, VocStreamState

torch.set_num_threads(1)
CPU = torch.device("cpu")
TINY = VocStreamConfig(
    channels=80,
    frame_samples=48,
    fine_channels=20,
    upsampler_width=16,
    upsampler_layers=3,
    upsampler_cycle=3,
    generator_width=24,
    generator_layers=5,
    generator_cycle=5,
    condition_kernel=3,
)
# Widths of PAPER and NARROW: products in two parts, channels that fill up to a power of two.
WIDE = replace(TINY, upsampler_width=128, generator_width=48, samples_per_step=6, condition_kernel=5, generator_cycle=3)
TOLERANCES = {torch.float32: 1e-4, torch.float16: 1e-2}


def a_vocoder(config: VocStreamConfig) -> VocStream:
    torch.manual_seed(3)
    made = VocStream(config).eval().requires_grad_(False)
    for net, gain in ((made.upsampler, 5), (made.generator, 10)):
        net.leave.weight.mul_(gain)
    return made


def mels(rows: int, frames: int, seed: int = 1) -> Tensor:
    return torch.randn(rows, frames, 80, generator=torch.Generator().manual_seed(seed)) - 2.5


def slots_in(form: CudaVocStream, slots: int, seeds: Tensor) -> VocStreamRings:
    rings = form.init_rings(slots)
    rings.seed[: len(seeds)] = seeds
    return rings


@pytest.mark.parametrize("config", [TINY, WIDE], ids=["tiny", "wide"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@torch.inference_mode()
def test_samples_are_the_references(config: VocStreamConfig, dtype: torch.dtype) -> None:
    """Rows of different age in a batch with padding, until all rings have come round."""
    vocoder = a_vocoder(config)
    form = CudaVocStream(vocoder, dtype)
    seeds = torch.tensor([5, -7, 2**40 + 0xFFFFFFF0])  # the last one's key has 33 bits
    rings = slots_in(form, 5, seeds)  # slot 3 is nobody's, slot 4 is the padding's
    begun = vocoder.init_state(3, seed=seeds)
    states, fed = [begun.take(torch.tensor([row])) for row in range(3)], mels(3, 8)
    for t in range(8):
        rows = [row for row in (2, 0, 1) if t >= 2 * row]
        index = torch.tensor([*rows, *[4] * (-len(rows) % 4)])
        batch = torch.cat((fed[rows, t : t + 1], torch.zeros(len(index) - len(rows), 1, 80)))
        found = form.step(batch, rings, index)
        for row, samples in zip(rows, found, strict=False):
            expected, states[row] = vocoder.step(fed[row : row + 1, t : t + 1], states[row])
            assert expected.std() > 1e-2, "silence would equal silence"
            assert (samples - expected[0]).abs().max() <= TOLERANCES[dtype] * expected.abs().max()
    assert rings.position.tolist()[:4] == [48 * 8, 48 * 6, 48 * 4, 0]
    assert rings.generator[3].isnan().all() and rings.upsampler[3].isnan().all()


@torch.inference_mode()
def test_states_convert_both_ways() -> None:
    """Early states, whose tails begin before the stream, and late ones."""
    vocoder = a_vocoder(TINY)
    form = CudaVocStream(vocoder)
    state, fed = vocoder.init_state(2, seed=torch.tensor([1, 2])), mels(2, 7)
    for frames in (1, 5):
        _, state = vocoder.step(fed[:, :frames], state)
        rings = form.to_rings(state)
        back = form.to_tails(rings)
        for mine, theirs in zip(back.leaves(), state.leaves(), strict=True):
            assert torch.equal(mine, theirs)
        found = form.step(fed[:, 6:], rings, torch.arange(2))
        expected, after = vocoder.step(fed[:, 6:], state)
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)
        for mine, theirs in zip(form.to_tails(rings).leaves(), after.leaves(), strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-4)
    assert isinstance(back, VocStreamState)


@torch.inference_mode()
def test_several_frames_at_once_and_many_rows() -> None:
    """More rows than run together."""

    vocoder = a_vocoder(TINY)
    form, fed = CudaVocStream(vocoder), mels(3, 2)
    expected = vocoder(fed, seed=torch.arange(3))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cuda, "_GROUP", 2)
        found = form.step(fed, slots_in(form, 3, torch.arange(3)), torch.arange(3))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)


@torch.inference_mode()
def test_a_broken_row_shows_and_breaks_no_other() -> None:
    form, fed = CudaVocStream(a_vocoder(TINY)), mels(2, 1)
    whole = form.step(fed, slots_in(form, 2, torch.arange(2)), torch.arange(2))
    fed[1, 0, 3] = float("nan")
    found = form.step(fed, slots_in(form, 2, torch.arange(2)), torch.arange(2))
    assert found[1].isnan().any() and torch.equal(found[0], whole[0])


def test_sizes_the_kernels_take() -> None:
    assert supports(PAPER) and supports(NARROW) and supports(TINY)
    assert not supports(replace(NARROW, generator_width=256))


def a_module(vocoder: Vocoder[Any], slots: int, form: Form | None = None) -> VocodeModule:
    return VocodeModule(vocoder, acoustic_tokenizer(dmel.ALPHABET), slots, CPU, form=form)


def test_a_module_resets_and_restores_its_slots() -> None:
    vocoder = a_vocoder(TINY)
    levels = dmel.quantise(mels(2, 6)).numpy()
    found = []
    forms: list[Form] = ["cuda", "cpu"]
    for form in forms:
        module = a_module(vocoder, 2, form)
        assert (module._kernels is not None) == (form == "cuda")
        module.reset(1, levels[0, :3], seed=4)
        mark = module.checkpoint(1)
        first = module.run(module.slots, [(1,)], [levels[1, :1]])[0]
        module.run(module.slots, [(1,)], [levels[1, 1:2]])
        module.restore(1, mark)
        assert np.array_equal(module.run(module.slots, [(1,)], [levels[1, :1]])[0], first)
        found.append(first)
    np.testing.assert_allclose(found[0], found[1], atol=1e-4)


def test_a_module_captures_every_batch_size() -> None:
    vocoder = a_vocoder(TINY)
    module = a_module(vocoder, 3, "cuda")
    assert module.capture_sizes() == [1, 2, 4] and module.max_rows == 512
    for size in module.capture_sizes():
        module.capture(size)
    assert module.slots.position.tolist()[:3] == [0, 0, 0], "only the spare slot was used"
    leaves = module.slots.leaves()
    assert slot_bytes(vocoder, CPU, "cuda") == sum(leaf[0].nbytes for leaf in leaves) < 2**20
    assert a_module(vocoder, 3).capture_sizes() == []


def test_a_wide_net_runs_as_torch_steps() -> None:
    net = build_vocoder("vocstream", {**TINY.to_dict(), "generator_width": 130, "generator_layers": 1})
    module = a_module(net.eval().requires_grad_(False), 1, "cuda")
    assert module._kernels is None
    module.reset(0, np.full((2, 80), 3, np.uint8), 0)
    assert module.run(module.slots, [(0,)], [np.full((1, 80), 5, np.uint8)])[0].shape == (48,)


@pytest.mark.slow
@pytest.mark.parametrize("config", [PAPER, NARROW], ids=["paper", "narrow"])
@torch.inference_mode()
def test_every_kernel_compiles_for_a_gpu(config: VocStreamConfig, tmp_path: Path) -> None:
    form = CudaVocStream(VocStream(config), torch.bfloat16)
    rings = form.init_rings(2)
    with recorded_launches(cuda_kernels) as variants:
        for processors in (1, 132):  # large and small tiles
            form._processors = processors
            form.step(mels(2, 1), rings, torch.arange(2))
    assert {one.name for one in variants} >= {"gated_layer", "mix_layers", "write_noise"} and len(variants) > 9
    for one, shared in zip(variants, compile_kernels(variants, tmp_path), strict=True):
        assert all(shared[capability] <= most for capability, most in SHARED_MEMORY.items()), one
