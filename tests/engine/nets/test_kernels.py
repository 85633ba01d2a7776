"""What is compiled computes what numpy and torch compute, row by row; and the hash behind sampling and excitation."""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import Tensor

from studio.engine.nets.cpu import kernels
from studio.engine.nets.cpu.kernels import PanelLinear
from studio.engine.nets.sampling import hash32, uniform
from studio.engine.vocoders.cpu import CpuCausalBlock, sources
from studio.engine.vocoders.excitation import pulse_train, uniform_noise
from studio.engine.vocoders.sourcefilter import CausalBlock

RATE_HZ, HOP = 24000, 150


def weights(outputs: int, depth: int, seed: int = 0) -> Tensor:
    return torch.randn(outputs, depth, generator=torch.manual_seed(seed)) / depth**0.5


@pytest.mark.parametrize("rows", range(1, 10))
@pytest.mark.parametrize(("outputs", "depth"), [(1, 5), (31, 64), (32, 64), (100, 33), (177, 128)])
def test_rows_times_a_weight(rows: int, outputs: int, depth: int) -> None:
    weight, bias, gain = weights(outputs, depth), torch.randn(outputs), torch.rand(depth)
    x = torch.randn(rows, depth)
    found = PanelLinear(weight, bias, gain)(x.numpy())
    wanted = (x * gain).double() @ weight.double().T + bias.double()
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("is_half", [False, True])
def test_a_row_has_the_same_bits_whoever_shares_the_product(is_half: bool) -> None:
    weight = weights(96, 256)
    panels = PanelLinear(weight.bfloat16().float() if is_half else weight)
    x = torch.randn(11, 256).numpy()
    together = panels(x)
    for first in range(11):
        for last in range(first + 1, 12):
            assert np.array_equal(panels(x[first:last]), together[first:last])


def test_a_weight_is_kept_in_half_the_bytes_where_that_loses_nothing() -> None:
    exact, x = weights(40, 64).bfloat16().float(), torch.randn(3, 64)
    half = PanelLinear(exact)
    assert half.panels.dtype == np.uint16
    np.testing.assert_allclose(half(x.numpy()), (x @ exact.T).numpy(), rtol=1e-5, atol=1e-5)
    exact[17, 3] += 2.0**-12  # one number alone that bfloat16 does not hold
    whole = PanelLinear(exact)
    assert whole.panels.dtype == np.float32
    np.testing.assert_allclose(whole(x.numpy()), (x @ exact.T).numpy(), rtol=1e-5, atol=1e-5)


def test_what_is_no_number_stays_in_its_row() -> None:
    x = torch.randn(5, 64).numpy()
    x[2, 7] = np.nan
    found = PanelLinear(weights(64, 64))(x)
    assert np.isnan(found[2]).all() and np.isfinite(found[[0, 1, 3, 4]]).all()


def test_exponentials_and_gelu() -> None:
    below = np.linspace(-86, 20, 5001, dtype=np.float32)
    found = np.array([kernels.exponential(one) for one in below])
    np.testing.assert_allclose(found, np.exp(below.astype(np.float64)), rtol=5e-7)
    assert 0 <= kernels.exponential(np.float32(-1e9)) < 1e-37, "what lies far below counts for nothing"
    assert np.isnan(kernels.exponential(np.float32(np.nan))) and np.isnan(kernels.gelu(np.float32(np.nan)))
    x = np.linspace(-12, 12, 5001, dtype=np.float32)
    wanted = torch.nn.functional.gelu(torch.from_numpy(x).double()).numpy()
    np.testing.assert_allclose([kernels.gelu(one) for one in x], wanted, atol=1e-6)


