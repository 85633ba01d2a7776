"""Prosody: pitch (WORLD), level, pauses and speaking rate of a recording."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from studio.core.clips import to_float
from studio.core.errors import needs
from studio.measure.signal import AUDIBLE_DB, BLOCK_MS, active_level_db, block_levels_db

LOW_HZ, HIGH_HZ = 55.0, 600.0
_PIECE_S, _PIECE_MARGIN_S = 1.0, 0.2
LEAST_PAUSE_S = 0.15  # shorter ones are closures of stops
_VOICE_BLOCKS = 2  # on each side: at 55 Hz a 5 ms block may lie between two pulses
_JUMP_REACH_S = 0.06  # how far from a join voiced blocks are searched


@dataclass(frozen=True)
class Prosody:
    """A recording in steps of about 5 ms."""

    step_s: float  # a whole number of samples, so level and pitch do not drift apart
    level_db: np.ndarray  # RMS, dB of full scale: float64 [N]
    pitch_hz: np.ndarray  # float64 [N], 0 where unvoiced; empty if not requested
    active_db: float  # level of the speech without its pauses (ITU-T P.56)

    def within(self, start_s: float, end_s: float) -> "Prosody":
        """The part between two times; ``active_db`` stays that of the whole."""
        first, last = round(start_s / self.step_s), round(end_s / self.step_s)
        return Prosody(self.step_s, self.level_db[first:last], self.pitch_hz[first:last], self.active_db)

    @property
    def audible(self) -> tuple[float, float] | None:
        """Start of the first and end of the last sound within 30 dB of the active level, s; None for silence."""
        blocks = np.flatnonzero(self._is_audible())
        return (blocks[0] * self.step_s, (blocks[-1] + 1) * self.step_s) if len(blocks) else None

    def pauses(self) -> list[tuple[float, float]]:
        """Pauses of 150 ms or more between audible sounds: (start, end) in s."""
        blocks = np.flatnonzero(self._is_audible())
        gaps = zip(blocks[:-1] + 1, blocks[1:], strict=True)
        return [(a * self.step_s, b * self.step_s) for a, b in gaps if (b - a) * self.step_s >= LEAST_PAUSE_S]

    def pitch_of(self, percent: float) -> float | None:
        """A percentile of the voiced pitch, Hz; None without voiced steps."""
        voiced = self.pitch_hz[self.pitch_hz > 0]
        return float(np.percentile(voiced, percent)) if len(voiced) else None

    def rms_db(self) -> float | None:
        """RMS level of the whole, dB of full scale; None if empty."""
        return float(10.0 * np.log10(np.mean(10.0 ** (self.level_db / 10.0)))) if len(self.level_db) else None

    def pitch_jump_st(self, at_s: float) -> float | None:
        """Pitch change in semitones from the last voiced step in the 60 ms before to the first in the 60 ms after.

        None if one side is unvoiced.
        """
        before = self.within(max(0.0, at_s - _JUMP_REACH_S), at_s).pitch_hz
        after = self.within(at_s, at_s + _JUMP_REACH_S).pitch_hz
        left, right = before[before > 0], after[after > 0]
        return float(12.0 * np.log2(right[0] / left[-1])) if len(left) and len(right) else None

    def _is_audible(self) -> np.ndarray:
        return self.level_db >= self.active_db - AUDIBLE_DB


def prosody(pcm: np.ndarray, rate_hz: int, *, with_pitch: bool = True) -> Prosody:
    """Level and pitch of a recording. Raises NeedsPackage.

    DIO finds periods in noise, too, so inaudible blocks (30 dB below the active speech level) count as unvoiced.

    Args:
        pcm: int16 [T].
    """
    levels = block_levels_db(pcm, rate_hz)
    step = round(rate_hz * BLOCK_MS / 1000.0)
    pitch = pitch_in_pieces(to_float(pcm), rate_hz, step) if with_pitch else np.zeros(0)
    active_db = active_level_db(pcm, rate_hz)
    quiet = _highest_beside(levels[: len(pitch)], _VOICE_BLOCKS) < active_db - AUDIBLE_DB
    return Prosody(step / rate_hz, levels, np.where(quiet, 0.0, pitch), active_db)


def _highest_beside(levels: np.ndarray, blocks: int) -> np.ndarray:
    """The highest level within ``blocks`` on each side [N]."""
    if not len(levels):
        return levels
    beside = np.pad(levels, blocks, constant_values=-np.inf)
    return np.lib.stride_tricks.sliding_window_view(beside, 2 * blocks + 1).max(axis=1)


def pitch_hz(
    sound: np.ndarray, rate_hz: int, period_ms: float, low_hz: float = LOW_HZ, high_hz: float = HIGH_HZ
) -> np.ndarray:
    """Pitch by WORLD's DIO and StoneMask (Morise et al. 2009, 2016): float64 [N], Hz, 0 where unvoiced.

    Args:
        period_ms: step from the first sample on.
        sound: [T] in [-1, 1].

    Raises:
        NeedsPackage: pyworld is not installed.
    """
    with needs("pitch is measured with pyworld", "measure"):
        import pyworld.pyworld as world
    samples = np.ascontiguousarray(sound, np.float64)
    rough, times = world.dio(samples, rate_hz, f0_floor=low_hz, f0_ceil=high_hz, frame_period=period_ms)
    return world.stonemask(samples, rough, times, rate_hz)


def pitch_in_pieces(sound: np.ndarray, rate_hz: int, step_samples: int) -> np.ndarray:
    """Pitch computed in pieces of 1 s with 0.2 s of context: float64 [T // step_samples].

    WORLD holds the GIL: on a whole recording it would block a server for seconds.
    """
    piece = round(_PIECE_S * rate_hz / step_samples) * step_samples
    beside = round(_PIECE_MARGIN_S * rate_hz / step_samples) * step_samples
    period_ms = 1000.0 * step_samples / rate_hz
    pieces: list[np.ndarray] = []
    for first in range(0, len(sound) // step_samples * step_samples, piece):
        before = min(beside, first)
        hz = pitch_hz(sound[first - before : first + piece + beside], rate_hz, period_ms)
        pieces.append(hz[before // step_samples :][: piece // step_samples])
    return np.concatenate(pieces)[: len(sound) // step_samples] if pieces else np.zeros(0)


@dataclass(frozen=True)
class Rate:
    """Speaking rate."""

    words_per_min: float  # between the first and the last audible sound
    articulation_per_min: float  # the same without pauses


def speaking_rate(words: int, spoken: Prosody, pauses: Sequence[tuple[float, float]]) -> Rate | None:
    """Speaking and articulation rate (Goldman-Eisler 1968: with and without pauses); None without words or sound."""
    if not words or spoken.audible is None:
        return None
    first_s, last_s = spoken.audible
    silent_s = sum(end_s - start_s for start_s, end_s in pauses)
    return Rate(60.0 * words / (last_s - first_s), 60.0 * words / (last_s - first_s - silent_s))
