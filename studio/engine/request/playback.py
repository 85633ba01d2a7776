"""Playback position of an utterance, the causes of its pauses, and the points to which it can return."""

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from studio.core import events as ev
from studio.core.text.words import SpokenWord
from studio.engine.families.base import RevisableRow, RowCheckpoint
from studio.engine.families.common.word_times import WordTimes, WordTimesCheckpoint

if TYPE_CHECKING:
    from studio.engine.vocoders.module import VocodeModule


_MAX_UNPLAYED_WORDS = 4096  # without a playback report: half an hour
# Speaking rate before the first segment has ended, with the weight of this many characters.
_CHARACTER_S, _CHARACTERS = 0.05, 20


_OF_WORDS = (ev.Segment, ev.WordStart, ev.WordEnd)


@dataclass(frozen=True)
class PlayedExtent:
    """How far something was played: whole words, the last word begun (None for none), characters as sent."""

    words: int
    partial_word: int | None
    chars: int


class PlaybackTracker:
    """Follows words from commitment to playback.

    Attributes:
        sample: the playback position.
    """

    def __init__(self, rate_hz: int) -> None:
        self.sample = 0
        self._word_chars: dict[int, int] = {}  # of committed words
        self._segment: ev.Segment | None = None  # the current one, if its words are reported at its end
        self._onset: int | None = None  # sample at which its first word starts
        self._spoken_chars, self._spoken_samples = _CHARACTERS, round(_CHARACTERS * _CHARACTER_S * rate_hz)
        self._extent = PlayedExtent(0, None, 0)
        self._unplayed: deque[SpokenWord] = deque()
        self._starts: deque[tuple[int, int]] = deque()  # (sample, word)
        self._ends: deque[tuple[int, int]] = deque()

    def committed(self, words: Iterable[SpokenWord]) -> None:
        """Add committed words."""
        for one in words:
            self._unplayed.append(one)
            self._word_chars[one.i] = len(one.word) + 1
            if len(self._word_chars) > _MAX_UNPLAYED_WORDS:
                del self._word_chars[next(iter(self._word_chars))]

    def on_event(self, event: ev.Event) -> None:
        """Record starts and ends of words."""
        if not isinstance(event, _OF_WORDS):
            return
        if isinstance(event, ev.Segment):
            self._segment, self._onset = event, None
        elif isinstance(event, ev.WordStart):
            self._starts.append((event.sample, event.i))
            self._onset = event.sample if self._onset is None else self._onset
            if event.source != "eos":  # this family reports words as they come
                self._segment = None
        elif isinstance(event, ev.WordEnd):
            self._ends.append((event.sample, event.i))
            if self._segment is not None and event.source == "eos":
                self._spoken_chars += sum(self._chars_of(self._segment))
                self._spoken_samples += event.sample - (self._onset or self._segment.sample)
                self._segment = None
            if len(self._ends) > _MAX_UNPLAYED_WORDS:
                self._advance(self._ends[0][0])

    def played(self, sample: int) -> None:
        """Everything before a sample was played."""
        if sample > self.sample:
            self.sample = sample
            self._advance(sample)

    def retract(self, words: int, from_sample: int) -> None:
        """Drop words from an index on, and sound from a sample on."""
        self._unplayed = deque(one for one in self._unplayed if one.i < words)
        self._word_chars = {i: chars for i, chars in self._word_chars.items() if i < words}
        if self._segment is not None and self._segment.sample >= from_sample:
            self._segment = None
        self._starts = deque(one for one in self._starts if one[0] < from_sample)
        self._ends = deque(one for one in self._ends if one[0] <= from_sample)

    def played_until(self, sample: int) -> PlayedExtent:
        """What has been played if playback has reached a sample, or the last report if that is later."""
        self._advance(max(sample, self.sample))
        return self._extent

    def estimate_open_segment(self, samples: int) -> list[ev.Event]:
        """Estimated word boundaries inside a segment that was cut off, in proportion to the words' characters.

        The segment's length is estimated from the speaking rate so far; it is at least the length already made.

        Args:
            samples: number of samples made so far.
        """
        segment, onset, events = self._segment, self._onset, list[ev.Event]()
        if segment is None or onset is None:  # no word of it has started
            return events
        chars = self._chars_of(segment)
        char_samples = max(self._spoken_samples / self._spoken_chars, (samples - onset) / sum(chars))
        for i, before in zip(segment.words[1:], accumulate(chars), strict=False):
            at = onset + round(before * char_samples)
            if at >= samples:
                break
            events.append(ev.WordEnd(i=i - 1, sample=at, source="estimate"))
            events.append(ev.WordStart(i=i, sample=at, source="estimate"))
        return events

    def _chars_of(self, segment: ev.Segment) -> list[int]:
        return [self._word_chars.get(i, 1) for i in segment.words]

    def _advance(self, sample: int) -> None:
        words, partial_word, chars = self._extent.words, self._extent.partial_word, self._extent.chars
        while self._starts and self._starts[0][0] < sample:
            partial_word = self._starts.popleft()[1]
        while self._ends and self._ends[0][0] <= sample:
            words = self._ends.popleft()[1] + 1
        # A token of several words ("$3.50") was played when all of them were, and everything before it.
        first_left = min((one.char_start for one in self._unplayed if one.i >= words), default=None)
        for one in [*self._unplayed]:
            if one.i < words and (first_left is None or one.char_end <= first_left):
                chars = max(chars, one.char_end)
                self._unplayed.remove(one)
        self._extent = PlayedExtent(words, partial_word, chars)


