"""Registry of acoustic tokenizers: the frames of a family, and their conversion to mels for vocoders."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from studio.core.errors import BadVoice
from studio.engine.tokenizers import dmel


@dataclass(frozen=True)
class AcousticTokenizer:
    """Format of a frame.

    Attributes:
        name: as on cards.
        frame_shape, dtype: of one frame in numpy.
        to_mels: frames [..., *frame_shape] to log10 mel magnitudes float32 [..., C], which every vocoder takes.
    """

    name: str
    frame_shape: tuple[int, ...]
    dtype: np.dtype
    to_mels: Callable[[Tensor], Tensor]

    def none(self) -> np.ndarray:
        """No frames, [0, *frame_shape]."""
        return np.zeros((0, *self.frame_shape), self.dtype)


_TOKENIZERS = {
    one.name: one
    for one in (
        AcousticTokenizer(dmel.ALPHABET, (dmel.CHANNELS,), np.dtype(np.uint8), dmel.dequantise),
        # Unquantised, for families that predict magnitudes.
        AcousticTokenizer(
            "log-mel-80", (dmel.CHANNELS,), np.dtype(np.float32), lambda frames: frames.to(torch.float32)
        ),
    )
}


def acoustic_tokenizer(name: str) -> AcousticTokenizer:
    """Look a tokenizer up. Raises BadVoice."""
    if name not in _TOKENIZERS:
        raise BadVoice(f"there is no acoustic tokenizer {name!r}", f"there are {', '.join(sorted(_TOKENIZERS))}")
    return _TOKENIZERS[name]
