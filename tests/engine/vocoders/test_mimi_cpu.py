"""The CPU form of Mimi: the reference's samples, bit for bit the same in any batch and in any chunks."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from studio.engine.vocoders.mimi import Mimi, MimiConfig, load_mimi
from studio.engine.vocoders.mimi_cpu import CpuMimi, MimiArrays

ORACLE = Path(__file__).parents[2] / "oracles" / "mimi"
TINY = MimiConfig.read(json.loads((ORACLE / "tiny.json").read_text()))
FRAMES = 30


@pytest.fixture(scope="module")
def mimi() -> Mimi:
    return load_mimi(ORACLE / "tiny.safetensors", TINY)


@pytest.fixture(scope="module")
def cpu(mimi: Mimi) -> CpuMimi:
    return CpuMimi(mimi)


@pytest.fixture(scope="module")
def codes() -> np.ndarray:
    """[B, T, K]."""
    return load_file(ORACLE / "reference.safetensors")["codes"].transpose(1, 2).numpy()


def decode(cpu: CpuMimi, mimi: Mimi, codes: np.ndarray, sizes: list[int]) -> np.ndarray:
    slots, rows = MimiArrays(mimi.init_state(len(codes))), np.arange(len(codes))
    chunks = np.split(codes, np.cumsum(sizes)[:-1], axis=1)
    return np.concatenate([cpu.step(chunk, slots, rows) for chunk in chunks], 1)


def test_samples_are_those_of_the_reference(cpu: CpuMimi, mimi: Mimi, codes: np.ndarray) -> None:
    for codebooks in (6, 3, 1):
        chosen = codes[:, :, :codebooks]
        expected = mimi(torch.from_numpy(chosen)).numpy()
        found = decode(cpu, mimi, chosen, [1] * FRAMES)
        assert expected.std() > 0.02 and np.linalg.norm(found - expected) < 1e-5 * np.linalg.norm(expected)


@pytest.mark.parametrize("sizes", [[FRAMES], [1, 2, 3, 24], [13, 17]])
def test_samples_do_not_depend_on_the_chunks(cpu: CpuMimi, mimi: Mimi, codes: np.ndarray, sizes: list[int]) -> None:
    np.testing.assert_array_equal(decode(cpu, mimi, codes, sizes), decode(cpu, mimi, codes, [1] * FRAMES))


def test_rows_begin_and_end_while_others_go_on(cpu: CpuMimi, mimi: Mimi, codes: np.ndarray) -> None:
    """Streams join and leave slots at any frame; each has, bit for bit, the samples that it has alone."""
    state, samples = mimi.init_state(3), dict[int, list[np.ndarray]]()
    slots = MimiArrays(state)
    # (stream, slot, first step, frames): the third takes the slot that the first has left.
    spans = [(0, 2, 0, 9), (1, 0, 4, 26), (2, 2, 11, 19)]
    for step in range(FRAMES):
        running = [span for span in spans if span[2] <= step < span[2] + span[3]]
        for stream, slot, first, _ in running:
            if first == step:
                mimi.reset(state, torch.tensor([slot]))
                samples[stream] = []
        frames = np.stack([codes[stream, step - first] for stream, _, first, _ in running])[:, None]
        pcm = cpu.step(frames, slots, np.array([slot for _, slot, _, _ in running]))
        for (stream, *_), row in zip(running, pcm, strict=True):
            samples[stream].append(row)
    for stream, _, _, count in spans:
        alone = decode(cpu, mimi, codes[stream : stream + 1, :count], [1] * count)[0]
        np.testing.assert_array_equal(np.concatenate(samples[stream]), alone)


@pytest.mark.parametrize("code", [-1, TINY.codebook_size])
def test_a_code_out_of_its_codebook_is_an_error(cpu: CpuMimi, mimi: Mimi, code: int) -> None:
    slots = MimiArrays(mimi.init_state(1))
    with pytest.raises(IndexError, match="codes are from 0 to 15"):
        cpu.step(np.full((1, 1, 6), code), slots, np.zeros(1, np.int64))
    assert not slots.position.any(), "the slot is as it was"