class WaitTracker:
    """Attributes pauses of the output to missing text, missing credit, or compute.

    A frame may take as long to make as it lasts: once text or credit has arrived, only additional time counts as
    compute.

    Attributes:
        pace: how fast the listener plays the samples; 2 is twice as fast.
    """

    def __init__(self, rate_hz: int, frame_ms: float) -> None:
        self._rate_hz, self._frame_ms, self.pace = rate_hz, frame_ms, 1.0
        self.held_by: ev.WaitReason | None = None
        self._resumed_ms: float | None = None
        self._dry_at_ms: float | None = None  # when an ideal player runs out of sound

    @property
    def awaits_text(self) -> bool:
        """Whether the row is held by missing text, and none has come since."""
        return self.held_by == "text" and self._resumed_ms is None

    def hold(self, reason: ev.WaitReason) -> None:
        """The row cannot run. Credit takes precedence over text: without it, new text is not spoken either."""
        self.held_by = "credit" if reason == "credit" else self.held_by or reason
        self._resumed_ms = None

    def resume(self, since_ms: float) -> None:
        """The row can run since then; only the first call after ``hold`` counts."""
        if self._resumed_ms is None:
            self._resumed_ms = since_ms

    def on_samples(self, samples: int, at_sample: int, now_ms: float) -> list[ev.Wait]:
        """Record new samples; returns the waits that they ended."""
        waits: list[ev.Wait] = []
        if self._dry_at_ms is None:
            self._dry_at_ms = now_ms
        elif now_ms > self._dry_at_ms:
            waits = self._split(self._dry_at_ms, at_sample, now_ms)
            self._dry_at_ms = now_ms
        self.held_by = self._resumed_ms = None
        self._dry_at_ms += self._played_ms(samples)
        return waits

    def buffered_ms(self, now_ms: float) -> float:
        """Sound left in an ideal player; minus infinity before the first."""
        return -math.inf if self._dry_at_ms is None else self._dry_at_ms - now_ms

    def overdue_ms(self, now_ms: float) -> float:
        """How long an ideal player has been dry although text and credit were available; 0 before the first sound."""
        if self._dry_at_ms is None or now_ms <= self._dry_at_ms:
            return 0.0
        return sum(one.duration_ms for one in self._split(self._dry_at_ms, 0, now_ms) if one.reason == "compute")

    def retract(self, samples: int) -> None:
        """Revoke samples: they will not be played."""
        if self._dry_at_ms is not None:
            self._dry_at_ms -= self._played_ms(samples)

    def _played_ms(self, samples: int) -> float:
        """How long the listener plays them."""
        return 1000.0 * samples / (self._rate_hz * self.pace)

    def _split(self, since_ms: float, at_sample: int, now_ms: float) -> list[ev.Wait]:
        due_ms = since_ms
        parts: list[tuple[ev.WaitReason, float]] = []
        if self.held_by is not None:
            resumed_ms = now_ms if self._resumed_ms is None else self._resumed_ms
            due_ms = max(since_ms, min(now_ms, resumed_ms + self._frame_ms / self.pace))
            parts.append((self.held_by, due_ms - since_ms))
        parts.append(("compute", now_ms - due_ms))
        return [
            ev.Wait(reason=reason, sample=at_sample, duration_ms=round(duration_ms, 3))
            for reason, duration_ms in parts
            if duration_ms > 0
        ]


