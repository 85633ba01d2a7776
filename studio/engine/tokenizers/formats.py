"""Formats of frames, by their names on cards: dMel, unquantised mels, and codes of Mimi."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch import Tensor

from studio.core.errors import BadVoice
from studio.core.kyutai import TIME_BASE
from studio.core.time import TimeBase
from studio.engine.tokenizers import dmel

_FLOOR = 1e-10


@dataclass(frozen=True)
class AcousticTokenizer:
    """Format of a frame.

    Attributes:
        name: as on cards.
        frame_shape, dtype: of one frame in numpy.
        time_base: rate and length of frames.
        to_mels: frames [..., *frame_shape] to log10 mel magnitudes float32 [..., C]; None where frames are codes.
    """

    name: str
    frame_shape: tuple[int, ...]
    dtype: np.dtype
    time_base: TimeBase
    to_mels: Callable[[Tensor], Tensor] | None

    def for_vocoder(self, frames: Tensor) -> Tensor:
        """What the vocoders of these frames take: mels, or the codes themselves."""
        return frames if self.to_mels is None else self.to_mels(frames)

    def energies(self, frames: np.ndarray) -> np.ndarray:
        """Energy of frames [k, *frame_shape] in dB, over all mel channels: float32 [k]; 0 for codes."""
        if self.to_mels is None:
            return np.zeros(len(frames), np.float32)
        powers = _level_powers(self.name)[frames] if self.dtype == np.uint8 else _powers(self.to_mels, frames)
        return 10.0 * np.log10(powers.sum(axis=-1) + _FLOOR)


_MELS = {
    one.name: one
    for one in (
        AcousticTokenizer(dmel.ALPHABET, (dmel.CHANNELS,), np.dtype(np.uint8), dmel.TIME_BASE, dmel.dequantise),
        # Unquantised, for families that predict magnitudes.
        AcousticTokenizer("log-mel-80", (dmel.CHANNELS,), np.dtype(np.float32), dmel.TIME_BASE, Tensor.float),
    )
}
_MIMI = re.compile(r"mimi-([1-9]\d?)x[1-9]\d{0,4}")  # codebooks x codes, such as mimi-32x2048


def _powers(to_mels: Callable[[Tensor], Tensor], frames: np.ndarray) -> np.ndarray:
    """Squared magnitudes, float32 of the frames' shape."""
    return np.square(np.power(10.0, to_mels(torch.from_numpy(np.ascontiguousarray(frames))).numpy()))


@cache
def _level_powers(name: str) -> np.ndarray:
    """Squared magnitudes of every level: frames are looked up in it, at a tenth of the time."""
    to_mels = _MELS[name].to_mels
    assert to_mels is not None, "levels are of mels"
    with np.errstate(over="ignore"):  # no frame has the highest numbers
        return _powers(to_mels, np.arange(256, dtype=np.uint8))


def acoustic_tokenizer(name: str) -> AcousticTokenizer:
    """Look a tokenizer up. Raises BadVoice."""
    if found := _MIMI.fullmatch(name):
        return AcousticTokenizer(name, (int(found[1]),), np.dtype(np.int64), TIME_BASE, None)
    if name not in _MELS:
        raise BadVoice(f"there is no acoustic tokenizer {name!r}", f"there are {', '.join(_MELS)} and mimi-32x2048")
    return _MELS[name]
