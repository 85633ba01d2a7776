"""Loudness: the level of active speech, and the first sample that can be heard."""

import numpy as np

BLOCK_MS = 5.0
AUDIBLE_DB = 30.0  # DESIGN's t5: within this of the voice's active speech level
_MARGIN_DB = 15.9  # what is further below the active level is a pause (ITU-T P.56)
_SILENT_DB = -70.0
_AT_ONCE = 256  # blocks


def block_levels_db(pcm: np.ndarray, rate_hz: int) -> np.ndarray:
    """RMS of each whole block of 5 ms, dB of full scale: float64 [T // block]."""
    block = round(rate_hz * BLOCK_MS / 1000.0)
    whole = len(pcm) // block * block
    scale = 32768.0 if pcm.dtype == np.int16 else 1.0
    power = np.empty(whole // block)
    for first in range(0, len(power), _AT_ONCE):  # so little that a core's cache holds it
        part = pcm[first * block : min(whole, (first + _AT_ONCE) * block)].astype(np.float64).reshape(-1, block)
        part /= scale
        power[first : first + _AT_ONCE] = np.square(part, out=part).mean(axis=1)
    return 10.0 * np.log10(np.maximum(power, 1e-12))


def active_level_db(pcm: np.ndarray, rate_hz: int) -> float:
    """Level of the speech without its pauses, dB of full scale; minus infinity where there is no sound."""
    levels = block_levels_db(pcm, rate_hz)
    active = levels[levels > _SILENT_DB]
    while len(active):
        level = 10.0 * np.log10(np.mean(10.0 ** (active / 10.0)))
        kept = active[active > level - _MARGIN_DB]
        if len(kept) == len(active):
            return float(level)
        active = kept
    return float("-inf")


def first_audible_sample(pcm: np.ndarray, rate_hz: int, speech_db: float) -> int | None:
    """Where the first block of 5 ms begins whose RMS is within 30 dB of ``speech_db``; None where there is none."""
    heard = np.flatnonzero(block_levels_db(pcm, rate_hz) >= speech_db - AUDIBLE_DB)
    return int(heard[0]) * round(rate_hz * BLOCK_MS / 1000.0) if len(heard) else None


def audible_s(pcm: np.ndarray, rate_hz: int) -> float:
    """How long it is from the first to the last block of 5 ms within 30 dB of the speech's own level; 0 of silence."""
    levels = block_levels_db(pcm, rate_hz)
    heard = np.flatnonzero(levels >= active_level_db(pcm, rate_hz) - AUDIBLE_DB)
    return float(heard[-1] - heard[0] + 1) * BLOCK_MS / 1000.0 if len(heard) and levels.max() > _SILENT_DB else 0.0