_MAX_POINTS = 64


@dataclass(frozen=True)
class RevisionPoint:
    """State of the row, the word times and the vocoder at a segment's end."""

    sample: int
    row: RowCheckpoint
    words: WordTimesCheckpoint
    vocoder: Any


@dataclass(frozen=True)
class PendingRevision:
    """The text changed from ``char`` on; samples before ``floor_sample`` may have been played."""

    char: int
    floor_sample: int
    at_ms: float


class RevisionPoints:
    """The revision points of one utterance.

    Args:
        slot: the utterance's slot in the vocoder.
    """

    def __init__(self, row: RevisableRow, word_times: WordTimes, vocode: "VocodeModule", slot: int) -> None:
        self.row, self._word_times = row, word_times
        self._vocode, self._slot = vocode, slot
        self._points: deque[RevisionPoint] = deque()

    def record(self, sample: int, played_sample: int) -> int | None:
        """Record a point, and drop those that can no longer be used.

        Returns:
            Words spoken before the oldest point; None within a segment.
        """
        checkpoint = self.row.checkpoint()
        if checkpoint is None:
            return None
        words, vocoder = self._word_times.checkpoint(), self._vocode.checkpoint(self._slot)
        self._points.append(RevisionPoint(sample, checkpoint, words, vocoder))
        while len(self._points) > _MAX_POINTS or (len(self._points) > 1 and self._points[0].sample < played_sample):
            self._points.popleft()
        oldest = self._points[0].row
        self.row.discard_before(oldest)
        return oldest.spoken

    def settled_words(self, floor_sample: int) -> int:
        """Words that can no longer be revised if no sample before ``floor_sample`` may be revoked."""
        usable = self._usable(floor_sample)
        return usable[0].row.spoken if usable else self.row.spoken

    def point_for(self, word: int, floor_sample: int) -> RevisionPoint | None:
        """The point to restore so that a word can change; None if nothing has to be revoked, or no point is usable.

        It is the latest one before the net saw the word; otherwise the first usable one, and the row then feeds the
        changed words again.
        """
        usable = self._usable(floor_sample)
        if self.row.fed <= word or not usable:
            return None
        unseen = [point for point in usable if point.row.fed <= word]
        return unseen[-1] if unseen else usable[0]

    def restore(self, point: RevisionPoint) -> None:
        """Restore the row, the word times and the vocoder, and drop later points."""
        self.row.restore(point.row)
        self._word_times.restore(point.words)
        self._vocode.restore(self._slot, point.vocoder)
        self._points = deque(one for one in self._points if one.sample <= point.sample)

    def _usable(self, floor_sample: int) -> list[RevisionPoint]:
        return [one for one in self._points if one.sample >= floor_sample and self.row.can_restore(one.row)]
