"""Prosody: how fast, how high and how loud somebody speaks, and where they pause."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from studio.core.clips import to_float
from studio.measure.signal.loudness import AUDIBLE_DB, BLOCK_MS, active_level_db, block_levels_db
from studio.measure.signal.pitch import pitch_in_pieces

LEAST_PAUSE_S = 0.15  # shorter ones are closures of stops
_VOICE_BLOCKS = 2  # on each side: at 55 Hz a block of 5 ms may lie between two pulses
_BESIDE_S = 0.06  # how far from a join a voice is looked for


@dataclass(frozen=True)
class Prosody:
    """A recording in steps of about 5 ms.

    Attributes:
        step_s: whole samples, so that level and pitch stay together however long it is.
        level_db: RMS, dB of full scale: float64 [N].
        pitch_hz: 0 where there is no voice: float64 [N]; empty where it was not asked for.
        active_db: level of the speech without its pauses (ITU-T P.56).
    """

    step_s: float
    level_db: np.ndarray
    pitch_hz: np.ndarray
    active_db: float

    def within(self, start_s: float, end_s: float) -> "Prosody":
        """The part from one time to another; ``active_db`` stays the whole's."""
        first, last = round(start_s / self.step_s), round(end_s / self.step_s)
        return Prosody(self.step_s, self.level_db[first:last], self.pitch_hz[first:last], self.active_db)

    @property
    def audible(self) -> tuple[float, float] | None:
        """When the first and the last sound within 30 dB of the speech begins and ends, s; None of silence."""
        heard = np.flatnonzero(self._is_audible())
        return (heard[0] * self.step_s, (heard[-1] + 1) * self.step_s) if len(heard) else None

    def pauses(self) -> list[tuple[float, float]]:
        """Stretches of 150 ms and more between audible sounds, (start, end) in s."""
        heard = np.flatnonzero(self._is_audible())
        gaps = zip(heard[:-1] + 1, heard[1:], strict=True)
        return [(a * self.step_s, b * self.step_s) for a, b in gaps if (b - a) * self.step_s >= LEAST_PAUSE_S]

    def pitch_of(self, percent: float) -> float | None:
        """A percentile of the pitch where there is voice, Hz; None without any."""
        voiced = self.pitch_hz[self.pitch_hz > 0]
        return float(np.percentile(voiced, percent)) if len(voiced) else None

    def rms_db(self) -> float | None:
        """RMS of all of it, dB of full scale; None where there is nothing."""
        return float(10.0 * np.log10(np.mean(10.0 ** (self.level_db / 10.0)))) if len(self.level_db) else None

    def pitch_jump_st(self, at_s: float) -> float | None:
        """From the last voice in the 60 ms before a place to the first in the 60 ms after, semitones.

        None where a side has no voice.
        """
        before = self.within(max(0.0, at_s - _BESIDE_S), at_s).pitch_hz
        after = self.within(at_s, at_s + _BESIDE_S).pitch_hz
        left, right = before[before > 0], after[after > 0]
        return float(12.0 * np.log2(right[0] / left[-1])) if len(left) and len(right) else None

    def _is_audible(self) -> np.ndarray:
        return self.level_db >= self.active_db - AUDIBLE_DB


def prosody(pcm: np.ndarray, rate_hz: int, *, with_pitch: bool = True) -> Prosody:
    """Level and pitch of a recording.

    DIO finds periods in noise, too: where nothing is audible (30 dB below the active speech level of ITU-T P.56, the
    studio's own threshold of audible sound) there is no voice.

    Args:
        pcm: int16 [T].

    Raises:
        NeedsPackage: pitch without pyworld.
    """
    levels = block_levels_db(pcm, rate_hz)
    step = round(rate_hz * BLOCK_MS / 1000.0)
    pitch = pitch_in_pieces(to_float(pcm), rate_hz, step) if with_pitch else np.zeros(0)
    active_db = active_level_db(pcm, rate_hz)
    quiet = _highest_beside(levels[: len(pitch)], _VOICE_BLOCKS) < active_db - AUDIBLE_DB
    return Prosody(step / rate_hz, levels, np.where(quiet, 0.0, pitch), active_db)


def _highest_beside(levels: np.ndarray, blocks: int) -> np.ndarray:
    """The highest level within so many blocks on each side [N]."""
    if not len(levels):
        return levels
    beside = np.pad(levels, blocks, constant_values=-np.inf)
    return np.lib.stride_tricks.sliding_window_view(beside, 2 * blocks + 1).max(axis=1)


@dataclass(frozen=True)
class Rate:
    """How fast somebody speaks.

    Attributes:
        words_per_min: from the first audible sound to the last.
        articulation_per_min: the same without pauses.
    """

    words_per_min: float
    articulation_per_min: float


def speaking_rate(words: int, spoken: Prosody, pauses: Sequence[tuple[float, float]]) -> Rate | None:
    """Speaking and articulation rate (Goldman-Eisler 1968: with and without pauses); None without words or sound."""
    if not words or spoken.audible is None:
        return None
    first_s, last_s = spoken.audible
    silent_s = sum(end_s - start_s for start_s, end_s in pauses)
    return Rate(60.0 * words / (last_s - first_s), 60.0 * words / (last_s - first_s - silent_s))
