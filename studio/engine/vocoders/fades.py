"""How two chunks of sound that overlap become one."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Fade:
    """Frames that overlap, and how loud either side is over them.

    Attributes:
        curve: the rising and the falling side, [samples] each, of so many samples.
    """

    frames: int
    curve: Callable[[int], tuple[Tensor, Tensor]]


def equal_power(samples: int) -> tuple[Tensor, Tensor]:
    """alpha and beta of paper 004's equation 4, rising and falling [samples] each: their squares sum to one."""
    at = _quarter(samples)
    return at.sin().float(), at.cos().float()


def hann(samples: int) -> tuple[Tensor, Tensor]:
    """The two halves of a Hann window, rising and falling [samples] each: they sum to one."""
    at = _quarter(samples)
    return at.sin().square().float(), at.cos().square().float()


def _quarter(samples: int) -> Tensor:
    """A quarter of a turn in so many steps, the angle in the middle of each."""
    return (torch.arange(samples, dtype=torch.float64) + 0.5) / samples * (math.pi / 2)


FADES = {
    "equal-power": Fade(4, equal_power),  # paper 004, section 2.1.4
    "hann": Fade(2, hann),  # paper 001: two codec frames overlap, weighted by a Hanning window
}
