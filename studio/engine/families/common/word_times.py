"""Moves word events to where the sound of a word starts and ends: a pause belongs to no word.

Families report a word's start at the frame where their net begins it. After a comma or a full stop most nets generate
the pause first, as part of the next word. ``WordTimes`` reads the energy of the voice's own frames, which are available
before their samples, so it does not delay the audio: a ``word_start`` is sent with the first audible frame instead of
before the pause.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from studio.core.events import Event, WordEnd, WordStart
from studio.engine.families.base import RowOutput

_ONSET, _FADE, _FAINT = 0.39, 0.3, 0.6  # thresholds in the range from silence (0) to the loudest frame (1), in dB
_LEAST_RANGE_DB = 50.0  # assumed range until the first loud frame
_PAUSE_FRAMES = 3  # shorter silences are closures of stop consonants
_FADED_FRAMES = 2  # this much silence at a word's end is not part of the word
_TAIL_FRAMES = 2  # a boundary may lie this far before the end of the word's sound
_EARLY_FRAMES = 2  # a boundary may lie this far after the onset of the next word
_KEPT_FRAMES = 4096  # more than any segment has


@dataclass(frozen=True)
class WordTimesCheckpoint:
    """State of ``WordTimes`` between two outputs."""

    frames: int
    peak_db: float
    held: WordStart | None
    start: int
    end: int


class WordTimes:
    """Moves the word events of one utterance.

    Args:
        frame_samples: samples of a frame.
        energies: frames [k, ...] to dB, float64 [k].
        silence: the speaker's prompt [S, ...], whose quietest frame is silence.
    """

    def __init__(self, frame_samples: int, energies: Callable[[np.ndarray], np.ndarray], silence: np.ndarray) -> None:
        self._frame_samples, self._energies = frame_samples, energies
        self._floor_db = float(energies(silence).min()) if len(silence) else -np.inf
        self._peak_db = self._floor_db + _LEAST_RANGE_DB
        self._frames = 0
        self._first = 0  # the first frame whose energy is stored
        self._db: list[float] = []
        self._held: WordStart | None = None  # a start whose word has been silent so far
        self._silent_until = 0  # the frames since that start, up to this one, are silent
        self._start = self._stop = 0  # frames of the last start and end

    def move(self, output: RowOutput) -> RowOutput:
        """The output with word events moved; a start is held back as long as its word is silent."""
        self._add(output.frames)
        before = self._moved(output.before)
        after = self._moved(output.after) if output.after else output.after
        return RowOutput(output.frames, before, after, output.is_clause_end)

    def checkpoint(self) -> WordTimesCheckpoint:
        """The current state."""
        return WordTimesCheckpoint(self._frames, self._peak_db, self._held, self._start, self._stop)

    def restore(self, checkpoint: WordTimesCheckpoint) -> None:
        """Return to a checkpoint."""
        self._frames, self._peak_db = checkpoint.frames, checkpoint.peak_db
        self._held, self._start, self._stop = checkpoint.held, checkpoint.start, checkpoint.end
        self._silent_until = 0
        del self._db[max(0, self._frames - self._first) :]

    def _add(self, frames: np.ndarray) -> None:
        if not len(frames):
            return
        energies = self._energies(frames).tolist()
        self._frames += len(energies)
        self._peak_db = max(self._peak_db, *energies)
        self._db += energies
        if len(self._db) > 2 * _KEPT_FRAMES:
            del self._db[:-_KEPT_FRAMES]
            self._first = self._frames - _KEPT_FRAMES

    def _moved(self, events: Sequence[Event]) -> list[Event]:
        moved: list[Event] = []
        for event in events:
            if isinstance(event, WordStart):
                self._held, self._silent_until = event, 0
                moved += self._release()
            elif isinstance(event, WordEnd):
                moved += self._release(is_over=True)
                self._stop = self._end(event.sample // self._frame_samples)
                moved.append(self._at(event, self._stop))
            else:
                moved.append(event)
        return moved + self._release()

    def _at(self, event: WordStart | WordEnd, frame: int) -> Event:
        """The event at a frame."""
        is_there = frame == event.sample // self._frame_samples
        return event if is_there else replace(event, sample=frame * self._frame_samples)

    def _release(self, *, is_over: bool = False) -> list[Event]:
        """The held start, if its word has begun to sound or is over."""
        if self._held is None:
            return []
        at = self._held.sample // self._frame_samples
        onset = self._onset(at)
        if onset is None and not is_over:
            return []
        event, self._held = self._held, None
        self._start = at if onset is None else max(onset, self._stop)
        return [self._at(event, self._start)]

    def _onset(self, at: int) -> int | None:
        """The first audible frame of a word that starts at a frame; None while it is silent."""
        limit = self._threshold(_ONSET)
        tail = self._tail(at, limit)
        if tail is None:
            return None
        onset = at + tail
        if not self._is_silent(onset, limit):
            onset = self._before_onset(at, limit)
        else:
            onset = max(onset, self._silent_until)  # the limit only rises, so silent frames remain silent
            # Two frames: a click is not an onset.
            while onset < self._frames - 1 and (self._is_silent(onset, limit) or self._is_silent(onset + 1, limit)):
                onset += 1
            self._silent_until = onset
            if onset >= self._frames - 1:
                return None
        return onset if onset - self._silence_start(onset, limit) >= _PAUSE_FRAMES else at

    def _tail(self, at: int, limit_db: float) -> int | None:
        """Faint frames of the previous word between a boundary and a pause; 0 if none, None if not known yet."""
        for frame in range(at, at + _TAIL_FRAMES + 1):
            if frame >= self._frames:
                return None
            if self._is_silent(frame, limit_db):
                return frame - at
            if not self._is_silent(frame, self._threshold(_FAINT)):
                break
        return 0

    def _end(self, at: int) -> int:
        """The end of the sound of a word that ends before a frame."""
        limit = self._threshold(_ONSET)
        onset = self._before_onset(at, limit)
        end = self._silence_start(onset, self._threshold(_FADE))
        is_pause = onset - self._silence_start(onset, limit) >= _PAUSE_FRAMES
        is_faded = onset == at and at - end >= _FADED_FRAMES  # the rest of the pause may follow
        return end if (is_pause or is_faded) and end > self._start else at

    def _before_onset(self, at: int, limit_db: float) -> int:
        """The frame at which the next word's sound began, if that is just before a frame; otherwise the frame."""
        for onset in range(at, at - _EARLY_FRAMES - 1, -1):
            if self._is_silent(onset - 1, limit_db):
                return onset
        return at

    def _silence_start(self, stop: int, limit_db: float) -> int:
        """The first frame of the silence before a frame; that frame if there is none."""
        first = stop
        while self._is_silent(first - 1, limit_db):
            first -= 1
        return first

    def _is_silent(self, frame: int, limit_db: float) -> bool:
        """Whether a stored frame is quieter than a limit."""
        return self._first <= frame < self._frames and self._db[frame - self._first] < limit_db

    def _threshold(self, share: float) -> float:
        return self._floor_db + share * (self._peak_db - self._floor_db)
