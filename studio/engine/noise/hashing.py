"""The one hash behind every counter-based noise: a pure function of integers, the same on every device."""

from torch import Tensor

MASK32 = 0xFFFFFFFF


def hash32(x: Tensor) -> Tensor:
    """A bijection of 32-bit numbers that leaves no visible order (Chris Wellons's lowbias32).

    Args:
        x: int64 of any shape, not negative.

    Returns:
        int64 of the same shape, 32 bits of each.
    """
    x = (x ^ (x >> 16)) * 0x7FEB352D & MASK32
    x = (x ^ (x >> 15)) * 0x846CA68B & MASK32
    return x ^ (x >> 16)
