"""Acoustic alphabets: what a frame of a family is made of, and how a vocoder takes it."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from studio.core.errors import BadVoice
from studio.engine.alphabets import dmel


@dataclass(frozen=True)
class Alphabet:
    """What one frame is.

    Attributes:
        name: what cards call it.
        frame_shape, dtype: of one frame on the host.
        to_mels: frames [..., *frame_shape] to log10 mel magnitudes float32 [..., C], which every vocoder takes.
    """

    name: str
    frame_shape: tuple[int, ...]
    dtype: np.dtype
    to_mels: Callable[[Tensor], Tensor]

    def none(self) -> np.ndarray:
        """No frames, [0, *frame_shape]."""
        return np.zeros((0, *self.frame_shape), self.dtype)


_ALPHABETS = {
    one.name: one
    for one in (
        Alphabet(dmel.ALPHABET, (dmel.CHANNELS,), np.dtype(np.uint8), dmel.dequantise),
        # Unquantised, for families that predict magnitudes.
        Alphabet("log-mel-80", (dmel.CHANNELS,), np.dtype(np.float32), lambda frames: frames.to(torch.float32)),
    )
}


def alphabet(name: str) -> Alphabet:
    """The alphabet of a name. Raises BadVoice."""
    if name not in _ALPHABETS:
        raise BadVoice(f"there is no acoustic alphabet {name!r}", f"there are {', '.join(sorted(_ALPHABETS))}")
    return _ALPHABETS[name]