@torch.no_grad()
@pytest.mark.parametrize("steps", [[12], [1] * 12, [2, 3, 1, 6]])
def test_a_block_is_the_net_as_trained_however_it_is_cut(steps: list[int]) -> None:
    torch.manual_seed(3)
    block = CausalBlock(48, 5)
    for parameter in block.parameters():
        parameter.normal_(std=parameter.shape[-1] ** -0.5)
    x, tail = torch.randn(3, sum(steps), 48), torch.randn(3, 4, 48)
    wanted, after = block(x, tail)
    ready, kept = CpuCausalBlock(block), tail.numpy().copy()
    pieces = [ready(piece.numpy().copy(), kept) for piece in x.split(steps, 1)]
    torch.testing.assert_close(torch.from_numpy(np.concatenate(pieces, 1)), wanted, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(torch.from_numpy(kept), after, rtol=0, atol=0)


def test_pulses_and_noise_are_those_of_torch() -> None:
    draw = np.random.default_rng(5)
    rows, hops, samples = 3, 40, 2 * HOP
    f0_hz, before_hz, phase = draw.uniform(60, 400, (rows, hops)), draw.uniform(60, 400, rows), draw.uniform(0, 1, rows)
    rests, seed = draw.random((rows, hops)) < 0.2, np.array([0, 7919, 2**31 + 5])
    position, window = np.array([0, 600, 123_456_789_012]), draw.uniform(0, 1, samples).astype(np.float32)
    given = [torch.from_numpy(one.copy()) for one in (f0_hz, before_hz, phase, rests)]
    pulses, after = pulse_train(*given, hop_samples=HOP, sample_rate_hz=RATE_HZ, ahead_samples=samples - HOP)
    noise = uniform_noise(torch.from_numpy(seed), torch.from_numpy(position), hops * HOP + samples - HOP)
    found = sources(f0_hz, before_hz, phase, rests, seed, position, RATE_HZ, HOP, window)
    np.testing.assert_allclose(found[:, :, 0], pulses.numpy() * window, atol=2e-6)
    np.testing.assert_allclose(found[:, :, 1], noise.unfold(1, samples, HOP).numpy() * window, atol=1e-6)
    np.testing.assert_allclose(phase, after.numpy(), atol=1e-12)


def test_it_also_runs_where_nothing_may_be_kept() -> None:
    """No place for what was compiled, as in a read-only container: compiled anew, not refused."""
    code = (
        "import numpy as np; from studio.engine.vocoders import cpu as sources; "
        "print(int(sources._hash32(np.uint32(1))), sources._hash32.stats.cache_path)"
    )
    environ = os.environ | {"NUMBA_CACHE_LOCATOR_CLASSES": "ZipCacheLocator"}
    run = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    from studio.engine.nets.sampling import hash32

    assert run.stdout.split() == [str(int(hash32(torch.tensor([1])))), "None"]


DRAWN = [
    [0.07306221127510071, 0.6175047159194946, 0.5497525930404663],
    [0.12190791964530945, 0.4227375090122223, 0.5926073789596558],
]
NOISE = [
    [-0.4600321054458618, 0.677166223526001, 0.8954947590827942],
    [0.8380796313285828, 0.8334593176841736, 1.0827913284301758],
]


def in_plain_integers(x: int) -> int:
    x ^= x >> 16
    x = x * 0x7FEB352D % 2**32
    x ^= x >> 15
    x = x * 0x846CA68B % 2**32
    return x ^ x >> 16


def test_it_is_lowbias32():
    """As in plain integers, also where a seed and a constant were added and 32 bits no longer hold the sum."""
    numbers = [0, 1, 2, 0x9E3779B9, 2**31, 2**32 - 1, 2**32, 2**32 + 0x9E3779B8, *range(1000, 2**32, 10**8 + 7)]
    assert hash32(torch.tensor(numbers)).tolist() == [in_plain_integers(n) for n in numbers]


def test_no_two_numbers_share_a_hash():
    assert len(hash32(torch.arange(2**20)).unique()) == 2**20


def test_both_noises_are_what_they_were():
    """A seed that somebody noted repeats their utterance."""
    drawn = uniform(torch.tensor([7, -3]), torch.tensor([0, 41]), 3)
    noise = uniform_noise(torch.tensor([7, -3]), torch.tensor([0, 600]), 3)
    torch.testing.assert_close(drawn, torch.tensor(DRAWN), rtol=0, atol=0)
    torch.testing.assert_close(noise, torch.tensor(NOISE), rtol=0, atol=0)
