"""The hash behind sampling and excitation: a seed has to say the same in every later version."""

import torch

from studio.engine.nets.sampling import hash32, uniform
from studio.engine.vocoders.excitation import uniform_noise

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
