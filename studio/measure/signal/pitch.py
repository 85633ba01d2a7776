"""Pitch by WORLD: DIO and StoneMask (Morise, Kawahara & Katayose 2009; Morise, Yokomori & Ozawa 2016)."""

import numpy as np

from studio.core.errors import NeedsPackage

LOW_HZ, HIGH_HZ = 55.0, 600.0
_PIECE_S, _BESIDE_S = 1.0, 0.2


def pitch_hz(
    sound: np.ndarray, rate_hz: int, period_ms: float, low_hz: float = LOW_HZ, high_hz: float = HIGH_HZ
) -> np.ndarray:
    """The pitch every ``period_ms`` from the first sample on, Hz, 0 where there is no voice: float64 [N].

    Args:
        sound: [T] in [-1, 1].

    Raises:
        NeedsPackage: pyworld is not installed.
    """
    try:
        import pyworld.pyworld as world
    except ImportError as error:
        raise NeedsPackage("pitch is measured with pyworld", "pip install 'streaming-tts-studio[measure]'") from error
    samples = np.ascontiguousarray(sound, np.float64)
    rough, times = world.dio(samples, rate_hz, f0_floor=low_hz, f0_ceil=high_hz, frame_period=period_ms)
    return world.stonemask(samples, rough, times, rate_hz)


def pitch_in_pieces(sound: np.ndarray, rate_hz: int, step_samples: int) -> np.ndarray:
    """The same a second at a time, each with a fifth of a second beside it: float64 [T // step_samples].

    WORLD lets no other thread run meanwhile: of a whole recording that would hold up a server for seconds.
    """
    piece = round(_PIECE_S * rate_hz / step_samples) * step_samples
    beside = round(_BESIDE_S * rate_hz / step_samples) * step_samples
    period_ms = 1000.0 * step_samples / rate_hz
    found: list[np.ndarray] = []
    for first in range(0, len(sound) // step_samples * step_samples, piece):
        before = min(beside, first)
        hz = pitch_hz(sound[first - before : first + piece + beside], rate_hz, period_ms)
        found.append(hz[before // step_samples :][: piece // step_samples])
    return np.concatenate(found)[: len(sound) // step_samples] if found else np.zeros(0)
