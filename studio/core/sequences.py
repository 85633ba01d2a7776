"""What sequences have in common."""

from collections.abc import Sequence


def in_common(one: Sequence[object], other: Sequence[object]) -> int:
    """How many elements two sequences have in common at their beginning."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (here, there) in pairs if here != there), min(len(one), len(other)))
