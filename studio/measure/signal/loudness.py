"""Active speech level, and the extent of audible sound."""

import numpy as np

BLOCK_MS = 5.0
AUDIBLE_DB = 30.0  # below the active speech level: the threshold of t5
_MARGIN_DB = 15.9  # below the active level: pauses (ITU-T P.56)
_SILENT_DB = -70.0
_BATCH_BLOCKS = 256  # fits in a core's cache


def block_levels_db(pcm: np.ndarray, rate_hz: int) -> np.ndarray:
    """RMS of each complete 5 ms block, dB of full scale: float64 [T // block]."""
    block = round(rate_hz * BLOCK_MS / 1000.0)
    whole = len(pcm) // block * block
    scale = 32768.0 if pcm.dtype == np.int16 else 1.0
    power = np.empty(whole // block)
    for first in range(0, len(power), _BATCH_BLOCKS):
        part = pcm[first * block : min(whole, (first + _BATCH_BLOCKS) * block)].astype(np.float64).reshape(-1, block)
        part /= scale
        power[first : first + _BATCH_BLOCKS] = np.square(part, out=part).mean(axis=1)
    return 10.0 * np.log10(np.maximum(power, 1e-12))


def active_level_db(pcm: np.ndarray, rate_hz: int) -> float:
    """Level of the speech without pauses, dB of full scale; minus infinity for silence."""
    levels = block_levels_db(pcm, rate_hz)
    active = levels[levels > _SILENT_DB]
    while len(active):
        level = 10.0 * np.log10(np.mean(10.0 ** (active / 10.0)))
        louder = active[active > level - _MARGIN_DB]
        if len(louder) == len(active):
            return float(level)
        active = louder
    return float("-inf")


def first_audible_sample(pcm: np.ndarray, rate_hz: int, speech_db: float) -> int | None:
    """Start of the first 5 ms block within 30 dB of ``speech_db``; None if there is none."""
    audible = np.flatnonzero(block_levels_db(pcm, rate_hz) >= speech_db - AUDIBLE_DB)
    return int(audible[0]) * round(rate_hz * BLOCK_MS / 1000.0) if len(audible) else None


def audible_s(pcm: np.ndarray, rate_hz: int) -> float:
    """Duration from the first to the last 5 ms block within 30 dB of the active level; 0 for silence."""
    levels = block_levels_db(pcm, rate_hz)
    audible = np.flatnonzero(levels >= active_level_db(pcm, rate_hz) - AUDIBLE_DB)
    return (
        float(audible[-1] - audible[0] + 1) * BLOCK_MS / 1000.0 if len(audible) and levels.max() > _SILENT_DB else 0.0
    )
